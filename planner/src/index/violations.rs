//! Units whose eviction would violate a budget if all units of a lower priority were evicted (KEP-5710, step 6): cached for one
//! priority, and computed again only for budgets that changed.
//!
//! Evictions are counted from the most important unit on, so that the violating units of each budget do not depend on other budgets.
//!
//! That depends on all units of the cluster, and tells nothing of a plan that evicts few of them. Lower bounds read which units violate a
//! budget [by themselves](Risk::Alone): every plan that evicts one of those violates it.

use crate::model::{BudgetIndex, Cluster, Row, Unit, UnitRef};
use crate::problem::{InFlight, importance};
use std::cmp::Reverse;

/// Whether the eviction of a unit (a single pod or a whole group) violates a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Risk {
    /// It does not if all units of lower priority than the preemptor's are evicted, the most important first.
    Nothing,
    /// It does then.
    Together,
    /// It does by itself.
    Alone,
}

/// The units of eviction (single pods and whole groups) that would violate a budget if all units with a priority below the preemptor's were
/// evicted, the most important ones first.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    /// By budget: the units that would violate it, sorted by reference, and whether by themselves.
    by_budget: Vec<Vec<(UnitRef, bool)>>,
    /// By pod and by group: how many budgets they would violate, and how many of them by themselves.
    pods: Vec<(u32, u32)>,
    groups: Vec<(u32, u32)>,
    /// How many units would violate any.
    units: usize,
}

impl Violations {
    /// Returns whether the eviction of a unit (a single pod or a whole group) would violate a budget, and whether it does by itself or only
    /// together with the other evictions.
    pub(crate) fn risk(&self, unit: UnitRef) -> Risk {
        let count = match unit {
            UnitRef::Pod(index) => self.pods.get(index as usize),
            UnitRef::Group(index) => self.groups.get(index as usize),
        };
        match count.copied().unwrap_or_default() {
            (0, _) => Risk::Nothing,
            (_, 0) => Risk::Together,
            _ => Risk::Alone,
        }
    }

    /// Returns all units of eviction that would violate a budget, each with its risk.
    pub(crate) fn all(&self) -> impl Iterator<Item = (UnitRef, Risk)> + '_ {
        let pods = (0u32..).zip(&self.pods).filter(|(_, count)| count.0 > 0).map(|(index, _)| UnitRef::Pod(index));
        let groups = (0u32..).zip(&self.groups).filter(|(_, count)| count.0 > 0).map(|(at, _)| UnitRef::Group(at));
        pods.chain(groups).map(|unit| (unit, self.risk(unit)))
    }

    /// Returns how many units of eviction would violate a budget.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Computes again which units of eviction would violate this budget, for a preemptor of this priority. Returns the units for which the
    /// result changed.
    pub(crate) fn renew(
        &mut self,
        cluster: &Cluster,
        in_flight: &InFlight,
        priority: i32,
        budget: BudgetIndex,
    ) -> Vec<UnitRef> {
        let at = budget as usize;
        if self.by_budget.len() <= at {
            self.by_budget.resize(at + 1, Vec::new());
        }
        let new = violating(cluster, in_flight, priority, budget);
        let old = std::mem::replace(&mut self.by_budget[at], new.clone());
        let gone: Vec<_> = old.iter().copied().filter(|unit| new.binary_search(unit).is_err()).collect();
        let come: Vec<_> = new.iter().copied().filter(|unit| old.binary_search(unit).is_err()).collect();
        gone.iter().for_each(|unit| self.count(*unit, false));
        come.iter().for_each(|unit| self.count(*unit, true));
        gone.into_iter().chain(come).map(|(unit, _)| unit).collect()
    }

    /// Adds 1 to the number of budgets that a unit of eviction would violate if `more`, otherwise subtracts 1; `alone` says that the unit
    /// violates the budget by itself.
    fn count(&mut self, (unit, alone): (UnitRef, bool), more: bool) {
        let (list, index) = match unit {
            UnitRef::Pod(index) => (&mut self.pods, index as usize),
            UnitRef::Group(index) => (&mut self.groups, index as usize),
        };
        if list.len() <= index {
            list.resize(index + 1, (0, 0));
        }
        let (any, by_itself) = &mut list[index];
        let before = *any > 0;
        let one = u32::from(alone);
        *any = if more { *any + 1 } else { any.saturating_sub(1) };
        *by_itself = if more { *by_itself + one } else { by_itself.saturating_sub(one) };
        match (before, *any > 0) {
            (false, true) => self.units += 1,
            (true, false) => self.units -= 1,
            _ => {}
        }
    }
}

