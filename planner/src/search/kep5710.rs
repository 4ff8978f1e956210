//! Strategy `kep5710`: the preemption algorithm of KEP-5710, step by step, with one placement (design, section 4,
//! steps 2 to 9).
//!
//! A single pod is tried on every node by itself, and the best node wins. A group has one domain, the whole cluster.

use crate::api::{Cost, CostBound};
use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{Demand, Problem, UnitIndex};
use crate::search::found::Found;
use crate::search::greedy::{Layout, fill_up_to, place};
use crate::search::near::Near;
use crate::search::reprieve::{reprieve, reprieve_by, with_plan};
use giveway_crds::wording::{agree, counted, part_of};
use std::collections::{BTreeMap, BTreeSet};

/// Searches victims in `room`, which is the cluster after the pods that are leaving anyway have terminated. `None` if not enough
/// members fit whatever is evicted.
pub(crate) fn search(problem: &Problem<'_>, room: &Occupancy<'_>) -> Option<Found> {
    if problem.demand.single { search_nodes(problem, room) } else { search_cluster(problem, room) }
}

/// Searches victims for one pod on each node by itself. The best node is that with the least cost, then the first by name; `None` if the
/// pod fits on none.
fn search_nodes(problem: &Problem<'_>, room: &Occupancy<'_>) -> Option<Found> {
    let (class, member) = (problem.classes.first()?, *problem.demand.members.first()?);
    let mut room = room.clone();
    let near = Near::new(problem, &room);
    let mut best: Option<(Cost, Rank, Vec<UnitIndex>)> = None;
    let mut candidates = 0;
    for rank in (0..problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()) {
        let potential = &problem.potential.on[rank];
        let pods: BTreeMap<UnitIndex, Vec<PodIndex>> =
            potential.iter().map(|unit| (*unit, near.pods(*unit, rank))).collect();
        if !problem.effort.take(1 + 2 * pods.values().map(Vec::len).sum::<usize>()) {
            break;
        }
        let victims =
            keep_guarantees(problem, potential, |units| victims_on(problem, &mut room, member, rank, units, &pods));
        let Some(victims) = victims else { continue };
        candidates += 1;
        let known = best.as_ref().map(|(cost, ..)| cost);
        if let Some(cost) = Cost::below(problem, &victims, &[(member, rank)], known) {
            best = Some((cost, rank, victims));
        }
    }
    let (cost, rank, victims) = best?;
    let trace = nodes_in_words(candidates, problem.nodes.len(), &problem.nodes.at(rank).name, &cost);
    Some(Found { placed: vec![(member, rank)], victims, cost, trace, least: CostBound::default() })
}

/// Returns the victims among `units` for a pod on one node; `None` if the pod does not fit even without all of them. `near` has for each
/// unit the pods that matter for the node. `room` is unchanged afterwards.
fn victims_on(
    problem: &Problem<'_>,
    room: &mut Occupancy<'_>,
    member: PodIndex,
    rank: Rank,
    units: &[UnitIndex],
    near: &BTreeMap<UnitIndex, Vec<PodIndex>>,
) -> Option<Vec<UnitIndex>> {
    let pods = |unit: &UnitIndex| -> &[PodIndex] { near.get(unit).map_or(&[], Vec::as_slice) };
    if room.object(member, rank).is_some() && !units.iter().flat_map(pods).any(|pod| room.is_looked_at(*pod)) {
        return None;
    }
    units.iter().for_each(|unit| room.take(pods(unit)));
    if room.refuse(member, rank).is_some() {
        units.iter().for_each(|unit| room.put(pods(unit)));
        return None;
    }
    room.add(member, rank);
    let victims = reprieve_by(problem, room, &[(member, rank)], units, |unit| pods(&unit));
    room.remove(member, rank);
    victims.iter().for_each(|unit| room.put(pods(unit)));
    Some(victims)
}

/// Searches one placement in the whole cluster, with its victims, for a group. `None` if not enough members fit whatever is evicted.
fn search_cluster(problem: &Problem<'_>, room: &Occupancy<'_>) -> Option<Found> {
    let mut trace = Vec::new();
    let everybody = vec![true; problem.potential.units.len()];
    let most = reach(problem, room, &everybody);
    if most < problem.demand.need {
        return None;
    }
    trace.push(reach_in_words(problem.demand, most, everybody.len()));
    let (available, forced) = spare_budgets(problem, room, everybody, most, &mut trace);
    let available = lower_ceiling(problem, room, available, &forced, most, &mut trace);
    finish(problem, room, &available, most, trace)
}

