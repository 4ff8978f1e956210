//! One pod: each node is a domain of its own, and on each the victims are chosen exactly when there are few.

use super::CandidatePlan;
use super::found;
use crate::api::{Cost, CostBound};
use crate::filters::{Occupancy, Rank};
use crate::limits::{NODE_CHECKS, NODE_UNITS, NODES_WITH_TIES};
use crate::model::{PodIndex, ResourceId, Unit};
use crate::problem::{Problem, UnitIndex, weight};
use crate::search::branch_and_bound::BranchAndBound;
use crate::search::domains::least_weight_to_free;
use crate::search::found::Found;
use crate::search::least_cost::cheapest::Cheapest;
use crate::search::least_cost::in_order;
use crate::search::least_cost::ties::exchange_for_less_loss;
use crate::search::near::RelevantPods;
use crate::search::node_trial::NodeTrial;
use crate::search::reprieve::{reprieve, with_plan};

/// Returns a plan for a single pod that is cheaper than `first`, the result of the strategy `kep5710`, or `first` itself. If that strategy
/// found no plan because of guaranteed budgets, a plan is searched on each node; `None` if there is none.
pub(crate) fn search(problem: &Problem<'_>, occupancy: &Occupancy<'_>, first: Option<Found>) -> Option<Found> {
    let (class, member) = (problem.classes.first()?, *problem.demand.members.first()?);
    let trace = first.as_ref().map(|found| found.trace.clone());
    let known = first.as_ref().map(|found| found.cost);
    let mut best = first.map(|f| CandidatePlan { placed: f.placed, victims: f.victims, cost: f.cost });
    if best.is_none() && problem.budgets.is_empty() {
        return None;
    }
    let near = RelevantPods::new(problem, occupancy);
    let trial = || NodeTrial { occupancy: occupancy.clone(), member, rank: 0, near: &near };
    let mut trials = None;
    let (mut checks, mut complete) = (NODE_CHECKS.min(problem.effort.left()), true);
    for rank in (0..problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()) {
        let useful = useful(problem, occupancy, member, rank);
        let Some(units) = promising(problem, occupancy, &useful, best.as_ref().map(|best| &best.cost)) else {
            continue;
        };
        if units.len() > NODE_UNITS || checks == 0 {
            complete = false;
            continue;
        }
        if best.as_ref().is_some_and(|best| is_no_cheaper(problem, occupancy, member, rank, &units, &best.cost)) {
            continue;
        }
        let cheapest = Cheapest::below(problem, best.as_ref().map(|best| best.cost));
        let mut exact = BranchAndBound::new(problem, cheapest, checks, !occupancy.has_inter_pod_constraints());
        let (least, most) = trials.get_or_insert_with(|| (trial(), trial()));
        (least.rank, most.rank) = (rank, rank);
        complete &= exact.run(least, most, &in_order(problem, &units));
        problem.effort.take(checks - exact.checks_left());
        checks = exact.checks_left();
        let Some(victims) = exact.objective.victims else { continue };
        let placed = vec![(member, rank)];
        let mut cleared = with_plan(problem, occupancy, &victims, &placed);
        let victims = reprieve(problem, &mut cleared, &placed, &victims);
        let known = best.as_ref().map(|best| &best.cost);
        if let Some(cost) = Cost::below(problem, &victims, &placed, known) {
            best = Some(CandidatePlan { placed, victims, cost });
        }
    }
    let mut best = best?;
    exchange_for_less_loss(problem, occupancy, &mut best);
    let least = if complete { best.cost.bound() } else { CostBound::default() };
    let trace = trace.unwrap_or_default();
    Some(found(best, trace, &known.unwrap_or_default(), least))
}