/// Returns the units of eviction below a priority that would violate a budget if all of them were evicted, the most important ones first;
/// each with true if it violates the budget by itself. Sorted by reference.
fn violating(cluster: &Cluster, in_flight: &InFlight, priority: i32, index: BudgetIndex) -> Vec<(UnitRef, bool)> {
    let Some((budget, pods)) = cluster.budget_at(index) else { return Vec::new() };
    let allowed = usize::try_from(budget.disruptions_allowed).unwrap_or(0).saturating_sub(in_flight.evicting(index));
    if pods.len() <= allowed {
        return Vec::new();
    }
    let counts = |index: u32, row: &Row| budget.counts_row(row, || cluster.pod_at(index));
    let mut going: Vec<(Reverse<i32>, UnitRef)> = Vec::new();
    for index in pods {
        let row = cluster.row(*index);
        if row.priority < priority
            && let Some(unit) = in_flight.unit_of(*index, &row)
            && counts(*index, &row)
        {
            going.push((Reverse(row.priority), unit));
        }
    }
    if going.len() <= allowed {
        return Vec::new();
    }
    going.sort_unstable();
    let (mut counted, mut late) = (0, Vec::new());
    for level in going.chunk_by(|a, b| a.0 == b.0) {
        if counted + level.len() <= allowed {
            counted += level.len();
            continue;
        }
        let units: Vec<(UnitRef, usize)> =
            level.chunk_by(|a, b| a.1 == b.1).map(|pods| (pods[0].1, pods.len())).collect();
        let early = if counted < allowed { early(cluster, &units, allowed - counted) } else { Vec::new() };
        let is_late = |at: &usize| !early.get(*at).is_some_and(|early| *early);
        // A unit that is not late has at most as many pods as evictions are allowed.
        late.extend((0..units.len()).filter(is_late).map(|at| (units[at].0, units[at].1 > allowed)));
        counted += level.len();
    }
    // The units of one priority are sorted already, so this is fast.
    late.sort();
    late
}

/// Returns, for each of these units of eviction, true if the budget allows its eviction when the most important units are evicted first.
/// All have the same priority, each comes with its number of pods, and `allowed` pods may be evicted. The units are not sorted: only the
/// last one that is allowed is searched.
fn early(cluster: &Cluster, units: &[(UnitRef, usize)], mut allowed: usize) -> Vec<bool> {
    let mut order: Vec<_> = (0..units.len()).map(|at| (cluster.unit(units[at].0), at)).collect();
    let pods = |order: &[(Option<Unit<'_>>, usize)]| order.iter().map(|(_, at)| units[*at].1).sum::<usize>();
    let (mut from, mut to) = (0, order.len());
    // Each unit has at least one pod, so at most `allowed` of them are within the allowance.
    while allowed > 0 && from < to {
        let middle = (allowed - 1).min((to - from) / 2);
        order[from..to].select_nth_unstable_by(middle, |a, b| match (&a.0, &b.0) {
            (Some(one), Some(other)) => importance::compare(one, other),
            (one, other) => one.is_some().cmp(&other.is_some()).then_with(|| a.1.cmp(&b.1)),
        });
        let middle = from + middle;
        let with = pods(&order[from..=middle]);
        if with > allowed {
            to = middle;
        } else {
            (from, allowed) = (middle + 1, allowed - with);
        }
    }
    let mut early = vec![false; units.len()];
    order[..from].iter().for_each(|(_, at)| early[*at] = true);
    early
}
