//! The problem as a matrix of amounts, for members of one class without inter-pod constraints: the free amounts of a node determine how
//! many members fit there, and a plan is sufficient if these numbers add up. Removing a unit or putting it back takes a few additions per
//! node on which it has pods.

use crate::filters::{Occupancy, Rank};
use crate::limits::MOST_IN_MATRIX;
use crate::model::{PodIndex, ResourceId};
use crate::problem::{Problem, UnitIndex, weight};
use std::ops::Range;

/// A preemption problem in which only amounts decide, as arrays: what is free on each node, what each unit frees there, and which units are
/// removed. Nodes and units have numbers of their own.
#[derive(Clone)]
pub(crate) struct Matrix {
    /// What one member asks for, of each resource that it asks for.
    pub(crate) request: Vec<i64>,
    pub(crate) goal: usize,
    /// Maximum number of members per node.
    cap: usize,
    /// By node: its rank.
    ranks: Vec<Rank>,
    /// By node and resource.
    free: Vec<i64>,
    /// By node: how many members fit, at most `goal`.
    slots: Vec<usize>,
    /// How many members fit on all nodes together.
    pub(crate) total: usize,
    pub(crate) units: Vec<MatrixUnit>,
    /// By node: the units with pods there.
    pub(crate) on: Vec<Vec<usize>>,
    /// What the units free: a node, ascending for each unit, and an amount for each resource.
    places: Vec<usize>,
    amounts: Vec<i64>,
    /// By unit of the problem: its number in the matrix.
    numbers: Vec<Option<usize>>,
    /// By unit: whether it is removed.
    pub(crate) gone: Vec<bool>,
}

/// A unit in numbers.
#[derive(Clone)]
pub(crate) struct MatrixUnit {
    pub(crate) number: UnitIndex,
    pub(crate) priority: i32,
    /// Sum of the priorities of its pods, each offset by 2^31.
    pub(crate) weight: u64,
    pub(crate) pods: usize,
    /// Its range in [`Matrix::places`] and the amounts.
    span: Range<usize>,
}

impl Matrix {
    /// Returns the matrix for these units and `goal` members, of which at most `cap` fit on a node; `None` if the problem cannot be
    /// represented as one.
    pub(crate) fn new(
        problem: &Problem<'_>,
        room: &Occupancy<'_>,
        units: &[UnitIndex],
        goal: usize,
        cap: usize,
    ) -> Option<Self> {
        let [class] = problem.classes.as_slice() else { return None };
        let pod = problem.cluster.pod_at(*class.members.first()?)?;
        if room.looks_around() || !pod.constraints.exclusive.is_empty() {
            return None;
        }
        // In an order that does not depend on when resources were first seen: prices are sums that are rounded.
        let ids = problem.cluster.in_order(pod.requests.iter().map(|(id, _)| id).collect());
        let asked: Vec<(ResourceId, i128)> = ids.into_iter().map(|id| (id, pod.requests.get(id))).collect();
        let narrow = |amount: i128| i64::try_from(amount).ok().filter(|_| amount.abs() <= MOST_IN_MATRIX);
        let request: Vec<i64> = asked.iter().map(|(_, amount)| narrow(*amount)).collect::<Option<_>>()?;
        let usable: Vec<Rank> = (0..problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()).collect();
        let mut local: Vec<Option<usize>> = vec![None; problem.nodes.len()];
        let mut free = Vec::with_capacity(usable.len() * asked.len());
        for (node, rank) in usable.iter().enumerate() {
            local[*rank] = Some(node);
            for (id, _) in &asked {
                free.push(narrow(room.free(*rank).get(usize::from(*id)).copied().unwrap_or(0))?);
            }
        }
        let mut matrix = Self {
            request,
            goal,
            cap: cap.min(goal),
            free,
            slots: vec![0; usable.len()],
            total: 0,
            units: Vec::new(),
            on: vec![Vec::new(); usable.len()],
            places: Vec::new(),
            amounts: Vec::new(),
            numbers: vec![None; problem.potential.units.len()],
            gone: Vec::new(),
            ranks: usable,
        };
        (0..matrix.ranks.len()).for_each(|node| matrix.count(node));
        for number in units {
            matrix.add_unit(problem, *number, &local, &asked)?;
        }
        Some(matrix)
    }

