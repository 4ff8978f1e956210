//! Improves a choice of victims by ruin and recreate: it repeatedly puts some of them back and replaces them in the cheapest way.
//!
//! Evicting a group frees a little capacity on many nodes, so that the cheapest choice depends on the other victims. A step puts back
//! a few victims, or most of those on one node; then units are evicted from the node where the next member costs least until
//! enough members fit, and victims that are no longer needed are put back. Steps with a slightly higher cost are accepted at first,
//! and ever more rarely, so that the search leaves the neighbourhood of its start.

use crate::limits::{RUIN_EFFORT, RUIN_PATIENCE, RUIN_RETURNS, RUIN_STEPS};
use crate::problem::{Problem, UnitIndex};
use crate::search::least_cost::chance::{ONE, luck, no_luck, part, rarely, ratio, share, worse_is_kept};
use crate::search::least_cost::under::Under;
use crate::search::matrix::Matrix;
use crate::search::missing::{put_back, subtract};
use crate::search::numbers::Numbers;

/// Surcharges on a price for a budget violation, and for a victim above the highest priority so far: more than all pods of the plan can
/// weigh.
const VIOLATION: u128 = 1_000_000_000_000_000_000;
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

/// Returns the best victims found, beginning with `start`, among the units of `matrix`, of which none is removed. Stops at the lower bound
/// `weight`. `None` if nothing better than the start was found.
pub(super) fn run(
    problem: &Problem<'_>,
    matrix: &mut Matrix,
    start: &[UnitIndex],
    weight: u64,
    ceiling_is_tight: bool,
) -> Option<Vec<UnitIndex>> {
    let mut rebuild = Rebuild::new(problem, matrix);
    start
        .iter()
        .filter_map(|unit| rebuild.matrix.local(*unit))
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|unit| rebuild.flip(unit));
    if rebuild.matrix.total < rebuild.matrix.goal || rebuild.gone.is_empty() {
        return None;
    }
    let first = rebuild.score();
    let (mut current, mut best, mut victims, mut found) = (first, first, rebuild.gone.clone(), 0);
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
                victims.clone_from(&rebuild.gone);
            }
        } else {
            rebuild.undo();
        }
    }
    (best < first).then(|| victims.into_iter().map(|unit| rebuild.matrix.units[unit].number).collect())
}

/// A local search (ruin and recreate): the current victims in a matrix, and sums over them.
struct Rebuild<'p, 'a> {
    problem: &'p Problem<'a>,
    matrix: &'p mut Matrix,
    numbers: Numbers,
    /// The units that are evicted now, in no defined order.
    gone: Vec<usize>,
    /// By unit: its index in `gone`.
    position: Vec<usize>,
    weight: u64,
    pods: usize,
    /// By unit: the budgets it is under.
    under: Vec<Under>,
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
    effort: usize,
}

