//! What is answered: one of six decisions.

use crate::api::domain::Domain;
use crate::api::plan::{Placement, Plan};
use crate::api::shortfall::Shortfall;
use crate::api::unknown::Unknown;
/// What the planner decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Enough members fit now, and nobody has to go.
    Fits {
        /// Who goes where.
        placements: Vec<Placement>,
        /// Members without a place; they are the next preemptor.
        left: usize,
        /// The domain that the group is placed in, where it must stay within one.
        domain: Option<Domain>,
    },
    /// Enough members fit when others go first.
    Preempt(Box<Plan>),
    /// No room, and none to be made.
    Unschedulable(Shortfall),
    /// No room as far as is known, but what a member needs is not all known: the scheduler has to try, and nobody is evicted.
    Unknown(Unknown),
    /// The gang has fewer pods than it needs.
    WaitingForPods {
        /// Members that are bound, or could be placed.
        live: usize,
        /// `minCount` of the gang.
        min_count: usize,
        /// Members that have finished, and count for it.
        finished: usize,
        /// Members beside them that wait and pay for less than the group's priority.
        below: usize,
    },
    /// There is nothing to place: no such group or pod, or no member that waits.
    Nothing,
}
