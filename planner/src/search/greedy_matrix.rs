//! Steps 7 and 8 for a gang, by amounts: the placement of [`super::greedy`] and the reprieve after it, for members of one class, if no
//! available unit violates a budget.

use crate::api::{Cost, CostBound};
use crate::filters::Rank;
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};
use crate::search::found::Found;
use crate::search::matrix::Matrix;
use crate::search::missing::{put_back_if_enough, subtract};
use crate::search::victim_sets::{SetPrice, compare_sets};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// Units (indexes in the matrix) whose eviction lets at least one more member fit, and their price.
type PricedSet = (SetPrice, Vec<usize>);

/// A placement of the members of a group in progress, on a matrix of amounts, and its victims. Nodes and units are referred to by their
/// indexes in the matrix.
pub(crate) struct GangPlacement<'p, 'a> {
    problem: &'p Problem<'a>,
    matrix: &'p mut Matrix,
    /// By unit: whether it is available as a victim.
    open: Vec<bool>,
    /// By unit: its position in the order of importance.
    order: Vec<usize>,
    /// By node: how many members are placed there.
    used: Vec<usize>,
    placed: Vec<(PodIndex, Rank)>,
    /// The units that were removed to let members fit.
    evicted: Vec<usize>,
    /// Prices of victim sets. Prices that have changed are detected when they are popped.
    prices: BinaryHeap<Reverse<SetPrice>>,
    /// By node: the victim set whose price was noted last, and the number of evicted victim sets at that time.
    noted: Vec<Option<(PricedSet, usize)>>,
    /// By node: the number of evicted victim sets when it changed last.
    changed: Vec<usize>,
    /// Number of victim sets that were evicted so far.
    cleared: usize,
    /// By set of units: for how many more members its eviction is enough, in the current state; a group with pods on very many nodes is
    /// looked up on each of them.
    gains: BTreeMap<Vec<usize>, usize>,
    scratch: Scratch,
}

/// Buffers that are reused for every victim set.
#[derive(Default)]
struct Scratch {
    short: Vec<i64>,
    left: Vec<i64>,
    frees: Vec<usize>,
}

/// Places the members, with the units (single pods or whole groups) for which `available`, by index in the problem, is true as potential
/// victims, and reprieves as many of the evicted units as it can. `matrix` has all units and all usable nodes of the problem, and no unit
/// is removed from it before; it is unchanged afterwards. `trace` explains the steps before in sentences; one about this step is added.
pub(crate) fn find(problem: &Problem<'_>, matrix: &mut Matrix, available: &[bool], mut trace: Vec<String>) -> Found {
    let mut sorted: Vec<usize> = (0..matrix.units.len()).collect();
    sorted.sort_by(|a, b| problem.potential.compare(matrix.units[*a].number, matrix.units[*b].number));
    let mut order = vec![0; sorted.len()];
    sorted.into_iter().enumerate().for_each(|(place, unit)| order[unit] = place);
    let open = matrix.units.iter().map(|unit| available[unit.number]).collect();
    let nodes = matrix.on.len();
    let mut gang = GangPlacement {
        problem,
        matrix,
        open,
        order,
        used: vec![0; nodes],
        placed: Vec::new(),
        evicted: Vec::new(),
        prices: BinaryHeap::new(),
        noted: vec![None; nodes],
        changed: vec![0; nodes],
        cleared: 0,
        gains: BTreeMap::new(),
        scratch: Scratch::default(),
    };
    gang.place();
    let (victims, cost) = gang.victims();
    let mut gone = vec![false; problem.potential.units.len()];
    victims.iter().for_each(|unit| gone[*unit] = true);
    let stay = gang.evicted.iter().filter(|unit| !gone[gang.matrix.units[**unit].number]).count();
    trace.push(format!(
        "With the members placed, {stay} of the units that were removed for them need not be evicted. Victims: {cost}."
    ));
    Found { placed: gang.placed, victims, cost, trace, least: CostBound::default() }
}

impl GangPlacement<'_, '_> {
    /// Returns how many wanted members are not placed yet.
    fn remaining(&self) -> usize {
        self.problem.demand.wanted - self.placed.len()
    }