/// Places at least `most` members, if possible, with the units that are `available` as victims, and reprieves as many of these as it can.
/// `None` if fewer than the needed members fit.
pub(crate) fn finish(
    problem: &Problem<'_>,
    room: &Occupancy<'_>,
    available: &[bool],
    most: usize,
    mut trace: Vec<String>,
) -> Option<Found> {
    let mut layout = place(problem, room, available);
    if layout.placed.len() < most {
        problem.effort.add_reserve();
        layout = clear_all(problem, room, available);
    }
    if layout.placed.len() < problem.demand.need {
        return None;
    }
    let (placed, doomed) = (layout.placed.clone(), layout.doomed.clone());
    let (victims, cost) = best_victims(problem, room, available, layout)?;
    let gone: BTreeSet<&UnitIndex> = victims.iter().collect();
    let stay = doomed.iter().filter(|unit| !gone.contains(unit)).count();
    trace.push(format!(
        "With the members placed, {stay} of the units that were removed for them need not be evicted. Victims: {cost}."
    ));
    Some(Found { placed, victims, cost, trace, least: CostBound::default() })
}

/// Returns the sentence that says how many members can be placed at most, `most`, after the eviction of all `units` units of a lower
/// priority.
pub(crate) fn reach_in_words(demand: &Demand, most: usize, units: usize) -> String {
    let wanted = match demand.wanted {
        wanted if wanted < demand.members.len() => format!("the {} of minCount", counted(wanted, "member", "members")),
        all => counted(all, "member", "members"),
    };
    format!(
        "{most} of {wanted} would fit without {} of a priority below {}; {} needed.",
        counted(units, "unit", "units"),
        demand.priority,
        counted(demand.need, "is", "are")
    )
}

/// Returns the sentence that says how many units step 6 excludes as victims, because of their budgets.
pub(crate) fn spared_in_words(units: usize) -> String {
    let are = counted(units, "unit is not evicted because its budgets", "units are not evicted because their budgets");
    format!("{are} would be violated.")
}

/// Returns the sentence that no unit above the priority `ceiling` has to be evicted, as step 7 found.
pub(crate) fn ceiling_in_words(ceiling: i32) -> String {
    format!("No unit above priority {ceiling} has to be evicted.")
}

/// Returns sentences that say which node is the best for a single pod: `best` of `candidates` nodes on which the pod would fit, among
/// `nodes`.
pub(crate) fn nodes_in_words(candidates: usize, nodes: usize, best: &str, cost: &Cost) -> Vec<String> {
    vec![
        format!(
            "{candidates} of {} would be feasible without lower-priority workloads.",
            counted(nodes, "node", "nodes")
        ),
        format!("{best} costs least: {cost}."),
    ]
}

/// Returns the maximum number of members that can be placed if these units may be evicted (step 4).
pub(crate) fn reach(problem: &Problem<'_>, room: &Occupancy<'_>, available: &[bool]) -> usize {
    let guarded = |unit: &UnitIndex| problem.budgets.guards(&problem.potential.units[*unit]);
    let any_guarded = !problem.budgets.is_empty() && (0..available.len()).any(|u| available[u] && guarded(&u));
    if !any_guarded && let Some(count) = count(problem, room, available) {
        return count;
    }
    let units = || (0..available.len()).filter(|unit| available[*unit]);
    if problem.budgets.is_empty() || !units().any(|unit| guarded(&unit)) {
        return clear_all(problem, room, available).placed.len();
    }
    // Guaranteed budgets do not permit the eviction of all units at once: count what a placement that respects them reaches.
    let unguarded: Vec<bool> = (0..available.len()).map(|unit| available[unit] && !guarded(&unit)).collect();
    place(problem, room, available).placed.len().max(place(problem, room, &unguarded).placed.len())
}

