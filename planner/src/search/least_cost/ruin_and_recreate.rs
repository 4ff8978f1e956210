//! Improves a choice of victims by ruin and recreate: it repeatedly puts some of them back and replaces them in the cheapest way.
//!
//! Evicting a group frees a little capacity on many nodes, so that the cheapest choice depends on the other victims. A step puts back
//! a few victims, or most of those on one node; then units are evicted from the node where the next member costs least until
//! enough members fit, and victims that are no longer needed are put back. Steps with a slightly higher cost are accepted at first,
//! and ever more rarely, so that the search leaves the neighbourhood of its start.

use crate::limits::{RUIN_EFFORT, RUIN_PATIENCE, RUIN_RETURNS, RUIN_STEPS};
use crate::problem::{Problem, UnitIndex};
use crate::search::least_cost::chance::{
    ONE, accepts_heavier, accepts_rarely, freed_share, neutral_factor, random_factor, ratio, share,
};
use crate::search::least_cost::under::UnitBudgets;
use crate::search::matrix::Matrix;
use crate::search::missing::{put_back_if_enough, subtract};
use crate::search::numbers::RandomNumbers;

/// Surcharge on the price of a unit for each of its pods that violates a budget: more than the pods of any plan can weigh.
const VIOLATION: u128 = 1_000_000_000_000_000_000;
/// Surcharge on the price of a unit above the highest priority so far.
const CEILING: u128 = 10_000_000_000_000_000;
/// Price of a node on which no eviction helps.
const NEVER: u128 = u128::MAX;

/// Score of a choice, in the order of step 9 without its tie-breaks; lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    violations: usize,
    highest: i32,
    weight: u64,
    pods: usize,
}

/// Returns the best choice of victims that the local search finds, starting from the victims `start`, among the units (single pods or whole
/// groups) of `matrix`, of which none is removed; `None` if it finds none better than `start`. The search ends early near `weight`, a lower
/// bound on the weight of all choices. `ceiling_is_tight` says that no choice has a lower highest priority than `start`.
pub(super) fn run(
    problem: &Problem<'_>,
    matrix: &mut Matrix,
    start: &[UnitIndex],
    weight: u64,
    ceiling_is_tight: bool,
) -> Option<Vec<UnitIndex>> {
    let mut rebuild = RuinAndRecreate::new(problem, matrix);
    start
        .iter()
        .filter_map(|unit| rebuild.matrix.number_of(*unit))
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|unit| rebuild.toggle(unit));
    if rebuild.matrix.total < rebuild.matrix.goal || rebuild.evicted.is_empty() {
        return None;
    }
    let first = rebuild.score();
    let (mut current, mut best, mut victims, mut found) = (first, first, rebuild.evicted.clone(), 0);
    for step in 0..RUIN_STEPS {
        let near = |weight| best.violations == 0 && best.weight <= weight;
        let limit = if near(weight + weight / 20) { RUIN_EFFORT.min(found + RUIN_PATIENCE) } else { RUIN_EFFORT };
        if rebuild.effort > limit || (near(weight) && ceiling_is_tight) {
            break;
        }
        let limit = if best.violations == 0 { best.highest } else { i32::MAX };
        let lower = !ceiling_is_tight && rebuild.numbers.below(4) == 0;
        rebuild.limit = if lower { current.highest.saturating_sub(1) } else { limit };
        rebuild.soft = best.highest;
        rebuild.journal.clear();
        rebuild.ruin(lower);
        let rebuilt = rebuild.recreate();
        let score = rebuild.score();
        let heat = ONE - share(step, RUIN_STEPS).max(share(rebuild.effort, RUIN_EFFORT));
        if rebuilt && rebuild.accepts(&current, &score, heat) {
            current = score;
            if score < best {
                (best, found) = (score, rebuild.effort);
                victims.clone_from(&rebuild.evicted);
            }
        } else {
            rebuild.undo();
        }
    }
    (best < first).then(|| victims.into_iter().map(|unit| rebuild.matrix.units[unit].number).collect())
}

