//! Rules that change objects: what a user leaves out is filled in, and what contradicts it is refused.
//!
//! Every rule is idempotent: an object that went through it once comes out of it unchanged the second time, because
//! the API server may call a mutating webhook twice for one request.

pub mod job;
pub mod owner;
pub mod pod;
pub mod pod_facts;
pub mod pod_gang;
pub mod pod_group;
pub mod pod_priority;
pub mod priority;
pub mod priority_class;
pub mod workload;
