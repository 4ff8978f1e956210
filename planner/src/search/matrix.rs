//! The problem as a matrix of amounts, for members of one class without inter-pod constraints: the free amounts of a node determine how
//! many members fit there, and a plan is sufficient if these numbers add up. Removing a unit or putting it back takes a few additions per
//! node on which it has pods.

use crate::filters::{Occupancy, Rank};
use crate::limits::MOST_IN_MATRIX;
use crate::model::{PodIndex, ResourceId};
use crate::problem::{Problem, UnitIndex, weight};
use std::ops::Range;

/// A preemption problem in which only amounts decide, as arrays: what is free on each node, what the eviction of each unit frees there, and
/// which units are removed. Nodes and units have indexes of their own in the matrix; the nodes are those on which a member can fit, by
/// ascending rank.
#[derive(Clone)]
pub(crate) struct Matrix {
    /// What one member asks for, of each resource that it asks for.
    pub(crate) request: Vec<i64>,
    /// How many members have to be placed.
    pub(crate) goal: usize,
    /// Maximum number of members per node, at most `goal`.
    cap: usize,
    /// By node: its rank.
    ranks: Vec<Rank>,
    /// By node and resource: what is free without the removed units.
    free: Vec<i64>,
    /// By node: how many members fit, at most `cap`.
    slots: Vec<usize>,
    /// How many members fit on all nodes together: the sum of `slots`.
    pub(crate) total: usize,
    /// The units, by their index in the matrix.
    pub(crate) units: Vec<MatrixUnit>,
    /// By node: the units with pods there.
    pub(crate) on: Vec<Vec<usize>>,
    /// What the units free: a node, ascending for each unit, and an amount for each resource.
    places: Vec<usize>,
    amounts: Vec<i64>,
    /// By unit of the problem: its number in the matrix.
    numbers: Vec<Option<usize>>,
    /// By unit: whether it is removed.
    pub(crate) removed: Vec<bool>,
}

/// A unit (a single pod or a whole group) with the numbers that a search needs.
#[derive(Clone)]
pub(crate) struct MatrixUnit {
    /// Index of the unit in the problem.
    pub(crate) number: UnitIndex,
    pub(crate) priority: i32,
    /// Sum of the priorities of its pods, each offset by 2^31.
    pub(crate) weight: u64,
    /// Number of its pods.
    pub(crate) pods: usize,
    /// Its range in [`Matrix::places`] and the amounts.
    span: Range<usize>,
}

impl Matrix {
    /// Returns the matrix of these units (single pods or whole groups) of the problem, of which none is removed, for `goal` members, at
    /// most `cap` on each node. `None` if the problem is not one of amounts (members of several classes, with host ports or claims for one
    /// pod, or inter-pod constraints), or if an amount is too large.
    pub(crate) fn new(
        problem: &Problem<'_>,
        occupancy: &Occupancy<'_>,
        units: &[UnitIndex],
        goal: usize,
        cap: usize,
    ) -> Option<Self> {
        let [class] = problem.classes.as_slice() else { return None };
        let pod = problem.cluster.pod_at(*class.members.first()?)?;
        if occupancy.has_inter_pod_constraints() || !pod.constraints.exclusive.is_empty() {
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
                free.push(narrow(occupancy.free(*rank).get(usize::from(*id)).copied().unwrap_or(0))?);
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
            removed: Vec::new(),
            ranks: usable,
        };
        (0..matrix.ranks.len()).for_each(|node| matrix.recount(node));
        for number in units {
            matrix.add_unit(problem, *number, &local, &asked)?;
        }
        Some(matrix)
    }

    /// Adds a unit (a single pod or a whole group) of the problem, `number`, with what it frees on each node; if it has no pods on nodes of
    /// the matrix, it is left out. `local` has by rank of a node its index in the matrix, `asked` the resources that a member requests.
    /// `None` if an amount is too large.
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
            self.removed.push(false);
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

    /// Returns the units (single pods or whole groups) of the matrix, as indexes in the problem.
    pub(crate) fn units(&self) -> Vec<UnitIndex> {
        self.units.iter().map(|unit| unit.number).collect()
    }

    /// Returns the index in the matrix of a unit (a single pod or a whole group), given by its index in the problem; `None` if the matrix
    /// does not contain it.
    pub(crate) fn number_of(&self, unit: UnitIndex) -> Option<usize> {
        self.numbers.get(unit).copied().flatten()
    }

    /// Returns the nodes on which a unit (a single pod or a whole group) has pods, each with the amounts that its eviction frees there, in
    /// the order of `request`. Unit and nodes are given by their indexes in the matrix.
    pub(crate) fn frees(&self, unit: usize) -> impl Iterator<Item = (usize, &[i64])> {
        let (span, width) = (self.units[unit].span.clone(), self.request.len());
        span.map(move |at| (self.places[at], &self.amounts[at * width..(at + 1) * width]))
    }