    /// Places the members on free capacity, and then by evicting the victim sets (each has single pods and whole groups that are evicted
    /// together) with the lowest prices one after the other, until the wanted number is placed or no victim set is left.
    fn place(&mut self) {
        let all: Vec<usize> = (0..self.used.len()).collect();
        self.fill(&all);
        while self.remaining() > 0 {
            let Some((_, units)) = self.cheapest() else { return };
            let mut touched = Vec::new();
            self.matrix.toggle_all(&units);
            for unit in units {
                self.open[unit] = false;
                self.evicted.push(unit);
                touched.extend(self.matrix.frees(unit).map(|(node, _)| node));
            }
            touched.sort_unstable();
            touched.dedup();
            self.cleared += 1;
            self.gains.clear();
            touched.iter().for_each(|node| self.changed[*node] = self.cleared);
            self.fill(&touched);
        }
    }

    /// Places members on free capacity of these nodes (indexes in the matrix), the tightest first; if wanted members remain, then computes
    /// for each of these nodes the cheapest victim set (single pods and whole groups that are evicted together) for one more member.
    fn fill(&mut self, nodes: &[usize]) {
        let (problem, open) = (self.problem, nodes.iter().copied());
        self.matrix.fill(problem, open, problem.demand.wanted, &mut self.placed, &mut self.used);
        if self.remaining() > 0 {
            for node in nodes {
                if let Some(clearing) = self.cheapest_set_on(*node) {
                    self.note(clearing);
                }
            }
        }
    }

    /// Records `clearing` as the cheapest victim set (single pods and whole groups that are evicted together) of its node, with the number
    /// of victim sets evicted until now.
    fn note(&mut self, clearing: PricedSet) {
        self.prices.push(Reverse(clearing.0));
        let node = clearing.0.rank;
        self.noted[node] = Some((clearing, self.cleared));
    }

    /// Removes and returns the victim set (single pods and whole groups that are evicted together) with the lowest price on any node;
    /// `None` if there is none. A recorded price may be too low, so it is computed again unless nothing changed for its units.
    fn cheapest(&mut self) -> Option<PricedSet> {
        while let Some(Reverse(price)) = self.prices.pop() {
            let noted = self.noted[price.rank].take();
            let clearing = match noted.filter(|(clearing, at)| clearing.0 == price && self.is_unchanged(clearing, *at))
            {
                Some((clearing, _)) => return Some(clearing),
                None => self.cheapest_set_on(price.rank),
            };
            let Some(clearing) = clearing else { continue };
            if self.prices.peek().is_none_or(|Reverse(next)| clearing.0 <= *next) {
                return Some(clearing);
            }
            self.note(clearing);
        }
        None
    }

    /// Returns true if the price of a victim set (single pods and whole groups that are evicted together), recorded after `noted` victim
    /// sets had been evicted, is still right: none of the nodes of its units has changed since, and enough members remain to use all
    /// capacity that it frees.
    fn is_unchanged(&self, (price, units): &PricedSet, noted: usize) -> bool {
        let mut nodes = units.iter().flat_map(|unit| self.matrix.frees(*unit)).map(|(node, _)| node);
        price.gains_at_most(self.remaining()) && nodes.all(|node| self.changed[node] <= noted)
    }

    /// Returns the cheapest units (single pods or whole groups) whose eviction lets at least one more member fit on a node (an index in the
    /// matrix), with their price: either one unit that is enough by itself, or the least important units that are enough together. `None`
    /// if all available units there are not enough.
    fn cheapest_set_on(&mut self, node: usize) -> Option<PricedSet> {
        if self.matrix.is_full(node) {
            return None;
        }
        let wanted = i64::try_from(self.used[node] + 1).ok()?;
        let matrix = &self.matrix;
        let Scratch { short, left, frees } = &mut self.scratch;
        short.clear();
        short.extend(matrix.request.iter().zip(matrix.free_on(node)).map(|(each, free)| each * wanted - free));
        left.clone_from(short);
        frees.clear();
        for unit in matrix.on[node].iter().copied().filter(|unit| self.open[*unit]) {
            let freed = matrix.freed_on(unit, node);
            if short.iter().zip(freed).any(|(short, freed)| *short > 0 && *freed > 0) {
                subtract(left, freed);
                frees.push(unit);
            }
        }
        if frees.is_empty() || left.iter().any(|amount| *amount > 0) {
            return None;
        }
        frees.sort_unstable_by_key(|unit| self.order[*unit]);
        let mut least = Vec::with_capacity(2);
        for unit in frees.iter() {
            if !put_back_if_enough(left, matrix.freed_on(*unit, node)) {
                least.push(*unit);
            }
        }
        frees.retain(|unit| matrix.freed_on(*unit, node).iter().zip(short.iter()).all(|(freed, short)| freed >= short));
        frees.retain(|unit| least != [*unit]);
        let alone = std::mem::take(&mut self.scratch.frees);
        let mut best = (self.price(node, &least), least);
        for unit in &alone {
            let price = self.price(node, &[*unit]);
            if price.cmp(&best.0).then_with(|| self.compare(&[*unit], &best.1)) == Ordering::Less {
                best = (price, vec![*unit]);
            }
        }
        self.scratch.frees = alone;
        Some(best)
    }

