//! The calls that the decision logic requests: plain data, created by the arbiter and its parts and carried out by
//! [`crate::calls`].

use crate::messages::call_key::CallKey;
use crate::messages::capacity::{CapacityRequest, Placeholder};
use crate::observability::metrics::QueueName;
use crate::speaker::notice::EventNotice;
use crate::views::correction::Correction;
use crate::views::origin::OwnerKey;
use giveway_crds::plan::{StoredDomain, StoredPlan};
use giveway_crds::preemption::PreemptionStatus;
use giveway_crds::wording::Sentence;
use giveway_crds::{PodGroup, PodGroupStatus, WorkloadStatus};
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

/// Carries out commands. The result of each is sent to the arbiter later, as a [`Report`](crate::messages::report::Report).
pub trait Dispatch {
    /// Starts to carry out a command, and returns without waiting for the result.
    fn dispatch(&self, command: Command);
}

/// One API call, or a few that belong together.
#[derive(Clone, Debug)]
pub enum Command {
    /// Set (`Some`) or withdraw (`None`) `status.nominatedNodeName` of a pod.
    Nominate {
        /// The preemptor whose placement is reserved.
        preemptor: Preemptor,
        /// The preemptor's priority, by which calls are ordered.
        priority: i32,
        /// ID of the plan.
        plan: String,
        /// The member.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The node; `None` withdraws the nomination.
        node: Option<SmolStr>,
        /// True for a dry run.
        rehearsal: bool,
    },
    /// Remove Giveway's scheduling gate from a pod, and add a node selector for the topology domain of its PodGroup.
    Ungate {
        /// The PodGroup or pod of the plan.
        preemptor: Preemptor,
        /// Its priority, by which calls are ordered.
        priority: i32,
        /// ID of the plan.
        plan: String,
        /// The member.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The domain, if the PodGroup must stay within one.
        domain: Option<StoredDomain>,
        /// True for a dry run.
        rehearsal: bool,
    },
    /// Evict a pod.
    Evict(Box<EvictCall>),
    /// Write the status of a PodGroup. The arbiter has at most one such write in flight for a PodGroup.
    WriteGroupStatus {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The last known status. Fields of it that the new status does not have are removed.
        from: Box<PodGroupStatus>,
        /// The new status.
        to: Box<PodGroupStatus>,
        /// The PodGroup's priority, by which calls are ordered.
        priority: i32,
        /// True if no decision depends on the write.
        background: bool,
    },
    /// Write the status of a workload.
    WriteWorkloadStatus {
        /// The workload.
        workload: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// Its new status.
        status: Box<WorkloadStatus>,
    },
    /// Create the objects of a plan, and write its first status.
    StorePlan {
        /// The plan.
        plan: Box<StoredPlan>,
        /// The preemptor's priority, by which calls are ordered. For a critical add-on it is the priority of critical
        /// pods.
        priority: i32,
        /// The status of the plan.
        status: Box<PreemptionStatus>,
    },
    /// Write the status of a stored plan.
    WritePlan {
        /// Its name.
        plan: String,
        /// The preemptor's priority, by which calls are ordered.
        priority: i32,
        /// The status of the plan.
        status: Box<PreemptionStatus>,
    },
    /// Delete the `Preemption` of an ended plan, or a part of a plan that was never stored completely.
    ForgetPlan {
        /// Name of the object.
        name: SmolStr,
        /// Its UID.
        uid: SmolStr,
    },
    /// Remove the label of a plan by which admission reserves a node.
    ReleaseNode {
        /// Name of the plan.
        plan: String,
    },
    /// Correct the annotations of a pod that its PriorityClass gives, or none gives.
    BackFill {
        /// The pod.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The changes.
        correction: Correction,
    },
    /// Create a PodGroup, from a Workload's template or for an owner with the label that requests it.
    CreateGroup(Box<PodGroup>),
    /// Delete an unused PodGroup that Giveway created.
    DeleteGroup {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// Its resourceVersion: a PodGroup that has changed is not deleted.
        version: SmolStr,
    },
    /// Read what an owner specifies about its PodGroups.
    ReadOwner(OwnerKey),
    /// Read which pod of a PodGroup could not be created last.
    ReadFailures {
        /// The PodGroup.
        group: ObjectKey,
        /// Names of the controllers of its pods.
        controllers: Vec<SmolStr>,
    },
    /// Set `minCount` of a PodGroup.
    SetMinCount {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The new `minCount`.
        min_count: i32,
    },
    /// Make an object the owner of a PodGroup that has none any more.
    AdoptGroup {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// Its resourceVersion: a PodGroup that has changed is not adopted.
        version: SmolStr,
        /// The owner.
        owner: Box<OwnerReference>,
    },
    /// Add or remove the finalizer that protects a group with live members.
    Protect {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// True to add the finalizer, false to remove it.
        protect: bool,
    },
    /// Add or remove the taint that reserves a node for a critical add-on.
    Taint {
        /// The node.
        node: SmolStr,
        /// UID of the add-on, which is the value of the taint.
        uid: SmolStr,
        /// True to add the taint, false to remove it.
        add: bool,
        /// ID of the plan; `None` if a stray taint is removed.
        plan: Option<String>,
    },
    /// Create a ProvisioningRequest and its PodTemplates, as far as they do not exist.
    RequestCapacity(Box<CapacityRequest>),
    /// Delete a ProvisioningRequest.
    WithdrawRequest {
        /// The ProvisioningRequest.
        request: ObjectKey,
        /// Its UID.
        uid: SmolStr,
    },
    /// Create a placeholder pod, unless it exists.
    MakePlaceholder(Box<Placeholder>),
    /// Delete a placeholder pod.
    RemovePlaceholder {
        /// The pod.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
    },
    /// Read when kube-scheduler last renewed its Lease.
    ReadSchedulerLease(ObjectKey),
    /// Emit an event.
    Publish(EventNotice),
}

