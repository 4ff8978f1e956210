//! The question in numbers, for members that are alike and look at no other pod: then a node has room for so many
//! members as what is free on it allows, and a plan is enough when these add up. Taking a unit out and putting it back
//! costs a few additions per node that it runs on.

use super::exact::Ground;
use crate::cost::offset_priority;
use crate::domain::UnitIndex;
use crate::feasibility::{Rank, Room};
use crate::model::ResourceId;
use crate::problem::Problem;
use std::ops::Range;

/// Amounts beyond this are left to the room, which counts without limits.
const LARGEST: i128 = 1 << 58;

/// Nodes, units, and who is gone.
#[derive(Clone)]
pub(super) struct Lot {
    /// What one member asks for, of each resource that it asks for.
    pub(super) request: Vec<i64>,
    pub(super) goal: usize,
    /// By node and resource.
    free: Vec<i64>,
    /// By node: how many members fit, at most `goal`.
    slots: Vec<usize>,
    /// How many members fit on all nodes together.
    pub(super) total: usize,
    pub(super) units: Vec<LotUnit>,
    /// By node: the units with pods there.
    pub(super) on: Vec<Vec<usize>>,
    /// What the units free: a node, and an amount for each resource.
    places: Vec<usize>,
    amounts: Vec<i64>,
    /// By unit of the problem: its number here.
    numbers: Vec<Option<usize>>,
    pub(super) gone: Vec<bool>,
}

/// A unit in numbers.
#[derive(Clone)]
pub(super) struct LotUnit {
    pub(super) number: UnitIndex,
    pub(super) priority: i32,
    /// Sum of the priorities of its pods, each offset by 2^31.
    pub(super) weight: u64,
    pub(super) pods: usize,
    /// Where [`Lot::places`] and the amounts have it.
    span: Range<usize>,
}

impl Lot {
    /// The question for these units; `None` when it cannot be put in such numbers.
    pub(super) fn new(problem: &Problem<'_>, room: &Room<'_>, units: &[UnitIndex], goal: usize) -> Option<Self> {
        let [shape] = problem.shapes.as_slice() else { return None };
        let pod = problem.cluster.pod_at(*shape.members.first()?)?;
        if room.wide() || !pod.constraints.ports.is_empty() {
            return None;
        }
        // In an order that does not depend on when resources were first seen: prices are sums that are rounded.
        let ids = problem.cluster.in_order(pod.requests.iter().map(|(id, _)| id).collect());
        let asked: Vec<(ResourceId, i128)> = ids.into_iter().map(|id| (id, pod.requests.get(id))).collect();
        let narrow = |amount: i128| i64::try_from(amount).ok().filter(|_| amount.abs() <= LARGEST);
        let request: Vec<i64> = asked.iter().map(|(_, amount)| narrow(*amount)).collect::<Option<_>>()?;
        let usable: Vec<Rank> = (0..problem.nodes.len()).filter(|rank| shape.unsuitable[*rank].is_none()).collect();
        let mut local: Vec<Option<usize>> = vec![None; problem.nodes.len()];
        let mut free = Vec::with_capacity(usable.len() * asked.len());
        for (node, rank) in usable.iter().enumerate() {
            local[*rank] = Some(node);
            for (id, _) in &asked {
                free.push(narrow(room.free(*rank).get(usize::from(*id)).copied().unwrap_or(0))?);
            }
        }
        let mut lot = Self {
            request,
            goal,
            free,
            slots: vec![0; usable.len()],
            total: 0,
            units: Vec::new(),
            on: vec![Vec::new(); usable.len()],
            places: Vec::new(),
            amounts: Vec::new(),
            numbers: vec![None; problem.potential.units.len()],
            gone: Vec::new(),
        };
        (0..usable.len()).for_each(|node| lot.count(node));
        for number in units {
            lot.add_unit(problem, *number, &local, &asked)?;
        }
        Some(lot)
    }

