//! The HTTP server of Giveway's daemons.
//!
//! The webhook's reviews and the metrics of all processes use the same server, so all of them have the same limits:
//! [`server`] accepts connections, [`connection`] tracks the phase of each, [`crowd`] closes those that exceed a limit
//! and the longest idle one when all slots are taken. It serves a filter of the HTTP framework, converted by
//! [`service`].
//!
//! Also here: [`patience`], the time limits of reads from the API server; [`shares`], a bounded number of slots of
//! which one namespace gets at most half.

pub mod connection;
pub mod crowd;
pub mod limits;
pub mod metrics;
pub mod patience;
pub mod room;
pub mod server;
pub mod shares;

pub use limits::Limits;
pub use metrics::ServerMetrics;
pub use server::{Shutdown, serve, service};
