//! Explains with numbers why not enough members fit.

use crate::api::{GuaranteedBudget, Help, Missing, Refusal, Shortfall};
use crate::filters::Rank;
use crate::model::{Budget, Pod, PodIndex, ResourceId, Row};
use crate::problem::Problem;
use crate::search::{GreedyPlacement, fill, kep5710};
use giveway_crds::policy::PreemptionPolicy;
use std::collections::{BTreeMap, BTreeSet};

/// Explains why not enough members fit. `problem` has all nodes, `now` is the best placement in it without evictions. `victims` is the
/// problem on the nodes where evictions could help, with all units (single pods or whole groups) that may be evicted.
pub(super) fn shortfall(problem: &Problem<'_>, now: &GreedyPlacement<'_>, victims: &Problem<'_>) -> Shortfall {
    let demand = problem.demand;
    let placed: BTreeSet<PodIndex> = now.placed.iter().map(|(pod, _)| *pod).collect();
    let short = demand.need.saturating_sub(placed.len());
    // The smallest unplaced members: what is missing at least.
    let in_order = problem.classes.iter().rev().flat_map(|class| class.members.iter().map(move |m| (class, *m)));
    let unplaced: Vec<_> = in_order.filter(|(_, member)| !placed.contains(member)).take(short).collect();
    let mut refusals: BTreeMap<Refusal, usize> = BTreeMap::new();
    let mut usable: BTreeSet<Rank> = BTreeSet::new();
    let example = unplaced.first().and_then(|(class, member)| Some((class, *member, problem.cluster.pod_at(*member)?)));
    if let Some((class, member, _)) = example {
        for rank in 0..problem.nodes.len() {
            match class.unsuitable[rank].clone().or_else(|| now.occupancy.refuse(member, rank)) {
                Some(Refusal::Insufficient(_)) | None => drop(usable.insert(rank)),
                Some(refusal) => *refusals.entry(refusal).or_default() += 1,
            }
        }
    }
    let large = |rank: &Rank| {
        example
            .is_some_and(|(_, _, pod)| pod.requests.iter().all(|(id, n)| problem.nodes.at(*rank).allocatable(id) >= n))
    };
    let too_small = !usable.is_empty() && !usable.iter().any(large);
    if !too_small {
        usable.retain(large);
    }
    let lacking = example.map(|(_, _, pod)| lacking(now, pod, &usable)).unwrap_or_default();
    let without = || unplaced.iter().filter_map(|(_, member)| problem.cluster.pod_at(*member));
    let missing = |id: ResourceId| {
        let (amount, freed) = (without().map(|pod| pod.requests.get(id)).sum(), freed(problem, id, &usable));
        let named = problem.cluster.by_name(id, amount, without());
        named.into_iter().map(move |(resource, amount)| Missing { resource, amount, freed })
    };
    let help = help(victims);
    let (withheld, guaranteed) = withheld(victims, help);
    let mut refusals: Vec<(usize, Refusal)> = refusals.into_iter().map(|(refusal, n)| (n, refusal)).collect();
    refusals.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    Shortfall {
        needed: demand.need,
        fit_now: placed.len().min(demand.need),
        missing: problem.cluster.in_order(lacking.into_iter().collect()).into_iter().flat_map(missing).collect(),
        refusals,
        nodes: problem.nodes.len(),
        too_small,
        priority: demand.priority,
        help,
        withheld,
        guaranteed,
        protected: problem.cluster.protected_below(demand.priority),
        critical: problem.cluster.critical_below(demand.priority),
        barred: problem.cluster.barred_below(demand.priority),
        domain: None,
        cut_short: false,
        flaw: None,
        unknown: None,
    }
}

/// Returns how many members would fit only after evictions that guaranteed budgets do not allow, and these budgets. `(0, [])` if budgets
/// are not the reason. `help` is the effect of evicting all units (single pods or whole groups) that may be evicted: budgets can be the
/// reason only if all needed members would fit then.
fn withheld(problem: &Problem<'_>, help: Help) -> (usize, Box<[GuaranteedBudget]>) {
    let (units, need) = (&problem.potential.units, problem.demand.need);
    if help != Help::NotEnough(need) {
        return (0, Box::default());
    }
    let budgets = problem.budgets.guaranteed(units);
    if budgets.is_empty() {
        return (0, Box::default());
    }
    let kept = kep5710::most_placeable(problem, &problem.occupancy_after_terminations(), &vec![true; units.len()]);
    let named = |(budget, allowed, threshold): (&Budget, usize, i32)| GuaranteedBudget {
        key: budget.key.clone(),
        allowed,
        threshold,
    };
    (need.saturating_sub(kept).max(1), budgets.into_iter().map(named).collect())
}

/// Returns the resources of which too little is free for `pod`, with the placement `now` made, on those of the `usable` nodes (indexes in
/// the list of nodes) that lack the fewest resources.
fn lacking(now: &GreedyPlacement<'_>, pod: &Pod, usable: &BTreeSet<Rank>) -> BTreeSet<ResourceId> {
    let lacks: Vec<Vec<ResourceId>> = usable.iter().map(|rank| now.occupancy.lacks(pod, *rank)).collect();
    let fewest = lacks.iter().map(Vec::len).filter(|count| *count > 0).min();
    lacks.into_iter().filter(|list| Some(list.len()) == fewest).flatten().collect()
}

/// Returns how much of the resource `id` the eviction of all pods that may be evicted would free on the `usable` nodes (indexes in the list
/// of nodes); 0 if the policy is `Never`.
fn freed(problem: &Problem<'_>, id: ResourceId, usable: &BTreeSet<Rank>) -> i128 {
    let (cluster, demand) = (problem.cluster, problem.demand);
    if demand.policy == PreemptionPolicy::Never || cluster.offered(id) == 0 {
        return 0;
    }
    let rows = usable.iter().flat_map(|rank| cluster.rows_at(problem.nodes.index(*rank)));
    let goes = |(index, row): &(PodIndex, Row)| {
        row.priority < demand.priority && problem.in_flight.unit_of(*index, row).is_some()
    };
    rows.filter(goes).filter_map(|(_, row)| cluster.class(row.class)).map(|class| class.requests.get(id)).sum()
}

/// Returns what preemption could do for the preemptor: `problem` has the nodes where evictions could help, and all units (single pods or
/// whole groups) that may be evicted.
fn help(problem: &Problem<'_>) -> Help {
    if problem.demand.policy == PreemptionPolicy::Never {
        return Help::without_preemption(problem.demand.optional);
    }
    if !problem.potential.units.is_empty() {
        let mut occupancy = problem.occupancy_after_terminations();
        problem.potential.units.iter().for_each(|unit| occupancy.take(&unit.pods));
        return Help::NotEnough(fill(problem, &occupancy).placed.len().min(problem.demand.need));
    }
    // If no node is feasible whatever is evicted, no potential victims were collected.
    let nowhere = problem.nodes.len() == 0 && problem.cluster.units_below(problem.demand.priority) > 0;
    if nowhere { Help::NotEnough(0) } else { Help::without_victims(problem.cluster, problem.demand.priority) }
}
