//! Tests of the server over real sockets: unfinished requests, slow, silent and superfluous clients, and the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arrival;
mod client;
mod limits;
mod room;
mod shutdown;
