//! What the pods of one owner have in common.

use super::equivalence::EquivalenceClass;
use giveway_crds::policy::PreemptionPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Fields that are usually equal for all pods of an owner, stored once for them. They are read as fields of a [`Pod`](super::Pod), and
/// those of the equivalence class as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// Name of its group, in its own namespace; the group need not exist. That of a native group begins with the API
    /// group (see [`giveway_crds::native`]), and counts where its labels name a group as well.
    pub group: Option<String>,
    /// Its own priority.
    pub priority: i32,
    /// The class that it names.
    pub priority_class_name: Option<String>,
    /// The policy that a managed class gave it.
    pub annotation_policy: Option<PreemptionPolicy>,
    /// The policy that kube-scheduler reads.
    pub spec_policy: PreemptionPolicy,
    /// The priority from which on its budgets may be violated. A threshold that cannot be parsed protects as much as the highest one.
    pub threshold: Option<i32>,
    /// True if a DaemonSet created it for the one node to which it is bound, so that no other node can run it. An owner reference alone
    /// can be set by any user; a pod that meets this definition names its own node in its spec.
    pub daemon: bool,
    /// Whether its annotations ask for it to be a critical add-on; its namespace decides whether that counts.
    pub asks_critical: bool,
    /// Its grace period in seconds; for a terminating pod, the one with which it was deleted.
    pub grace: i64,
    /// Name of its scheduler.
    pub scheduler_name: String,
    /// Its controller.
    pub owner: Option<OwnerReference>,
    /// Workload and template that its labels name.
    pub template: Option<(String, String)>,
    /// Whether it has topology spread constraints, also such that need not hold: then it gets no default ones.
    pub(super) spreads_itself: bool,
    /// Features of the kubelet that it needs.
    pub(super) features: Vec<&'static str>,
    /// Its requests and constraints.
    pub(super) class: Arc<EquivalenceClass>,
}

impl Deref for Origin {
    type Target = EquivalenceClass;

    fn deref(&self) -> &EquivalenceClass {
        &self.class
    }
}

// Owner references contain only texts and truth values, but do not say that they are `Eq`.
impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All texts and numbers that a user can choose: origins that differ in them do not collide.
        (&self.group, self.priority, &self.priority_class_name, self.threshold).hash(state);
        (self.grace, &self.scheduler_name, &self.template, &self.class).hash(state);
        let owner = self.owner.as_ref();
        owner.map(|owner| (&owner.api_version, &owner.kind, &owner.name, &owner.uid)).hash(state);
    }
}
