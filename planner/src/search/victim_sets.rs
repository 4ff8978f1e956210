//! Victim sets: the alternatives to let members fit on one node, and the price of each for its gain.
//!
//! Evicting a group that runs on many nodes frees capacity on all of them. A victim set is therefore not judged by its node: its price
//! is what is evicted, cluster-wide, for each member that then fits.

use crate::api::offset_priority;
use crate::filters::{Occupancy, Rank};
use crate::limits::MANY_PODS;
use crate::model::{Pod, PodIndex, ResourceId, Unit};
use crate::problem::{MemberClass, Problem, Tally, UnitIndex, importance, ranks};
use crate::search::missing::{put_back, subtract};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

/// Units that must be evicted for at least one more member to fit on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VictimSet {
    /// The units.
    pub(crate) units: Vec<UnitIndex>,
    price: SetPrice,
}

/// Price of a victim set. Smaller is better: budget violations per member gained, then victims (weighted by their priority) per member,
/// then the highest priority, then the latest start, then the name of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetPrice {
    violations: u128,
    weight: u128,
    gain: u128,
    highest: i32,
    started: Reverse<i64>,
    pub(crate) rank: Rank,
}

impl Ord for SetPrice {
    fn cmp(&self, other: &Self) -> Ordering {
        let per_member = |mine: u128, theirs: u128| (mine * other.gain).cmp(&(theirs * self.gain));
        per_member(self.violations, other.violations)
            .then_with(|| per_member(self.weight, other.weight))
            .then_with(|| self.highest.cmp(&other.highest))
            .then_with(|| self.started.cmp(&other.started))
            .then_with(|| self.rank.cmp(&other.rank))
    }
}

impl SetPrice {
    /// Returns the price of these units: `violations` of their pods violate a budget, and their eviction lets `gain` more members fit, some
    /// of them on the node with this rank.
    pub(crate) fn of<'u>(
        units: impl Iterator<Item = &'u Unit<'u>> + Clone,
        violations: usize,
        gain: usize,
        rank: Rank,
    ) -> Self {
        let pods = || units.clone().map(|unit| (offset_priority(unit.priority), unit.pods.len() as u128));
        let highest = units.clone().map(|unit| unit.priority).max().unwrap_or(i32::MIN);
        let top = units.clone().filter(|unit| unit.priority == highest);
        let started = top.map(|unit| unit.started.unwrap_or(i64::MAX)).min();
        Self {
            violations: violations as u128,
            // A weight of 0 (the lowest priority there is) must not make many victims as cheap as few.
            weight: pods().map(|(priority, pods)| (u128::from(priority) + 1) * pods).sum(),
            gain: gain.max(1) as u128,
            highest,
            started: Reverse(started.unwrap_or(i64::MAX)),
            rank,
        }
    }
}

impl SetPrice {
    /// Returns true if at most this number of members gain capacity.
    pub(crate) fn gains_at_most(&self, members: usize) -> bool {
        self.gain <= members as u128
    }
}

impl PartialOrd for SetPrice {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl VictimSet {
    /// Returns these units as a victim set whose eviction lets `gain` more members fit; `None` if it would violate a guaranteed budget.
    pub(crate) fn of(
        problem: &Problem<'_>,
        tally: &Tally,
        units: Vec<UnitIndex>,
        gain: usize,
        rank: Rank,
    ) -> Option<Self> {
        let all = || units.iter().map(|number| &problem.potential.units[*number]);
        let (violations, breached) = problem.budgets.preview(tally, all());
        let price = SetPrice::of(all(), violations, gain, rank);
        (!breached).then_some(Self { units, price })
    }

    /// Returns the price by which the victim set is compared with others.
    pub(crate) fn price(&self) -> SetPrice {
        self.price
    }
}

/// What a node lacks for one more member.
struct Short {
    /// Resources of which there is too little.
    ids: Vec<ResourceId>,
    /// By how much, in the same order.
    by: Vec<i128>,
}

impl Short {
    /// Returns which resources a node lacks for one more pod like this one, and how much of each.
    fn new(room: &Occupancy<'_>, pod: &Pod, rank: Rank) -> Self {
        let ids = room.lacks(pod, rank);
        let by = ids.iter().map(|id| pod.requests.get(*id) - room.free(rank)[usize::from(*id)]).collect();
        Self { ids, by }
    }

