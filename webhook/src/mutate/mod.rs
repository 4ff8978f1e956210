//! Rules that change objects: they fill in what the user left out, and reject contradictions.
//!
//! Every rule is idempotent: it does not change its own result, because the API server may call a mutating webhook
//! twice for one request.

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
