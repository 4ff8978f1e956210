//! The decision of the planner: one of six.

use crate::api::domain::Domain;
use crate::api::plan::{Placement, Plan};
use crate::api::shortfall::Shortfall;
use crate::api::unknown::Unknown;
/// What the planner decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Enough members fit now; no eviction is needed.
    Fits {
        /// Placements of the members that fit.
        placements: Vec<Placement>,
        /// Number of pending members without a placement; they are the next preemptor.
        left: usize,
        /// The topology domain in which the group is placed, if it must be placed within one.
        domain: Option<Domain>,
    },
    /// Enough members fit after the victims of this plan are evicted.
    Preempt(Box<Plan>),
    /// Not enough members fit, and no eviction that is allowed changes that.
    Unschedulable(Shortfall),
    /// Not enough members are known to fit, but the requirements of a member are not fully known: it is left to kube-scheduler, and no pod
    /// is evicted.
    Unknown(Unknown),
    /// The gang has fewer pods than it needs.
    WaitingForPods {
        /// Members that are bound, or could be placed.
        live: usize,
        /// `minCount` of the gang.
        min_count: usize,
        /// Members that have finished, and count for it.
        finished: usize,
        /// Further pending members whose own priority is lower than the group's.
        below: usize,
    },
    /// There is nothing to place: no such group or pod, or no pending member.
    Nothing,
}