/// The state of the local search (ruin and recreate): the matrix of amounts, the units that are evicted in it, and sums over these units.
/// Units and nodes are referred to by their indexes in the matrix.
struct RuinAndRecreate<'p, 'a> {
    problem: &'p Problem<'a>,
    matrix: &'p mut Matrix,
    numbers: RandomNumbers,
    /// The units that are evicted now, in no defined order.
    evicted: Vec<usize>,
    /// By unit: its index in `evicted`.
    position: Vec<usize>,
    /// Sum of the weights of the evicted units.
    weight: u64,
    /// Number of their pods.
    pods: usize,
    /// By unit: the budgets it is under.
    under: Vec<UnitBudgets>,
    /// By budget: victims, and those of them that are guarded.
    victims: Vec<usize>,
    guarded: Vec<usize>,
    /// Number of budgets with more victims than they allow.
    exceeded: usize,
    /// By node: cached price of the next member there.
    prices: Vec<Option<u128>>,
    /// The units that were removed or put back in this step.
    journal: Vec<usize>,
    /// No unit above the priority `limit` is evicted, and units above `soft` only with a surcharge.
    limit: i32,
    soft: i32,
    /// Steps of computation so far.
    effort: usize,
}

impl<'p, 'a> RuinAndRecreate<'p, 'a> {
    /// Starts a local search in which no unit is evicted.
    fn new(problem: &'p Problem<'a>, matrix: &'p mut Matrix) -> Self {
        Self {
            problem,
            under: matrix.units.iter().map(|unit| UnitBudgets::new(problem, unit.number)).collect(),
            exceeded: 0,
            numbers: RandomNumbers::new(),
            evicted: Vec::new(),
            position: vec![usize::MAX; matrix.units.len()],
            weight: 0,
            pods: 0,
            victims: vec![0; problem.budgets.len()],
            guarded: vec![0; problem.budgets.len()],
            prices: vec![None; matrix.on.len()],
            journal: Vec::new(),
            limit: i32::MAX,
            soft: i32::MAX,
            effort: 0,
            matrix,
        }
    }

    /// Evicts a unit (an index in the matrix), or puts it back if it is evicted, and updates the sums, the cached prices and the journal.
    fn toggle(&mut self, unit: usize) {
        let leaves = !self.matrix.removed[unit];
        self.matrix.toggle(unit);
        let (weight, pods) = (self.matrix.units[unit].weight, self.matrix.units[unit].pods);
        if leaves {
            self.position[unit] = self.evicted.len();
            self.evicted.push(unit);
            self.weight += weight;
            self.pods += pods;
        } else {
            let at = self.position[unit];
            self.evicted.swap_remove(at);
            if let Some(moved) = self.evicted.get(at) {
                self.position[*moved] = at;
            }
            self.weight -= weight;
            self.pods -= pods;
        }
        self.count_budgets(unit, leaves);
        for (node, _) in self.matrix.frees(unit) {
            self.prices[node] = None;
            self.effort += 4;
        }
        self.journal.push(unit);
    }

    /// Adds the pods of a unit (an index in the matrix) to the victims of their budgets (`leaves`), or subtracts them.
    fn count_budgets(&mut self, unit: usize, leaves: bool) {
        let UnitBudgets { sets, guarded } = &self.under[unit];
        for (budgets, pods) in sets {
            let guarded = if *guarded { *pods } else { 0 };
            for budget in budgets {
                let allowed = self.problem.budgets.allowed(*budget);
                let before = self.victims[*budget] > allowed;
                if leaves {
                    self.victims[*budget] += pods;
                    self.guarded[*budget] += guarded;
                } else {
                    self.victims[*budget] -= pods;
                    self.guarded[*budget] -= guarded;
                }
                match (before, self.victims[*budget] > allowed) {
                    (false, true) => self.exceeded += 1,
                    (true, false) => self.exceeded -= 1,
                    _ => {}
                }
            }
        }
    }

    /// Returns true if the evicted units (single pods or whole groups) violate a guaranteed budget.
    fn breached(&self) -> bool {
        if self.exceeded == 0 {
            return false;
        }
        let over = |budget: usize| self.victims[budget] > self.problem.budgets.allowed(budget);
        (0..self.victims.len()).any(|budget| self.guarded[budget] > 0 && over(budget))
    }

    /// Reverts this step of the search: puts back the units (single pods or whole groups) that it evicted, and evicts again those that it
    /// put back.
    fn undo(&mut self) {
        for unit in std::mem::take(&mut self.journal).into_iter().rev() {
            self.toggle(unit);
        }
        self.journal.clear();
    }

