//! Tests of `kubectl-giveway` as a process that reads files. They share one binary, which is linked once.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed assertion panics")]

mod admission;
mod capacity;
mod common;
mod completion;
mod critical;
mod input;
mod native;
mod order;
mod plan;
mod reference;
