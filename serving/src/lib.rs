//! What Giveway's daemons have in common around their work: how they start and stop ([`process`]), and their HTTP server.
//!
//! The webhook's reviews and the metrics of all processes use the same server: [`server`] accepts connections,
//! [`connection`] tracks the phase of each, [`connections`] closes those that exceed a limit, [`body`]
//! reads each request completely before the service gets it, in the [`memory`] that all bodies share. It serves a filter of
//! the HTTP framework, converted by [`service`].
//!
//! Also here: [`patience`], the time limits of reads from the API server; [`shares`], a bounded number of slots of
//! which one namespace gets at most half.

pub mod body;
pub mod connection;
pub mod connections;
pub mod limits;
pub mod memory;
pub mod metrics;
pub mod patience;
pub mod process;
pub mod server;
pub mod server_state;
pub mod shares;

pub use body::Arrived;
pub use limits::Limits;
pub use metrics::ServerMetrics;
pub use server::{Shutdown, serve, service};