    /// Adds a unit with what it frees on each node; `None` if an amount cannot be represented.
    fn add_unit(
        &mut self,
        problem: &Problem<'_>,
        number: UnitIndex,
        local: &[Option<usize>],
        asked: &[(ResourceId, i128)],
    ) -> Option<()> {
        let unit = &problem.potential.units[number];
        let (start, width) = (self.places.len(), asked.len());
        let of_pod = |index: &PodIndex| {
            let row = problem.cluster.row(*index);
            Some((local[problem.nodes.rank(row.node?)?]?, problem.cluster.class(row.class)?))
        };
        let mut pods: Vec<_> = unit.pods.iter().filter_map(of_pod).collect();
        pods.sort_by_key(|(node, _)| *node);
        for (node, class) in pods {
            if self.places[start..].last() != Some(&node) {
                self.places.push(node);
                self.amounts.resize(self.places.len() * width, 0);
            }
            for (at, (id, _)) in asked.iter().enumerate() {
                let amount = i64::try_from(class.requests.get(*id).min(MOST_IN_MATRIX + 1)).ok()?;
                let sum = &mut self.amounts[(self.places.len() - 1) * width + at];
                *sum = sum.checked_add(amount).filter(|sum| i128::from(*sum) <= MOST_IN_MATRIX)?;
            }
        }
        if self.places.len() > start {
            let here = self.units.len();
            self.places[start..].iter().for_each(|node| self.on[*node].push(here));
            self.numbers[number] = Some(here);
            self.gone.push(false);
            self.units.push(MatrixUnit {
                number,
                priority: unit.priority,
                weight: weight(unit),
                pods: unit.pods.len(),
                span: start..self.places.len(),
            });
        }
        Some(())
    }

    /// Returns the units of the matrix, as numbered in the problem.
    pub(crate) fn units(&self) -> Vec<UnitIndex> {
        self.units.iter().map(|unit| unit.number).collect()
    }

    /// Returns the number in the matrix of a unit of the problem; `None` if the matrix does not contain it.
    pub(crate) fn local(&self, unit: UnitIndex) -> Option<usize> {
        self.numbers.get(unit).copied().flatten()
    }

    /// Returns the nodes that a unit runs on, with what it frees there.
    pub(crate) fn frees(&self, unit: usize) -> impl Iterator<Item = (usize, &[i64])> {
        let (span, width) = (self.units[unit].span.clone(), self.request.len());
        span.map(move |at| (self.places[at], &self.amounts[at * width..(at + 1) * width]))
    }

    /// Returns what a unit frees on a node, in the order in which a member requests resources; an empty list if the unit has no pod there.
    pub(crate) fn freed_on(&self, unit: usize, node: usize) -> &[i64] {
        let (span, width) = (self.units[unit].span.clone(), self.request.len());
        let found = self.places[span.clone()].binary_search(&node).map(|at| span.start + at);
        found.map_or(&[], |at| &self.amounts[at * width..(at + 1) * width])
    }

    /// Returns what is free on a node without the removed units, in the order in which a member requests resources.
    pub(crate) fn free_on(&self, node: usize) -> &[i64] {
        &self.free[node * self.request.len()..(node + 1) * self.request.len()]
    }

