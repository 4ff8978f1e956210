//! Tests of the real process, from outside: what it costs, and what it survives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod memory;
mod process;
mod stub;
