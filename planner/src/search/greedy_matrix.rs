//! Steps 7 and 8 for a gang, by amounts: the placement of [`super::greedy`] and the reprieve after it, for members of one class, if no
//! available unit violates a budget.

use crate::api::{Cost, CostBound};
use crate::filters::Rank;
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};
use crate::search::found::Found;
use crate::search::matrix::Matrix;
use crate::search::missing::{put_back, subtract};
use crate::search::victim_sets::{SetPrice, compare_sets};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// Units whose eviction lets at least one more member fit, and their price.
type Cheapest = (SetPrice, Vec<usize>);

/// A placement of the members of a group on a matrix that is being made, and its victims.
pub(crate) struct Gang<'p, 'a> {
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
    doomed: Vec<usize>,
    /// Prices of victim sets. Prices that have changed are detected when they are popped.
    prices: BinaryHeap<Reverse<SetPrice>>,
    /// By node: the victim set whose price was noted last, and the number of evicted victim sets at that time.
    noted: Vec<Option<(Cheapest, usize)>>,
    /// By node: the number of evicted victim sets when it changed last.
    changed: Vec<usize>,
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

/// Places the members with the `available` units as potential victims, and reprieves as many units as it can. In `matrix`, which has the
/// units of the problem and all its nodes, no unit is removed before; it is unchanged afterwards.
pub(crate) fn find(problem: &Problem<'_>, matrix: &mut Matrix, available: &[bool], mut trace: Vec<String>) -> Found {
    let mut sorted: Vec<usize> = (0..matrix.units.len()).collect();
    sorted.sort_by(|a, b| problem.potential.compare(matrix.units[*a].number, matrix.units[*b].number));
    let mut order = vec![0; sorted.len()];
    sorted.into_iter().enumerate().for_each(|(place, unit)| order[unit] = place);
    let open = matrix.units.iter().map(|unit| available[unit.number]).collect();
    let nodes = matrix.on.len();
    let mut gang = Gang {
        problem,
        matrix,
        open,
        order,
        used: vec![0; nodes],
        placed: Vec::new(),
        doomed: Vec::new(),
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
    let stay = gang.doomed.iter().filter(|unit| !gone[gang.matrix.units[**unit].number]).count();
    trace.push(format!(
        "With the members placed, {stay} of the units that were removed for them need not be evicted. Victims: {cost}."
    ));
    Found { placed: gang.placed, victims, cost, trace, least: CostBound::default() }
}

impl Gang<'_, '_> {
    /// Returns how many wanted members are not placed yet.
    fn remaining(&self) -> usize {
        self.problem.demand.wanted - self.placed.len()
    }

    /// Places the members on free capacity, and then by removing the cheapest victim sets one after the other.
    fn place(&mut self) {
        let all: Vec<usize> = (0..self.used.len()).collect();
        self.fill(&all);
        while self.remaining() > 0 {
            let Some((_, units)) = self.cheapest() else { return };
            let mut touched = Vec::new();
            self.matrix.flip_all(&units);
            for unit in units {
                self.open[unit] = false;
                self.doomed.push(unit);
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

    /// Places members on free capacity of these nodes, the tightest first, and computes the price of further members there.
    fn fill(&mut self, nodes: &[usize]) {
        let (problem, open) = (self.problem, nodes.iter().copied());
        self.matrix.fill(problem, open, problem.demand.wanted, &mut self.placed, &mut self.used);
        if self.remaining() > 0 {
            for node in nodes {
                if let Some(clearing) = self.clearing(*node) {
                    self.note(clearing);
                }
            }
        }
    }

    /// Records a victim set as the cheapest one of its node, with the number of victim sets evicted before.
    fn note(&mut self, clearing: Cheapest) {
        self.prices.push(Reverse(clearing.0));
        let node = clearing.0.rank;
        self.noted[node] = Some((clearing, self.cleared));
    }

    /// Returns the victim set with the lowest price on any node; `None` if there is none. Noted prices can have increased, so they are
    /// computed again unless nothing changed for them.
    fn cheapest(&mut self) -> Option<Cheapest> {
        while let Some(Reverse(price)) = self.prices.pop() {
            let noted = self.noted[price.rank].take();
            let clearing = match noted.filter(|(clearing, at)| clearing.0 == price && self.lasts(clearing, *at)) {
                Some((clearing, _)) => return Some(clearing),
                None => self.clearing(price.rank),
            };
            let Some(clearing) = clearing else { continue };
            if self.prices.peek().is_none_or(|Reverse(next)| clearing.0 <= *next) {
                return Some(clearing);
            }
            self.note(clearing);
        }
        None
    }

    /// Returns true if the gain and the price of a victim set are the same as when it was noted, after `noted` victim sets were evicted:
    /// none of its nodes has changed since.
    fn lasts(&self, (price, units): &Cheapest, noted: usize) -> bool {
        let mut nodes = units.iter().flat_map(|unit| self.matrix.frees(*unit)).map(|(node, _)| node);
        price.gains_at_most(self.remaining()) && nodes.all(|node| self.changed[node] <= noted)
    }

    /// Returns the cheapest units whose eviction lets at least one more member fit on a node: one that is enough by itself, or the least
    /// important ones that are enough together. `None` if none are enough.
    fn clearing(&mut self, node: usize) -> Option<Cheapest> {
        if self.matrix.full(node) {
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
            if !put_back(left, matrix.freed_on(*unit, node)) {
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

    /// Returns the price of evicting the units `set` for members on a node.
    fn price(&mut self, node: usize, set: &[usize]) -> SetPrice {
        let gain = self.gain(set).min(self.remaining());
        let units = set.iter().map(|unit| &self.problem.potential.units[self.matrix.units[*unit].number]);
        SetPrice::of(units, 0, gain, node)
    }

    /// Returns how many more members fit on all nodes after a set of units is evicted.
    fn gain(&mut self, set: &[usize]) -> usize {
        if let Some(gain) = self.gains.get(set) {
            return *gain;
        }
        let before = self.matrix.total;
        self.matrix.flip_all(set);
        let gain = self.matrix.total - before;
        self.matrix.flip_all(set);
        self.gains.insert(set.to_vec(), gain);
        gain
    }

    /// Orders sets of one price, the preferred one first: that with the less important units, then the smaller one.
    fn compare(&self, a: &[usize], b: &[usize]) -> Ordering {
        compare_sets(a, b, |a, b| self.order[*a].cmp(&self.order[*b]))
    }

    /// Returns the victims for the current placement: chosen from the units that were removed for it, or from all potential victims on its
    /// nodes, whichever costs less; the latter if they cost the same.
    fn victims(&mut self) -> (Vec<UnitIndex>, Cost) {
        let few = self.reprieve(self.doomed.clone());
        let on_it = (0..self.used.len()).filter(|node| self.used[*node] > 0).flat_map(|node| &self.matrix.on[node]);
        let mut touched: Vec<usize> = on_it.copied().filter(|unit| self.open[*unit]).collect();
        touched.sort_unstable();
        touched.dedup();
        if touched.is_empty() {
            let victims = self.put_back(few);
            let cost = Cost::of(self.problem, &victims, &self.placed);
            return (victims, cost);
        }
        touched.extend(&self.doomed);
        let still: Vec<usize> = touched.iter().copied().filter(|unit| !self.matrix.gone[*unit]).collect();
        self.matrix.flip_all(&still);
        let all = self.reprieve(touched);
        let (all, few) = (self.put_back(all), self.numbered(few));
        Cost::cheaper(self.problem, all, few, &self.placed)
    }

    /// Puts the victims back into the matrix, which is then as before. Returns them as numbered in the problem.
    fn put_back(&mut self, victims: Vec<usize>) -> Vec<UnitIndex> {
        self.matrix.flip_all(&victims);
        self.numbered(victims)
    }

    /// Converts units from their numbers in the matrix to those in the problem.
    fn numbered(&self, units: Vec<usize>) -> Vec<UnitIndex> {
        units.into_iter().map(|unit| self.matrix.units[unit].number).collect()
    }

    /// Reprieves units, the most important first; all of `units` are removed before. Returns those that cannot be reprieved, from the
    /// most to the least important.
    fn reprieve(&mut self, mut units: Vec<usize>) -> Vec<usize> {
        units.sort_unstable_by_key(|unit| self.order[*unit]);
        self.matrix.reprieve(units, &self.used)
    }
}
