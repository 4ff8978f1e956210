//! What the operator reports about itself: metrics, and traces of preemptions.

pub mod metrics;
pub(crate) mod timing;
pub mod trace;
