//! Tests of the server over real sockets: reviews, limits and certificates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod certificates;
mod client;
mod limits;