    /// Returns how much of what the node lacks a unit's eviction frees there.
    fn freed(&self, problem: &Problem<'_>, unit: UnitIndex, rank: Rank) -> Vec<i128> {
        let mut freed = vec![0; self.ids.len()];
        let here = problem.pods_on(unit, rank);
        for pod in here.iter().filter_map(|index| problem.cluster.pod_at(*index)) {
            freed.iter_mut().zip(&self.ids).for_each(|(freed, id)| *freed += pod.requests.get(*id));
        }
        freed
    }
}

/// Searches victim sets, given the units removed and the members placed so far.
pub(crate) struct VictimSets<'p, 'a> {
    pub(crate) problem: &'p Problem<'a>,
    pub(crate) class: &'p MemberClass,
    /// One of the members.
    pub(crate) member: PodIndex,
    /// By unit: whether it may be taken.
    pub(crate) available: &'p [bool],
}

impl VictimSets<'_, '_> {
    /// Returns the cheapest victim set on a node where no further member fits; `None` if no permitted evictions suffice. `remaining`
    /// members are not placed yet. `room` is unchanged afterwards.
    pub(crate) fn cheapest(
        &self,
        room: &mut Occupancy<'_>,
        tally: &Tally,
        rank: Rank,
        remaining: usize,
    ) -> Option<VictimSet> {
        let problem = self.problem;
        if remaining == 0 || self.class.unsuitable[rank].is_some() {
            return None;
        }
        let unit = |number: &UnitIndex| &problem.potential.units[*number];
        problem.effort.take(problem.potential.on[rank].len());
        let candidates: Vec<UnitIndex> = problem.potential.on[rank]
            .iter()
            .copied()
            .filter(|number| self.available[*number] && problem.budgets.may_evict(tally, std::iter::once(unit(number))))
            .collect();
        if room.counts_amounts(self.member) {
            return self.cheapest_by_count(room, tally, rank, remaining, &candidates);
        }
        if candidates.is_empty() || !self.suffices(room, &candidates, rank) {
            return None;
        }
        let singles = candidates.iter().filter(|number| self.suffices(room, &[**number], rank));
        let singles: Vec<Vec<UnitIndex>> = singles.map(|number| vec![*number]).collect();
        let least = self.least_important(room, tally, &candidates, rank);
        self.best_of(room, tally, rank, remaining, singles.into_iter().chain(std::iter::once(least)))
    }

    /// Returns the cheapest victim set on a node if only amounts matter: units that free nothing of what the node
    /// lacks are not considered, and the others are compared by what they free.
    fn cheapest_by_count(
        &self,
        room: &mut Occupancy<'_>,
        tally: &Tally,
        rank: Rank,
        remaining: usize,
        candidates: &[UnitIndex],
    ) -> Option<VictimSet> {
        let problem = self.problem;
        let short = Short::new(room, problem.cluster.pod_at(self.member)?, rank);
        let mut frees = Vec::new();
        for number in candidates {
            let freed = short.freed(problem, *number, rank);
            if freed.iter().any(|amount| *amount > 0) {
                frees.push((*number, freed));
            }
        }
        let mut left = short.by.clone();
        frees.iter().for_each(|(_, freed)| subtract(&mut left, freed));
        if left.iter().any(|amount| *amount > 0) {
            return None;
        }
        let alone = |freed: &[i128]| freed.iter().zip(&short.by).all(|(freed, short)| freed >= short);
        let singles: Vec<Vec<UnitIndex>> =
            frees.iter().filter(|(_, freed)| alone(freed)).map(|(number, _)| vec![*number]).collect();
        let order = self.order_of_mercy(tally, frees.iter().map(|(number, _)| *number).collect());
        let mut least = Vec::new();
        for number in order {
            let Some((_, freed)) = frees.iter().find(|(other, _)| *other == number) else { continue };
            if !put_back(&mut left, freed) {
                least.push(number);
            }
        }
        let least =
            std::iter::once(least).filter(|set| !matches!(set[..], [only] if singles.iter().any(|s| s[0] == only)));
        let sets: Vec<Vec<UnitIndex>> = least.chain(singles.iter().cloned()).collect();
        self.best_of(room, tally, rank, remaining, sets.into_iter())
    }

    /// Returns the cheapest of these sets that no guaranteed budget forbids; `None` if there is none.
    fn best_of(
        &self,
        room: &mut Occupancy<'_>,
        tally: &Tally,
        rank: Rank,
        remaining: usize,
        sets: impl Iterator<Item = Vec<UnitIndex>>,
    ) -> Option<VictimSet> {
        let problem = self.problem;
        let unit = |number: &UnitIndex| &problem.potential.units[*number];
        let mut best: Option<VictimSet> = None;
        for units in sets.filter(|units| problem.budgets.may_evict(tally, units.iter().map(unit))) {
            if !self.leaves_attraction(room, &units, rank) {
                continue;
            }
            let set = VictimSet { price: self.price(room, tally, &units, rank, remaining), units };
            let order =
                |a: &VictimSet, b: &VictimSet| a.price.cmp(&b.price).then_with(|| self.compare(&a.units, &b.units));
            if best.as_ref().is_none_or(|best| order(&set, best) == Ordering::Less) {
                best = Some(set);
            }
        }
        best
    }

    /// Returns true if inter-pod constraints still admit a member without these units, one of which its affinity may need.
    fn leaves_attraction(&self, room: &mut Occupancy<'_>, units: &[UnitIndex], rank: Rank) -> bool {
        let pods = |unit: &UnitIndex| -> &[PodIndex] { &self.problem.potential.units[*unit].pods };
        // Without affinity and spread constraints, the removal of a pod cannot make a node infeasible.
        let indifferent = |member: &Pod| member.constraints.affinity.is_empty() && member.constraints.spread.is_empty();
        if self.problem.cluster.pod_at(self.member).is_some_and(indifferent) {
            return true;
        }
        self.problem.effort.take(units.iter().map(|unit| 2 * pods(unit).len()).sum());
        if !units.iter().flat_map(pods).any(|pod| room.is_looked_at(*pod)) {
            return true;
        }
        units.iter().for_each(|unit| room.take(pods(unit)));
        let lets_in = room.object(self.member, rank).is_none();
        units.iter().for_each(|unit| room.put(pods(unit)));
        lets_in
    }

