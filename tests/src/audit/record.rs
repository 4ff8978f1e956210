//! The records of a history: pods, PodGroups, plans, nodes, and the requests that changed them. Data only.

use giveway_crds::plan::{StoredPlan, StoredVictimPod};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// Prefix of namespaces that exist only in the log: the rest of the name is the namespace that is at rest.
pub(super) const REST: &str = "rest-of-";

/// The response code in the log if the client closed the connection before the response. The request may have been carried out.
pub(super) const GATEWAY_TIMEOUT: u16 = 504;

/// A namespace and a name.
pub type Key = (String, String);

/// A pod.
#[derive(Clone, Debug)]
pub struct PodRecord {
    /// Namespace and name.
    pub key: Key,
    /// The PodGroup in its label.
    pub group: Option<String>,
    /// True if it is a placeholder pod that the operator created.
    pub placeholder: bool,
    /// Its own priority.
    pub priority: i32,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its binding, and the node.
    pub bound: Option<(Timestamp, String)>,
    /// The time of the first accepted removal by any user.
    pub removed: Option<Timestamp>,
    /// The time of the first accepted removal by the operator, a scheduler or the Eviction API. Deletions by a test do not count.
    pub preempted: Option<Timestamp>,
    /// The time at which a kubelet reported that its containers have ended.
    pub finished: Option<Timestamp>,
    /// Its termination grace period, in seconds.
    pub grace: i64,
    /// True if it is a critical add-on: by its priority, or by its annotation in kube-system.
    pub critical: bool,
    /// True if a DaemonSet owns it, or it is a static pod.
    pub fixed: bool,
    /// True if it is the mirror pod of a static pod.
    pub mirror: bool,
    /// The time from which it has no scheduling gate.
    pub released: Option<Timestamp>,
    /// True if its `preemptionPolicy`, which kube-scheduler uses, is `Never`.
    pub never: bool,
    /// The preemption policy for Giveway, from its annotation.
    pub policy: Option<String>,
}

/// A PodGroup.
#[derive(Clone, Debug, Default)]
pub struct GroupRecord {
    /// True if its disruption mode is `PodGroup`.
    pub whole: bool,
    /// True if it is a PodGroup of `scheduling.k8s.io`. Its name in the key has the prefix of that API group.
    pub native: bool,
    /// Its `minCount`; 0 without a gang policy.
    pub min_count: usize,
    /// Its priority.
    pub priority: Option<i32>,
    /// The name of its PriorityClass.
    pub class: Option<String>,
    /// True if its own preemption policy is `Never`; `None` if it has no policy.
    pub never: Option<bool>,
    /// The node label of which all its pods must have one value.
    pub topology: Option<String>,
    /// True if it was deleted.
    pub deleted: bool,
    /// True if a finalizer keeps it after its deletion.
    pub finalized: bool,
    /// Since when it does not exist any more.
    pub gone: Option<Timestamp>,
}

/// A PriorityClass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassRecord {
    /// Its priority.
    pub value: i32,
    /// True if its preemption policy for Giveway is `Never`.
    pub never: bool,
}

/// The preemptor of a plan. A later object of the same name is another preemptor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preemptor {
    /// A PodGroup.
    Group {
        /// Namespace and name.
        key: Key,
        /// Its UID.
        uid: String,
    },
    /// A single pod, by UID.
    Pod(String),
}

/// A stored plan.
#[derive(Clone, Debug)]
pub struct PlanRecord {
    /// The time at which the API server received the request that stored it.
    pub asked: Timestamp,
    /// The time of the response.
    pub at: Timestamp,
    /// The user that stored it.
    pub user: String,
    /// Its preemptor; `None` if the plan evicts the pods of a PodGroup that is already partially disrupted.
    pub preemptor: Option<Preemptor>,
    /// The term in the request, if the request has one.
    pub written_in: Option<String>,
    /// The plan.
    pub plan: StoredPlan,
}

impl PlanRecord {
    /// Returns the pods of all victims of the plan.
    pub fn pods(&self) -> impl Iterator<Item = &StoredVictimPod> {
        self.plan.victims.iter().flat_map(|victim| &victim.pods)
    }

    /// Returns true if the pod with this UID is a victim of the plan.
    pub fn names(&self, uid: &str) -> bool {
        self.pods().any(|pod| pod.uid == uid)
    }
}

/// A write of a node.
#[derive(Clone, Debug)]
pub struct NodeWrite {
    /// The time.
    pub at: Timestamp,
    /// The user.
    pub user: String,
    /// The name of the node.
    pub node: String,
    /// The resource version after the write, which orders writes with equal times.
    pub version: u64,
    /// The taints after the write, as JSON.
    pub taints: Vec<Value>,
    /// The labels after the write.
    pub labels: BTreeMap<String, String>,
}

/// The kind of a request to remove a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The eviction subresource.
    Evict,
    /// DELETE.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

/// A request to remove a pod.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The time at which the API server received the request.
    pub at: Timestamp,
    /// The user.
    pub user: String,
    /// The kind of request.
    pub how: How,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod that had the name at that time, or of the pod in the response.
    pub uid: String,
    /// The UID precondition of the request.
    pub precondition: Option<String>,
    /// The grace period in the request, in seconds.
    pub grace: Option<i32>,
    /// True if the request was a dry run.
    pub dry_run: bool,
    /// The name of the Preemption in the annotation of an eviction by Giveway.
    pub plan: Option<String>,
    /// The HTTP status code of the response.
    pub code: u16,
    /// The message of a refusal.
    pub message: String,
    /// True if the request was accepted, or carried out although the client did not receive the response.
    pub accepted: bool,
    /// The time at which the pod began to terminate, from the response. An earlier request may be the cause.
    pub terminating_since: Option<Timestamp>,
}

impl Removal {
    /// Returns true if a PodDisruptionBudget refused the eviction. The API server answers 429, 500 if two budgets select the pod, or 403 if
    /// a budget counts too many evicted pods; it also uses these codes for other failures, and passes on those of admission webhooks.
    pub fn refused_for_budget(&self) -> bool {
        let words = match self.code {
            403 => "DisruptedPods map too big",
            429 => "disruption budget",
            500 => "more than one PodDisruptionBudget",
            _ => return false,
        };
        let admitted = !self.message.starts_with("admission webhook ");
        self.how == How::Evict && !self.accepted && admitted && self.message.contains(words)
    }

    /// Returns true if the pod was already terminating. The response contains the start of the termination, in whole seconds.
    pub(super) fn came_late(&self) -> bool {
        self.terminating_since.is_some_and(|since| since.as_second() < self.at.as_second())
    }
}

/// A binding of a pod to a node.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The time.
    pub at: Timestamp,
    /// The user.
    pub user: String,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod.
    pub uid: String,
    /// The node.
    pub node: String,
}

/// A write of `status.nominatedNodeName`.
#[derive(Clone, Debug)]
pub struct Nomination {
    /// The time.
    pub at: Timestamp,
    /// The user.
    pub user: String,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// The node; `None` if the nomination was withdrawn.
    pub node: Option<String>,
}

/// A `DisruptionTarget` condition with the preemptor, which the operator writes before it deletes a pod whose eviction was refused.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The time.
    pub at: Timestamp,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod.
    pub uid: String,
    /// The message, which names the preemptor.
    pub message: String,
}
