//! What came of the calls that the operator makes.

use crate::command::{Cause, EvictOutcome, Owner};
use crate::missing::Missing;
use crate::origin::{OwnerFacts, OwnerKey};
use giveway_crds::preemption::PreemptionStatus;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Why a call had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The object, by UID, does not exist any more.
    #[error("the object is gone")]
    Gone,
    /// This process does not lead (any more).
    #[error("this process is not the leader")]
    NotLeader,
    /// The API server cannot be reached, or says that it cannot answer now.
    #[error("{0}")]
    Unanswered(String),
    /// Anything else; it may work later.
    #[error("{0}")]
    Failed(String),
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 404 || names_another_uid(&status) => Self::Gone,
            kube::Error::Api(status) if matches!(status.code, 429 | 503 | 504) => {
                Self::Unanswered(format!("{} ({})", status.message, status.code))
            }
            kube::Error::Api(status) => Self::Failed(format!("{} ({})", status.message, status.code)),
            error @ (kube::Error::Service(_) | kube::Error::HyperError(_)) => Self::Unanswered(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// A UID in a patch or a precondition is refused when another object has the name now: as a conflict, or as a change
/// of an immutable field.
pub(crate) fn names_another_uid(status: &kube::core::Status) -> bool {
    matches!(status.code, 409 | 422)
        && (status.message.contains("UID in precondition") || status.message.contains("metadata.uid"))
}

/// What came of a command.
#[derive(Debug)]
pub enum Report {
    /// Of [`Command::Nominate`] with a node, and of [`Command::Release`].
    Member {
        /// For whom.
        preemptor: Preemptor,
        /// Identity of the plan.
        plan: String,
        /// UID of the member.
        uid: SmolStr,
        /// Whether it was a release.
        release: bool,
        /// Whether it worked.
        result: Result<(), CallError>,
    },
    /// Of [`Command::Evict`].
    Evicted {
        /// Why.
        cause: Cause,
        /// The victim.
        pod: ObjectKey,
        /// UID of the victim.
        uid: SmolStr,
        /// What happened.
        outcome: EvictOutcome,
    },
    /// Of [`Command::WriteGroupStatus`].
    GroupStatus {
        /// The group.
        group: ObjectKey,
        /// What was written.
        status: Box<giveway_crds::PodGroupStatus>,
        /// Whether it worked.
        result: Result<(), CallError>,
    },
    /// Of [`Command::StorePlan`] and [`Command::WritePlan`].
    Plan {
        /// Name of the plan.
        plan: String,
        /// What was to be written.
        status: Box<PreemptionStatus>,
        /// Whether it worked.
        result: Result<(), CallError>,
    },
    /// Of [`Command::BackFill`].
    BackFilled {
        /// The pod.
        pod: ObjectKey,
        /// Its UID.
        uid: SmolStr,
        /// What was added.
        result: Result<Missing, CallError>,
    },
    /// Of [`Command::Taint`].
    Taint {
        /// The node.
        node: SmolStr,
        /// UID in the taint.
        uid: SmolStr,
        /// Whether it was to be there.
        add: bool,
        /// The plan that waits for the answer.
        owner: Option<Owner>,
        /// Whether it worked.
        result: Result<(), CallError>,
    },
    /// Of [`Command::ReadPulse`]: when the Lease was renewed, if there is one.
    Pulse(Result<Option<MicroTime>, CallError>),
    /// Of [`Command::ReadOwner`].
    Owner {
        /// The owner.
        owner: OwnerKey,
        /// What it says.
        result: Result<OwnerFacts, CallError>,
    },
    /// Of the commands by which an autoscaler is asked.
    Capacity {
        /// For which group; none where something was removed.
        group: Option<ObjectKey>,
        /// The object.
        what: String,
        /// Whether it worked.
        result: Result<(), CallError>,
    },
    /// Of [`Command::CreateGroup`](crate::command::Command::CreateGroup).
    GroupMade {
        /// The group.
        group: ObjectKey,
        /// Whether it worked.
        result: Result<(), CallError>,
    },
    /// Of the other commands: what was to be written.
    Object {
        /// What it was, for the log and to allow the next attempt.
        what: String,
        /// Whether it worked.
        result: Result<(), CallError>,
    },
}
