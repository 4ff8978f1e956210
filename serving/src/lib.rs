//! The HTTP server of Giveway's daemons.
//!
//! One server for the webhook's reviews and for everybody's metrics, so that all of them have the same limits:
//! [`server`] accepts, [`connection`] knows what each connection is doing, [`crowd`] closes those that take too long and
//! finds the one that goes when there are too many. What is served is a filter of the HTTP framework, by [`service`].
//!
//! And what both daemons need when they ask: [`patience`], the limit of what they read from the API server;
//! and when many want something of them: [`shares`], places of which one namespace has half at most.

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
