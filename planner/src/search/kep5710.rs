//! Strategy `kep5710`: the preemption algorithm of KEP-5710, step by step, with one placement (design, section 4,
//! steps 2 to 9).
//!
//! A single pod is tried on every node by itself, and the best node wins. A group has one domain, the whole cluster.

use crate::api::{Cost, CostBound};
use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{Demand, Problem, UnitIndex};
use crate::search::found::Found;
use crate::search::greedy::{GreedyPlacement, fill_up_to, place};
use crate::search::near::RelevantPods;
use crate::search::reprieve::{reprieve, reprieve_by, with_plan};
use giveway_crds::wording::{agree, counted, part_of};
use std::collections::{BTreeMap, BTreeSet};

/// Searches victims for the members of the problem, starting from `occupancy`: the cluster after the pods that are leaving anyway have
/// terminated. `None` if not enough members fit whatever is evicted.
pub(crate) fn search(problem: &Problem<'_>, occupancy: &Occupancy<'_>) -> Option<Found> {
    if problem.demand.single { search_nodes(problem, occupancy) } else { search_cluster(problem, occupancy) }
}

/// Searches victims for a single pod on each node by itself, and returns those of the node with the least cost, then the first by name.
/// `None` if the pod fits on no node whatever is evicted.
fn search_nodes(problem: &Problem<'_>, occupancy: &Occupancy<'_>) -> Option<Found> {
    let (class, member) = (problem.classes.first()?, *problem.demand.members.first()?);
    let mut occupancy = occupancy.clone();
    let near = RelevantPods::new(problem, &occupancy);
    let mut best: Option<(Cost, Rank, Vec<UnitIndex>)> = None;
    let mut candidates = 0;
    for rank in (0..problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()) {
        let potential = &problem.potential.on[rank];
        let pods: BTreeMap<UnitIndex, Vec<PodIndex>> =
            potential.iter().map(|unit| (*unit, near.pods(*unit, rank))).collect();
        if !problem.effort.take(1 + 2 * pods.values().map(Vec::len).sum::<usize>()) {
            break;
        }
        let victims = within_guarantees(problem, potential, |units| {
            victims_on(problem, &mut occupancy, member, rank, units, &pods)
        });
        let Some(victims) = victims else { continue };
        candidates += 1;
        let known = best.as_ref().map(|(cost, ..)| cost);
        if let Some(cost) = Cost::below(problem, &victims, &[(member, rank)], known) {
            best = Some((cost, rank, victims));
        }
    }
    let (cost, rank, victims) = best?;
    let trace = best_node_sentences(candidates, problem.nodes.len(), &problem.nodes.at(rank).name, &cost);
    Some(Found { placed: vec![(member, rank)], victims, cost, trace, least: CostBound::default() })
}

/// Returns the victims among `units` for a pod on the node with this rank (its index in the list of nodes): those that cannot be reprieved.
/// `None` if the pod does not fit even without all of `units`. `near` has for each unit (a single pod or a whole group) those of its pods
/// that matter for this node. `occupancy` is unchanged afterwards.
fn victims_on(
    problem: &Problem<'_>,
    occupancy: &mut Occupancy<'_>,
    member: PodIndex,
    rank: Rank,
    units: &[UnitIndex],
    near: &BTreeMap<UnitIndex, Vec<PodIndex>>,
) -> Option<Vec<UnitIndex>> {
    let pods = |unit: &UnitIndex| -> &[PodIndex] { near.get(unit).map_or(&[], Vec::as_slice) };
    if occupancy.violated_constraint(member, rank).is_some()
        && !units.iter().flat_map(pods).any(|pod| occupancy.is_counted(*pod))
    {
        return None;
    }
    units.iter().for_each(|unit| occupancy.take(pods(unit)));
    if occupancy.refuse(member, rank).is_some() {
        units.iter().for_each(|unit| occupancy.put(pods(unit)));
        return None;
    }
    occupancy.add(member, rank);
    let victims = reprieve_by(problem, occupancy, &[(member, rank)], units, |unit| pods(&unit));
    occupancy.remove(member, rank);
    victims.iter().for_each(|unit| occupancy.put(pods(unit)));
    Some(victims)
}

/// Searches one placement of a group in the whole cluster, with its victims. `None` if not enough members fit whatever is evicted.
fn search_cluster(problem: &Problem<'_>, occupancy: &Occupancy<'_>) -> Option<Found> {
    let mut trace = Vec::new();
    let all_units = vec![true; problem.potential.units.len()];
    let most = most_placeable(problem, occupancy, &all_units);
    if most < problem.demand.need {
        return None;
    }
    trace.push(most_placeable_sentence(problem.demand, most, all_units.len()));
    let (available, forced) = exclude_violating_units(problem, occupancy, all_units, most, &mut trace);
    let available = lowest_ceiling(problem, occupancy, available, &forced, most, &mut trace);
    place_and_reprieve(problem, occupancy, &available, most, trace)
}

