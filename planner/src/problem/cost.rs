//! The cost of evicting units of a problem.

use crate::api::{Cost, LostWork};
use crate::filters::Rank;
use crate::model::{CPU, PodIndex, UnitKind};
use crate::problem::Problem;
use crate::problem::elsewhere::AfterPlan;
use crate::problem::potential_victims::{UnitIndex, weight};
use std::cmp::Ordering;

const NANOSECONDS: u64 = 1_000_000_000;

impl Cost {
    /// Returns the whole cost of evicting these units (single pods and whole groups) when the members in `placed` use their capacity.
    pub(crate) fn of(problem: &Problem<'_>, victims: &[UnitIndex], placed: &[(PodIndex, Rank)]) -> Self {
        Self::of_evictions(problem, victims).with_losses(problem, victims, placed)
    }

    /// Returns the cost of evicting these units, with 0 for what their pods lose (`stranded_pods` and `lost_work`).
    pub(crate) fn of_evictions(problem: &Problem<'_>, victims: &[UnitIndex]) -> Self {
        let pods = victims.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter().copied());
        Self::with(problem, victims, problem.budgets.violations(problem.cluster, pods))
    }

    /// Returns what [`Self::of_evictions`] does, for a caller that has counted how many of the pods violate a budget (`budget_violations`).
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
            ..Self::default()
        }
    }

    /// Returns this cost of evicting these units with what their pods lose: `stranded_pods` and `lost_work`. Both stay as they are if the
    /// problem does not know where victims fit instead.
    pub(crate) fn with_losses(self, problem: &Problem<'_>, victims: &[UnitIndex], placed: &[(PodIndex, Rank)]) -> Self {
        let Some(after) = problem.after(victims, placed) else { return self };
        Self {
            stranded_pods: problem.elsewhere.map_or(0, |elsewhere| elsewhere.stranded(&after)),
            lost_work: problem.lost_work(victims),
            ..self
        }
    }

    /// Returns the cheaper one of two sets of units to evict, with its cost, when the members in `placed` use their capacity; the first one
    /// if both cost the same. What the victims lose is computed for both sets only if budgets and priorities do not decide.
    pub(crate) fn cheaper(
        problem: &Problem<'_>,
        first: Vec<UnitIndex>,
        second: Vec<UnitIndex>,
        placed: &[(PodIndex, Rank)],
    ) -> (Vec<UnitIndex>, Self) {
        let with_losses = |victims: Vec<UnitIndex>, cost: Self| {
            let cost = cost.with_losses(problem, &victims, placed);
            (victims, cost)
        };
        let (one, other) = (Self::of_evictions(problem, &first), Self::of_evictions(problem, &second));
        match one.bound().cmp(&other.bound()) {
            Ordering::Less => with_losses(first, one),
            Ordering::Greater => with_losses(second, other),
            Ordering::Equal if first == second => with_losses(first, one),
            Ordering::Equal => {
                let (first, second) = (with_losses(first, one), with_losses(second, other));
                if second.1 < first.1 { second } else { first }
            }
        }
    }

    /// Returns the cost of evicting these units if it is below `best`, or `best` is `None`; otherwise `None`. What the victims lose is not
    /// computed if the cost is higher already by budgets and priorities.
    pub(crate) fn below(
        problem: &Problem<'_>,
        victims: &[UnitIndex],
        placed: &[(PodIndex, Rank)],
        best: Option<&Self>,
    ) -> Option<Self> {
        let cost = Self::of_evictions(problem, victims);
        if best.is_some_and(|best| best.bound() < cost.bound()) {
            return None;
        }
        let cost = cost.with_losses(problem, victims, placed);
        best.is_none_or(|best| cost < *best).then_some(cost)
    }
}

impl<'a> Problem<'a> {
    /// Returns the nodes after the eviction of these units and the placement of these members (pod and rank of the node). `None` if the
    /// problem does not know where victims fit instead.
    pub(crate) fn after(&self, victims: &[UnitIndex], placed: &[(PodIndex, Rank)]) -> Option<AfterPlan<'a>> {
        let pods = victims.iter().flat_map(|unit| self.potential.units[*unit].pods.iter().copied());
        let placed = placed.iter().map(|(pod, rank)| (*pod, self.nodes.place(*rank)));
        Some(self.elsewhere?.after(pods.collect(), placed.collect()))
    }

    /// Returns the work that the pods of these units lose when they are evicted, by resources and time since they started; none if the
    /// context does not state the time.
    pub(crate) fn lost_work(&self, victims: &[UnitIndex]) -> LostWork {
        let Some(now) = self.context.now else { return LostWork::default() };
        let pods = victims.iter().flat_map(|unit| self.potential.units[*unit].pods.iter());
        let work = |index: &PodIndex| {
            let pod = self.cluster.pod_at(*index)?;
            // A pod that is not known to have started counts as started just now.
            let seconds = u64::try_from(now.saturating_sub(pod.start_time?)).unwrap_or(0) / NANOSECONDS;
            let gpus = pod.requests.iter().filter(|(id, _)| self.cluster.is_gpu(*id)).map(|(_, amount)| amount).sum();
            Some(LostWork::of(gpus, pod.requests.get(CPU), seconds))
        };
        pods.filter_map(work).fold(LostWork::default(), LostWork::plus)
    }
}