    /// Returns the amounts that the eviction of a unit (a single pod or a whole group) frees on a node, in the order of `request`; empty if
    /// the unit has no pod there. Both are given by their indexes in the matrix.
    pub(crate) fn freed_on(&self, unit: usize, node: usize) -> &[i64] {
        let (span, width) = (self.units[unit].span.clone(), self.request.len());
        let found = self.places[span.clone()].binary_search(&node).map(|at| span.start + at);
        found.map_or(&[], |at| &self.amounts[at * width..(at + 1) * width])
    }

    /// Returns the amounts that are free on a node (an index in the matrix) without the removed units (single pods or whole groups), in the
    /// order of `request`.
    pub(crate) fn free_on(&self, node: usize) -> &[i64] {
        &self.free[node * self.request.len()..(node + 1) * self.request.len()]
    }

    /// Places members on free capacity of these nodes (indexes in the matrix), until `placed` has `most` members: on nodes without leaving
    /// pods first, then on those where the fewest more fit. Adds them to `placed`, and to `used`, the number of placed members by node.
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

    /// Returns by node of the matrix how many of the placed members it has; `placed` has the rank (index in the list of nodes) of each
    /// member's node.
    pub(crate) fn used(&self, placed: &[(PodIndex, Rank)]) -> Vec<usize> {
        let mut used = vec![0; self.slots.len()];
        for (_, rank) in placed {
            if let Ok(node) = self.ranks.binary_search(rank) {
                used[node] += 1;
            }
        }
        used
    }

    /// Puts those of `units` back, in this order, that leave enough capacity for the placed members, and returns the others. Units are
    /// single pods or whole groups, given by their indexes in the matrix; all of them are removed before. `used` has by node the number of
    /// members placed there.
    pub(crate) fn reprieve(&mut self, mut units: Vec<usize>, used: &[usize]) -> Vec<usize> {
        units.retain(|unit| {
            let stays = self.may_return(*unit, used);
            if stays {
                self.toggle(*unit);
            }
            !stays
        });
        units
    }

    /// Returns true if a removed unit (a single pod or a whole group, as an index in the matrix) can be put back beside the placed members;
    /// `used` has by node the number of members placed there.
    fn may_return(&self, unit: usize, used: &[usize]) -> bool {
        self.frees(unit).all(|(node, amounts)| {
            let members = i64::try_from(used[node]).unwrap_or(i64::MAX);
            let mut left =
                self.free_on(node).iter().zip(amounts).map(|(free, amount)| free - amount).zip(&self.request);
            left.all(|(left, each)| each.saturating_mul(members) <= left)
        })
    }

    /// Returns true if a node (an index in the matrix) has capacity for as many members as may be placed on one node, so that no eviction
    /// there helps.
    pub(crate) fn is_full(&self, node: usize) -> bool {
        self.slots[node] >= self.cap
    }

    /// Returns how many members fit on a node (an index in the matrix) without the removed units (single pods or whole groups), at most as
    /// many as may be placed on one node.
    pub(crate) fn slots_on(&self, node: usize) -> usize {
        self.slots[node]
    }

    /// Puts all removed units (single pods or whole groups) back.
    pub(crate) fn put_all_back(&mut self) {
        (0..self.units.len())
            .filter(|unit| self.removed[*unit])
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|u| self.toggle(u));
    }

    /// Removes a unit (an index in the matrix), or puts it back if it is removed.
    pub(crate) fn toggle(&mut self, unit: usize) {
        self.toggle_all(&[unit]);
    }

    /// Removes several units (single pods or whole groups, as indexes in the matrix), or puts back those that are removed, and then counts
    /// again how many members fit on their nodes.
    pub(crate) fn toggle_all(&mut self, units: &[usize]) {
        let width = self.request.len();
        for unit in units {
            let sign = if self.removed[*unit] { -1 } else { 1 };
            self.removed[*unit] = !self.removed[*unit];
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
                    self.recount(node);
                }
            }
        }
    }

    /// Counts again how many members fit on a node (an index in the matrix), and updates the total.
    fn recount(&mut self, node: usize) {
        let free = &self.free[node * self.request.len()..(node + 1) * self.request.len()];
        let fit = free.iter().zip(&self.request).map(|(free, each)| free.max(&0) / each).min();
        let fit = fit.map_or(self.cap, |fit| usize::try_from(fit).unwrap_or(self.cap).min(self.cap));
        self.total = self.total - self.slots[node] + fit;
        self.slots[node] = fit;
    }
}
