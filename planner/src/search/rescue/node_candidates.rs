//! The units that may be evicted for a critical add-on on one node: what each costs and frees there, and a lower bound on choices of them.

use super::weight::Weight;
use crate::api::Step;
use crate::filters::Rank;
use crate::model::{ClassId, Labels};
use crate::problem::UnitIndex;
use crate::search::missing::subtract;
use std::collections::BTreeMap;

/// A unit of the current node that may be evicted.
pub(super) struct EvictableUnit {
    pub(super) unit: UnitIndex,
    pub(super) class: UnitClass,
    /// What its eviction frees on the node, of each resource that the add-on requests.
    pub(super) freed: Vec<i128>,
    /// The first step in which it can be evicted.
    pub(super) step: Step,
}

/// Equivalence class of units: any of them can be evicted instead of another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnitClass {
    pub(super) effects: EvictionEffects,
    /// Whether it may be evicted only if it fits on another node.
    pub(super) elsewhere: bool,
    /// Equivalence class of its first pod.
    pub(super) kind: ClassId,
    /// The budgets of its pods, by number.
    pub(super) budgets: Vec<usize>,
    /// Whether these budgets are guaranteed.
    pub(super) guarded: bool,
    /// Its labels, if inter-pod constraints matter.
    pub(super) labels: Option<Labels>,
    /// Set for a group that is disrupted together, so that it is a class of its own.
    pub(super) group: Option<UnitIndex>,
}

/// What the eviction of a unit, or of all chosen units of a node, does to its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionEffects {
    /// Pods that several budgets select: their eviction counts as a violation, because the Eviction API always refuses it.
    pub(super) in_several_budgets: usize,
    /// Pods that get a shorter grace period.
    pub(super) shortened: usize,
    /// Number of pods.
    pub(super) pods: usize,
    /// Pods that fit on no other node.
    pub(super) stranded: usize,
    /// Requests of the pods, as a share of what all nodes offer.
    pub(super) requests: i128,
    /// Pods without a controller, which are not recreated.
    pub(super) uncontrolled: usize,
}

impl EvictionEffects {
    /// Adds those of another unit (a single pod or a whole group).
    fn add(&mut self, other: &Self) {
        self.in_several_budgets += other.in_several_budgets;
        self.shortened += other.shortened;
        self.pods += other.pods;
        self.stranded += other.stranded;
        self.requests = self.requests.saturating_add(other.requests);
        self.uncontrolled += other.uncontrolled;
    }

    /// Returns the weight of these evictions for a critical add-on on the node with this rank (its index in the list of nodes), if this
    /// number of pods violates a budget. It has no names.
    pub(super) fn weight<'a>(&self, violations: usize, node: Rank) -> Weight<'a> {
        Weight {
            step: Step::needed(violations, self.shortened),
            disturbances: self.shortened + violations,
            pods: self.pods,
            stranded: self.stranded,
            requests: self.requests,
            uncontrolled: self.uncontrolled,
            node,
            names: Vec::new(),
        }
    }
}

/// The units of one node that may be evicted, in the order in which branch and bound decides on them.
pub(super) struct NodeCandidates {
    pub(super) rank: Rank,
    pub(super) candidates: Vec<EvictableUnit>,
    /// What the critical add-on lacks on the node before evictions, of each resource that it requests.
    pub(super) missing: Vec<i128>,
    /// By unit: its position in `candidates`.
    positions: BTreeMap<UnitIndex, usize>,
    /// By position in `candidates` and resource: what all candidates from this position on free.
    rest: Vec<Vec<i128>>,
    /// By position in `candidates` and resource: the most that one of the candidates from this position on frees.
    most: Vec<Vec<i128>>,
}

impl NodeCandidates {
    /// Creates the list of candidates of a node, on which the critical add-on lacks the amounts in `missing`.
    pub(super) fn new(rank: Rank, candidates: Vec<EvictableUnit>, missing: Vec<i128>) -> Self {
        let none = || vec![0; missing.len()];
        let (mut rest, mut most) = (vec![none()], vec![none()]);
        for candidate in candidates.iter().rev() {
            let (mut sum, mut max) = (rest[rest.len() - 1].clone(), most[most.len() - 1].clone());
            sum.iter_mut().zip(&candidate.freed).for_each(|(sum, freed)| *sum += freed);
            max.iter_mut().zip(&candidate.freed).for_each(|(max, freed)| *max = (*max).max(*freed));
            rest.push(sum);
            most.push(max);
        }
        rest.reverse();
        most.reverse();
        let positions = candidates.iter().enumerate().map(|(at, candidate)| (candidate.unit, at)).collect();
        Self { rank, candidates, missing, positions, rest, most }
    }

    /// Returns the candidates in order.
    pub(super) fn units(&self) -> Vec<UnitIndex> {
        self.candidates.iter().map(|candidate| candidate.unit).collect()
    }

    /// Returns the candidate that is this unit (a single pod or a whole group); `None` if it is no candidate.
    fn candidate(&self, unit: UnitIndex) -> Option<&EvictableUnit> {
        self.candidates.get(*self.positions.get(&unit)?)
    }

    /// Returns true for two candidates of one equivalence class.
    pub(super) fn are_alike(&self, first: UnitIndex, second: UnitIndex) -> bool {
        let class = |unit| self.candidate(unit).map(|candidate| &candidate.class);
        class(first) == class(second)
    }

    /// Returns a lower bound on the weight of every choice that has all of the candidates `chosen` and some of the last `left` candidates:
    /// at least `violations` pods violate a budget. `None` if all of them together free too little.
    pub(super) fn bound<'a>(&self, chosen: &[UnitIndex], left: usize, violations: usize) -> Option<Weight<'a>> {
        let (effects, from) = (self.effects(chosen), self.candidates.len() - left);
        let mut missing = self.missing.clone();
        let chosen = chosen.iter().filter_map(|unit| self.candidate(*unit));
        chosen.for_each(|candidate| subtract(&mut missing, &candidate.freed));
        if missing.iter().zip(&self.rest[from]).any(|(missing, rest)| missing > rest) {
            return None;
        }
        let mut bound = effects.weight(violations.max(effects.in_several_budgets), self.rank);
        bound.pods += least_further_evictions(&missing, &self.most[from]);
        Some(bound)
    }

    /// Returns what the eviction of these candidates does.
    pub(super) fn effects(&self, units: &[UnitIndex]) -> EvictionEffects {
        let mut effects = EvictionEffects::default();
        let candidates = units.iter().filter_map(|unit| self.candidate(*unit));
        candidates.for_each(|candidate| effects.add(&candidate.class.effects));
        effects
    }
}

/// Returns a lower bound on the number of further evictions that free the `missing` amounts, if one eviction frees at most the amounts in
/// `most`. Both are by resource.
fn least_further_evictions(missing: &[i128], most: &[i128]) -> usize {
    let units = missing.iter().zip(most).filter(|(missing, _)| **missing > 0).map(|(missing, most)| match *most {
        most if most > 0 => usize::try_from((missing + most - 1) / most).unwrap_or(usize::MAX / 2),
        _ => 0,
    });
    units.max().unwrap_or(0)
}