/// Places the wanted members, with the units (single pods or whole groups) for which `available`, by index, is true as potential victims,
/// and reprieves as many of these as it can. If fewer than `most` members fit this way, all available units are evicted before the members
/// are placed. `None` if fewer than the needed members fit, or guaranteed budgets permit no choice of victims.
pub(crate) fn place_and_reprieve(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
    available: &[bool],
    most: usize,
    mut trace: Vec<String>,
) -> Option<Found> {
    let mut layout = place(problem, occupancy, available);
    if layout.placed.len() < most {
        problem.effort.add_reserve();
        layout = place_after_all_evictions(problem, occupancy, available);
    }
    if layout.placed.len() < problem.demand.need {
        return None;
    }
    let (placed, evicted) = (layout.placed.clone(), layout.evicted.clone());
    let (victims, cost) = best_victims(problem, occupancy, available, layout)?;
    let gone: BTreeSet<&UnitIndex> = victims.iter().collect();
    let stay = evicted.iter().filter(|unit| !gone.contains(unit)).count();
    trace.push(format!(
        "With the members placed, {stay} of the units that were removed for them need not be evicted. Victims: {cost}."
    ));
    Some(Found { placed, victims, cost, trace, least: CostBound::default() })
}

/// Returns the sentence that says that at most `most` members fit, after the eviction of all units (single pods or whole groups) of lower
/// priority, of which there are `units`.
pub(crate) fn most_placeable_sentence(demand: &Demand, most: usize, units: usize) -> String {
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

/// Returns the sentence that says how many units (single pods or whole groups) step 6 excludes as victims, because evicting them would
/// violate their budgets.
pub(crate) fn excluded_units_sentence(units: usize) -> String {
    let are = counted(units, "unit is not evicted because its budgets", "units are not evicted because their budgets");
    format!("{are} would be violated.")
}

/// Returns the sentence that says that no unit above the priority `ceiling` has to be evicted, as step 7 found.
pub(crate) fn ceiling_sentence(ceiling: i32) -> String {
    format!("No unit above priority {ceiling} has to be evicted.")
}

/// Returns two sentences about a single pod: on how many nodes (`candidates` of `nodes`) it would fit without workloads of lower priority,
/// and that the node named `best` costs least, with the cost.
pub(crate) fn best_node_sentences(candidates: usize, nodes: usize, best: &str, cost: &Cost) -> Vec<String> {
    vec![
        format!(
            "{candidates} of {} would be feasible without lower-priority workloads.",
            counted(nodes, "node", "nodes")
        ),
        format!("{best} costs least: {cost}."),
    ]
}

/// Returns how many members can be placed at most if the units (single pods or whole groups) for which `available`, by index, is true may
/// be evicted (step 4). With guaranteed budgets, it is the number that greedy placements reach.
pub(crate) fn most_placeable(problem: &Problem<'_>, occupancy: &Occupancy<'_>, available: &[bool]) -> usize {
    let guarded = |unit: &UnitIndex| problem.budgets.guards(&problem.potential.units[*unit]);
    let any_guarded = !problem.budgets.is_empty() && (0..available.len()).any(|u| available[u] && guarded(&u));
    if !any_guarded && let Some(count) = count_by_amounts(problem, occupancy, available) {
        return count;
    }
    let units = || (0..available.len()).filter(|unit| available[*unit]);
    if problem.budgets.is_empty() || !units().any(|unit| guarded(&unit)) {
        return place_after_all_evictions(problem, occupancy, available).placed.len();
    }
    // Guaranteed budgets do not permit the eviction of all units at once: count what a placement that respects them reaches.
    let unguarded: Vec<bool> = (0..available.len()).map(|unit| available[unit] && !guarded(&unit)).collect();
    place(problem, occupancy, available).placed.len().max(place(problem, occupancy, &unguarded).placed.len())
}

/// Returns how many members fit after the eviction of all units (single pods or whole groups) for which `available`, by index, is true.
/// `None` if that is not a plain sum over nodes: the members are of several classes, or not only free amounts matter for them.
fn count_by_amounts(problem: &Problem<'_>, occupancy: &Occupancy<'_>, available: &[bool]) -> Option<usize> {
    let [class] = problem.classes.as_slice() else { return None };
    let member = *class.members.first()?;
    let pod = problem.cluster.pod_at(member).filter(|_| occupancy.needs_only_amounts(member))?;
    let (most, mut sum) = (problem.demand.wanted, 0);
    let mut goes = vec![false; problem.cluster.pod_bound()];
    let units = problem.potential.units.iter().zip(available).filter(|(_, available)| **available);
    units.flat_map(|(unit, _)| &unit.pods).for_each(|pod| goes[*pod as usize] = true);
    let gone = |pod: PodIndex| goes[pod as usize];
    for rank in (0..problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()) {
        sum += occupancy.capacity_without(pod, rank, most - sum, gone);
        if sum == most {
            break;
        }
    }
    Some(sum)
}

/// Evicts all units (single pods or whole groups) for which `available`, by index, is true, and then places as many of the wanted members
/// as fit.
fn place_after_all_evictions<'a>(
    problem: &Problem<'a>,
    occupancy: &Occupancy<'a>,
    available: &[bool],
) -> GreedyPlacement<'a> {
    let units: Vec<UnitIndex> = (0..available.len()).filter(|unit| available[*unit]).collect();
    let occupancy = with_plan(problem, occupancy, &units, &[]);
    GreedyPlacement { evicted: units, ..fill_up_to(problem, &occupancy, problem.demand.wanted) }
}

