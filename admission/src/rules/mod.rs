//! One module for each set of rules.
//!
//! Rules named `fill`, and those of pods and owners, change objects: they fill in what the user left out, and reject
//! contradictions. Each is idempotent: it does not change its own result, because the API server may call a mutating
//! webhook twice for one request. Rules named `check` judge final objects: after every mutating webhook, after the API
//! server's own validation and CEL. The [`guard`] judges what schedulers do to pods.

pub mod guard;
pub mod owner;
pub mod pod_create;
pub mod pod_group;
pub mod priority;
pub mod priority_class;
pub mod workload;
