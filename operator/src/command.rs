//! What deciding asks of acting: plain data, made by the arbiter and the ledger, carried out by [`crate::actuate`].

use crate::capacity::{CapacityRequest, Placeholder};
use crate::missing::Missing;
use crate::origin::OwnerKey;
use crate::words::Sentence;
use giveway_crds::condition::Reason;
use giveway_crds::plan::{StoredDomain, StoredPlan};
use giveway_crds::preemption::PreemptionStatus;
use giveway_crds::{PodGroup, PodGroupStatus, WorkloadStatus};
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use tokio_util::sync::CancellationToken;

/// Who carries commands out. What came of one is heard later, as a [`Report`](crate::report::Report).
pub trait Dispatch {
    /// Starts carrying a command out, and does not wait for it.
    fn dispatch(&self, command: Command);
}

/// One API call, or a few that belong together.
#[derive(Clone, Debug)]
pub enum Command {
    /// Set (`Some`) or withdraw (`None`) `status.nominatedNodeName` of a pod.
    Nominate {
        /// For whom the place is held.
        preemptor: Preemptor,
        /// The preemptor's priority: calls are ordered by it.
        priority: i32,
        /// Identity of the plan.
        plan: String,
        /// The member.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The node, or nothing.
        node: Option<SmolStr>,
    },
    /// Remove our gate from a pod, and make it ask for the domain that its group is placed in.
    Release {
        /// The group (or pod) that starts.
        preemptor: Preemptor,
        /// Its priority: calls are ordered by it.
        priority: i32,
        /// Identity of the plan.
        plan: String,
        /// The member.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The domain, where the group must stay within one.
        domain: Option<StoredDomain>,
    },
    /// Mark a pod as a victim and evict it.
    Evict(Box<EvictCall>),
    /// Write the status of a group. The arbiter has at most one such write under way for a group.
    WriteGroupStatus {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The status it gets, whatever it was.
        to: Box<PodGroupStatus>,
        /// The group's priority: calls are ordered by it.
        priority: i32,
        /// Whether no decision waits for it.
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
        /// The preemptor's priority, of a critical add-on that of critical pods: calls are ordered by it.
        priority: i32,
        /// How far it is.
        status: Box<PreemptionStatus>,
    },
    /// Write how far a stored plan is.
    WritePlan {
        /// Its name.
        plan: String,
        /// The preemptor's priority: calls are ordered by it.
        priority: i32,
        /// How far it is.
        status: Box<PreemptionStatus>,
    },
    /// Remove a plan that is over, or a part of one that never became whole.
    ForgetPlan {
        /// Name of the object.
        name: SmolStr,
        /// Its UID.
        uid: SmolStr,
    },
    /// Say that the plan keeps no node any more.
    LetNodeGo {
        /// Name of the plan.
        plan: String,
    },
    /// Add annotations that a pod does not have yet: those that admission would have copied from its class.
    BackFill {
        /// The pod.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// What it lacks.
        missing: Missing,
    },
    /// Create a group, from a workload's template or for an owner whose label asked for it.
    CreateGroup(Box<PodGroup>),
    /// Delete a group that Giveway made and nobody uses.
    DeleteGroup {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// Its resource version: one that changed meanwhile stays.
        version: SmolStr,
    },
    /// Read what an owner says of its groups.
    ReadOwner(OwnerKey),
    /// Set how many pods of a gang start together.
    SetMinCount {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// How many.
        min_count: i32,
    },
    /// Add or remove the finalizer that protects a group with live members.
    Protect {
        /// The group.
        group: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// Whether the finalizer is to be there.
        protect: bool,
    },
    /// Add or remove the taint that keeps a node for a critical add-on.
    Taint {
        /// The node.
        node: SmolStr,
        /// UID of the add-on: the taint's value.
        uid: SmolStr,
        /// Whether it is to be there.
        add: bool,
        /// The plan; none where a stray taint is removed.
        owner: Option<Owner>,
    },
    /// Ask cluster-autoscaler for room. What exists of it already is as good.
    RequestCapacity(Box<CapacityRequest>),
    /// Ask it no longer.
    WithdrawRequest {
        /// The ProvisioningRequest.
        request: ObjectKey,
        /// Its UID.
        uid: SmolStr,
    },
    /// Make a pod that an autoscaler sees. One that exists already is as good.
    MakePlaceholder(Box<Placeholder>),
    /// Remove one.
    RemovePlaceholder {
        /// The pod.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
    },
    /// Read when kube-scheduler last renewed its Lease.
    ReadPulse(ObjectKey),
    /// Emit an event.
    Publish(Notice),
}

/// A plan that waits for the answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// For whom it is.
    pub preemptor: Preemptor,
    /// Its identity.
    pub plan: String,
}

