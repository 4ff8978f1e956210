//! Results of the operator's API calls.

use crate::messages::call_key::CallKey;
use crate::messages::command::{EvictOutcome, EvictionCause};
use crate::views::correction::Correction;
use crate::views::creation_failure::CreationFailure;
use crate::views::origin::{OwnerFacts, OwnerKey};
use giveway_crds::preemption::PreemptionStatus;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Why a call had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The object with this UID does not exist any more.
    #[error("the object does not exist any more")]
    Gone,
    /// This process is not the leader, or not any more.
    #[error("this process is not the leader")]
    NotLeader,
    /// The API server is unreachable, or reports that it cannot respond now.
    #[error("{0}")]
    Unanswered(String),
    /// Admission, validation or a quota rejected the call, with its words. The same call will be rejected again.
    #[error("{0}")]
    Rejected(String),
    /// Any other error. A retry may succeed.
    #[error("{0}")]
    Failed(String),
}

/// A call that a plan makes for one of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberCall {
    /// It sets `status.nominatedNodeName`.
    Nominate,
    /// It removes the scheduling gate.
    Ungate,
}

/// The result of a command.
#[derive(Debug)]
pub enum Report {
    /// Of [`Command::Nominate`] with a node, or of [`Command::Ungate`].
    Member {
        /// The preemptor.
        preemptor: Preemptor,
        /// ID of the plan.
        plan: String,
        /// UID of the member.
        uid: SmolStr,
        /// Which call it was.
        call: MemberCall,
        /// True if it was a dry run.
        rehearsal: bool,
        /// The result of the call.
        result: Result<(), CallError>,
    },
    /// Of [`Command::Evict`].
    Evicted {
        /// Why the pod was evicted.
        cause: EvictionCause,
        /// The victim.
        pod: ObjectKey,
        /// UID of the victim.
        uid: SmolStr,
        /// True if it was a dry run.
        rehearsal: bool,
        /// The outcome.
        outcome: EvictOutcome,
    },
    /// Of [`Command::WriteGroupStatus`].
    GroupStatus {
        /// The group.
        group: ObjectKey,
        /// The status that was written.
        status: Box<giveway_crds::PodGroupStatus>,
        /// The result of the call.
        result: Result<(), CallError>,
    },
    /// Of [`Command::StorePlan`] or [`Command::WritePlan`].
    Plan {
        /// Name of the plan.
        plan: String,
        /// The status that was to be written.
        status: Box<PreemptionStatus>,
        /// The result of the call.
        result: Result<(), CallError>,
    },
    /// Of [`Command::BackFill`].
    BackFilled {
        /// The pod.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// The changes that were made.
        result: Result<Correction, CallError>,
    },
    /// Of [`Command::Taint`].
    Taint {
        /// The node.
        node: SmolStr,
        /// UID of the critical add-on, which is the value of the taint.
        uid: SmolStr,
        /// True if the taint was to be added, false if it was to be removed.
        add: bool,
        /// ID of the plan that needs the result.
        plan: Option<String>,
        /// The result of the call.
        result: Result<(), CallError>,
    },
    /// Of [`Command::ReadSchedulerLease`]: when the Lease was last renewed, if it exists.
    SchedulerLease(Result<Option<MicroTime>, CallError>),
    /// Of [`Command::ReadOwner`].
    Owner {
        /// The owner.
        owner: OwnerKey,
        /// What the owner specifies about its PodGroups.
        result: Result<OwnerFacts, CallError>,
    },
    /// Of [`Command::ReadFailures`](crate::messages::command::Command::ReadFailures).
    Failure {
        /// The PodGroup.
        group: ObjectKey,
        /// The last pod that could not be created, if an event reports one.
        result: Result<Option<CreationFailure>, CallError>,
    },
    /// Of the commands with a [key](crate::messages::command::Command::key).
    Answered {
        /// What was written.
        call: CallKey,
        /// The result of the call.
        result: Result<(), CallError>,
    },
}
