//! Admission of Giveway.
//!
//! A request travels in one direction: [`giveway_serving`] (connections and their limits) → [`routes`] (HTTP) → [`review`]
//! (decoding) → [`judge`] (which rule applies) → [`mutate`] or [`validate`] → back as a review. The rules are pure
//! functions from a request and a read-only [`view`] of the cluster to a [`verdict`]: they have no client, no clock
//! and no environment. What the view does not know yet is looked up once by [`lookup`], then the rules run again.
//!
//! The [`guard`] has a path of its own: it judges what schedulers do to pods, and answers slowly. [`kept_nodes`] answers no
//! request: it cleans up while no operator runs.
//!
//! Each module imports from lower layers only; `tests/webhook/layers.rs` lists the layers.

pub mod admission;
pub mod body;
pub mod config;
pub mod deadline;
pub mod error;
pub mod guard;
pub mod health;
pub mod judge;
pub mod kept_nodes;
pub mod lookup;
pub mod metrics;
pub mod mutate;
pub mod namespaced;
pub mod notice;
pub mod object;
pub mod patch;
pub mod review;
pub mod routes;
pub mod supervise;
pub mod tls;
pub mod validate;
pub mod verdict;
pub mod view;
pub mod watch;

pub use error::Error;