impl Command {
    /// Calls are ordered by priority, then by age. A call that no preemptor waits for has the priority of a pod without a class.
    pub fn priority(&self) -> i32 {
        match self {
            Self::Nominate { priority, .. }
            | Self::Release { priority, .. }
            | Self::WriteGroupStatus { priority, .. }
            | Self::StorePlan { priority, .. }
            | Self::WritePlan { priority, .. } => *priority,
            Self::Evict(call) => call.priority,
            // For critical add-ons.
            Self::Taint { .. } | Self::ReadPulse(_) => i32::MAX,
            _ => 0,
        }
    }

    /// Whether no decision waits for this call, so that it stands back behind those for which one does.
    pub fn in_background(&self) -> bool {
        match self {
            Self::WriteGroupStatus { background, .. } => *background,
            Self::WriteWorkloadStatus { .. }
            | Self::Protect { .. }
            | Self::Publish(_)
            | Self::LetNodeGo { .. }
            | Self::ForgetPlan { .. }
            | Self::DeleteGroup { .. } => true,
            Self::Nominate { .. }
            | Self::Release { .. }
            | Self::Evict(_)
            | Self::StorePlan { .. }
            | Self::WritePlan { .. }
            | Self::BackFill { .. }
            | Self::Taint { .. }
            | Self::ReadPulse(_)
            | Self::ReadOwner(_)
            | Self::RequestCapacity(_)
            | Self::WithdrawRequest { .. }
            | Self::MakePlaceholder(_)
            | Self::RemovePlaceholder { .. }
            | Self::SetMinCount { .. }
            | Self::CreateGroup(_) => false,
        }
    }
}

/// What the call is called that makes a group.
pub fn what_makes(group: &ObjectKey) -> String {
    format!("pod group {group}")
}

/// Why a pod is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A plan names it.
    Plan {
        /// For whom.
        preemptor: Preemptor,
        /// Identity of the plan.
        id: String,
    },
    /// A [departure](crate::departures) names it.
    Departure {
        /// The PodGroup.
        group: ObjectKey,
        /// Identity of the departure.
        id: String,
    },
}

impl Cause {
    /// Name of the `Preemption` that names the pod.
    pub fn id(&self) -> &str {
        match self {
            Self::Plan { id, .. } | Self::Departure { id, .. } => id,
        }
    }
}

impl std::fmt::Display for Cause {
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
    /// The preemptor's priority: turns go by it.
    pub priority: i32,
    /// Why.
    pub cause: Cause,
    /// The victim.
    pub pod: ObjectKey,
    /// Its UID: a precondition of the eviction.
    pub uid: SmolStr,
    /// Whether a budget is known that matches it.
    pub budgeted: bool,
    /// Whether the pod may be deleted when a budget refuses its eviction: its unit carries no threshold, or the preemptor reaches it (KEP-3280).
    pub may_force: bool,
    /// The grace that the pod is given, in seconds; `None`: its own.
    pub grace: Option<i64>,
    /// Whether the eviction API is only asked whether it would allow it (a dry run).
    pub rehearsal: bool,
    /// Whether an earlier call for this victim failed: then its state is read first.
    pub again: bool,
    /// What the pod's condition says.
    pub message: Sentence,
    /// Cancelled when the plan is dropped: then the eviction is not made.
    pub permission: CancellationToken,
}

impl EvictCall {
    /// Whether a budget is known that may refuse it.
    pub fn refusable(&self) -> bool {
        self.budgeted && !self.may_force
    }
}

/// How an eviction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictOutcome {
    /// The API server accepted it: the pod terminates.
    Accepted,
    /// Its budget said no, and it was deleted all the same: the pod terminates.
    Forced,
    /// A rehearsal: it would be accepted now.
    Allowed,
    /// The pod, by UID, does not exist any more.
    Gone,
    /// A guaranteed budget does not allow it; the reason.
    Refused(String),
    /// It is not allowed, by a policy or for want of a right; the reason. Nothing says that it ever will be.
    Forbidden(String),
    /// The API server says that the operator may not; an API server that just started says so, too. It may be tried again.
    Unauthorized(String),
    /// The call failed; it may be tried again.
    Error(String),
    /// The API server did not answer, or not now.
    Unanswered(String),
    /// The plan was dropped before the call was made.
    Withdrawn,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `Pod`, `PodGroup`, `Workload`, `PodDisruptionBudget` or `Node`.
    Known(&'static str),
    /// An owner of pods, as they say it.
    Other {
        /// Its `apiVersion`.
        api_version: String,
        /// Its kind.
        kind: String,
    },
}

impl From<&'static str> for Subject {
    fn from(kind: &'static str) -> Self {
        Self::Known(kind)
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(kind) => f.write_str(kind),
            Self::Other { kind, .. } => f.write_str(kind),
        }
    }
}

/// An event on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Kind of the object.
    pub kind: Subject,
    /// The object.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// Whether it is a warning.
    pub warning: bool,
    /// Reason of the event.
    pub reason: Reason,
    /// What is being done: tells events of one reason apart, so that none hides in another's series.
    pub action: String,
    /// The sentence.
    pub note: Sentence,
}