impl Command {
    /// Returns the command that removes Giveway's scheduling gate from a pod that is in no plan. Calls are ordered by `priority`.
    pub fn ungate(pod: &Pod, preemptor: Preemptor, priority: i32) -> Self {
        let (plan, pod, uid) = (String::new(), pod.key.clone(), pod.uid.clone());
        Self::Ungate { preemptor, priority, plan, pod, uid, domain: None, rehearsal: false }
    }

    /// Returns the priority of the call: calls are ordered by priority, then by age. A call that serves no preemptor
    /// has priority 0, like a pod without a PriorityClass.
    pub fn priority(&self) -> i32 {
        match self {
            Self::Nominate { priority, .. }
            | Self::Ungate { priority, .. }
            | Self::WriteGroupStatus { priority, .. }
            | Self::StorePlan { priority, .. }
            | Self::WritePlan { priority, .. } => *priority,
            Self::Evict(call) => call.priority,
            // These calls serve critical add-ons.
            Self::Taint { .. } | Self::ReadSchedulerLease(_) => i32::MAX,
            _ => 0,
        }
    }

    /// Returns what the call writes, by which it is recorded until it is answered. `None` for commands that do not withdraw a nomination
    /// and are answered by a report of their own, not by [`Report::Answered`](crate::messages::report::Report::Answered).
    pub fn key(&self) -> Option<CallKey> {
        let key = match self {
            Self::CreateGroup(group) => {
                CallKey::CreateGroup(ObjectKey::new(group.namespace().unwrap_or_default(), group.name_any()))
            }
            Self::DeleteGroup { group, .. } => CallKey::DeleteGroup(group.clone()),
            Self::SetMinCount { group, min_count, .. } => CallKey::MinCount(group.clone(), *min_count),
            Self::AdoptGroup { group, owner, .. } => CallKey::Owner(group.clone(), owner.uid.clone()),
            Self::Protect { group, protect, .. } => CallKey::Finalizer(group.clone(), *protect),
            Self::WriteWorkloadStatus { workload, .. } => CallKey::WorkloadStatus(workload.clone()),
            Self::Nominate { uid, node: None, .. } => CallKey::Nomination(uid.clone()),
            Self::ForgetPlan { name, .. } => CallKey::ForgetPlan(name.clone()),
            Self::ReleaseNode { plan } => CallKey::PlanLabel(plan.clone()),
            Self::RequestCapacity(asked) => {
                let group = asked.gang.key.clone();
                CallKey::RequestCapacity { request: ObjectKey::new(&group.namespace, &asked.name), group }
            }
            Self::WithdrawRequest { request, .. } => CallKey::WithdrawRequest(request.clone()),
            Self::MakePlaceholder(placeholder) => {
                let group = placeholder.gang.key.clone();
                CallKey::CreatePlaceholder { pod: ObjectKey::new(&group.namespace, placeholder.name()), group }
            }
            Self::RemovePlaceholder { pod, .. } => CallKey::DeletePlaceholder(pod.clone()),
            _ => return None,
        };
        Some(key)
    }

