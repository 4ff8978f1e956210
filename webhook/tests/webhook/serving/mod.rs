//! Tests of the server over real sockets: reviews, limits and certificates.

mod certificates;
mod client;
mod limits;
