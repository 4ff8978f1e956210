//! API types of Giveway and the rules that belong to them.
//!
//! Everything that both admission and the controllers must agree on lives here: the kinds [`PodGroup`],
//! [`Workload`] and [`Preemption`], the [`keys`] under which Giveway marks objects of others, the [`kinds`] of which a label
//! makes gangs, the [`mode`] that Giveway is in, how a priority class is [resolved](priority), that a group [lends none](lending), which pods are [critical add-ons](critical), which [labels] of a pod are remembered, the vocabulary of
//! [conditions and reasons](condition), and how objects are [read](answers) that anybody may have written. What admission accepts, the
//! controllers can therefore reconcile.

pub mod answers;
pub mod autoscaling;
pub mod brief;
pub mod condition;
pub mod constraints;
pub mod critical;
pub mod finished;
pub mod keys;
pub mod kinds;
pub mod labels;
pub mod lending;
pub mod membership;
pub mod mode;
pub mod names;
pub mod native;
pub mod plan;
pub mod pod_group;
pub mod policy;
pub mod preemption;
pub mod priority;
pub mod workload;

pub use pod_group::{PodGroup, PodGroupSpec, PodGroupStatus};
pub use preemption::{Preemption, PreemptionSpec, PreemptionStatus};
pub use workload::{Workload, WorkloadSpec, WorkloadStatus};

/// Returns every CustomResourceDefinition of Giveway, in the order in which `kubectl apply -f crds/` applies them.
pub fn all_crds() -> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
    use kube::CustomResourceExt;
    vec![PodGroup::crd(), Preemption::crd(), Workload::crd()]
}