    /// Returns the queue in which the command waits until its call is made.
    pub fn queue(&self) -> QueueName {
        match self {
            Self::Evict(_) => QueueName::Evictions,
            Self::StorePlan { .. } | Self::WritePlan { .. } => QueueName::Plans,
            Self::CreateGroup(_) | Self::ReadOwner(_) | Self::SetMinCount { .. } | Self::AdoptGroup { .. } => {
                QueueName::Groups
            }
            Self::Publish(_) => QueueName::Events,
            Self::WriteGroupStatus { background: true, .. }
            | Self::WriteWorkloadStatus { .. }
            | Self::Protect { .. }
            | Self::ReleaseNode { .. }
            | Self::ForgetPlan { .. }
            | Self::ReadFailures { .. }
            | Self::DeleteGroup { .. } => QueueName::Background,
            Self::WriteGroupStatus { background: false, .. }
            | Self::Nominate { .. }
            | Self::Ungate { .. }
            | Self::BackFill { .. }
            | Self::Taint { .. }
            | Self::ReadSchedulerLease(_)
            | Self::RequestCapacity(_)
            | Self::WithdrawRequest { .. }
            | Self::MakePlaceholder(_)
            | Self::RemovePlaceholder { .. } => QueueName::Others,
        }
    }

    /// Returns true if no decision depends on the call, so that it may be delayed in favour of other calls.
    pub fn in_background(&self) -> bool {
        matches!(self.queue(), QueueName::Background | QueueName::Events)
    }
}

/// Why a pod is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// It is a victim of a plan.
    Plan {
        /// The preemptor.
        preemptor: Preemptor,
        /// ID of the plan.
        id: String,
    },
    /// It belongs to a [departure](crate::departures).
    Departure {
        /// The PodGroup.
        group: ObjectKey,
        /// ID of the departure.
        id: String,
    },
}

impl EvictionCause {
    /// Returns the name of the `Preemption` that lists the pod as a victim.
    pub fn id(&self) -> &str {
        match self {
            Self::Plan { id, .. } | Self::Departure { id, .. } => id,
        }
    }
}

impl std::fmt::Display for EvictionCause {
    /// Writes the plan or the departure to which the eviction belongs, for logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plan { id, .. } => write!(f, "plan {id}"),
            Self::Departure { group, id } => write!(f, "departure {id} of PodGroup {group}"),
        }
    }
}

/// One eviction.
#[derive(Clone, Debug)]
pub struct EvictCall {
    /// The preemptor's priority, by which evictions are ordered.
    pub priority: i32,
    /// Why the pod is evicted.
    pub cause: EvictionCause,
    /// The victim.
    pub pod: ObjectKey,
    /// Its UID, which is a precondition of the eviction.
    pub uid: SmolStr,
    /// True if a known PodDisruptionBudget selects the pod.
    pub budgeted: bool,
    /// True if the pod may be deleted when a budget refuses its eviction: its unit has no threshold, or the preemptor's
    /// priority reaches it (KEP-3280).
    pub may_force: bool,
    /// The grace period in seconds; `None` keeps the pod's own.
    pub grace: Option<i64>,
    /// True for a dry run.
    pub rehearsal: bool,
    /// True if an earlier request may have been carried out, or may still be. The pod is then read first, and evicted only if it has not
    /// changed since.
    pub again: bool,
    /// The message of the pod's condition `DisruptionTarget`.
    pub message: Sentence,
    /// Cancelled with the plan; then the eviction is not made.
    pub permission: CancellationToken,
}

impl EvictCall {
    /// Returns true if a PodDisruptionBudget can prevent the eviction: one is known that selects the pod, and the pod must not be deleted
    /// when the budget refuses.
    pub fn refusable(&self) -> bool {
        self.budgeted && !self.may_force
    }
}

/// The outcome of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictOutcome {
    /// The API server accepted the eviction. The pod terminates.
    Accepted,
    /// A budget refused the eviction, and the pod was deleted all the same. The pod terminates.
    Forced,
    /// A dry run succeeded: the eviction would be accepted now.
    Allowed,
    /// The pod with this UID does not exist any more.
    Gone,
    /// A guaranteed budget refused the eviction; with the reason.
    Refused(String),
    /// Admission rejected the eviction, with its words: the same eviction will be rejected again.
    Rejected(String),
    /// The call failed for another reason and may be retried.
    Error(String),
    /// The API server did not respond, or not in time.
    Unanswered(String),
    /// The plan ended before the call was made.
    Withdrawn,
}

impl EvictOutcome {
    /// Returns true if the pod terminates or does not exist any more after this outcome.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted | Self::Forced | Self::Gone)
    }
}
