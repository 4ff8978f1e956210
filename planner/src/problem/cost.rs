//! The cost of evicting units of a problem.

use crate::api::Cost;
use crate::model::UnitKind;
use crate::problem::Problem;
use crate::problem::potential_victims::{UnitIndex, weight};

impl Cost {
    /// The cost of evicting these units.
    pub(crate) fn of(problem: &Problem<'_>, victims: &[UnitIndex]) -> Self {
        let pods = victims.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter().copied());
        Self::with(problem, victims, problem.budgets.violations(problem.cluster, pods))
    }

    /// The same if the number of pods that violate a budget is known.
    pub(crate) fn with(problem: &Problem<'_>, victims: &[UnitIndex], budget_violations: usize) -> Self {
        let units = || victims.iter().map(|unit| &problem.potential.units[*unit]);
        let highest_priority = units().map(|unit| unit.priority).max();
        let most_important = units().filter(|unit| Some(unit.priority) == highest_priority);
        Self {
            budget_violations,
            highest_priority,
            priority_sum: units().map(weight).sum(),
            victim_pods: units().map(|unit| unit.pods.len()).sum(),
            earliest_start: most_important.filter_map(|unit| unit.started).min(),
            victim_groups: units().filter(|unit| unit.kind == UnitKind::PodGroup).count(),
        }
    }
}
