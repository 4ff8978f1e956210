//! A placement for all members, found greedily: free places first, the tightest first; then the cheapest victims per member
//! that gains a place.
//!
//! What is evicted for one member leaves room for the next ones, on every node where the evicted units ran, so that few
//! units are touched and what is freed is used up. Nodes that are in the same domains of every topology key form a cell: the
//! pods around keep a member away from all nodes of a cell or from none, so that this is asked once per cell.

use super::reprieve;
use super::victim_sets::{Price, VictimSet, VictimSets};
use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{MemberClass, Problem, Tally, UnitIndex, ranks};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Who goes where, and who has to go for it.
#[derive(Clone)]
pub(crate) struct Layout<'a> {
    /// Members and their nodes, in the order in which they were placed.
    pub(crate) placed: Vec<(PodIndex, Rank)>,
    /// Units that were taken out to make room.
    pub(crate) doomed: Vec<UnitIndex>,
    /// The room with the members in place and the doomed gone.
    pub(crate) room: Occupancy<'a>,
}

/// Places as many members as it can in `room`, evicting only available units. Larger members go first; when some find no
/// place that way, smaller ones first is tried as well.
pub(crate) fn place<'a>(problem: &Problem<'a>, room: &Occupancy<'a>, available: &[bool]) -> Layout<'a> {
    let large_first = Search::run(problem, room.clone(), available, problem.classes.iter());
    if large_first.placed.len() == problem.demand.members.len() || problem.classes.len() < 2 {
        return large_first;
    }
    let small_first = Search::run(problem, room.clone(), available, problem.classes.iter().rev());
    if small_first.placed.len() > large_first.placed.len() { small_first } else { large_first }
}

/// Places as many members as it can in what is free.
pub(crate) fn fill<'a>(problem: &Problem<'a>, room: &Occupancy<'a>) -> Layout<'a> {
    place(problem, room, &vec![false; problem.potential.units.len()])
}

struct Search<'p, 'a> {
    problem: &'p Problem<'a>,
    available: Vec<bool>,
    /// Whether anybody is available.
    anybody: bool,
    tally: Tally,
    layout: Layout<'a>,
}