/// Step 6: excludes units (single pods or whole groups) whose eviction would violate a budget as victims, as far as `most` members still
/// fit. `available` says by index of a unit whether it may be evicted before this step. Returns the same after it, and the set of units
/// that may be evicted although that violates a budget. `trace` gets a sentence about this.
fn exclude_violating_units(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
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
    if violating.is_empty() || most_placeable(problem, occupancy, &mild) >= most {
        trace.push(excluded_units_sentence(violating.len()));
        return (mild, BTreeSet::new());
    }
    let GreedyPlacement { placed, evicted, occupancy: mut cleared } = place(problem, occupancy, &available);
    if placed.len() < most {
        return (available, BTreeSet::new());
    }
    let (severe, rest): (Vec<UnitIndex>, Vec<UnitIndex>) = evicted.iter().partition(|unit| violating.contains(unit));
    let rest: BTreeSet<UnitIndex> = rest.into_iter().collect();
    let others = (0..available.len()).filter(|unit| mild[*unit] && !rest.contains(unit));
    others.for_each(|unit| cleared.take(&potential.units[unit].pods));
    let forced: BTreeSet<UnitIndex> = reprieve(problem, &mut cleared, &placed, &severe).into_iter().collect();
    let available: Vec<bool> = (0..available.len()).map(|unit| mild[unit] || forced.contains(&unit)).collect();
    if most_placeable(problem, occupancy, &available) < most {
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

/// Step 7: finds the lowest priority such that `most` members fit if no unit (a single pod or a whole group) above it is evicted, by binary
/// search over the priorities of the available units. `available` says by index of a unit whether it may be evicted before this step.
/// Returns the same after it: no unit above that priority may be evicted any more, except those of `forced`. `trace` gets a sentence about
/// this.
fn lowest_ceiling(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
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
        if most_placeable(problem, occupancy, &below(ceilings[middle])) >= most {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let Some(ceiling) = ceilings.get(low) else { return available };
    trace.push(ceiling_sentence(*ceiling));
    below(*ceiling)
}

/// Step 8: returns the victims for the fixed placement `layout`, and their cost. Two choices are compared: by reprieve of the units (single
/// pods or whole groups) that were evicted to place the members, and by reprieve of all available units that have a pod on a node of the
/// placement or that inter-pod constraints count. The cheaper one is returned, the second one if both cost the same. `None` if both violate
/// a guaranteed budget.
fn best_victims(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
    available: &[bool],
    layout: GreedyPlacement<'_>,
) -> Option<(Vec<UnitIndex>, Cost)> {
    let GreedyPlacement { placed, evicted, occupancy: mut cleared } = layout;
    let few = reprieve(problem, &mut cleared, &placed, &evicted);
    let few = Some(few).filter(|victims| may_evict(problem, victims));
    // Only units with a pod on a node of the placement, or to which an inter-pod constraint refers, make a difference.
    let here = placed.iter().flat_map(|(_, rank)| problem.potential.on[*rank].iter().copied());
    let looked_at = |unit: &UnitIndex| {
        occupancy.has_inter_pod_constraints()
            && problem.potential.units[*unit].pods.iter().any(|pod| occupancy.is_counted(*pod))
    };
    let touched: BTreeSet<UnitIndex> = here.chain((0..available.len()).filter(looked_at)).collect();
    let touched: Vec<UnitIndex> = touched.into_iter().filter(|unit| available[*unit]).collect();
    let all = within_guarantees(problem, &touched, |units| {
        let mut occupancy = with_plan(problem, occupancy, units, &placed);
        occupancy.holds(&placed, |_| true).then(|| reprieve(problem, &mut occupancy, &placed, units))
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

/// Returns true if the eviction of all these units (single pods or whole groups) violates no guaranteed budget.
fn may_evict(problem: &Problem<'_>, victims: &[UnitIndex]) -> bool {
    let units = victims.iter().map(|unit| &problem.potential.units[*unit]);
    problem.budgets.may_evict(&mut problem.budgets.tally(), units)
}

/// Step 3: chooses victims that violate no guaranteed budget. `victims` returns a choice among the units (single pods or whole groups)
/// given to it. While the choice violates such a budget, it is made again without one of its units under that budget: the most important
/// one whose own threshold guarantees the budget, and if that leads to no choice, the most important one of the others instead. `None` if
/// neither leads to a choice, or `units` is empty.
fn within_guarantees(
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
