//! Tests of the API types, the generated files and the pages. They share one binary, which is linked once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed assertion panics")]

mod cel;
mod golden;
mod kinds;
mod pages;
mod priority_plugin;
mod reference;
mod round_trip;
mod rules;
mod schema;
mod wording;
