//! The cluster as the user may see it, for the commands that show it until they are interrupted: `ui` and `top`.
//!
//! ```text
//! state      the cluster as it was last read, and when it is read again
//! queue      what is pending, in the operator's order
//! usage      what nodes offer of each resource, and what pods of each priority request
//! ```

pub(crate) mod queue;
#[cfg(test)]
pub(crate) mod samples;
mod state;
pub(crate) mod usage;

pub(crate) use state::{Revision, Snapshot, State};
