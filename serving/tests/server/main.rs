//! Tests of the server over real sockets: slow, silent and superfluous clients, and the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod limits;
mod room;
mod shutdown;
