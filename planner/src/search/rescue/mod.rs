//! Searches the evictions of least weight after which a critical add-on fits on one of the nodes: a greedy choice, then branch and bound
//! over the units of each node, with one incumbent for all of them.
//!
//! Nodes are tried in the order of a lower bound, and left out if that is no lower than the incumbent. On a node,
//! units that differ only in their names are one equivalence class, of which the first names are taken. So
//! the result is exact unless the [effort](crate::problem::Effort) runs out, which the result says.

mod weight;

use crate::api::{Fate, Step};
use crate::filters::{Occupancy, Rank};
use crate::limits::ADDON_NODE_LOOKS;
use crate::model::{ClassId, Labels, ObjectKey, Pod, PodIndex, RescueClass, ResourceId, UnitKind};
use crate::problem::{Effort, Elsewhere, Problem, UnitIndex};
use crate::search::missing::{put_back, subtract};
use std::collections::{BTreeMap, BTreeSet};
use weight::Weight;

/// The result of the search: a node and the units to evict.
pub(crate) struct AddonVictims<'a> {
    pub(crate) units: Vec<UnitIndex>,
    pub(crate) weight: Weight<'a>,
}

/// The search for the evictions of least weight.
pub(crate) struct VictimSearch<'p, 'a> {
    pub(crate) problem: &'p Problem<'a>,
    pub(crate) pod: &'a Pod,
    pub(crate) member: PodIndex,
    /// By unit.
    pub(crate) fates: &'p [Fate],
    /// The cluster after the pods that are leaving anyway have terminated; changed during the search and restored.
    pub(crate) room: Occupancy<'a>,
    pub(crate) elsewhere: &'p Elsewhere<'a>,
    pub(crate) effort: &'p mut Effort,
    pub(crate) best: Option<AddonVictims<'a>>,
    /// The effort that must be left when the search on the current node ends.
    pub(crate) floor: usize,
    /// By class of pods: their requests, as a share.
    pub(crate) shares: BTreeMap<ClassId, i128>,
    /// Groups that are disrupted together, whose pods are read once.
    pub(crate) groups: BTreeMap<UnitIndex, DisruptedGroup>,
}

/// Cost of the eviction of a unit, on whichever node it is needed.
#[derive(Clone, Copy)]
struct UnitPrice {
    /// The first step in which it can be evicted.
    step: Step,
    /// What its pods ask for, as a share.
    requests: i128,
}

/// Cached properties of a group that is disrupted together.
pub(crate) struct DisruptedGroup {
    price: UnitPrice,
    /// By rank: what it frees there, by resource that the add-on asks for.
    freed: BTreeMap<Rank, Vec<i128>>,
}

/// Lower bound on the weight of evictions on a node.
struct NodeBound<'a> {
    bound: Weight<'a>,
    missing: Vec<i128>,
}

/// A unit of the current node that may be evicted.
struct EvictableUnit {
    unit: UnitIndex,
    class: UnitClass,
    /// What it frees on the node, by resource that the add-on asks for.
    freed: Vec<i128>,
    /// The first step in which it can be evicted.
    step: Step,
}

/// Equivalence class of units: any of them can be evicted instead of another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnitClass {
    /// Pods that several budgets select: their eviction counts as a violation, because the Eviction API always refuses it.
    in_several_budgets: usize,
    /// Pods whose grace period is shortened.
    shortened: usize,
    pods: usize,
    /// Pods that fit on no other node.
    homeless: usize,
    /// Requests of the pods, as a share of what all nodes offer.
    requests: i128,
    /// Pods without a controller, which are not recreated.
    uncontrolled: usize,
    /// Whether it may be evicted only if it fits on another node.
    elsewhere: bool,
    /// Equivalence class of its first pod.
    kind: ClassId,
    /// The budgets of its pods, by number.
    budgets: Vec<usize>,
    /// Whether these budgets are guaranteed.
    guarded: bool,
    /// Its labels, if inter-pod constraints matter.
    labels: Option<Labels>,
    /// Set for a group that is disrupted together, so that it is a class of its own.
    group: Option<UnitIndex>,
}

/// Sums over the chosen units.
#[derive(Clone)]
struct Sums {
    in_several_budgets: usize,
    shortened: usize,
    pods: usize,
    homeless: usize,
    requests: i128,
    uncontrolled: usize,
    /// What the add-on is still missing on the node.
    missing: Vec<i128>,
}

/// A node that is being searched.
struct OnNode {
    rank: Rank,
    candidates: Vec<EvictableUnit>,
    /// By position: what all candidates from this position on free.
    rest: Vec<Vec<i128>>,
    /// By position: the most that one of the candidates from this position on frees.
    most: Vec<Vec<i128>>,
}