    fn add_unit(
        &mut self,
        problem: &Problem<'_>,
        number: UnitIndex,
        local: &[Option<usize>],
        asked: &[(ResourceId, i128)],
    ) -> Option<()> {
        let unit = &problem.potential.units[number];
        let start = self.places.len();
        for index in &unit.pods {
            let rank = problem.cluster.row(*index).node.and_then(|node| problem.nodes.rank(node));
            let (Some(node), Some(pod)) = (rank.and_then(|rank| local[rank]), problem.cluster.pod_at(*index)) else {
                continue;
            };
            let known = self.places[start..].iter().position(|place| *place == node).map(|at| start + at);
            let place = known.unwrap_or_else(|| {
                self.places.push(node);
                self.amounts.resize(self.places.len() * asked.len(), 0);
                self.places.len() - 1
            });
            for (at, (id, _)) in asked.iter().enumerate() {
                let amount = i64::try_from(pod.requests.get(*id).min(LARGEST + 1)).ok()?;
                let sum = &mut self.amounts[place * asked.len() + at];
                *sum = sum.checked_add(amount).filter(|sum| i128::from(*sum) <= LARGEST)?;
            }
        }
        if self.places.len() > start {
            let here = self.units.len();
            self.places[start..].iter().for_each(|node| self.on[*node].push(here));
            self.numbers[number] = Some(here);
            self.gone.push(false);
            self.units.push(LotUnit {
                number,
                priority: unit.priority,
                weight: offset_priority(unit.priority).saturating_mul(unit.pods.len() as u64),
                pods: unit.pods.len(),
                span: start..self.places.len(),
            });
        }
        Some(())
    }

    /// The units, as the problem numbers them.
    pub(super) fn units(&self) -> Vec<UnitIndex> {
        self.units.iter().map(|unit| unit.number).collect()
    }

    /// The number here of a unit of the problem.
    pub(super) fn local(&self, unit: UnitIndex) -> Option<usize> {
        self.numbers.get(unit).copied().flatten()
    }

    /// The nodes that a unit runs on, with what it frees there.
    pub(super) fn frees(&self, unit: usize) -> impl Iterator<Item = (usize, &[i64])> {
        let (span, width) = (self.units[unit].span.clone(), self.request.len());
        span.map(move |at| (self.places[at], &self.amounts[at * width..(at + 1) * width]))
    }

    /// What a unit frees on a node; nothing where it does not run.
    pub(super) fn freed_on(&self, unit: usize, node: usize) -> &[i64] {
        self.frees(unit).find(|(place, _)| *place == node).map_or(&[], |(_, amounts)| amounts)
    }

    /// What is free on a node.
    pub(super) fn free_on(&self, node: usize) -> &[i64] {
        &self.free[node * self.request.len()..(node + 1) * self.request.len()]
    }

    /// How many members fit on a node.
    pub(super) fn slots_on(&self, node: usize) -> usize {
        self.slots[node]
    }

    /// Takes a unit out when it is in, and the other way round.
    pub(super) fn flip(&mut self, unit: usize) {
        let sign = if self.gone[unit] { -1 } else { 1 };
        self.gone[unit] = !self.gone[unit];
        let width = self.request.len();
        for at in self.units[unit].span.clone() {
            let node = self.places[at];
            for resource in 0..width {
                self.free[node * width + resource] += sign * self.amounts[at * width + resource];
            }
            self.count(node);
        }
    }

    fn count(&mut self, node: usize) {
        let free = &self.free[node * self.request.len()..(node + 1) * self.request.len()];
        let fit = free.iter().zip(&self.request).map(|(free, each)| free.max(&0) / each).min();
        let fit = fit.map_or(self.goal, |fit| usize::try_from(fit).unwrap_or(self.goal).min(self.goal));
        self.total = self.total - self.slots[node] + fit;
        self.slots[node] = fit;
    }
}

impl Ground for Lot {
    fn take(&mut self, unit: UnitIndex) {
        if let Some(unit) = self.local(unit).filter(|unit| !self.gone[*unit]) {
            self.flip(unit);
        }
    }

    fn put(&mut self, unit: UnitIndex) {
        if let Some(unit) = self.local(unit).filter(|unit| self.gone[*unit]) {
            self.flip(unit);
        }
    }

    fn enough(&mut self) -> bool {
        self.total >= self.goal
    }
}
