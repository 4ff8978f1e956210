//! `make up`, `make down`, `make demo`, `make demo-critical` and `make bench-e2e`.

pub mod bench;
pub mod critical;
pub mod demo;
mod layout;
mod state;
mod timeline;
pub mod up;

/// Prints the current step to standard error, because some steps take long.
fn progress(what: &str) {
    eprintln!("* {what} ...");
}
