//! Rescue of a critical add-on: the node, and the victims (design, section 5, "Critical pods"; the rescheduler's
//! design, "Evicting pods" and "Scoring nodes").
//!
//! Priorities count for guaranteed budgets only: every pod may be evicted that is not a critical add-on, a member of a
//! DaemonSet or a static pod ([`Terms::fate`]). A rescue removes what eviction can remove (a lack of resources, port conflicts,
//! anti-affinity), for one pod at a time.

use super::assembly::assemble;
use super::hopeless::hopeless;
use crate::api::{Context, Cost, CostBound, Eviction, Fate, Hopeless, Rescue, Terms, is_shortened};
use crate::filters::{Nodes, Occupancy, Rank, unsuitable};
use crate::model::{Cluster, ObjectKey, Pod, PodIndex, RescueClass, UnitKind};
use crate::problem::Effort;
use crate::problem::{Budgets, Demand, Elsewhere, InFlight, PotentialVictims, Problem};
use crate::search::Found;
use crate::search::rescue::{AddonVictims, VictimSearch};
use giveway_crds::critical;
use giveway_crds::policy::{DisruptionMode, PreemptionPolicy};
use giveway_crds::wording::counted;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the priority that a critical add-on of this pod priority has when reservations are compared, its own and those of other pods: at
/// least that of critical pods.
pub fn reservation_priority(priority: i32) -> i32 {
    priority.max(critical::PRIORITY)
}

/// Returns the pod with this key and its index if it is pending, not gated, and not a member of a group; otherwise `None`.
fn pending_addon<'a>(cluster: &'a Cluster, key: &ObjectKey) -> Option<(PodIndex, &'a Pod)> {
    let index = cluster.pod_index(key)?;
    let pod = cluster.pod_at(index)?;
    let waits = pod.live() && !pod.bound() && !pod.gated && !pod.gated_by_others && pod.group.is_none();
    waits.then_some((index, pod))
}

/// Returns the demand of a critical add-on: one member, which may preempt.
fn demand(index: PodIndex, pod: &Pod) -> Demand {
    Demand {
        // kube-scheduler respects nominations of pods with at least the pod's own priority, and chooses among the remaining nodes.
        priority: pod.priority,
        policy: PreemptionPolicy::PreemptLowerPriority,
        members: vec![index],
        need: 1,
        wanted: 1,
        optional: false,
        single: true,
        domains: None,
    }
}

/// Decides for the critical add-on with this key: it fits on a node, pods of a node are evicted for it, or no node can be freed. `terms` is
/// the administrator's configuration; `context` is as for [`plan`](super::plan()), and its strategy does not matter.
pub fn rescue(cluster: &Cluster, key: &ObjectKey, terms: &Terms, context: &Context) -> Rescue {
    let Some((member, pod)) = pending_addon(cluster, key) else { return Rescue::Nothing };
    let unknown = cluster.not_modeled(pod);
    if !unknown.is_empty() {
        return Rescue::Hopeless(Box::new(Hopeless { unknown, ..Hopeless::default() }));
    }
    let demand = demand(member, pod);
    let all = Nodes::new(cluster);
    let in_flight = InFlight::new(cluster, &demand, context).for_critical_addon();
    let suits = |rank: &Rank| unsuitable(pod, all.at(*rank)).is_none();
    let suitable: Vec<Rank> = (0..all.len()).filter(suits).collect();
    let only_node = suitable.len() == 1;
    let mut occupancy = Occupancy::new(cluster, &all, &demand.members, in_flight.reservations(cluster));
    let wide = occupancy.has_inter_pod_constraints();
    let some = Nodes::suitable(cluster, suitable);
    if !wide {
        occupancy = Occupancy::new(cluster, &some, &demand.members, in_flight.reservations(cluster));
    }
    let nodes = if wide { &all } else { &some };
    let mut problem = Problem::new(cluster, nodes, &demand, context, &in_flight, occupancy, &Effort::of_decision());
    let then = problem.occupancy_after_terminations();
    if let Some(rank) = first_feasible(&problem, &problem.now).or_else(|| first_feasible(&problem, &then)) {
        return Rescue::Fits(nodes.at(rank).name.clone());
    }
    problem.potential = PotentialVictims::new(cluster, nodes, &in_flight, i32::MAX, i32::MAX);
    problem.budgets = Budgets::new(cluster, &problem.potential.units, pod.priority, &in_flight);
    let fates = fates(&problem, pod, terms, only_node);
    let elsewhere = Elsewhere::new(cluster, &all, in_flight.reservations(cluster), Vec::new());
    let mut search = VictimSearch {
        problem: &problem,
        pod,
        member,
        fates: &fates,
        occupancy: then,
        elsewhere: &elsewhere,
        effort: Effort::of_addon_search(),
        best: None,
        shares: BTreeMap::new(),
        groups: BTreeMap::new(),
    };
    let looked = search.run();
    match search.best {
        Some(choice) => Rescue::Evict(Box::new(eviction(&problem, member, choice, looked))),
        None => Rescue::Hopeless(Box::new(hopeless(&problem, &all, pod, &fates, looked))),
    }
}

