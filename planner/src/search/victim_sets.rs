//! Victim sets: the alternatives to let members fit on one node, and the price of each for its gain.
//!
//! Evicting a group that runs on many nodes frees capacity on all of them. A victim set is therefore not judged by its node: its price
//! is what is evicted, cluster-wide, for each member that then fits.

use crate::api::offset_priority;
use crate::filters::{Occupancy, Rank};
use crate::limits::MANY_PODS;
use crate::model::{Pod, PodIndex, ResourceId, Unit};
use crate::problem::{MemberClass, Problem, Tally, UnitIndex, importance, ranks};
use crate::search::missing::{put_back_if_enough, subtract};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

/// Units that must be evicted for at least one more member to fit on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VictimSet {
    /// The units.
    pub(crate) units: Vec<UnitIndex>,
    price: SetPrice,
}

/// Price of a victim set; the least one is chosen. Compared are: budget violations per member that gains capacity, then victims (weighted
/// by their priority) per such member, then the highest priority, then the latest start, then the name of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetPrice {
    violations: u128,
    weight: u128,
    /// How many members fit in addition.
    gain: u128,
    highest: i32,
    started: Reverse<i64>,
    /// Rank of the node for which the set was chosen.
    pub(crate) rank: Rank,
}

impl Ord for SetPrice {
    /// Compares two prices; the lower one is preferred.
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
    /// Returns the price of evicting these units (single pods or whole groups): the eviction of `violations` of their pods violates a
    /// budget, and `gain` more members fit then. `rank` is the node for which the units were chosen.
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
    /// Returns true if at most this number of members fit in addition after the eviction of the set.
    pub(crate) fn gains_at_most(&self, members: usize) -> bool {
        self.gain <= members as u128
    }
}

impl PartialOrd for SetPrice {
    /// Compares as [`Ord::cmp`] does; never `None`.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl VictimSet {
    /// Returns these units (single pods or whole groups) as a victim set, whose eviction lets `gain` more members fit. `tally` counts the
    /// evictions before, by budget; `rank` is the node for which the units were chosen. `None` if a guaranteed budget would be violated.
    pub(crate) fn of(
        problem: &Problem<'_>,
        tally: &mut Tally,
        units: Vec<UnitIndex>,
        gain: usize,
        rank: Rank,
    ) -> Option<Self> {
        let all = || units.iter().map(|number| &problem.potential.units[*number]);
        let (violations, breached) = problem.budgets.preview(tally, all());
        let price = SetPrice::of(all(), violations, gain, rank);
        (!breached).then_some(Self { units, price })
    }

    /// Returns the price by which the victim set (single pods and whole groups that are evicted together) is compared with others.
    pub(crate) fn price(&self) -> SetPrice {
        self.price
    }
}

/// What a node lacks for one more member.
struct Lack {
    /// Resources of which there is too little.
    ids: Vec<ResourceId>,
    /// By how much, in the same order.
    by: Vec<i128>,
}

impl Lack {
    /// Returns which resources the node with this rank (its index in the list of nodes) lacks for one more pod like this one, and how much
    /// of each.
    fn new(occupancy: &Occupancy<'_>, pod: &Pod, rank: Rank) -> Self {
        let ids = occupancy.lacks(pod, rank);
        let by = ids.iter().map(|id| pod.requests.get(*id) - occupancy.free(rank)[usize::from(*id)]).collect();
        Self { ids, by }
    }

    /// Returns how much of each resource that the node lacks the eviction of a unit (a single pod or a whole group) frees there.
    fn freed(&self, problem: &Problem<'_>, unit: UnitIndex, rank: Rank) -> Vec<i128> {
        let mut freed = vec![0; self.ids.len()];
        let here = problem.pods_on(unit, rank);
        for pod in here.iter().filter_map(|index| problem.cluster.pod_at(*index)) {
            freed.iter_mut().zip(&self.ids).for_each(|(freed, id)| *freed += pod.requests.get(*id));
        }
        freed
    }
}

/// What a search for victim sets depends on, besides the occupancy after the evictions and placements so far.
pub(crate) struct VictimSets<'p, 'a> {
    pub(crate) problem: &'p Problem<'a>,
    pub(crate) class: &'p MemberClass,
    /// One of the members.
    pub(crate) member: PodIndex,
    /// By index of the unit: whether it may be evicted.
    pub(crate) available: &'p [bool],
}

