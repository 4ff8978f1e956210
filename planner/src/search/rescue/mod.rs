//! Searches the evictions of least weight after which a critical add-on fits on one of the nodes: a greedy choice, then branch and bound
//! over the units of each node, with one incumbent for all of them.
//!
//! Nodes are tried in the order of a lower bound, and left out if that is no lower than the incumbent. On a node,
//! units that differ only in their names are one equivalence class, of which the first names are taken. So
//! the result is exact unless the [effort](crate::problem::Effort) runs out, which the result says.

mod node_candidates;
mod weight;

use crate::api::{Fate, Step};
use crate::filters::{Occupancy, Rank};
use crate::limits::ADDON_NODE_LOOKS;
use crate::model::{ClassId, ObjectKey, Pod, PodIndex, RescueClass, ResourceId, UnitKind};
use crate::problem::{Effort, Elsewhere, Problem, Tally, UnitIndex};
use crate::search::branch_and_bound::{BranchAndBound, EvictionTrial, Objective};
use crate::search::missing::{put_back_if_enough, subtract};
use crate::search::near::RelevantPods;
use crate::search::node_trial::NodeTrial;
use node_candidates::{EvictableUnit, EvictionEffects, NodeCandidates, UnitClass};
use std::collections::{BTreeMap, BTreeSet};
use weight::Weight;

/// The result of the search: the units (single pods or whole groups) to evict, and their weight, which names the node.
pub(crate) struct AddonVictims<'a> {
    pub(crate) units: Vec<UnitIndex>,
    pub(crate) weight: Weight<'a>,
}

/// The search for the evictions of least weight after which a critical add-on fits on one node.
pub(crate) struct VictimSearch<'p, 'a> {
    pub(crate) problem: &'p Problem<'a>,
    /// The critical add-on.
    pub(crate) pod: &'a Pod,
    /// Its index in the model.
    pub(crate) member: PodIndex,
    /// By index of the unit: whether it may be evicted.
    pub(crate) fates: &'p [Fate],
    /// The cluster after the pods that are leaving anyway have terminated.
    pub(crate) occupancy: Occupancy<'a>,
    pub(crate) elsewhere: &'p Elsewhere<'a>,
    pub(crate) effort: Effort,
    /// The choice of least weight so far.
    pub(crate) best: Option<AddonVictims<'a>>,
    /// Cached requests of pods by equivalence class, as shares of what all nodes offer.
    pub(crate) shares: BTreeMap<ClassId, i128>,
    /// Groups that are disrupted together, whose pods are read once.
    pub(crate) groups: BTreeMap<UnitIndex, DisruptedGroup>,
}

/// What the eviction of a unit (a single pod or a whole group) costs, on whichever node it is needed.
#[derive(Clone, Copy)]
struct UnitPrice {
    /// The first step in which it can be evicted.
    step: Step,
    /// Requests of its pods, as shares of what all nodes offer.
    requests: i128,
}

/// Cached properties of a group that is disrupted together.
pub(crate) struct DisruptedGroup {
    price: UnitPrice,
    /// By rank of a node: what its eviction frees there, of each resource that the add-on requests.
    freed: BTreeMap<Rank, Vec<i128>>,
}

/// A node that evictions could free: a lower bound on their weight, and what is missing there of each resource that the add-on requests.
struct NodeBound<'a> {
    bound: Weight<'a>,
    missing: Vec<i128>,
}