    /// Returns true if one more member fits on the node without these units.
    fn suffices(&self, room: &mut Occupancy<'_>, units: &[UnitIndex], rank: Rank) -> bool {
        let here: Vec<PodIndex> = units.iter().flat_map(|number| self.problem.pods_on(*number, rank)).collect();
        self.problem.effort.take(here.len());
        room.take(&here);
        let fits = room.refuse_here(self.member, rank).is_none();
        room.put(&here);
        fits
    }

    /// Returns the candidates that cannot be reprieved; those that violate budgets and the important ones are reprieved first.
    fn least_important(
        &self,
        room: &mut Occupancy<'_>,
        tally: &Tally,
        candidates: &[UnitIndex],
        rank: Rank,
    ) -> Vec<UnitIndex> {
        let here = |number: UnitIndex| (number, self.problem.pods_on(number, rank));
        let order: Vec<_> = self.order_of_mercy(tally, candidates.to_vec()).into_iter().map(here).collect();
        order.iter().for_each(|(_, pods)| room.take(pods));
        let mut set = Vec::new();
        for (number, pods) in &order {
            room.put(pods);
            if room.refuse_here(self.member, rank).is_some() {
                room.take(pods);
                set.push((*number, pods));
            }
        }
        set.iter().for_each(|(_, pods)| room.put(pods));
        set.into_iter().map(|(number, _)| number).collect()
    }

    /// Returns the order in which units are reprieved: those that violate a budget first, then the most important first.
    fn order_of_mercy(&self, tally: &Tally, mut order: Vec<UnitIndex>) -> Vec<UnitIndex> {
        let units = &self.problem.potential.units;
        order.sort_by(|a, b| importance::compare(&units[*a], &units[*b]));
        if !self.problem.budgets.is_empty() {
            let mut so_far = tally.clone();
            let violates: BTreeSet<UnitIndex> =
                order.iter().copied().filter(|n| self.problem.budgets.add(&mut so_far, &units[*n]) > 0).collect();
            order.sort_by_key(|number| !violates.contains(number));
        }
        order
    }

    /// Returns the price of evicting the units `set` for members on the node with this rank; `remaining` members are not placed yet. `room`
    /// is unchanged afterwards.
    fn price(
        &self,
        room: &mut Occupancy<'_>,
        tally: &Tally,
        set: &[UnitIndex],
        rank: Rank,
        remaining: usize,
    ) -> SetPrice {
        let units = || set.iter().map(|number| &self.problem.potential.units[*number]);
        let (violations, _) = self.problem.budgets.preview(tally, units());
        SetPrice::of(units(), violations, self.gain(room, set, rank, remaining), rank)
    }

    /// Returns how many more members fit after the units `set` (single pods or whole groups) are evicted, at most `remaining`: on the nodes of
    /// these units and on the node `rank`. 1 if counting would take too much effort. `room` is the same afterwards.
    fn gain(&self, room: &mut Occupancy<'_>, set: &[UnitIndex], rank: Rank, remaining: usize) -> usize {
        let problem = self.problem;
        let units = || set.iter().map(|number| &problem.potential.units[*number]);
        let pods: usize = units().map(|unit| unit.pods.len()).sum();
        // Without effort to compute it, the gain is only the one member for which the units are evicted.
        if pods > MANY_PODS && !problem.effort.take(2 * pods) {
            return 1;
        }
        let mut touched: Vec<Rank> = units().flat_map(|unit| ranks(problem.cluster, problem.nodes, unit)).collect();
        touched.push(rank);
        touched.sort_unstable();
        touched.dedup();
        touched.retain(|rank| self.class.unsuitable[*rank].is_none());
        let fit = |room: &Occupancy<'_>| -> usize {
            touched.iter().map(|rank| room.capacity_here(self.member, *rank, remaining)).sum()
        };
        let before = fit(room);
        units().for_each(|unit| room.take(&unit.pods));
        let after = fit(room);
        units().for_each(|unit| room.put(&unit.pods));
        after.saturating_sub(before).min(remaining)
    }

    /// Orders sets of one price, the preferred one first; see [`compare_sets`].
    fn compare(&self, a: &[UnitIndex], b: &[UnitIndex]) -> Ordering {
        compare_sets(a, b, |a, b| self.problem.potential.compare(*a, *b))
    }
}

/// Orders sets of one price: first the one whose units are less important, then the smaller one. `order` puts the more important of two units
/// first.
pub(super) fn compare_sets(
    a: &[UnitIndex],
    b: &[UnitIndex],
    order: impl Fn(&UnitIndex, &UnitIndex) -> Ordering,
) -> Ordering {
    let pairs = a.iter().zip(b).map(|(a, b)| order(b, a));
    pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
}
