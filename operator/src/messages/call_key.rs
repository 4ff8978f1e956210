//! What a call writes: the key under which it is recorded until its result is known, so that it is not made twice at the same time.

use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::fmt;

/// The object, and what of it, that a call writes. Two calls with the same key write the same. Displayed in logs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKey {
    /// Creation of a PodGroup.
    CreateGroup(ObjectKey),
    /// Deletion of a PodGroup.
    DeleteGroup(ObjectKey),
    /// This `minCount` of a PodGroup.
    MinCount(ObjectKey, i32),
    /// The owner of a PodGroup, by UID.
    Owner(ObjectKey, String),
    /// The finalizer of a PodGroup: whether it is present.
    Finalizer(ObjectKey, bool),
    /// The status of a Workload.
    WorkloadStatus(ObjectKey),
    /// Withdrawal of the nomination of the pod with this UID.
    Nomination(SmolStr),
    /// Deletion of a `Preemption`.
    ForgetPlan(SmolStr),
    /// Removal of the label of a `Preemption`.
    PlanLabel(String),
    /// Creation of a ProvisioningRequest for a PodGroup.
    RequestCapacity {
        /// The PodGroup.
        group: ObjectKey,
        /// The ProvisioningRequest.
        request: ObjectKey,
    },
    /// Deletion of a ProvisioningRequest.
    WithdrawRequest(ObjectKey),
    /// Creation of a placeholder pod for a member of a PodGroup.
    CreatePlaceholder {
        /// The PodGroup.
        group: ObjectKey,
        /// The placeholder.
        pod: ObjectKey,
    },
    /// Deletion of a placeholder pod.
    DeletePlaceholder(ObjectKey),
}

impl fmt::Display for CallKey {
    /// Writes what the call does, for logs, for example `deletion of PodGroup ml/train`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateGroup(group) => write!(f, "creation of PodGroup {group}"),
            Self::DeleteGroup(group) => write!(f, "deletion of PodGroup {group}"),
            Self::MinCount(group, count) => write!(f, "minCount {count} of PodGroup {group}"),
            Self::Owner(group, uid) => write!(f, "owner {uid} of PodGroup {group}"),
            Self::Finalizer(group, true) => write!(f, "finalizer of PodGroup {group}"),
            Self::Finalizer(group, false) => write!(f, "removal of the finalizer of PodGroup {group}"),
            Self::WorkloadStatus(workload) => write!(f, "status of Workload {workload}"),
            Self::Nomination(uid) => write!(f, "withdrawal of the nomination of pod {uid}"),
            Self::ForgetPlan(name) => write!(f, "deletion of Preemption {name}"),
            Self::PlanLabel(name) => write!(f, "removal of the label of Preemption {name}"),
            Self::RequestCapacity { request, .. } => write!(f, "creation of ProvisioningRequest {request}"),
            Self::WithdrawRequest(request) => write!(f, "deletion of ProvisioningRequest {request}"),
            Self::CreatePlaceholder { pod, .. } => write!(f, "creation of placeholder pod {pod}"),
            Self::DeletePlaceholder(pod) => write!(f, "deletion of placeholder pod {pod}"),
        }
    }
}
