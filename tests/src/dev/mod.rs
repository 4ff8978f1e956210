//! `make up`, `make down`, `make demo`, `make demo-critical`, `make bench-e2e` and `make bench-scale`.

pub mod bench;
pub mod critical;
pub mod demo;
mod layout;
pub mod scale;
mod state;
mod timeline;
pub mod up;

/// Prints the current step to standard error, because some steps take long.
fn progress(what: &str) {
    eprintln!("* {what} ...");
}
