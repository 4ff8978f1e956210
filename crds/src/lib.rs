//! API types of Giveway and the rules that belong to them.
//!
//! This crate contains everything that admission and the controllers must agree on: the kinds [`PodGroup`],
//! [`Workload`] and [`Preemption`]; the [`keys`] of Giveway's labels and annotations on other objects; the [`kinds`] of
//! owners whose pods a label makes a gang; Giveway's [`mode`]; how a priority class is [resolved](priority), and that a
//! PodGroup [cannot raise the priority of its pods](lending); which pods are [critical add-ons](critical); which
//! [labels] of a pod are kept in memory; the [conditions and reasons](condition); when a [circuit breaker](breaker) is open;
//! which kinds are [optional]; what is removed from [responses](answers) with objects that any user may have written; how fields of
//! such objects are [found](json) without copying them; and the [sentences](wording) that users read. The controllers can
//! therefore reconcile what admission accepts.

pub mod answers;
pub mod autoscaling;
pub mod ban;
pub mod breaker;
pub mod brief;
pub mod condition;
pub mod constraints;
pub mod critical;
pub mod devices;
pub mod finished;
pub mod json;
pub mod keys;
pub mod kinds;
pub mod labels;
pub mod lending;
pub mod membership;
pub mod mode;
pub mod names;
pub mod native;
pub mod object_key;
pub mod optional;
pub mod plan;
pub mod pod_group;
pub mod policy;
pub mod preemption;
pub mod priority;
pub mod scheduler_config;
mod schema;
pub mod wording;
pub mod workload;

pub use object_key::ObjectKey;
pub use pod_group::{PodGroup, PodGroupSpec, PodGroupStatus};
pub use preemption::{Preemption, PreemptionSpec, PreemptionStatus};
pub use workload::{Workload, WorkloadSpec, WorkloadStatus};

/// Returns every CustomResourceDefinition of Giveway, in the order in which `kubectl apply -f crds/` applies them.
pub fn all_crds() -> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
    use kube::CustomResourceExt;
    [PodGroup::crd(), Preemption::crd(), Workload::crd()].map(schema::without_null).into()
}
