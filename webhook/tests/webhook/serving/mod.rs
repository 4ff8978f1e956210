//! Tests of the server over real sockets: reviews, limits, floods of unfinished reviews, certificates of the server and of
//! clients.

mod certificates;
mod client;
mod clients;
mod flood;
mod limits;
