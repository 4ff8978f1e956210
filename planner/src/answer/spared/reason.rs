//! Explains why a potential victim is not evicted. Every sentence is checked against the cluster with the members placed: what they
//! lack without evictions, whether they fit beside the unit after the victims have terminated, and what its budgets permit.

use super::PlanContext;
use crate::api::GuaranteedBudget;
use crate::filters::{Occupancy, Rank};
use crate::model::{Cluster, Pod, PodIndex, ResourceId, Unit};
use crate::problem::{Budgets, PotentialVictims, Tally};
use giveway_crds::wording::counted;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a node of the placement.
struct PlacementNode {
    /// The resources of which there is too little without evictions, after the awaited pods have terminated; `None` if not only
    /// amounts decide.
    lacks: Option<Vec<ResourceId>>,
    /// Whether the members fit after the victims and the awaited pods have terminated.
    holds: bool,
    /// Whether a pod on this node is awaited.
    awaited: bool,
}

/// What the reasons of all units depend on.
pub(super) struct Reasons<'r, 's, 'a> {
    scene: &'r PlanContext<'s, 'a>,
    /// By rank: the nodes of the placement.
    places: BTreeMap<Rank, PlacementNode>,
    budgets: Budgets<'a>,
    /// The evictions of the plan, by budget.
    tally: Tally,
    /// By budget: the highest threshold among the victims that are guarded.
    thresholds: BTreeMap<usize, i32>,
    /// The highest priority among the victims.
    highest: Option<i32>,
    /// The placed preemptor, with the verbs "lack" and "fit".
    preemptor: (&'static str, &'static str, &'static str),
    /// The end of a sentence that says when the members fit.
    when: &'static str,
}

