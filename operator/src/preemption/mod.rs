//! Which preemptors wait for a plan, in which order, and what was planned for them in mode `observe`.

pub mod observed;
pub mod queue;
pub mod survey;