impl<'a> VictimSearch<'_, 'a> {
    /// Searches the nodes of the problem. Returns how many of those that could help were looked at, and how many there are.
    pub(crate) fn run(&mut self) -> (usize, usize) {
        let mut bounds: Vec<(Weight<'a>, Vec<i128>)> = Vec::new();
        for rank in 0..self.problem.nodes.len() {
            if let Some(NodeBound { bound, missing }) = self.node_bound(rank) {
                bounds.push((bound, missing));
            }
        }
        bounds.sort();
        let (all, mut exact) = (bounds.len(), true);
        for (looked, (bound, missing)) in bounds.into_iter().enumerate() {
            if self.best.as_ref().is_some_and(|best| best.weight <= bound) {
                break;
            }
            if self.effort.spent() {
                return (looked, all);
            }
            let node = self.on_node(bound.node, missing.len());
            let sums = Sums {
                in_several_budgets: 0,
                shortened: 0,
                pods: 0,
                homeless: 0,
                requests: 0,
                uncontrolled: 0,
                missing,
            };
            for step in Step::ALL.into_iter().filter(|step| *step >= bound.step) {
                self.greedy(&node, step, &sums);
            }
            self.floor = self.effort.left().saturating_sub(ADDON_NODE_LOOKS);
            self.descend(&node, 0, &sums, &mut Vec::new(), &mut Spent::default());
            exact &= self.effort.left() > self.floor;
            self.floor = 0;
        }
        (if exact { all } else { all.saturating_sub(1) }, all)
    }

    /// Makes one greedy choice among the units that this step permits: repeatedly the unit that frees most of what is missing.
    /// Units that turn out not to be needed are put back.
    fn greedy(&mut self, node: &OnNode, step: Step, start: &Sums) {
        let mut open: Vec<usize> = (0..node.candidates.len()).filter(|at| node.candidates[*at].step <= step).collect();
        let (mut chosen, mut missing) = (Vec::new(), start.missing.clone());
        while missing.iter().any(|missing| *missing > 0) {
            let covers = |at: &usize| covered(&node.candidates[*at].freed, &missing);
            let Some((place, _)) = open.iter().enumerate().rev().max_by_key(|(_, at)| covers(at)) else { return };
            if !self.effort.take(open.len()) {
                return;
            }
            let at = open.remove(place);
            subtract(&mut missing, &node.candidates[at].freed);
            chosen.push(at);
        }
        for at in chosen.clone() {
            if put_back(&mut missing, &node.candidates[at].freed) {
                chosen.retain(|other| *other != at);
            }
        }
        let mut spent = Spent::default();
        let mut sums = start.clone();
        for at in &chosen {
            let candidate = &node.candidates[*at];
            let unit = &self.problem.potential.units[candidate.unit];
            spent.add(self.problem, unit.pods.iter(), candidate.class.guarded, 1);
            self.room.take(&unit.pods);
            sums = sums.with(candidate);
        }
        if !chosen.is_empty() && !spent.breached(self.problem) && self.fits(node.rank) {
            self.consider(node, &sums, &chosen);
        }
        for at in &chosen {
            self.room.put(&self.problem.potential.units[node.candidates[*at].unit].pods);
        }
    }

    /// Returns a lower bound on the weight of evictions on a node; `None` if the amounts do not suffice whatever is evicted, or the node is
    /// infeasible.
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
            homeless: 0,
            requests: lightest,
            uncontrolled: 0,
            node: rank,
            names: Vec::new(),
        };
        Some(NodeBound { bound, missing })
    }

    /// Returns what a node lacks of each resource that the critical add-on requests; 0 if enough is free.
    fn missing(&self, rank: Rank) -> Vec<i128> {
        let free = self.room.free(rank);
        self.pod.requests.iter().map(|(id, amount)| (amount - free[usize::from(id)]).max(0)).collect()
    }

    /// Returns what a unit's eviction frees on a node, of each resource that the critical add-on requests.
    fn freed(&mut self, unit: UnitIndex, rank: Rank) -> Vec<i128> {
        let found = &self.problem.potential.units[unit];
        if found.kind == UnitKind::PodGroup {
            let freed = self.group(unit).freed.get(&rank).cloned();
            return freed.unwrap_or_else(|| vec![0; self.pod.requests.iter().count()]);
        }
        found.pods.first().map(|pod| self.asks(*pod)).unwrap_or_default()
    }

    /// Returns what a pod requests, of each resource that the critical add-on requests.
    fn asks(&self, pod: PodIndex) -> Vec<i128> {
        let kind = self.problem.cluster.class(self.problem.cluster.row(pod).class);
        let ids = self.pod.requests.iter().map(|(id, _): (ResourceId, i128)| id);
        ids.map(|id| kind.map_or(0, |kind| kind.requests.get(id))).collect()
    }

    /// Returns the cost of the eviction of a unit; that of a group is computed once.
    fn price(&mut self, unit: UnitIndex) -> UnitPrice {
        match self.problem.potential.units[unit].kind {
            UnitKind::PodGroup => self.group(unit).price,
            UnitKind::Pod => self.read_price(unit),
        }
    }

    /// Computes the cost of the eviction of a unit.
    fn read_price(&mut self, unit: UnitIndex) -> UnitPrice {
        let problem = self.problem;
        let (budgets, pods) = (&problem.budgets, &problem.potential.units[unit].pods);
        let held = !budgets.is_empty()
            && pods.iter().flat_map(|pod| budgets.of_pod(*pod)).any(|number| budgets.allowed(*number) == 0);
        let in_several_budgets = pods.iter().any(|pod| self.problem.cluster.is_selected_by_several_budgets(*pod));
        let shortened = pods.iter().filter(|pod| self.is_shortened(**pod)).count();
        let requests = pods.iter().map(|pod| self.share(*pod)).fold(0, i128::saturating_add);
        UnitPrice { step: Step::needed(usize::from(held || in_several_budgets), shortened), requests }
    }

    /// Returns the cost of evicting a group that is disrupted together, and what that frees by node; it is computed once.
    fn group(&mut self, unit: UnitIndex) -> &DisruptedGroup {
        if !self.groups.contains_key(&unit) {
            let mut freed: BTreeMap<Rank, Vec<i128>> = BTreeMap::new();
            for pod in &self.problem.potential.units[unit].pods {
                let Some(rank) = self.room.rank_of(*pod) else { continue };
                let asks = self.asks(*pod);
                let sums = freed.entry(rank).or_insert_with(|| vec![0; asks.len()]);
                sums.iter_mut().zip(asks).for_each(|(sum, amount)| *sum += amount);
            }
            let price = self.read_price(unit);
            self.groups.insert(unit, DisruptedGroup { price, freed });
        }
        &self.groups[&unit]
    }

    /// Returns true if the pod gets a shorter grace period than its own.
    fn is_shortened(&self, index: PodIndex) -> bool {
        match self.problem.cluster.row(index).rescue_class {
            RescueClass::Short => false,
            RescueClass::Long => true,
            RescueClass::Special => self.problem.cluster.pod_at(index).is_some_and(crate::api::is_shortened),
        }
    }

    /// Returns the requests of a pod as a share of what all nodes offer.
    fn share(&mut self, pod: PodIndex) -> i128 {
        let cluster = self.problem.cluster;
        let id = cluster.row(pod).class;
        let share = || cluster.class(id).map_or(0, |kind| cluster.share_of(&kind.requests));
        *self.shares.entry(id).or_insert_with(share)
    }

    /// Returns the units on a node that may be evicted, with what each frees, of as many `resources` as the critical add-on requests, and
    /// what it costs.
    fn on_node(&mut self, rank: Rank, resources: usize) -> OnNode {
        let units = self.problem.potential.on[rank].clone();
        let going = units.into_iter().filter(|unit| self.fates[*unit] != Fate::Stays);
        let mut candidates: Vec<EvictableUnit> = going.filter_map(|unit| self.candidate(unit, rank)).collect();
        let units = &self.problem.potential.units;
        candidates.sort_by(|a, b| a.class.cmp(&b.class).then_with(|| units[a.unit].key.cmp(units[b.unit].key)));
        let (mut rest, mut most) = (vec![vec![0; resources]], vec![vec![0; resources]]);
        for candidate in candidates.iter().rev() {
            let (mut sum, mut max) = (rest[rest.len() - 1].clone(), most[most.len() - 1].clone());
            sum.iter_mut().zip(&candidate.freed).for_each(|(sum, freed)| *sum += freed);
            max.iter_mut().zip(&candidate.freed).for_each(|(max, freed)| *max = (*max).max(*freed));
            rest.push(sum);
            most.push(max);
        }
        rest.reverse();
        most.reverse();
        OnNode { rank, candidates, rest, most }
    }

    /// Returns a unit with what its eviction frees on a node, and what it costs; `None` if it may be evicted only if it fits on another
    /// node, and does not.
    fn candidate(&mut self, unit: UnitIndex, rank: Rank) -> Option<EvictableUnit> {
        let (cluster, problem) = (self.problem.cluster, self.problem);
        let found = &problem.potential.units[unit];
        let everywhere = cluster.rank_of(problem.nodes.index(rank))?;
        self.effort.take(2 * found.pods.len());
        let mut class = UnitClass {
            in_several_budgets: 0,
            shortened: 0,
            pods: found.pods.len(),
            homeless: 0,
            requests: 0,
            uncontrolled: 0,
            elsewhere: self.fates[unit] == Fate::GoesElsewhere,
            kind: cluster.row(*found.pods.first()?).class,
            budgets: found.pods.iter().flat_map(|pod| problem.budgets.of_pod(*pod)).copied().collect(),
            guarded: problem.budgets.guards(found),
            labels: None,
            group: (found.kind == UnitKind::PodGroup).then_some(unit),
        };
        for index in &found.pods {
            let pod = cluster.pod_at(*index)?;
            class.in_several_budgets += usize::from(self.problem.cluster.is_selected_by_several_budgets(*index));
            class.shortened += usize::from(self.is_shortened(*index));
            class.homeless += usize::from(!self.elsewhere.fits_elsewhere_now(*index, everywhere));
            class.requests = class.requests.saturating_add(self.share(*index));
            class.uncontrolled += usize::from(pod.owner.is_none());
            class.labels = self.room.looks_around().then(|| pod.labels.clone());
        }
        let nowhere = class.elsewhere && class.homeless > 0;
        let freed = self.freed(unit, rank);
        (!nowhere).then(|| EvictableUnit { unit, class, freed, step: self.price(unit).step })
    }

    /// Returns true if the add-on fits on the node in the current occupancy.
    fn fits(&mut self, rank: Rank) -> bool {
        self.effort.take(1) && self.room.refuse(self.member, rank).is_none()
    }

    /// Adds candidates from position `from` on to those that are chosen, as long as that can be lighter than the best choice so far.
    fn descend(&mut self, node: &OnNode, from: usize, sums: &Sums, chosen: &mut Vec<usize>, spent: &mut Spent) {
        if !chosen.is_empty() && sums.missing.iter().all(|missing| *missing <= 0) && self.fits(node.rank) {
            self.consider(node, sums, chosen);
            return;
        }
        for at in from..node.candidates.len() {
            let candidate = &node.candidates[at];
            let enough = |(missing, rest): (&i128, &i128)| missing <= rest;
            if self.effort.left() <= self.floor || !sums.missing.iter().zip(&node.rest[at]).all(enough) {
                return;
            }
            // Of units of one class those with the first names are evicted.
            if at > from && candidate.class == node.candidates[at - 1].class {
                continue;
            }
            let unit = &self.problem.potential.units[candidate.unit];
            let next = sums.with(candidate);
            spent.add(self.problem, unit.pods.iter(), candidate.class.guarded, 1);
            let bound = self.bound(node, at + 1, &next, spent);
            let lighter = self.best.as_ref().is_none_or(|best| bound < best.weight);
            if self.effort.take(1) && lighter && !spent.breached(self.problem) {
                self.room.take(&unit.pods);
                chosen.push(at);
                self.descend(node, at + 1, &next, chosen, spent);
                chosen.pop();
                self.room.put(&unit.pods);
            }
            spent.add(self.problem, unit.pods.iter(), candidate.class.guarded, -1);
        }
    }

    /// Returns a lower bound on the weight of the chosen units, which are summed up in `sums` and `spent`, together with the further ones
    /// that are needed among the candidates from the position `from` on.
    fn bound(&self, node: &OnNode, from: usize, sums: &Sums, spent: &Spent) -> Weight<'a> {
        let violations = spent.most_over(self.problem).max(sums.in_several_budgets);
        Weight {
            step: Step::needed(violations, sums.shortened),
            disturbances: sums.shortened + violations,
            pods: sums.pods + further(&sums.missing, &node.most[from]),
            homeless: sums.homeless,
            requests: sums.requests,
            uncontrolled: sums.uncontrolled,
            node: node.rank,
            names: Vec::new(),
        }
    }

    /// Replaces the best choice by one after which the critical add-on fits, if its weight is lower.
    fn consider(&mut self, node: &OnNode, sums: &Sums, chosen: &[usize]) {
        let (problem, cluster) = (self.problem, self.problem.cluster);
        let units: Vec<UnitIndex> = chosen.iter().map(|at| node.candidates[*at].unit).collect();
        let pods = || units.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter().copied());
        let mut violating: BTreeSet<PodIndex> = problem.budgets.violating(cluster, pods()).into_iter().collect();
        violating.extend(pods().filter(|pod| self.problem.cluster.is_selected_by_several_budgets(*pod)));
        let violations = violating.len();
        let mut names: Vec<&ObjectKey> = units.iter().map(|unit| problem.potential.units[*unit].key).collect();
        names.sort();
        let weight = Weight {
            step: Step::needed(violations, sums.shortened),
            disturbances: sums.shortened + violations,
            pods: sums.pods,
            homeless: sums.homeless,
            requests: sums.requests,
            uncontrolled: sums.uncontrolled,
            node: node.rank,
            names,
        };
        if self.best.as_ref().is_some_and(|best| best.weight <= weight) {
            return;
        }
        let elsewhere = units.iter().filter(|unit| self.fates[**unit] == Fate::GoesElsewhere);
        let elsewhere: Vec<PodIndex> =
            elsewhere.flat_map(|unit| problem.potential.units[*unit].pods.iter().copied()).collect();
        let gone: Vec<PodIndex> = pods().collect();
        let Some(rank) = cluster.rank_of(problem.nodes.index(node.rank)) else { return };
        if elsewhere.is_empty() || self.elsewhere.fit_elsewhere_together(&elsewhere, &gone, (self.member, rank)) {
            self.best = Some(AddonVictims { units, weight });
        }
    }
}

