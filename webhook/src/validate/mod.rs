//! Rules that judge final objects: after every mutating webhook, after the API server's own validation and CEL.

pub mod pod_group;
pub mod priority_class;
pub mod workload;
