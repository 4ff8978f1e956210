//! Lower bounds on the cost of every plan, so that a search can stop, or need not start.
//!
//! The free amounts of the nodes with the most of a resource cover a part of what the members request; the rest has to be freed, and no
//! units free it more cheaply than those that free most for their weight.

use super::CandidatePlan;
use crate::api::{Cost, CostBound, offset_priority};
use crate::limits::{MANY_UNITS, VERY_MANY_UNITS};
use crate::search::domains::fractional;
use crate::search::matrix::Matrix;
/// Lower bounds for plans that violate no budget.
pub(super) struct Bound {
    /// The least sum of offset priorities.
    weight: u64,
    /// The highest priority of the plan, if not enough members fit with all units of lower priority evicted.
    tight: Option<i32>,
    /// Up to this difference from the bound, a plan is not improved.
    slack: u64,
}

impl Bound {
    /// Computes lower bounds for plans that violate no budget, with the units of `matrix`, of which none is removed, as potential victims.
    /// The highest priority of `best` is the one that they may fall below.
    pub(super) fn new(matrix: &mut Matrix, best: &CandidatePlan) -> Self {
        let ceiling = best.cost.highest_priority;
        let below: Vec<usize> =
            (0..matrix.units.len()).filter(|unit| Some(matrix.units[*unit].priority) < ceiling).collect();
        below.iter().for_each(|unit| matrix.flip(*unit));
        let tight = (matrix.total < matrix.goal).then_some(ceiling).flatten();
        below.iter().for_each(|unit| matrix.flip(*unit));
        let weight = (0..matrix.request.len()).map(|resource| weight(matrix, resource)).max().unwrap_or(0);
        let slack = match matrix.units.len() {
            0..=MANY_UNITS => 0,
            units if units <= VERY_MANY_UNITS => offset_priority(0),
            _ => offset_priority(0).max(weight / 50),
        };
        Self { weight, tight, slack }
    }

    /// Returns the lower bound on the sum of the offset priorities of the victims.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns true if no plan without budget violations has a lower highest priority.
    pub(super) fn ceiling_is_tight(&self) -> bool {
        self.tight.is_some()
    }

    /// Returns what every plan costs at least, seen from a plan of this cost.
    pub(super) fn least(&self, cost: &Cost) -> CostBound {
        if self.settled(cost) {
            CostBound { priority_sum: self.weight.min(cost.priority_sum), ..cost.bound() }
        } else {
            CostBound::default()
        }
    }

    /// Returns true if no plan is cheaper, apart from tie-breaks.
    pub(super) fn reached(&self, cost: &Cost) -> bool {
        self.settled(cost) && cost.priority_sum <= self.weight
    }

    /// Returns true if there are many units, and no plan is so much cheaper that a search is worth its effort: by a pod, or, if there are
    /// very many units, by a fiftieth of the bound.
    pub(super) fn negligible(&self, cost: &Cost) -> bool {
        self.settled(cost) && cost.priority_sum.saturating_sub(self.weight) < self.slack
    }

    /// Returns true if no plan has a lower highest priority than this cost.
    fn settled(&self, cost: &Cost) -> bool {
        cost.budget_violations == 0 && self.tight.is_some() && self.tight == cost.highest_priority
    }
}

/// Returns the lower bound on the weight of units whose eviction frees enough of one resource.
fn weight(matrix: &Matrix, resource: usize) -> u64 {
    let mut free: Vec<i64> = (0..matrix.on.len()).map(|node| matrix.free_on(node)[resource].max(0)).collect();
    free.sort_unstable_by(|a, b| b.cmp(a));
    let covered: i128 = free.iter().take(matrix.goal).map(|amount| i128::from(*amount)).sum();
    let missing = i128::from(matrix.request[resource]) * matrix.goal as i128 - covered;
    if missing <= 0 {
        return 0;
    }
    let offers = (0..matrix.units.len()).map(|unit| {
        let freed = matrix.frees(unit).map(|(_, amounts)| i128::from(amounts[resource])).sum();
        (matrix.units[unit].weight, freed)
    });
    fractional(missing, offers)
}