impl Sums {
    /// Returns the sums after the eviction of one more candidate.
    fn with(&self, candidate: &EvictableUnit) -> Self {
        let class = &candidate.class;
        Self {
            in_several_budgets: self.in_several_budgets + class.in_several_budgets,
            shortened: self.shortened + class.shortened,
            pods: self.pods + class.pods,
            homeless: self.homeless + class.homeless,
            requests: self.requests.saturating_add(class.requests),
            uncontrolled: self.uncontrolled + class.uncontrolled,
            missing: self.missing.iter().zip(&candidate.freed).map(|(missing, freed)| missing - freed).collect(),
        }
    }
}

/// Returns the share of the missing amounts that is freed, in millionths, summed over the resources.
fn covered(freed: &[i128], missing: &[i128]) -> i128 {
    let lacking = freed.iter().zip(missing).filter(|(_, missing)| **missing > 0);
    lacking.map(|(freed, missing)| freed.min(missing).saturating_mul(1_000_000) / missing).sum()
}

/// Returns a lower bound on the number of further evictions until the `missing` amounts are freed, if one eviction frees at most `most`;
/// both are by resource.
fn further(missing: &[i128], most: &[i128]) -> usize {
    let units = missing.iter().zip(most).filter(|(missing, _)| **missing > 0).map(|(missing, most)| match *most {
        most if most > 0 => usize::try_from((missing + most - 1) / most).unwrap_or(usize::MAX / 2),
        _ => 0,
    });
    units.max().unwrap_or(0)
}