impl VictimSets<'_, '_> {
    /// Returns the victim set (single pods and whole groups that are evicted together) with the lowest price that lets one more member fit
    /// on the node with this rank (its index in the list of nodes), where none fits now; `None` if no permitted evictions suffice. `tally`
    /// counts the evictions so far by budget; `remaining` members are not placed yet. `occupancy` is unchanged afterwards.
    pub(crate) fn cheapest(
        &self,
        occupancy: &mut Occupancy<'_>,
        tally: &mut Tally,
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
        if occupancy.needs_no_port_or_claim(self.member) {
            return self.cheapest_by_count(occupancy, tally, rank, remaining, &candidates);
        }
        if candidates.is_empty() || !self.fits_without(occupancy, &candidates, rank) {
            return None;
        }
        let singles = candidates.iter().filter(|number| self.fits_without(occupancy, &[**number], rank));
        let singles: Vec<Vec<UnitIndex>> = singles.map(|number| vec![*number]).collect();
        let least = self.least_important(occupancy, tally, &candidates, rank);
        self.best_of(occupancy, tally, rank, remaining, singles.into_iter().chain(std::iter::once(least)))
    }

    /// Returns what [`Self::cheapest`] returns, for a member without host ports and claims for one pod, for which only amounts matter on
    /// the node: of the `candidates`, only units (single pods or whole groups) that free something that the node lacks are considered.
    fn cheapest_by_count(
        &self,
        occupancy: &mut Occupancy<'_>,
        tally: &mut Tally,
        rank: Rank,
        remaining: usize,
        candidates: &[UnitIndex],
    ) -> Option<VictimSet> {
        let problem = self.problem;
        let short = Lack::new(occupancy, problem.cluster.pod_at(self.member)?, rank);
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
        let order = self.reprieve_order(tally, frees.iter().map(|(number, _)| *number).collect());
        let mut least = Vec::new();
        for number in order {
            let Some((_, freed)) = frees.iter().find(|(other, _)| *other == number) else { continue };
            if !put_back_if_enough(&mut left, freed) {
                least.push(number);
            }
        }
        let least =
            std::iter::once(least).filter(|set| !matches!(set[..], [only] if singles.iter().any(|s| s[0] == only)));
        let sets: Vec<Vec<UnitIndex>> = least.chain(singles.iter().cloned()).collect();
        self.best_of(occupancy, tally, rank, remaining, sets.into_iter())
    }

    /// Returns, of these sets of units (single pods or whole groups), the one with the lowest price whose eviction violates no guaranteed
    /// budget and after which inter-pod constraints still admit the member; `None` if there is none.
    fn best_of(
        &self,
        occupancy: &mut Occupancy<'_>,
        tally: &mut Tally,
        rank: Rank,
        remaining: usize,
        sets: impl Iterator<Item = Vec<UnitIndex>>,
    ) -> Option<VictimSet> {
        let problem = self.problem;
        let unit = |number: &UnitIndex| &problem.potential.units[*number];
        let mut best: Option<VictimSet> = None;
        for units in sets {
            if !problem.budgets.may_evict(tally, units.iter().map(unit))
                || !self.still_admits_without(occupancy, &units, rank)
            {
                continue;
            }
            let set = VictimSet { price: self.price(occupancy, tally, &units, rank, remaining), units };
            let order =
                |a: &VictimSet, b: &VictimSet| a.price.cmp(&b.price).then_with(|| self.compare(&a.units, &b.units));
            if best.as_ref().is_none_or(|best| order(&set, best) == Ordering::Less) {
                best = Some(set);
            }
        }
        best
    }

    /// Returns true if inter-pod constraints admit the member to the node with this rank (its index in the list of nodes) after the
    /// eviction of these units (single pods or whole groups); its affinity may need one of their pods.
    fn still_admits_without(&self, occupancy: &mut Occupancy<'_>, units: &[UnitIndex], rank: Rank) -> bool {
        let pods = |unit: &UnitIndex| -> &[PodIndex] { &self.problem.potential.units[*unit].pods };
        // Without affinity and spread constraints, the removal of a pod cannot make a node infeasible.
        let indifferent = |member: &Pod| member.constraints.affinity.is_empty() && member.constraints.spread.is_empty();
        if self.problem.cluster.pod_at(self.member).is_some_and(indifferent) {
            return true;
        }
        self.problem.effort.take(units.iter().map(|unit| 2 * pods(unit).len()).sum());
        if !units.iter().flat_map(pods).any(|pod| occupancy.is_counted(*pod)) {
            return true;
        }
        units.iter().for_each(|unit| occupancy.take(pods(unit)));
        let lets_in = occupancy.violated_constraint(self.member, rank).is_none();
        units.iter().for_each(|unit| occupancy.put(pods(unit)));
        lets_in
    }

