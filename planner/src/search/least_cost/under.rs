//! The budgets of a unit, looked up once, because a search reads them many times.

use crate::problem::{Problem, UnitIndex};
/// The budgets that select the pods of a unit (a single pod or a whole group).
#[derive(Default)]
pub(super) struct UnitBudgets {
    /// Distinct sets of budgets, each with the number of pods that are under exactly these budgets.
    pub(super) sets: Vec<(Vec<usize>, usize)>,
    /// Whether these budgets are guaranteed for the unit against the preemptor.
    pub(super) guarded: bool,
}

impl UnitBudgets {
    /// Looks up the budgets that select the pods of a unit (a single pod or a whole group) of the problem.
    pub(super) fn new(problem: &Problem<'_>, unit: UnitIndex) -> Self {
        if problem.budgets.is_empty() {
            return Self::default();
        }
        let unit = &problem.potential.units[unit];
        let mut sets: Vec<(Vec<usize>, usize)> = Vec::new();
        for budgets in unit.pods.iter().map(|pod| problem.budgets.of_pod(*pod)).filter(|set| !set.is_empty()) {
            match sets.iter_mut().find(|(set, _)| set == budgets) {
                Some((_, pods)) => *pods += 1,
                None => sets.push((budgets.to_vec(), 1)),
            }
        }
        Self { sets, guarded: problem.budgets.guards(unit) }
    }
}