impl<'a> VictimSearch<'_, 'a> {
    /// Searches the nodes of the problem, those with the lowest bound first, and stores the best choice in `best`. Returns how many of the
    /// nodes that evictions could free were searched to the end or need not be, and how many of them there are; both are equal unless the
    /// effort did not suffice.
    pub(crate) fn run(&mut self) -> (usize, usize) {
        let mut bounds: Vec<(Weight<'a>, Vec<i128>)> = Vec::new();
        for rank in 0..self.problem.nodes.len() {
            if let Some(NodeBound { bound, missing }) = self.node_bound(rank) {
                bounds.push((bound, missing));
            }
        }
        bounds.sort();
        let near = RelevantPods::new(self.problem, &self.occupancy);
        let trial = || NodeTrial { occupancy: self.occupancy.clone(), member: self.member, rank: 0, near: &near };
        let ([mut least, mut most], monotone) = ([trial(), trial()], !self.occupancy.has_inter_pod_constraints());
        let (all, mut exact) = (bounds.len(), true);
        for (looked, (bound, missing)) in bounds.into_iter().enumerate() {
            if self.best.as_ref().is_some_and(|best| best.weight <= bound) {
                break;
            }
            if self.effort.spent() {
                return (looked, all);
            }
            (least.rank, most.rank) = (bound.node, bound.node);
            let node = self.candidates_on(bound.node, missing);
            for step in Step::ALL.into_iter().filter(|step| *step >= bound.step) {
                self.greedy(&node, step, &mut least);
            }
            let (units, checks) = (node.units(), ADDON_NODE_LOOKS.min(self.effort.left()));
            let effort = self.effort.clone();
            let on_node = SearchOnNode { search: self, node };
            let mut search = BranchAndBound::new(on_node.search.problem, on_node, checks, monotone);
            exact &= search.run(&mut least, &mut most, &units);
            effort.take(checks - search.checks_left());
        }
        (if exact { all } else { all.saturating_sub(1) }, all)
    }

    /// Makes one choice on a node, with the units that `step` permits: repeatedly the unit (a single pod or a whole group) that frees most
    /// of what is missing, and then without units that turn out not to be needed. It becomes the best choice if the add-on fits and its
    /// weight is lower. No unit is removed from `trial` before and afterwards.
    fn greedy(&mut self, node: &NodeCandidates, step: Step, trial: &mut NodeTrial<'_, '_>) {
        let mut open: Vec<&EvictableUnit> = node.candidates.iter().filter(|candidate| candidate.step <= step).collect();
        open.sort_by_key(|candidate| &candidate.class);
        let (mut chosen, mut missing) = (Vec::new(), node.missing.clone());
        while missing.iter().any(|missing| *missing > 0) {
            let covers = |candidate: &&EvictableUnit| covered(&candidate.freed, &missing);
            let Some((place, _)) = open.iter().enumerate().rev().max_by_key(|(_, candidate)| covers(candidate)) else {
                return;
            };
            if !self.effort.take(open.len()) {
                return;
            }
            let candidate = open.remove(place);
            subtract(&mut missing, &candidate.freed);
            chosen.push(candidate);
        }
        chosen.retain(|candidate| !put_back_if_enough(&mut missing, &candidate.freed));
        let chosen: Vec<UnitIndex> = chosen.into_iter().map(|candidate| candidate.unit).collect();
        let (budgets, units) = (&self.problem.budgets, chosen.iter().map(|unit| &self.problem.potential.units[*unit]));
        let may_evict = !chosen.is_empty() && budgets.may_evict(&mut budgets.tally(), units);
        chosen.iter().for_each(|unit| trial.take(*unit));
        if may_evict && self.effort.take(1) && trial.enough() {
            self.keep_if_lightest(node, &chosen);
        }
        chosen.iter().for_each(|unit| trial.put(*unit));
    }

    /// Returns a lower bound on the weight of the evictions that free the node with this rank (its index in the list of nodes); `None` if
    /// it is infeasible even without all units (single pods or whole groups) that may be evicted, by amounts or by the filters that do not
    /// depend on other pods.
    fn node_bound(&mut self, rank: Rank) -> Option<NodeBound<'a>> {
        if self.problem.classes.first().is_none_or(|class| class.unsuitable[rank].is_some()) {
            return None;
        }
        let missing = self.missing(rank);
        let mut freed = [(); 3].map(|()| vec![0; missing.len()]);
        // By resource: the most that a unit frees for each of its pods, as what it frees and how many they are.
        let mut best: Vec<(i128, i128)> = vec![(0, 1); missing.len()];
        let mut lightest = i128::MAX;
        let potential = &self.problem.potential;
        for unit in potential.on[rank].iter().filter(|unit| self.fates[**unit] != Fate::Stays) {
            let (gains, price) = (self.freed(*unit, rank), self.price(*unit));
            let least = price.step.number();
            for (step, freed) in (1..).zip(&mut freed) {
                if least <= step {
                    freed.iter_mut().zip(&gains).for_each(|(sum, gain)| *sum += gain);
                }
            }
            let pods = i128::try_from(potential.units[*unit].pods.len()).unwrap_or(i128::MAX);
            for (best, gain) in best.iter_mut().zip(&gains) {
                if gain.saturating_mul(best.1) > best.0.saturating_mul(pods) {
                    *best = (*gain, pods);
                }
            }
            lightest = lightest.min(price.requests);
        }
        let enough = |freed: &[i128]| freed.iter().zip(&missing).all(|(freed, missing)| freed >= missing);
        let step = Step::ALL.into_iter().zip(&freed).find(|(_, freed)| enough(freed)).map(|(step, _)| step)?;
        let least = missing.iter().zip(&best).filter(|(missing, (freed, _))| **missing > 0 && *freed > 0);
        let least =
            least.map(|(missing, (freed, pods))| missing.saturating_mul(*pods).saturating_add(freed - 1) / freed);
        let pods = least.max().and_then(|pods| usize::try_from(pods).ok()).unwrap_or(0).max(1);
        let bound = Weight {
            step,
            disturbances: usize::from(step > Step::Gentle),
            pods,
            stranded: 0,
            requests: lightest,
            uncontrolled: 0,
            node: rank,
            names: Vec::new(),
        };
        Some(NodeBound { bound, missing })
    }

    /// Returns how much the node with this rank (its index in the list of nodes) lacks of each resource that the critical add-on requests;
    /// 0 where enough is free.
    fn missing(&self, rank: Rank) -> Vec<i128> {
        let free = self.occupancy.free(rank);
        self.pod.requests.iter().map(|(id, amount)| (amount - free[usize::from(id)]).max(0)).collect()
    }

    /// Returns how much of each resource that the critical add-on requests a unit's eviction frees on the node with this rank (its index in
    /// the list of nodes). A single pod is expected to run there.
    fn freed(&mut self, unit: UnitIndex, rank: Rank) -> Vec<i128> {
        let found = &self.problem.potential.units[unit];
        if found.kind == UnitKind::PodGroup {
            let freed = self.group(unit).freed.get(&rank).cloned();
            return freed.unwrap_or_else(|| vec![0; self.pod.requests.iter().count()]);
        }
        found.pods.first().map(|pod| self.requests_of(*pod)).unwrap_or_default()
    }

    /// Returns how much a pod requests of each resource that the critical add-on requests.
    fn requests_of(&self, pod: PodIndex) -> Vec<i128> {
        let kind = self.problem.cluster.class(self.problem.cluster.row(pod).class);
        let ids = self.pod.requests.iter().map(|(id, _): (ResourceId, i128)| id);
        ids.map(|id| kind.map_or(0, |kind| kind.requests.get(id))).collect()
    }

    /// Returns what the eviction of a unit (a single pod or a whole group) costs; for a group it is cached.
    fn price(&mut self, unit: UnitIndex) -> UnitPrice {
        match self.problem.potential.units[unit].kind {
            UnitKind::PodGroup => self.group(unit).price,
            UnitKind::Pod => self.compute_price(unit),
        }
    }

    /// Computes what the eviction of a unit (a single pod or a whole group) costs: the least disruptive step that permits it, and the
    /// requests of its pods.
    fn compute_price(&mut self, unit: UnitIndex) -> UnitPrice {
        let problem = self.problem;
        let (budgets, pods) = (&problem.budgets, &problem.potential.units[unit].pods);
        let held = !budgets.is_empty()
            && pods.iter().flat_map(|pod| budgets.of_pod(*pod)).any(|number| budgets.allowed(*number) == 0);
        let in_several_budgets = pods.iter().any(|pod| self.problem.cluster.is_selected_by_several_budgets(*pod));
        let shortened = pods.iter().filter(|pod| self.is_shortened(**pod)).count();
        let requests = pods.iter().map(|pod| self.share(*pod)).fold(0, i128::saturating_add);
        UnitPrice { step: Step::needed(usize::from(held || in_several_budgets), shortened), requests }
    }

    /// Returns what the eviction of a group that is disrupted together costs, and what it frees on each node; it is computed at the first
    /// call for the group `unit`.
    fn group(&mut self, unit: UnitIndex) -> &DisruptedGroup {
        if !self.groups.contains_key(&unit) {
            let mut freed: BTreeMap<Rank, Vec<i128>> = BTreeMap::new();
            for pod in &self.problem.potential.units[unit].pods {
                let Some(rank) = self.occupancy.rank_of(*pod) else { continue };
                let asks = self.requests_of(*pod);
                let sums = freed.entry(rank).or_insert_with(|| vec![0; asks.len()]);
                sums.iter_mut().zip(asks).for_each(|(sum, amount)| *sum += amount);
            }
            let price = self.compute_price(unit);
            self.groups.insert(unit, DisruptedGroup { price, freed });
        }
        &self.groups[&unit]
    }

    /// Returns true if a pod's grace period is shortened when it is evicted for a critical add-on.
    fn is_shortened(&self, index: PodIndex) -> bool {
        match self.problem.cluster.row(index).rescue_class {
            RescueClass::Short => false,
            RescueClass::Long => true,
            RescueClass::Special => self.problem.cluster.pod_at(index).is_some_and(crate::api::is_shortened),
        }
    }

    /// Returns the requests of a pod as a share of what all nodes offer; it is cached by equivalence class.
    fn share(&mut self, pod: PodIndex) -> i128 {
        let cluster = self.problem.cluster;
        let id = cluster.row(pod).class;
        let share = || cluster.class(id).map_or(0, |kind| cluster.share_of(&kind.requests));
        *self.shares.entry(id).or_insert_with(share)
    }

    /// Returns the units (single pods or whole groups) that may be evicted from the node with this rank (its index in the list of nodes),
    /// with what each costs and frees. `missing` is what the critical add-on lacks there.
    fn candidates_on(&mut self, rank: Rank, missing: Vec<i128>) -> NodeCandidates {
        let units = self.problem.potential.on[rank].clone();
        let going = units.into_iter().filter(|unit| self.fates[*unit] != Fate::Stays);
        let mut candidates: Vec<EvictableUnit> = going.filter_map(|unit| self.candidate(unit, rank)).collect();
        let units = &self.problem.potential.units;
        candidates.sort_by(|a, b| b.class.cmp(&a.class).then_with(|| units[a.unit].key.cmp(units[b.unit].key)));
        NodeCandidates::new(rank, candidates, missing)
    }

    /// Returns a unit (a single pod or a whole group) as a candidate for eviction from the node with this rank (its index in the list of
    /// nodes): what it costs, and what it frees there. `None` if it may be evicted only if its pods fit on other nodes, and one does not.
    fn candidate(&mut self, unit: UnitIndex, rank: Rank) -> Option<EvictableUnit> {
        let (cluster, problem) = (self.problem.cluster, self.problem);
        let found = &problem.potential.units[unit];
        let everywhere = cluster.rank_of(problem.nodes.index(rank))?;
        self.effort.take(2 * found.pods.len());
        let mut effects = EvictionEffects { pods: found.pods.len(), ..EvictionEffects::default() };
        let mut labels = None;
        for index in &found.pods {
            let pod = cluster.pod_at(*index)?;
            effects.in_several_budgets += usize::from(cluster.is_selected_by_several_budgets(*index));
            effects.shortened += usize::from(self.is_shortened(*index));
            effects.stranded += usize::from(!self.elsewhere.fits_elsewhere_now(*index, everywhere));
            effects.requests = effects.requests.saturating_add(self.share(*index));
            effects.uncontrolled += usize::from(pod.owner.is_none());
            labels = self.occupancy.has_inter_pod_constraints().then(|| pod.labels.clone());
        }
        let nowhere = self.fates[unit] == Fate::GoesElsewhere && effects.stranded > 0;
        let class = UnitClass {
            effects,
            elsewhere: self.fates[unit] == Fate::GoesElsewhere,
            kind: cluster.row(*found.pods.first()?).class,
            budgets: found.pods.iter().flat_map(|pod| problem.budgets.of_pod(*pod)).copied().collect(),
            guarded: problem.budgets.guards(found),
            labels,
            group: (found.kind == UnitKind::PodGroup).then_some(unit),
        };
        let freed = self.freed(unit, rank);
        (!nowhere).then(|| EvictableUnit { unit, class, freed, step: self.price(unit).step })
    }

    /// Makes these candidates of the node the best choice, if their weight is lower and those of them that may be evicted only if they fit
    /// on other nodes do so together. The critical add-on fits after their eviction. A unit is a single pod or a whole group.
    fn keep_if_lightest(&mut self, node: &NodeCandidates, units: &[UnitIndex]) {
        let (problem, cluster) = (self.problem, self.problem.cluster);
        let pods = || units.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter().copied());
        let mut violating: BTreeSet<PodIndex> = problem.budgets.violating(cluster, pods()).into_iter().collect();
        violating.extend(pods().filter(|pod| self.problem.cluster.is_selected_by_several_budgets(*pod)));
        let violations = violating.len();
        let mut names: Vec<&ObjectKey> = units.iter().map(|unit| problem.potential.units[*unit].key).collect();
        names.sort();
        let weight = Weight { names, ..node.effects(units).weight(violations, node.rank) };
        if self.best.as_ref().is_some_and(|best| best.weight <= weight) {
            return;
        }
        let elsewhere = units.iter().filter(|unit| self.fates[**unit] == Fate::GoesElsewhere);
        let elsewhere: Vec<PodIndex> =
            elsewhere.flat_map(|unit| problem.potential.units[*unit].pods.iter().copied()).collect();
        let gone: Vec<PodIndex> = pods().collect();
        let Some(rank) = cluster.rank_of(problem.nodes.index(node.rank)) else { return };
        if elsewhere.is_empty() || self.elsewhere.fit_elsewhere_together(&elsewhere, &gone, (self.member, rank)) {
            self.best = Some(AddonVictims { units: units.to_vec(), weight });
        }
    }
}

