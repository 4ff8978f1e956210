//! Admission of Giveway.
//!
//! A request travels in one direction: [`giveway_serving`] (connections and their limits) → [`routes`] (HTTP) → [`review`]
//! (decoding) → the rule of [`giveway_admission`] that applies → back as a review. The rules are pure functions from a
//! request and the [`view`] of the cluster to a verdict. What the view does not know yet is looked up once by [`lookup`],
//! then the rules run again.
//!
//! The [`guard`] has a path of its own: it carries out what the rules decide about pods that schedulers preempt, and
//! answers slowly. [`kept_nodes`] answers no
//! request: it cleans up while no operator runs.
//!
//! Each module imports from lower layers only; `tests/webhook/layers.rs` lists the layers.

pub mod admission;
pub mod config;
pub mod deadline;
pub mod error;
pub mod guard;
pub mod health;
pub mod kept_nodes;
pub mod lookup;
pub mod metrics;
pub mod notice;
pub mod review;
pub mod routes;
pub mod supervise;
pub mod tls;
pub mod view;
pub mod watch;

pub use error::Error;