    /// Returns true if one more member fits on the node with this rank (its index in the list of nodes) without these units (single pods or
    /// whole groups), by resources, host ports and claims for one pod.
    fn fits_without(&self, occupancy: &mut Occupancy<'_>, units: &[UnitIndex], rank: Rank) -> bool {
        let here: Vec<PodIndex> = units.iter().flat_map(|number| self.problem.pods_on(*number, rank)).collect();
        self.problem.effort.take(here.len());
        occupancy.take(&here);
        let fits = occupancy.refuse_here(self.member, rank).is_none();
        occupancy.put(&here);
        fits
    }

    /// Returns those of `candidates` (units of eviction) without which one more member fits on the node with this rank (its index in the
    /// list of nodes), such that each of them is needed: all candidates are removed, and then, in the order of [`Self::reprieve_order`],
    /// each is put back if the member still fits beside it. `occupancy` is unchanged afterwards.
    fn least_important(
        &self,
        occupancy: &mut Occupancy<'_>,
        tally: &mut Tally,
        candidates: &[UnitIndex],
        rank: Rank,
    ) -> Vec<UnitIndex> {
        let here = |number: UnitIndex| (number, self.problem.pods_on(number, rank));
        let order: Vec<_> = self.reprieve_order(tally, candidates.to_vec()).into_iter().map(here).collect();
        order.iter().for_each(|(_, pods)| occupancy.take(pods));
        let mut set = Vec::new();
        for (number, pods) in &order {
            occupancy.put(pods);
            if occupancy.refuse_here(self.member, rank).is_some() {
                occupancy.take(pods);
                set.push((*number, pods));
            }
        }
        set.iter().for_each(|(_, pods)| occupancy.put(pods));
        set.into_iter().map(|(number, _)| number).collect()
    }

    /// Returns these units (single pods or whole groups) in the order in which they are reprieved: first those whose eviction violates a
    /// budget, in addition to the evictions in `tally`; within both parts the most important first.
    fn reprieve_order(&self, tally: &mut Tally, mut order: Vec<UnitIndex>) -> Vec<UnitIndex> {
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

    /// Returns the price of evicting the units `set` (single pods or whole groups) for members on the node with this rank (its index in the
    /// list of nodes). `tally` counts the evictions so far by budget; `remaining` members are not placed yet. `occupancy` is unchanged
    /// afterwards.
    fn price(
        &self,
        occupancy: &mut Occupancy<'_>,
        tally: &mut Tally,
        set: &[UnitIndex],
        rank: Rank,
        remaining: usize,
    ) -> SetPrice {
        let units = || set.iter().map(|number| &self.problem.potential.units[*number]);
        let (violations, _) = self.problem.budgets.preview(tally, units());
        SetPrice::of(units(), violations, self.gain(occupancy, set, rank, remaining), rank)
    }

    /// Returns how many more members fit after the units `set` (single pods or whole groups) are evicted, at most `remaining`: on the nodes
    /// of these units and on the node with this `rank` (its index in the list of nodes). 1 if counting would take too much effort.
    /// `occupancy` is unchanged afterwards.
    fn gain(&self, occupancy: &mut Occupancy<'_>, set: &[UnitIndex], rank: Rank, remaining: usize) -> usize {
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
        let fit = |occupancy: &Occupancy<'_>| -> usize {
            touched.iter().map(|rank| occupancy.capacity_here(self.member, *rank, remaining)).sum()
        };
        let before = fit(occupancy);
        units().for_each(|unit| occupancy.take(&unit.pods));
        let after = fit(occupancy);
        units().for_each(|unit| occupancy.put(&unit.pods));
        after.saturating_sub(before).min(remaining)
    }

    /// Orders two sets of units (single pods or whole groups) of the same price; `Less` means that `a` is preferred. See [`compare_sets`].
    fn compare(&self, a: &[UnitIndex], b: &[UnitIndex]) -> Ordering {
        compare_sets(a, b, |a, b| self.problem.potential.compare(*a, *b))
    }
}

/// Orders two sets of units (single pods or whole groups) of the same price; `Less` means that `a` is preferred. That is the set with the
/// less important units, compared one by one, and then the smaller set. `order` returns `Less` if its first unit is more important than its
/// second.
pub(super) fn compare_sets(
    a: &[UnitIndex],
    b: &[UnitIndex],
    order: impl Fn(&UnitIndex, &UnitIndex) -> Ordering,
) -> Ordering {
    let pairs = a.iter().zip(b).map(|(a, b)| order(b, a));
    pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
}
