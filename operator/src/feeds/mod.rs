//! The watches: what the API server reports becomes input of the arbiter.

pub(crate) mod follow;
pub(crate) mod native_groups;
pub mod watch;
