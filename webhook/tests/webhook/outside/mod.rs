//! Tests of the real process, from outside: what it costs, and what it survives.

mod client;
mod lookups;
mod memory;
mod process;
mod stub;