    /// Returns the score of the evicted units (single pods or whole groups), by which choices are compared; lower is better.
    fn score(&mut self) -> Score {
        let units = self.evicted.iter().map(|unit| &self.matrix.units[*unit]);
        let highest = units.clone().map(|unit| unit.priority).max().unwrap_or(i32::MIN);
        self.effort += self.evicted.len();
        let violations = if self.exceeded == 0 {
            0
        } else {
            self.effort += 16 * self.pods;
            let pods = units.flat_map(|unit| self.problem.potential.units[unit.number].pods.iter().copied());
            self.problem.budgets.violations(self.problem.cluster, pods)
        };
        Score { violations, highest, weight: self.weight, pods: self.pods }
    }

    /// Returns true if the search continues from a choice with the score `score` instead of one with `current`: always if it is not worse;
    /// at random, more rarely as the temperature `heat` falls, if it is worse, and then more rarely if it has more budget violations or a
    /// higher highest priority. `heat` falls from [`ONE`] to 0.
    fn accepts(&mut self, current: &Score, score: &Score, heat: u64) -> bool {
        if score <= current {
            return true;
        }
        if (score.violations, score.highest) != (current.violations, current.highest) {
            return accepts_rarely(&mut self.numbers, heat);
        }
        let more = score.weight.saturating_sub(current.weight);
        let mean = score.weight / (self.evicted.len() as u64).max(1);
        accepts_heavier(&mut self.numbers, more, mean, heat)
    }

    /// Puts some of the evicted units (single pods or whole groups) back, chosen at random: one to three times either a single unit, or
    /// most of those on a node. If `lower`, all units above the priority `limit` are put back before.
    fn ruin(&mut self, lower: bool) {
        if lower {
            let above = |unit: &usize| self.matrix.units[*unit].priority > self.limit;
            let above: Vec<usize> = self.evicted.iter().copied().filter(above).collect();
            above.into_iter().for_each(|unit| self.toggle(unit));
        }
        for _ in 0..1 + self.numbers.below(3) {
            if self.evicted.is_empty() {
                return;
            }
            let unit = self.evicted[self.numbers.below(self.evicted.len())];
            if self.numbers.below(2) == 0 {
                self.toggle(unit);
                continue;
            }
            let nodes: Vec<usize> = self.matrix.frees(unit).map(|(node, _)| node).collect();
            let node = nodes[self.numbers.below(nodes.len())];
            let here: Vec<usize> =
                self.matrix.on[node].iter().copied().filter(|unit| self.matrix.removed[*unit]).collect();
            for unit in here {
                if self.numbers.below(4) > 0 {
                    self.toggle(unit);
                }
            }
        }
    }

    /// Evicts units (single pods or whole groups) until enough members fit, always for one more member on the node where that is cheapest,
    /// and puts units back that are not needed. Returns false if enough members cannot be reached, or a guaranteed budget would be
    /// violated.
    fn recreate(&mut self) -> bool {
        while self.matrix.total < self.matrix.goal {
            let mut cheapest: Option<(u128, usize)> = None;
            self.effort += self.prices.len() / 4;
            for node in 0..self.prices.len() {
                let price = match self.prices[node] {
                    Some(price) => price,
                    None => self.price(node),
                };
                if price == NEVER {
                    continue;
                }
                let price = price.saturating_mul(random_factor(&mut self.numbers).into());
                if cheapest.is_none_or(|(least, _)| price < least) {
                    cheapest = Some((price, node));
                }
            }
            let Some((_, node)) = cheapest else { return false };
            let set = self.units_to_evict_on(node, true).unwrap_or_default();
            if set.is_empty() {
                return false;
            }
            set.into_iter().for_each(|unit| self.toggle(unit));
            if self.breached() {
                return false;
            }
        }
        self.put_back_unneeded();
        true
    }

    /// Returns the price of one more member on a node (an index in the matrix): the cost of the units (single pods or whole groups) to
    /// evict, in 64ths, divided by the number of further members that then fit. [`NEVER`] if no permitted evictions suffice.
    fn price(&mut self, node: usize) -> u128 {
        let price = match self.units_to_evict_on(node, false) {
            None => NEVER,
            Some(set) => {
                let cost: u128 = set.iter().map(|unit| self.eviction_price(*unit)).sum();
                let before = self.matrix.total;
                self.matrix.toggle_all(&set);
                let gain = (self.matrix.total - before).min(self.matrix.goal.saturating_sub(before)).max(1);
                self.matrix.toggle_all(&set);
                self.effort += set.iter().map(|unit| 8 * self.matrix.frees(*unit).count()).sum::<usize>();
                ratio(cost << 6, gain as u64)
            }
        };
        self.prices[node] = Some(price);
        price
    }