/// The search on one node: branch and bound minimizes the weight, and `best` has the choice of least weight on all nodes so far.
struct SearchOnNode<'s, 'p, 'a> {
    search: &'s mut VictimSearch<'p, 'a>,
    node: NodeCandidates,
}

impl Objective for SearchOnNode<'_, '_, '_> {
    /// Returns true if the candidates `chosen` and `rest` together free enough, and a lower bound on the weight of every choice that has all
    /// of `chosen` is below the weight of the best choice.
    fn can_improve(&self, chosen: &[UnitIndex], rest: &[UnitIndex], tally: &Tally) -> bool {
        let budgets = &self.search.problem.budgets;
        let violations = budgets.violations_of(tally).unwrap_or_else(|| budgets.most_above_allowed(tally));
        let bound = self.node.bound(chosen, rest.len(), violations);
        bound.is_some_and(|bound| self.search.best.as_ref().is_none_or(|best| bound < best.weight))
    }

    /// Makes the candidates `chosen` the best choice if their weight is lower, and those that must fit on other nodes do.
    fn keep_if_better(&mut self, chosen: &[UnitIndex], _: &Tally, _: &mut impl EvictionTrial) {
        self.search.keep_if_lightest(&self.node, chosen);
    }

    /// Returns true for two units (single pods or whole groups) of one equivalence class.
    fn are_alike(&self, first: UnitIndex, second: UnitIndex) -> bool {
        self.node.are_alike(first, second)
    }
}

/// Returns which share of the missing amounts is freed, summed over the resources, in millionths: 1,000,000 for each resource of which
/// enough is freed.
fn covered(freed: &[i128], missing: &[i128]) -> i128 {
    let lacking = freed.iter().zip(missing).filter(|(_, missing)| **missing > 0);
    lacking.map(|(freed, missing)| freed.min(missing).saturating_mul(1_000_000) / missing).sum()
}