    /// Returns the price of evicting the units `set` (single pods or whole groups, as indexes in the matrix) for one more member on a node
    /// (an index in the matrix).
    fn price(&mut self, node: usize, set: &[usize]) -> SetPrice {
        let gain = self.gain(set).min(self.remaining());
        let units = set.iter().map(|unit| &self.problem.potential.units[self.matrix.units[*unit].number]);
        SetPrice::of(units, 0, gain, node)
    }

    /// Returns how many more members fit, on all nodes together, after the units `set` (single pods or whole groups, as indexes in the
    /// matrix) are evicted.
    fn gain(&mut self, set: &[usize]) -> usize {
        if let Some(gain) = self.gains.get(set) {
            return *gain;
        }
        let before = self.matrix.total;
        self.matrix.toggle_all(set);
        let gain = self.matrix.total - before;
        self.matrix.toggle_all(set);
        self.gains.insert(set.to_vec(), gain);
        gain
    }

    /// Orders two sets of units (single pods or whole groups, as indexes in the matrix) of the same price; `Less` means that `a` is
    /// preferred: the set with the less important units, then the smaller set.
    fn compare(&self, a: &[usize], b: &[usize]) -> Ordering {
        compare_sets(a, b, |a, b| self.order[*a].cmp(&self.order[*b]))
    }

    /// Returns the victims for the members as they are placed, and their cost. They are chosen by reprieve from the units (single pods or
    /// whole groups) that were evicted to place the members, and from all potential victims on nodes of the placement; the cheaper choice
    /// is returned, the second one if both cost the same.
    fn victims(&mut self) -> (Vec<UnitIndex>, Cost) {
        let few = self.reprieve(self.evicted.clone());
        let on_it = (0..self.used.len()).filter(|node| self.used[*node] > 0).flat_map(|node| &self.matrix.on[node]);
        let mut touched: Vec<usize> = on_it.copied().filter(|unit| self.open[*unit]).collect();
        touched.sort_unstable();
        touched.dedup();
        if touched.is_empty() {
            let victims = self.put_victims_back(few);
            let cost = Cost::of(self.problem, &victims, &self.placed);
            return (victims, cost);
        }
        touched.extend(&self.evicted);
        let still: Vec<usize> = touched.iter().copied().filter(|unit| !self.matrix.removed[*unit]).collect();
        self.matrix.toggle_all(&still);
        let all = self.reprieve(touched);
        let (all, few) = (self.put_victims_back(all), self.numbers_in_problem(few));
        Cost::cheaper(self.problem, all, few, &self.placed)
    }

    /// Puts the victims (indexes in the matrix), which are all units (single pods or whole groups) that are removed from the matrix, back
    /// into it. Returns them as indexes in the problem.
    fn put_victims_back(&mut self, victims: Vec<usize>) -> Vec<UnitIndex> {
        self.matrix.toggle_all(&victims);
        self.numbers_in_problem(victims)
    }

    /// Converts indexes of units (single pods or whole groups) in the matrix to their indexes in the problem.
    fn numbers_in_problem(&self, units: Vec<usize>) -> Vec<UnitIndex> {
        units.into_iter().map(|unit| self.matrix.units[unit].number).collect()
    }

    /// Puts those of `units` back into the matrix that leave enough capacity for the placed members, the most important first. Returns the
    /// others, the victims, from the most to the least important. Units are single pods or whole groups, given by their indexes in the
    /// matrix; all of them are removed before.
    fn reprieve(&mut self, mut units: Vec<usize>) -> Vec<usize> {
        units.sort_unstable_by_key(|unit| self.order[*unit]);
        self.matrix.reprieve(units, &self.used)
    }
}