/// Returns the rank (index in the list of nodes) of the first node by name on which the critical add-on of the problem fits in `occupancy`;
/// `None` if there is none.
fn first_feasible(problem: &Problem<'_>, occupancy: &Occupancy<'_>) -> Option<Rank> {
    let (class, member) = (problem.classes.first()?, *problem.demand.members.first()?);
    (0..problem.nodes.len()).find(|rank| class.unsuitable[*rank].is_none() && occupancy.refuse(member, *rank).is_none())
}

/// Returns by index of a unit (a single pod or a whole group) whether it may be evicted for the critical add-on `addon`: as the pod of the
/// unit for which that is most restricted. A group that would have to fit on other nodes stays. `only_node` is true if the add-on can run
/// on one node only.
fn fates(problem: &Problem<'_>, addon: &Pod, terms: &Terms, only_node: bool) -> Vec<Fate> {
    let fate = |index: &PodIndex, grouped: bool| match problem.cluster.row(*index).rescue_class {
        RescueClass::Short | RescueClass::Long => Fate::Goes,
        RescueClass::Special => {
            problem.cluster.pod_at(*index).map_or(Fate::Stays, |pod| terms.fate(addon, only_node, pod, grouped))
        }
    };
    let units = problem.potential.units.iter();
    units
        .map(|unit| {
            let grouped = unit.kind == UnitKind::PodGroup;
            match unit.pods.iter().map(|pod| fate(pod, grouped)).max() {
                Some(Fate::GoesElsewhere) if grouped => Fate::Stays,
                fate => fate.unwrap_or(Fate::Stays),
            }
        })
        .collect()
}

/// Returns the plan for the critical add-on `member` with the victims and the node in `choice`. `looked` are the number of nodes on which
/// victims were searched, and of those that evictions could free; they are named in the explanation.
fn eviction(problem: &Problem<'_>, member: PodIndex, choice: AddonVictims<'_>, looked: (usize, usize)) -> Eviction {
    let AddonVictims { mut units, weight } = choice;
    units.sort_by(|a, b| problem.potential.compare(*a, *b));
    let node = &problem.nodes.at(weight.node).name;
    let pods = units.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter());
    let pods = pods.filter_map(|index| problem.cluster.pod_at(*index));
    let shortened = pods.filter(|pod| is_shortened(pod)).count();
    let cost = Cost::of(problem, &units, &[]);
    let mut trace = vec![format!(
        "{} of {} could be freed by evictions; {node} costs least: step {}, {cost}, shortened grace periods: {shortened}, evicted pods that fit on no other node: {}.",
        looked.1,
        counted(problem.nodes.len(), "node", "nodes"),
        weight.step.number(),
        weight.stranded
    )];
    if looked.0 < looked.1 {
        trace.push(format!("{} looked at.", counted(looked.0, "of them was", "of them were")));
    }
    let placed = vec![(member, weight.node)];
    let found = Found { placed, victims: units, cost, trace, least: CostBound::default() };
    let mut plan = assemble(problem, problem.occupancy_after_terminations(), found);
    plan.strategy = critical::STRATEGY;
    for victim in &mut plan.victims {
        victim.why = "Its capacity is needed for a critical add-on.".into();
    }
    Eviction { plan, step: weight.step, shortened }
}

/// Returns the name of the first node, by name, on which the critical add-on with this key fits now, without evictions; `None` if there is
/// none, or the pod is not pending.
pub fn feasible_node(cluster: &Cluster, key: &ObjectKey, context: &Context) -> Option<SmolStr> {
    let (member, pod) = pending_addon(cluster, key)?;
    let (demand, nodes) = (demand(member, pod), Nodes::new(cluster));
    let in_flight = InFlight::new(cluster, &demand, context);
    let occupancy = Occupancy::new(cluster, &nodes, &demand.members, in_flight.reservations(cluster));
    let problem = Problem::new(cluster, &nodes, &demand, context, &in_flight, occupancy, &Effort::of_decision());
    let rank = first_feasible(&problem, &problem.now)?;
    Some(nodes.at(rank).name.clone())
}

/// Returns the first of the pods with these UIDs (`victims`), in the order of the UIDs, that must not be evicted for the critical add-on
/// `key` any more; `None` if all may be. Whether a namespace is protected is not checked, and pods that are terminating or do not exist are
/// skipped.
pub fn must_stay<'c>(
    cluster: &'c Cluster,
    key: &ObjectKey,
    victims: &BTreeSet<SmolStr>,
    terms: &Terms,
) -> Option<&'c Pod> {
    let addon = cluster.pod(key)?;
    let mut suitable = cluster.nodes().filter(|node| unsuitable(addon, node).is_none());
    let only_node = suitable.next().is_some() && suitable.next().is_none();
    let pods = victims.iter().filter_map(|uid| cluster.pod_at(cluster.pod_with_uid(uid)?));
    let grouped = |pod: &Pod| cluster.group_of(pod).is_some_and(|group| group.mode == DisruptionMode::PodGroup);
    pods.filter(|pod| pod.live()).find(|pod| terms.fate(addon, only_node, pod, grouped(pod)) == Fate::Stays)
}