impl<'p, 'a> Search<'p, 'a> {
    fn run(
        problem: &'p Problem<'a>,
        room: Occupancy<'a>,
        available: &[bool],
        classes: impl Iterator<Item = &'p MemberClass>,
    ) -> Layout<'a> {
        let layout = Layout { placed: Vec::new(), doomed: Vec::new(), room };
        let (anybody, tally) = (available.contains(&true), problem.budgets.tally());
        let mut search = Self { problem, available: available.to_vec(), anybody, tally, layout };
        for class in classes {
            search.place_class(class);
        }
        search.layout
    }

    fn place_class(&mut self, class: &'p MemberClass) {
        let Some(&example) = class.members.first().filter(|_| !self.problem.effort.spent()) else { return };
        let mut front = Front::new(&self.layout.room, self.problem.nodes.len());
        for rank in 0..self.problem.nodes.len() {
            if class.unsuitable[rank].is_none() {
                self.refresh(&mut front, class, rank, class.members.len());
            }
        }
        let mut waiting = class.members.iter();
        while let Some(member) = waiting.next() {
            let remaining = waiting.len() + 1;
            let rank = loop {
                let open = self.open(&front, example);
                if let Some(rank) = front.tightest(&open) {
                    break Some(rank);
                }
                if self.problem.effort.spent() {
                    break None;
                }
                let cheapest = self.cheapest(&mut front, &open, class, remaining);
                let Some(set) = cheapest.or_else(|| self.unblocking(&front, class, remaining)) else { break None };
                self.clear(&mut front, class, &set, remaining);
            };
            let Some(rank) = rank else { return };
            self.layout.room.add(*member, rank);
            self.layout.placed.push((*member, rank));
            self.refresh(&mut front, class, rank, remaining - 1);
        }
    }

    /// The cells that the pods around let a member into.
    fn open(&self, front: &Front, member: PodIndex) -> Vec<usize> {
        self.problem.effort.take(front.cells.len() / 4);
        let lets_in = |cell: &usize| {
            let first = front.cells[*cell].first;
            first.is_some_and(|rank| self.layout.room.object(member, rank).is_none())
        };
        (0..front.cells.len()).filter(lets_in).collect()
    }

    /// The cheapest victims anywhere. Prices can have gone up since they were noted, so they are asked again.
    fn cheapest(
        &mut self,
        front: &mut Front,
        open: &[usize],
        class: &'p MemberClass,
        remaining: usize,
    ) -> Option<VictimSet> {
        if !self.anybody {
            return None;
        }
        while let Some(price) = front.pop(open) {
            let Some(set) = self.victims_on(class, price.rank, remaining) else { continue };
            if front.next_price(open).is_none_or(|next| set.price() <= next) {
                return Some(set);
            }
            front.note(set.price());
        }
        None
    }

    fn victims_on(&mut self, class: &'p MemberClass, rank: Rank, remaining: usize) -> Option<VictimSet> {
        let member = *class.members.first()?;
        let sets = VictimSets { problem: self.problem, class, member, available: &self.available };
        sets.cheapest(&mut self.layout.room, &self.tally, rank, remaining)
    }

    /// The cheapest victims without whom the pods around let a member into a cell that they keep it away from.
    fn unblocking(&mut self, front: &Front, class: &'p MemberClass, remaining: usize) -> Option<VictimSet> {
        let member = *class.members.first()?;
        if !self.anybody || !self.layout.room.looks_around() {
            return None;
        }
        let mut looked_at: BTreeMap<usize, BTreeSet<UnitIndex>> = BTreeMap::new();
        for number in (0..self.available.len()).filter(|number| self.available[*number]) {
            let unit = &self.problem.potential.units[number];
            self.problem.effort.take(unit.pods.len());
            for pod in unit.pods.iter().filter(|pod| self.layout.room.is_looked_at(**pod)) {
                if let Some(rank) = self.layout.room.rank_of(*pod) {
                    looked_at.entry(self.layout.room.cell(rank)).or_default().insert(number);
                }
            }
        }
        let mut best: Option<VictimSet> = None;
        for (cell, units) in looked_at {
            let Some(first) = front.cells[cell].first else { continue };
            if self.problem.effort.spent() {
                break;
            }
            let units: Vec<UnitIndex> = units.into_iter().collect();
            let Some(set) = self.needed_to_enter(member, first, &units) else { continue };
            let gain = front.cells[cell].spare.iter().map(|(_, fit, _)| *fit).fold(0, usize::saturating_add);
            let set = VictimSet::of(self.problem, &self.tally, set, gain.clamp(1, remaining), first);
            if let Some(set) = set
                && best.as_ref().is_none_or(|best| set.price() < best.price())
            {
                best = Some(set);
            }
        }
        best
    }

    /// Who of these units has to go for a member to be let into the cell of a node; `None` when that does not help.
    fn needed_to_enter(&mut self, member: PodIndex, rank: Rank, units: &[UnitIndex]) -> Option<Vec<UnitIndex>> {
        let (room, potential) = (&mut self.layout.room, &self.problem.potential);
        self.problem.effort.take(units.iter().map(|unit| 2 * potential.units[*unit].pods.len()).sum());
        room.object(member, rank)?;
        units.iter().for_each(|unit| room.take(&potential.units[*unit].pods));
        let helps = room.object(member, rank).is_none();
        let mut needed = Vec::new();
        for unit in reprieve::order(self.problem, units) {
            room.put(&potential.units[unit].pods);
            if helps && room.object(member, rank).is_some() {
                room.take(&potential.units[unit].pods);
                needed.push(unit);
            }
        }
        needed.iter().for_each(|unit| room.put(&potential.units[*unit].pods));
        (!needed.is_empty()).then_some(needed)
    }

    /// Takes these victims out.
    fn clear(&mut self, front: &mut Front, class: &'p MemberClass, set: &VictimSet, remaining: usize) {
        let mut touched = Vec::new();
        for number in &set.units {
            let unit = &self.problem.potential.units[*number];
            self.layout.room.take(&unit.pods);
            self.problem.budgets.add(&mut self.tally, unit);
            self.available[*number] = false;
            self.layout.doomed.push(*number);
            touched.extend(ranks(self.problem.cluster, self.problem.nodes, unit));
        }
        touched.sort_unstable();
        touched.dedup();
        for rank in touched {
            self.refresh(front, class, rank, remaining);
        }
    }

    /// Looks again at a node that changed.
    fn refresh(&mut self, front: &mut Front, class: &'p MemberClass, rank: Rank, remaining: usize) {
        self.problem.effort.take(1);
        let capacity = match class.members.first() {
            Some(member) if class.unsuitable[rank].is_none() => {
                self.layout.room.capacity_here(*member, rank, usize::MAX)
            }
            _ => 0,
        };
        front.set(rank, self.problem.vacating[rank], capacity);
        if capacity == 0
            && self.anybody
            && !self.problem.effort.spent()
            && let Some(set) = self.victims_on(class, rank, remaining)
        {
            front.note(set.price());
        }
    }
}