/// Returns the units (single pods or whole groups) on the node with this rank (its index in the list of nodes) whose eviction can help the
/// pod `member`: if only amounts decide, those that free a resource of which the pod lacks some there, otherwise all.
fn useful(problem: &Problem<'_>, occupancy: &Occupancy<'_>, member: PodIndex, rank: Rank) -> Vec<UnitIndex> {
    let units = &problem.potential.on[rank];
    let Some(pod) = problem.cluster.pod_at(member).filter(|_| occupancy.needs_only_amounts(member)) else {
        return units.clone();
    };
    let (node, lacks) = (problem.nodes.index(rank), occupancy.lacks(pod, rank));
    let frees = |index: &u32| {
        let row = problem.cluster.row(*index);
        let kind = problem.cluster.class(row.class).filter(|_| row.node == Some(node));
        kind.is_some_and(|kind| lacks.iter().any(|id| kind.requests.get(*id) > 0))
    };
    units.iter().copied().filter(|unit| problem.pods_on(*unit, rank).iter().any(frees)).collect()
}

/// Returns those of `units` (single pods or whole groups with pods on one node) that a choice of victims cheaper than `cost` can contain;
/// `None` if no such choice is worth a search. Without `cost`, all of them are returned.
fn promising(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
    units: &[UnitIndex],
    cost: Option<&Cost>,
) -> Option<Vec<UnitIndex>> {
    let unit = |number: &UnitIndex| &problem.potential.units[*number];
    let Some(cost) = cost else { return Some(units.to_vec()) };
    let Some(ceiling) = cost.highest_priority.filter(|_| cost.budget_violations == 0) else {
        return Some(units.to_vec());
    };
    let budgeted = |number: &UnitIndex| unit(number).pods.iter().any(|pod| !problem.budgets.of_pod(*pod).is_empty());
    // Without budgets and inter-pod constraints the node's lowest sufficient priority is known, and no choice has fewer than one pod.
    if cost.victim_pods == 1
        && !occupancy.has_inter_pod_constraints()
        && problem.nodes.len() > NODES_WITH_TIES
        && (problem.budgets.is_empty() || !units.iter().any(budgeted))
    {
        return None;
    }
    let units: Vec<UnitIndex> = units.iter().copied().filter(|number| unit(number).priority <= ceiling).collect();
    let lightest = units.iter().map(|number| weight(unit(number))).min()?;
    // With many nodes, choices of equal weight are not searched: they differ only in tie-breaks.
    let worth =
        lightest < cost.priority_sum || (lightest == cost.priority_sum && problem.nodes.len() <= NODES_WITH_TIES);
    worth.then_some(units)
}

/// Returns true if no choice among `units` as victims for the pod `member` on the node with this rank (its index in the list of nodes)
/// costs less than `cost`: the weight that must be evicted for the missing amounts is at least as high, or all units are single pods of one
/// equivalence class, of which the known plan already evicts the least important ones.
fn is_no_cheaper(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
    member: PodIndex,
    rank: Rank,
    units: &[UnitIndex],
    cost: &Cost,
) -> bool {
    let Some(pod) = problem.cluster.pod_at(member) else { return false };
    let (node, free) = (problem.nodes.index(rank), occupancy.free(rank));
    let all = || units.iter().map(|unit| &problem.potential.units[*unit]);
    let freed = |unit: &Unit<'_>, id: ResourceId| -> i128 {
        let here = unit.pods.iter().map(|pod| problem.cluster.row(*pod)).filter(|row| row.node == Some(node));
        here.filter_map(|row| problem.cluster.class(row.class)).map(|class| class.requests.get(id)).sum()
    };
    let least = pod.requests.iter().map(|(id, amount)| {
        least_weight_to_free(amount - free[usize::from(id)], all().map(|unit| (weight(unit), freed(unit, id))))
    });
    let least = least.max().unwrap_or(0);
    if cost.budget_violations > 0 || least < cost.priority_sum {
        return false;
    }
    let like = |unit: &Unit<'_>| {
        let row = unit.pods.first().map(|pod| problem.cluster.row(*pod));
        (unit.kind, unit.grouped, unit.priority, row.map(|row| (row.class, row.budgeted)))
    };
    let first = all().next().map(like);
    let alike = all().all(|unit| unit.pods.len() == 1 && Some(like(unit)) == first);
    let budgeted = first.and_then(|(_, _, _, row)| row).is_some_and(|(_, budgeted)| budgeted);
    least > cost.priority_sum || (alike && !budgeted && occupancy.needs_only_amounts(member))
}