/// Evictions of the chosen units by budget: all pods, and those of them that are guarded, by number of the budget.
#[derive(Default)]
struct Spent(BTreeMap<usize, (i64, i64)>);

impl Spent {
    /// Adds pods to the victims of their budgets (`sign` 1), or subtracts them (-1); `guarded` says that the budgets are guaranteed for
    /// them.
    fn add<'u>(&mut self, problem: &Problem<'_>, pods: impl Iterator<Item = &'u PodIndex>, guarded: bool, sign: i64) {
        for number in pods.flat_map(|pod| problem.budgets.of_pod(*pod)) {
            let (pods, guards) = self.0.entry(*number).or_default();
            *pods += sign;
            *guards += sign * i64::from(guarded);
        }
    }

    /// Returns by how many pods this number of victims exceeds what the budget with this number allows; 0 if it does not.
    fn over(problem: &Problem<'_>, number: usize, pods: i64) -> usize {
        usize::try_from(pods).unwrap_or(0).saturating_sub(problem.budgets.allowed(number))
    }

    /// Returns true if a guaranteed budget is violated; further evictions cannot change that.
    fn breached(&self, problem: &Problem<'_>) -> bool {
        self.0.iter().any(|(number, (pods, guards))| *guards > 0 && Self::over(problem, *number, *pods) > 0)
    }

    /// Returns the largest number of evictions above what a budget allows: at least this number of pods violates a budget.
    fn most_over(&self, problem: &Problem<'_>) -> usize {
        self.0.iter().map(|(number, (pods, _))| Self::over(problem, *number, *pods)).max().unwrap_or(0)
    }
}
