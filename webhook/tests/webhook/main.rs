//! Tests of the webhook: its admission rules, its HTTPS server, its binary as a process, and its module layers. They
//! share one binary, which is linked once. The tests in `tests/hostile` have a binary of their own, because they
//! measure the memory of their own process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed assertion panics")]

mod admission;
mod fields;
mod layers;
mod outside;
mod serving;