/// Returns how many members fit after the eviction of all available units, if only amounts matter for the members and all are of one class:
/// it is a sum that needs no placement. `None` otherwise.
fn count(problem: &Problem<'_>, room: &Occupancy<'_>, available: &[bool]) -> Option<usize> {
    let [class] = problem.classes.as_slice() else { return None };
    let member = *class.members.first()?;
    let pod = problem.cluster.pod_at(member).filter(|_| room.counts_only(member))?;
    let (most, mut sum) = (problem.demand.wanted, 0);
    let mut goes = vec![false; problem.cluster.pod_bound()];
    let units = problem.potential.units.iter().zip(available).filter(|(_, available)| **available);
    units.flat_map(|(unit, _)| &unit.pods).for_each(|pod| goes[*pod as usize] = true);
    let gone = |pod: PodIndex| goes[pod as usize];
    for rank in (0..problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()) {
        sum += room.capacity_without(pod, rank, most - sum, gone);
        if sum == most {
            break;
        }
    }
    Some(sum)
}

/// Places as many members as fit after the eviction of all available units, regardless of the cost.
fn clear_all<'a>(problem: &Problem<'a>, room: &Occupancy<'a>, available: &[bool]) -> Layout<'a> {
    let units: Vec<UnitIndex> = (0..available.len()).filter(|unit| available[*unit]).collect();
    let room = with_plan(problem, room, &units, &[]);
    Layout { doomed: units, ..fill_up_to(problem, &room, problem.demand.wanted) }
}

/// Step 6: excludes the units whose eviction would violate a budget, as far as `most` members fit. Returns by unit whether it may still be
/// evicted, and those units whose eviction violates a budget nevertheless.
fn spare_budgets(
    problem: &Problem<'_>,
    room: &Occupancy<'_>,
    available: Vec<bool>,
    most: usize,
    trace: &mut Vec<String>,
) -> (Vec<bool>, BTreeSet<UnitIndex>) {
    if problem.budgets.is_empty() {
        return (available, BTreeSet::new());
    }
    let potential = &problem.potential;
    // Only units under a budget can violate one.
    let under = |unit: &UnitIndex| potential.units[*unit].pods.iter().any(|p| !problem.budgets.of_pod(*p).is_empty());
    let mut order: Vec<UnitIndex> = (0..potential.units.len()).filter(under).collect();
    order.sort_by(|a, b| potential.compare(*a, *b));
    let violating = problem.budgets.violating_in_order(order.iter().map(|unit| &potential.units[*unit]));
    let violating: BTreeSet<UnitIndex> = order.into_iter().zip(violating).filter(|(_, v)| *v).map(|(u, _)| u).collect();
    let mild: Vec<bool> = (0..available.len()).map(|unit| !violating.contains(&unit)).collect();
    if violating.is_empty() || reach(problem, room, &mild) >= most {
        trace.push(spared_in_words(violating.len()));
        return (mild, BTreeSet::new());
    }
    let Layout { placed, doomed, room: mut cleared } = place(problem, room, &available);
    if placed.len() < most {
        return (available, BTreeSet::new());
    }
    let (severe, rest): (Vec<UnitIndex>, Vec<UnitIndex>) = doomed.iter().partition(|unit| violating.contains(unit));
    let rest: BTreeSet<UnitIndex> = rest.into_iter().collect();
    let others = (0..available.len()).filter(|unit| mild[*unit] && !rest.contains(unit));
    others.for_each(|unit| cleared.take(&potential.units[unit].pods));
    let forced: BTreeSet<UnitIndex> = reprieve(problem, &mut cleared, &placed, &severe).into_iter().collect();
    let available: Vec<bool> = (0..available.len()).map(|unit| mild[unit] || forced.contains(&unit)).collect();
    if reach(problem, room, &available) < most {
        return (vec![true; available.len()], BTreeSet::new());
    }
    let spared = violating.len() - forced.len();
    trace.push(format!(
        "{} because {} budgets would be violated.",
        part_of(spared, violating.len(), ("unit", "units"), ("is not evicted", "are not evicted")),
        agree(spared, "its", "their")
    ));
    (available, forced)
}