impl<'p, 'a> Rebuild<'p, 'a> {
    /// Starts a local search in which no unit is evicted.
    fn new(problem: &'p Problem<'a>, matrix: &'p mut Matrix) -> Self {
        Self {
            problem,
            under: matrix.units.iter().map(|unit| Under::new(problem, unit.number)).collect(),
            exceeded: 0,
            numbers: Numbers::new(),
            gone: Vec::new(),
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

    /// Evicts a unit, or puts it back if it is evicted, and updates the sums.
    fn flip(&mut self, unit: usize) {
        let leaves = !self.matrix.gone[unit];
        self.matrix.flip(unit);
        let (weight, pods) = (self.matrix.units[unit].weight, self.matrix.units[unit].pods);
        if leaves {
            self.position[unit] = self.gone.len();
            self.gone.push(unit);
            self.weight += weight;
            self.pods += pods;
        } else {
            let at = self.position[unit];
            self.gone.swap_remove(at);
            if let Some(moved) = self.gone.get(at) {
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

    /// Adds the pods of a unit to the victims of their budgets (`leaves`), or subtracts them.
    fn count_budgets(&mut self, unit: usize, leaves: bool) {
        let Under { sets, guarded } = &self.under[unit];
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

    /// Returns true if the current victims violate a guaranteed budget.
    fn breached(&self) -> bool {
        if self.exceeded == 0 {
            return false;
        }
        let over = |budget: usize| self.victims[budget] > self.problem.budgets.allowed(budget);
        (0..self.victims.len()).any(|budget| self.guarded[budget] > 0 && over(budget))
    }

    /// Reverts this step of the search: puts back the units (single pods or whole groups) that it evicted, and evicts again those that it put
    /// back.
    fn undo(&mut self) {
        for unit in std::mem::take(&mut self.journal).into_iter().rev() {
            self.flip(unit);
        }
        self.journal.clear();
    }

    /// Returns the cost of the current victims, for comparisons.
    fn score(&mut self) -> Score {
        let units = self.gone.iter().map(|unit| &self.matrix.units[*unit]);
        let highest = units.clone().map(|unit| unit.priority).max().unwrap_or(i32::MIN);
        self.effort += self.gone.len();
        let violations = if self.exceeded == 0 {
            0
        } else {
            self.effort += 16 * self.pods;
            let pods = units.flat_map(|unit| self.problem.potential.units[unit.number].pods.iter().copied());
            self.problem.budgets.violations(self.problem.cluster, pods)
        };
        Score { violations, highest, weight: self.weight, pods: self.pods }
    }

    /// Returns true if a choice is accepted instead of the current one: always if it is not worse; sometimes, at the temperature `heat`, if
    /// it is heavier; rarely if it has more budget violations or a higher highest priority.
    fn accepts(&mut self, current: &Score, score: &Score, heat: u64) -> bool {
        if score <= current {
            return true;
        }
        if (score.violations, score.highest) != (current.violations, current.highest) {
            return rarely(&mut self.numbers, heat);
        }
        let more = score.weight.saturating_sub(current.weight);
        let mean = score.weight / (self.gone.len() as u64).max(1);
        worse_is_kept(&mut self.numbers, more, mean, heat)
    }

    /// Puts some victims back: one to three times either a single one, or most of those on a node; before that, with `lower`, all above the
    /// priority `limit`.
    fn ruin(&mut self, lower: bool) {
        if lower {
            let above = |unit: &usize| self.matrix.units[*unit].priority > self.limit;
            let above: Vec<usize> = self.gone.iter().copied().filter(above).collect();
            above.into_iter().for_each(|unit| self.flip(unit));
        }
        for _ in 0..1 + self.numbers.below(3) {
            if self.gone.is_empty() {
                return;
            }
            let unit = self.gone[self.numbers.below(self.gone.len())];
            if self.numbers.below(2) == 0 {
                self.flip(unit);
                continue;
            }
            let nodes: Vec<usize> = self.matrix.frees(unit).map(|(node, _)| node).collect();
            let node = nodes[self.numbers.below(nodes.len())];
            let here: Vec<usize> =
                self.matrix.on[node].iter().copied().filter(|unit| self.matrix.gone[*unit]).collect();
            for unit in here {
                if self.numbers.below(4) > 0 {
                    self.flip(unit);
                }
            }
        }
    }

    /// Evicts units until enough members fit. Returns true if they do.
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
                let price = price.saturating_mul(luck(&mut self.numbers).into());
                if cheapest.is_none_or(|(least, _)| price < least) {
                    cheapest = Some((price, node));
                }
            }
            let Some((_, node)) = cheapest else { return false };
            let set = self.clearing(node, true).unwrap_or_default();
            if set.is_empty() {
                return false;
            }
            set.into_iter().for_each(|unit| self.flip(unit));
            if self.breached() {
                return false;
            }
        }
        self.put_back_unneeded();
        true
    }

    /// Returns the cost per member of letting one more member fit on a node, in 64ths.
    fn price(&mut self, node: usize) -> u128 {
        let price = match self.clearing(node, false) {
            None => NEVER,
            Some(set) => {
                let cost: u128 = set.iter().map(|unit| self.dearness(*unit)).sum();
                let before = self.matrix.total;
                self.matrix.flip_all(&set);
                let gain = (self.matrix.total - before).min(self.matrix.goal.saturating_sub(before)).max(1);
                self.matrix.flip_all(&set);
                self.effort += set.iter().map(|unit| 8 * self.matrix.frees(*unit).count()).sum::<usize>();
                ratio(cost << 6, gain as u64)
            }
        };
        self.prices[node] = Some(price);
        price
    }

    /// Returns the units to evict for one more member on a node: those that free most for their cost, which varies at random with `noise`.
    /// `None` if no permitted evictions suffice.
    fn clearing(&mut self, node: usize, noise: bool) -> Option<Vec<usize>> {
        let wanted = i64::try_from(self.matrix.slots_on(node) + 1).ok()?;
        if self.matrix.full(node) {
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
            if self.matrix.gone[unit] || self.matrix.units[unit].priority > self.limit {
                continue;
            }
            let amounts = missing.iter().zip(self.matrix.freed_on(unit, node));
            let share: u64 = amounts.map(|(missing, freed)| part(*freed, *missing)).sum();
            if share > 0 {
                let luck = if noise { luck(&mut self.numbers) } else { no_luck() };
                offers.push((ratio(self.dearness(unit).saturating_mul(luck.into()), share), unit));
            }
        }
        self.effort += 8 * offers.len();
        offers.sort_unstable();
        self.cover(node, missing, offers)
    }

    /// Returns the first units of `offers` that together free the missing amounts on a node, without those that turn out not to be needed;
    /// `None` if all together do not suffice.
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
            if put_back(&mut missing, self.matrix.freed_on(set[at], node)) {
                set.remove(at);
            }
        }
        Some(set)
    }

    /// Returns the price of evicting a unit: its weight, with the surcharges for budget violations and for its priority.
    fn dearness(&self, unit: usize) -> u128 {
        let (unit, under) = (&self.matrix.units[unit], &self.under[unit]);
        let mut dearness = u128::from(unit.weight) + unit.pods as u128;
        if unit.priority > self.soft {
            dearness += CEILING;
        }
        let over = |budget: &usize| self.victims[*budget] >= self.problem.budgets.allowed(*budget);
        let violating: usize =
            under.sets.iter().filter(|(budgets, _)| budgets.iter().any(over)).map(|(_, pods)| pods).sum();
        if violating > 0 {
            dearness += VIOLATION * violating as u128;
        }
        dearness
    }

    /// Puts back units that need not be evicted, the most important ones first: enough members fit without their
    /// eviction.
    fn put_back_unneeded(&mut self) {
        let mut order = self.gone.clone();
        let turn = self.numbers.below(order.len().max(1));
        order.rotate_left(turn);
        order.truncate(RUIN_RETURNS);
        order.sort_by_key(|unit| std::cmp::Reverse(self.matrix.units[*unit].priority));
        for unit in order {
            self.matrix.flip(unit);
            let enough = self.matrix.total >= self.matrix.goal;
            self.matrix.flip(unit);
            self.effort += 8 * self.matrix.frees(unit).count();
            if enough {
                self.flip(unit);
            }
        }
    }
}
