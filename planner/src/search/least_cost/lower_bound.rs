//! Lower bounds on the cost of every plan, so that a search can stop, or need not start.
//!
//! The free amounts of the nodes with the most of a resource cover a part of what the members request; the rest has to be freed, and no
//! units free it more cheaply than those that free most for their weight.

use super::CandidatePlan;
use crate::api::{Cost, CostBound, offset_priority};
use crate::limits::{MANY_UNITS, VERY_MANY_UNITS};
use crate::search::domains::least_weight_to_free;
use crate::search::matrix::Matrix;
/// Lower bounds for the costs of all plans that violate no budget.
pub(super) struct Bound {
    /// The least sum of the offset priorities of the victims.
    weight: u64,
    /// The highest priority of a victim of the plan, if no plan without budget violations has a lower one; otherwise `None`.
    tight: Option<i32>,
    /// A plan whose sum of offset priorities exceeds `weight` by less than this is not improved.
    slack: u64,
}

impl Bound {
    /// Computes lower bounds on the cost of plans that place [`Matrix::goal`] members, with the units (single pods or whole groups) of
    /// `matrix`, of which none is removed, as potential victims. It also finds out whether a plan could have a lower highest priority of a
    /// victim than `best`.
    pub(super) fn new(matrix: &mut Matrix, best: &CandidatePlan) -> Self {
        let ceiling = best.cost.highest_priority;
        let below: Vec<usize> =
            (0..matrix.units.len()).filter(|unit| Some(matrix.units[*unit].priority) < ceiling).collect();
        below.iter().for_each(|unit| matrix.toggle(*unit));
        let tight = (matrix.total < matrix.goal).then_some(ceiling).flatten();
        below.iter().for_each(|unit| matrix.toggle(*unit));
        let weight = (0..matrix.request.len()).map(|resource| weight(matrix, resource)).max().unwrap_or(0);
        let slack = match matrix.units.len() {
            0..=MANY_UNITS => 0,
            units if units <= VERY_MANY_UNITS => offset_priority(0),
            _ => offset_priority(0).max(weight / 50),
        };
        Self { weight, tight, slack }
    }

    /// Returns the lower bound on the sum of the victim pods' priorities, each offset by 2^31.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns true if no plan without budget violations has a lower highest priority than the plan for which the bounds were computed.
    pub(super) fn ceiling_is_tight(&self) -> bool {
        self.tight.is_some()
    }

    /// Returns a lower bound on the cost of every plan, given the cost of the best plan so far. It bounds nothing if the highest priority
    /// of that plan is not known to be the least one.
    pub(super) fn least(&self, cost: &Cost) -> CostBound {
        if self.highest_priority_is_least(cost) {
            CostBound { priority_sum: self.weight.min(cost.priority_sum), ..cost.bound() }
        } else {
            CostBound::default()
        }
    }

    /// Returns true if it is proven that no plan is cheaper than one of this cost, apart from tie-breaks.
    pub(super) fn reached(&self, cost: &Cost) -> bool {
        self.highest_priority_is_least(cost) && cost.priority_sum <= self.weight
    }

    /// Returns true if a plan of this cost is not worth improving: no plan is cheaper by as much as one pod of priority 0, or, if there are
    /// very many units (single pods or whole groups), by a fiftieth of the bound. With few units it is always false.
    pub(super) fn negligible(&self, cost: &Cost) -> bool {
        self.highest_priority_is_least(cost) && cost.priority_sum.saturating_sub(self.weight) < self.slack
    }

    /// Returns true if it is proven that no plan is better by budget violations and highest priority than one of this cost.
    fn highest_priority_is_least(&self, cost: &Cost) -> bool {
        cost.budget_violations == 0 && self.tight.is_some() && self.tight == cost.highest_priority
    }
}

/// Returns a lower bound on the weight of the units (single pods or whole groups) that must be evicted to free enough of one resource;
/// `resource` is an index in [`Matrix::request`].
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
    least_weight_to_free(missing, offers)
}