/// Step 7: finds the lowest priority such that `most` members fit after evictions up to it, by binary search over distinct priorities.
/// Returns by unit whether it may still be evicted: no unit above that priority except those in `forced`.
fn lower_ceiling(
    problem: &Problem<'_>,
    room: &Occupancy<'_>,
    available: Vec<bool>,
    forced: &BTreeSet<UnitIndex>,
    most: usize,
    trace: &mut Vec<String>,
) -> Vec<bool> {
    let priority = |unit: UnitIndex| problem.potential.units[unit].priority;
    let free = (0..available.len()).filter(|unit| available[*unit] && !forced.contains(unit));
    let ceilings: Vec<i32> = free.map(priority).collect::<BTreeSet<i32>>().into_iter().collect();
    let below = |ceiling: i32| -> Vec<bool> {
        (0..available.len())
            .map(|unit| available[unit] && (forced.contains(&unit) || priority(unit) <= ceiling))
            .collect()
    };
    let (mut low, mut high) = (0, ceilings.len().saturating_sub(1));
    while low < high {
        let middle = usize::midpoint(low, high);
        if reach(problem, room, &below(ceilings[middle])) >= most {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let Some(ceiling) = ceilings.get(low) else { return available };
    trace.push(ceiling_in_words(*ceiling));
    below(*ceiling)
}

/// Step 8 for a fixed placement. Reprieves the units that were removed for it and, for comparison, all potential victims on a node
/// of the placement. The cheaper set of victims is returned, the latter if they cost the same.
fn best_victims(
    problem: &Problem<'_>,
    room: &Occupancy<'_>,
    available: &[bool],
    layout: Layout<'_>,
) -> Option<(Vec<UnitIndex>, Cost)> {
    let Layout { placed, doomed, room: mut cleared } = layout;
    let few = reprieve(problem, &mut cleared, &placed, &doomed);
    let few = Some(few).filter(|victims| may_evict(problem, victims));
    // Only units with a pod on a node of the placement, or to which an inter-pod constraint refers, make a difference.
    let here = placed.iter().flat_map(|(_, rank)| problem.potential.on[*rank].iter().copied());
    let looked_at = |unit: &UnitIndex| {
        room.looks_around() && problem.potential.units[*unit].pods.iter().any(|pod| room.is_looked_at(*pod))
    };
    let touched: BTreeSet<UnitIndex> = here.chain((0..available.len()).filter(looked_at)).collect();
    let touched: Vec<UnitIndex> = touched.into_iter().filter(|unit| available[*unit]).collect();
    let all = keep_guarantees(problem, &touched, |units| {
        let mut room = with_plan(problem, room, units, &placed);
        room.holds(&placed, |_| true).then(|| reprieve(problem, &mut room, &placed, units))
    });
    match (all, few) {
        (Some(all), Some(few)) => Some(Cost::cheaper(problem, all, few, &placed)),
        (all, few) => {
            let victims = all.or(few)?;
            let cost = Cost::of(problem, &victims, &placed);
            Some((victims, cost))
        }
    }
}

/// Returns true if no guaranteed budget is violated by evicting these units.
fn may_evict(problem: &Problem<'_>, victims: &[UnitIndex]) -> bool {
    let units = victims.iter().map(|unit| &problem.potential.units[*unit]);
    problem.budgets.may_evict(&problem.budgets.tally(), units)
}

/// Step 3, guaranteed budgets: chooses victims among `units`; if they violate a guaranteed budget, chooses again without the most important
/// guarded victim under it. If that does not lead to a choice, the other victims under the budget are excluded instead.
fn keep_guarantees(
    problem: &Problem<'_>,
    units: &[UnitIndex],
    mut victims: impl FnMut(&[UnitIndex]) -> Option<Vec<UnitIndex>>,
) -> Option<Vec<UnitIndex>> {
    if units.is_empty() {
        return None;
    }
    let (potential, budgets) = (&problem.potential, &problem.budgets);
    for leave_out_guarded in [true, false] {
        let mut units = units.to_vec();
        while let Some(found) = victims(&units) {
            let mut tally = budgets.tally();
            found.iter().for_each(|unit| {
                budgets.add(&mut tally, &potential.units[*unit]);
            });
            let Some(breached) = budgets.first_breached(&tally) else { return Some(found) };
            let under: Vec<&UnitIndex> =
                found.iter().filter(|unit| budgets.covers(breached, &potential.units[**unit])).collect();
            let preferred = under.iter().find(|unit| budgets.guards(&potential.units[***unit]) == leave_out_guarded);
            let Some(left_out) = preferred.or(under.first()).map(|unit| **unit) else { break };
            units.retain(|unit| *unit != left_out);
        }
        if budgets.is_empty() {
            break;
        }
    }
    None
}