    /// Returns the units (single pods or whole groups, as indexes in the matrix) to evict so that one more member fits on a node: those
    /// that free most of what is missing for their price, which is multiplied by a random factor if `noise`. `None` if no permitted
    /// evictions suffice.
    fn units_to_evict_on(&mut self, node: usize, noise: bool) -> Option<Vec<usize>> {
        let wanted = i64::try_from(self.matrix.slots_on(node) + 1).ok()?;
        if self.matrix.is_full(node) {
            return None;
        }
        let missing: Vec<i64> = self
            .matrix
            .request
            .iter()
            .zip(self.matrix.free_on(node))
            .map(|(each, free)| each * wanted - free)
            .collect();
        let mut offers: Vec<(u128, usize)> = Vec::with_capacity(self.matrix.on[node].len());
        for at in 0..self.matrix.on[node].len() {
            let unit = self.matrix.on[node][at];
            if self.matrix.removed[unit] || self.matrix.units[unit].priority > self.limit {
                continue;
            }
            let amounts = missing.iter().zip(self.matrix.freed_on(unit, node));
            let share: u64 = amounts.map(|(missing, freed)| freed_share(*freed, *missing)).sum();
            if share > 0 {
                let random_factor = if noise { random_factor(&mut self.numbers) } else { neutral_factor() };
                offers.push((ratio(self.eviction_price(unit).saturating_mul(random_factor.into()), share), unit));
            }
        }
        self.effort += 8 * offers.len();
        offers.sort_unstable();
        self.cover(node, missing, offers)
    }

    /// Returns the first units (single pods or whole groups) of `offers`, a list of prices and indexes in the matrix, that together free
    /// the `missing` amounts on a node, without those that turn out not to be needed; `None` if all offers together do not suffice.
    fn cover(&self, node: usize, mut missing: Vec<i64>, offers: Vec<(u128, usize)>) -> Option<Vec<usize>> {
        let mut set = Vec::new();
        for (_, unit) in offers {
            if missing.iter().all(|amount| *amount <= 0) {
                break;
            }
            subtract(&mut missing, self.matrix.freed_on(unit, node));
            set.push(unit);
        }
        if missing.iter().any(|amount| *amount > 0) {
            return None;
        }
        for at in (0..set.len()).rev() {
            if put_back_if_enough(&mut missing, self.matrix.freed_on(set[at], node)) {
                set.remove(at);
            }
        }
        Some(set)
    }

    /// Returns the price of evicting a unit (an index in the matrix): its weight and number of pods, with surcharges for budget violations
    /// and for a priority above that of the best choice.
    fn eviction_price(&self, unit: usize) -> u128 {
        let (unit, under) = (&self.matrix.units[unit], &self.under[unit]);
        let mut price = u128::from(unit.weight) + unit.pods as u128;
        if unit.priority > self.soft {
            price += CEILING;
        }
        let over = |budget: &usize| self.victims[*budget] >= self.problem.budgets.allowed(*budget);
        let violating: usize =
            under.sets.iter().filter(|(budgets, _)| budgets.iter().any(over)).map(|(_, pods)| pods).sum();
        if violating > 0 {
            price += VIOLATION * violating as u128;
        }
        price
    }

    /// Puts evicted units (single pods or whole groups) back without whose eviction enough members still fit, those of the highest priority
    /// first. A limited number of units, chosen at random, is tried.
    fn put_back_unneeded(&mut self) {
        let mut order = self.evicted.clone();
        let turn = self.numbers.below(order.len().max(1));
        order.rotate_left(turn);
        order.truncate(RUIN_RETURNS);
        order.sort_by_key(|unit| std::cmp::Reverse(self.matrix.units[*unit].priority));
        for unit in order {
            self.matrix.toggle(unit);
            let enough = self.matrix.total >= self.matrix.goal;
            self.matrix.toggle(unit);
            self.effort += 8 * self.matrix.frees(unit).count();
            if enough {
                self.toggle(unit);
            }
        }
    }
}
