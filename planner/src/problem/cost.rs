//! What evicting some units of a problem costs.

use crate::api::{Cost, offset_priority};
use crate::model::UnitKind;
use crate::problem::Problem;
use crate::problem::potential_victims::UnitIndex;
impl Cost {
    /// The cost of evicting these units.
    pub(crate) fn of(problem: &Problem<'_>, victims: &[UnitIndex]) -> Self {
        let units = || victims.iter().map(|unit| &problem.potential.units[*unit]);
        let highest_priority = units().map(|unit| unit.priority).max();
        let pods = || units().flat_map(|unit| unit.pods.iter().map(|pod| (unit.priority, *pod)));
        let most_important = units().filter(|unit| Some(unit.priority) == highest_priority);
        Self {
            budget_violations: problem.budgets.violating(problem.cluster, pods().map(|(_, pod)| pod)).len(),
            highest_priority,
            priority_sum: pods().map(|(priority, _)| offset_priority(priority)).sum(),
            victim_pods: pods().count(),
            earliest_start: most_important.filter_map(|unit| unit.started).min(),
            victim_groups: units().filter(|unit| unit.kind == UnitKind::PodGroup).count(),
        }
    }
}