/// Where the next member can go: nodes with room, and nodes where room can be made.
struct Front {
    cells: Vec<Cell>,
    /// By rank: the cell.
    cell_of: Vec<usize>,
    /// By rank: the entry among those with room.
    entries: Vec<Option<(bool, usize, Rank)>>,
}

/// Nodes that are in the same domains.
#[derive(Default)]
struct Cell {
    /// One of them.
    first: Option<Rank>,
    /// Those with room: those nobody has to leave first, then by how many members still fit, then by name.
    spare: BTreeSet<(bool, usize, Rank)>,
    /// Prices of victims. Entries of nodes that changed since are found out when they are popped.
    prices: BinaryHeap<Reverse<Price>>,
}

impl Front {
    fn new(room: &Occupancy<'_>, nodes: usize) -> Self {
        let cell_of: Vec<usize> = (0..nodes).map(|rank| room.cell(rank)).collect();
        let mut cells: Vec<Cell> = (0..room.cells()).map(|_| Cell::default()).collect();
        for (rank, cell) in cell_of.iter().enumerate() {
            cells[*cell].first.get_or_insert(rank);
        }
        Self { cells, cell_of, entries: vec![None; nodes] }
    }

    fn set(&mut self, rank: Rank, vacating: bool, capacity: usize) {
        let spare = &mut self.cells[self.cell_of[rank]].spare;
        if let Some(entry) = self.entries[rank].take() {
            spare.remove(&entry);
        }
        if capacity > 0 {
            let entry = (vacating, capacity, rank);
            spare.insert(entry);
            self.entries[rank] = Some(entry);
        }
    }

    fn tightest(&self, open: &[usize]) -> Option<Rank> {
        let first = open.iter().filter_map(|cell| self.cells[*cell].spare.first()).min();
        first.map(|(_, _, rank)| *rank)
    }

    fn note(&mut self, price: Price) {
        self.cells[self.cell_of[price.rank]].prices.push(Reverse(price));
    }

    fn cheapest_cell(&self, open: &[usize]) -> Option<(Price, usize)> {
        let prices = open.iter().filter_map(|cell| Some((self.cells[*cell].prices.peek()?.0, *cell)));
        prices.min_by(|a, b| a.0.cmp(&b.0))
    }

    fn pop(&mut self, open: &[usize]) -> Option<Price> {
        let (_, cell) = self.cheapest_cell(open)?;
        self.cells[cell].prices.pop().map(|entry| entry.0)
    }

    fn next_price(&self, open: &[usize]) -> Option<Price> {
        self.cheapest_cell(open).map(|(price, _)| price)
    }
}