impl<'r, 's, 'a> Reasons<'r, 's, 'a> {
    /// Computes what the reasons depend on. `potential` has the units (single pods or whole groups) of lower priority with pods on nodes of
    /// the placement, and the victims; `going` are the victims.
    pub(super) fn new(scene: &'r PlanContext<'s, 'a>, potential: &PotentialVictims<'a>, going: &[&Unit<'a>]) -> Self {
        let PlanContext { cluster, demand, in_flight, plan, .. } = scene;
        let budgets = Budgets::new(cluster, &potential.units, demand.priority, in_flight);
        let (mut tally, mut thresholds) = (budgets.tally(), BTreeMap::new());
        for unit in going {
            budgets.add(&mut tally, unit);
            let Some(threshold) = unit.threshold.filter(|_| budgets.guards(unit)) else { continue };
            for number in unit.pods.iter().flat_map(|pod| budgets.of_pod(*pod)) {
                let highest = thresholds.entry(*number).or_insert(threshold);
                *highest = threshold.max(*highest);
            }
        }
        Self {
            scene,
            places: state_of_nodes(scene, going),
            budgets,
            tally,
            thresholds,
            highest: going.iter().map(|unit| unit.priority).max(),
            preemptor: match demand.single {
                true => ("the preemptor", "lacks", "fits"),
                false => ("the members", "lack", "fit"),
            },
            when: match (plan.victims.is_empty(), plan.awaited.is_empty()) {
                (false, true) => "once the victims have terminated",
                (false, false) => "once the victims and the pods that are leaving anyway have terminated",
                (true, _) => "once the pods that are leaving anyway have terminated",
            },
        }
    }

    /// Returns why a unit (a single pod or a whole group) that has a pod on a node of the placement is not evicted, as a sentence.
    pub(super) fn why(&self, unit: &Unit<'_>) -> String {
        let mut here: BTreeMap<Rank, Vec<PodIndex>> = BTreeMap::new();
        for pod in &unit.pods {
            if let Some(rank) = self.scene.rank_of(*pod) {
                here.entry(rank).or_default().push(*pod);
            }
        }
        let ((preemptor, lacks, fits), when) = (self.preemptor, self.when);
        let nodes = self.node_names(&here);
        let objection = self.budgets.first_violated(&self.tally, unit);
        if let Some((number, true)) = objection {
            return format!("Evicting it as well would violate {}.", self.guarantee(number, unit));
        }
        let places = || here.keys().filter_map(|rank| self.places.get(rank));
        if !places().all(|place| place.holds) {
            return format!("It is not a victim of this plan, but {preemptor} no longer {fits} on {nodes} beside it.");
        }
        if let Some(missing) = self.frees_nothing(&here) {
            if !missing.is_empty() {
                return format!("Evicting it would free none of the {missing} that {preemptor} {lacks} on {nodes}.");
            }
            let alone = if places().any(|place| place.awaited) {
                "once the pods that are leaving anyway have terminated"
            } else {
                "without any eviction"
            };
            return sentence(&format!("{preemptor} {fits} on {nodes} {alone}"));
        }
        let beside = format!("{preemptor} {fits} on {nodes} beside it {when}");
        if let Some((number, false)) = objection {
            let budget = &self.budgets.at(number).key;
            return format!("Evicting it as well would violate budget {budget}, and {beside}.");
        }
        if self.highest.is_some_and(|highest| highest < unit.priority) {
            return format!("Its priority {} is above that of every victim, and {beside}.", unit.priority);
        }
        sentence(&beside)
    }

    /// Returns the names of the resources that the members lack on nodes, if the pods of a unit (a single pod or a whole group) there
    /// request none of these; `here` has the pods of the unit by rank of the node. `None` if a pod requests one, or if not only amounts
    /// decide.
    fn frees_nothing(&self, here: &BTreeMap<Rank, Vec<PodIndex>>) -> Option<String> {
        let mut missing: BTreeSet<ResourceId> = BTreeSet::new();
        for (rank, pods) in here {
            let lacks = self.places.get(rank)?.lacks.as_ref()?;
            let uses = |pod: &Pod| lacks.iter().any(|id| pod.requests.get(*id) > 0);
            if pods.iter().filter_map(|pod| self.scene.cluster.pod_at(*pod)).any(uses) {
                return None;
            }
            missing.extend(lacks);
        }
        let missing = self.scene.cluster.in_order(missing.into_iter().collect());
        let names: Vec<&str> = missing.into_iter().map(|id| self.scene.cluster.resource_name(id)).collect();
        Some(names.join(", "))
    }

    /// Returns the budget with this number in `budgets`, which is guaranteed against the preemptor, with the priority from which on a
    /// preemptor could evict this unit besides the victims.
    fn guarantee(&self, number: usize, unit: &Unit<'_>) -> GuaranteedBudget {
        let own = unit.threshold.filter(|_| self.budgets.guards(unit));
        GuaranteedBudget {
            key: self.budgets.at(number).key.clone(),
            allowed: self.budgets.allowed(number),
            threshold: own.max(self.thresholds.get(&number).copied()).unwrap_or(self.scene.demand.priority),
        }
    }

    /// Returns words for the nodes in `here`: the name of the first one, and the number of the others.
    fn node_names(&self, here: &BTreeMap<Rank, Vec<PodIndex>>) -> String {
        let first = here.keys().next().map_or("", |rank| &*self.scene.nodes.at(*rank).name);
        match here.len() {
            0 | 1 => format!("node {first}"),
            more => format!("node {first} and {}", counted(more - 1, "other", "others")),
        }
    }
}

/// Returns the text as a sentence: with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Returns by rank, for each node of the placement, what the members lack there before the evictions, and whether they fit afterwards.
/// `going` are the victims.
fn state_of_nodes(scene: &PlanContext<'_, '_>, going: &[&Unit<'_>]) -> BTreeMap<Rank, PlacementNode> {
    let PlanContext { cluster, nodes, demand, in_flight, plan, placed, .. } = scene;
    let mut occupancy = Occupancy::new(cluster, nodes, &demand.members, in_flight.reservations(cluster));
    let awaited: Vec<PodIndex> = plan.awaited.iter().filter_map(|pod| cluster.pod_index(pod)).collect();
    let vacated: BTreeSet<Rank> = awaited.iter().filter_map(|pod| occupancy.rank_of(*pod)).collect();
    occupancy.take(&awaited);
    placed.iter().for_each(|(pod, rank)| occupancy.add(*pod, *rank));
    let mut members: BTreeMap<Rank, Vec<(PodIndex, Rank)>> = BTreeMap::new();
    placed.iter().for_each(|place| members.entry(place.1).or_default().push(*place));
    let lacks: Vec<Option<Vec<ResourceId>>> =
        members.iter().map(|(rank, members)| lacks(cluster, &occupancy, *rank, members)).collect();
    going.iter().for_each(|unit| occupancy.take(&unit.pods));
    // With inter-pod constraints, all members are checked together.
    let together = occupancy.has_inter_pod_constraints().then(|| occupancy.holds(placed, |_| true));
    let mut places = BTreeMap::new();
    for ((rank, members), lacks) in members.into_iter().zip(lacks) {
        let holds = together.unwrap_or_else(|| occupancy.holds(&members, |_| true));
        places.insert(rank, PlacementNode { lacks, holds, awaited: vacated.contains(&rank) });
    }
    places
}

/// Returns the resources of which the node `rank` (an index in the list of nodes) has too little for the members placed there, which are in
/// `occupancy`; `None` if not only free amounts decide whether they fit.
fn lacks(
    cluster: &Cluster,
    occupancy: &Occupancy<'_>,
    rank: Rank,
    members: &[(PodIndex, Rank)],
) -> Option<Vec<ResourceId>> {
    let mut lacks: BTreeSet<ResourceId> = BTreeSet::new();
    for (member, _) in members {
        let Some(pod) = cluster.pod_at(*member) else { continue };
        if !occupancy.needs_only_amounts(*member) {
            return None;
        }
        let free = occupancy.free(rank);
        lacks.extend(pod.requests.iter().map(|(id, _)| id).filter(|id| free[usize::from(*id)] < 0));
    }
    Some(lacks.into_iter().collect())
}