    /// Places members on free capacity of these nodes until `most` are placed: on nodes without leaving pods first, then on the tightest.
    /// `used` is the number of members on every node.
    pub(crate) fn fill(
        &self,
        problem: &Problem<'_>,
        nodes: impl Iterator<Item = usize>,
        most: usize,
        placed: &mut Vec<(PodIndex, Rank)>,
        used: &mut [usize],
    ) {
        let mut open: Vec<(bool, usize, usize)> = nodes
            .filter(|node| self.slots[*node] > used[*node])
            .map(|node| (problem.vacating[self.ranks[node]], self.slots[node] - used[node], node))
            .collect();
        open.sort_unstable();
        for (_, spare, node) in open {
            let next = problem.demand.members[placed.len()..].iter().take(spare.min(most.saturating_sub(placed.len())));
            used[node] += next.len();
            placed.extend(next.map(|member| (*member, self.ranks[node])));
        }
    }

    /// Returns for each node, by number, how many of the placed members it has.
    pub(crate) fn used(&self, placed: &[(PodIndex, Rank)]) -> Vec<usize> {
        let mut used = vec![0; self.slots.len()];
        for (_, rank) in placed {
            if let Ok(node) = self.ranks.binary_search(rank) {
                used[node] += 1;
            }
        }
        used
    }

    /// Puts back the removed units that leave enough capacity for these numbers of members per node, in this order. Returns the others.
    pub(crate) fn reprieve(&mut self, mut units: Vec<usize>, used: &[usize]) -> Vec<usize> {
        units.retain(|unit| {
            let stays = self.may_return(*unit, used);
            if stays {
                self.flip(*unit);
            }
            !stays
        });
        units
    }

    /// Returns true if a removed unit can be put back beside these numbers of members per node.
    fn may_return(&self, unit: usize, used: &[usize]) -> bool {
        self.frees(unit).all(|(node, amounts)| {
            let members = i64::try_from(used[node]).unwrap_or(i64::MAX);
            let mut left =
                self.free_on(node).iter().zip(amounts).map(|(free, amount)| free - amount).zip(&self.request);
            left.all(|(left, each)| each.saturating_mul(members) <= left)
        })
    }

    /// Returns true if a node takes no more members whatever is evicted.
    pub(crate) fn full(&self, node: usize) -> bool {
        self.slots[node] >= self.cap
    }

    /// Returns how many members fit on a node without the removed units, at most as many as are to be placed.
    pub(crate) fn slots_on(&self, node: usize) -> usize {
        self.slots[node]
    }

    /// Puts back all removed units, so that none is removed.
    pub(crate) fn clear(&mut self) {
        (0..self.units.len())
            .filter(|unit| self.gone[*unit])
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|u| self.flip(u));
    }

    /// Removes a unit, or puts it back if it is removed.
    pub(crate) fn flip(&mut self, unit: usize) {
        self.flip_all(&[unit]);
    }

    /// Removes several units, or puts back those that are removed. Then counts again how many members fit on their nodes.
    pub(crate) fn flip_all(&mut self, units: &[usize]) {
        let width = self.request.len();
        for unit in units {
            let sign = if self.gone[*unit] { -1 } else { 1 };
            self.gone[*unit] = !self.gone[*unit];
            for at in self.units[*unit].span.clone() {
                let node = self.places[at];
                for resource in 0..width {
                    self.free[node * width + resource] += sign * self.amounts[at * width + resource];
                }
            }
        }
        let mut counted = None;
        for unit in units {
            for at in self.units[*unit].span.clone() {
                let node = self.places[at];
                if counted.replace(node) != Some(node) {
                    self.count(node);
                }
            }
        }
    }

    /// Computes again how many members fit on a node.
    fn count(&mut self, node: usize) {
        let free = &self.free[node * self.request.len()..(node + 1) * self.request.len()];
        let fit = free.iter().zip(&self.request).map(|(free, each)| free.max(&0) / each).min();
        let fit = fit.map_or(self.cap, |fit| usize::try_from(fit).unwrap_or(self.cap).min(self.cap));
        self.total = self.total - self.slots[node] + fit;
        self.slots[node] = fit;
    }
}
