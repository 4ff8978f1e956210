//! The cluster as the user may see it, for the commands that show it until they are interrupted: `ui` and `top`.
//!
//! ```text
//! follow     one kind, with the rights of the user
//! follower   all kinds: applies their changes to the state
//! state      the cluster as it is known now
//! queue      what is pending, in the operator's order
//! usage      what nodes offer of each resource, and what pods of each priority request
//! ```

mod follow;
mod follower;
pub(crate) mod queue;
#[cfg(test)]
pub(crate) mod samples;
mod state;
pub(crate) mod usage;

pub(crate) use follower::Follower;
pub(crate) use state::{Revision, Snapshot, State};
