//! What stands behind `make up`, `make down`, `make demo`, `make demo-critical` and `make bench-e2e`.

pub mod bench;
pub mod critical;
pub mod demo;
mod layout;
mod state;
mod timeline;
pub mod up;

/// Says what is being done, on the error output: there may be a long wait.
fn progress(what: &str) {
    eprintln!("* {what} ...");
}
