//! The guard over schedulers that preempt by themselves, as far as it is pure: what is [asked](decide::GuardRequest), the
//! [objects] that count, the [decision](decide) and the [verdict](notice) on a rejected
//! preemption.

pub mod decide;
pub mod facts;
pub mod notice;
pub mod objects;
