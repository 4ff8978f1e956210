//! A greedy placement of all members: on free capacity first, on the tightest node first; then with the cheapest victims per additional
//! member.
//!
//! What is evicted for one member frees capacity for the next ones, on every node of the evicted units, so that few units are evicted and
//! the freed capacity is used up. Nodes that are in the same domains of every topology key form a cell: inter-pod constraints admit a
//! member to all nodes of a cell or to none, so that they are evaluated once per cell.

use super::reprieve;
use super::victim_sets::{SetPrice, VictimSet, VictimSets};
use crate::api::Cost;
use crate::filters::{CounterState, Occupancy, Rank, RejectingCounter};
use crate::model::PodIndex;
use crate::problem::{MemberClass, Problem, Tally, UnitIndex, ranks};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A greedy placement with its victims.
#[derive(Clone)]
pub(crate) struct Layout<'a> {
    /// Members and their nodes, in the order in which they were placed.
    pub(crate) placed: Vec<(PodIndex, Rank)>,
    /// Units that were removed to let members fit.
    pub(crate) doomed: Vec<UnitIndex>,
    /// The occupancy with the members placed and the victims removed.
    pub(crate) room: Occupancy<'a>,
}

/// Places as many members as units may be evicted for in `room`, evicting only available units. Larger members are placed first; if some do
/// not fit, or not all members are wanted, the placement of smaller ones first is tried as well.
pub(crate) fn place<'a>(problem: &Problem<'a>, room: &Occupancy<'a>, available: &[bool]) -> Layout<'a> {
    place_up_to(problem, room, available, problem.demand.wanted)
}

/// Places as many members as it can on free capacity.
pub(crate) fn fill<'a>(problem: &Problem<'a>, room: &Occupancy<'a>) -> Layout<'a> {
    fill_up_to(problem, room, problem.demand.members.len())
}

/// Places at most `most` members on free capacity.
pub(crate) fn fill_up_to<'a>(problem: &Problem<'a>, room: &Occupancy<'a>, most: usize) -> Layout<'a> {
    place_up_to(problem, room, &vec![false; problem.potential.units.len()], most)
}

/// Places at most `most` members: large ones first, and if that is not enough, also in other orders.
fn place_up_to<'a>(problem: &Problem<'a>, room: &Occupancy<'a>, available: &[bool], most: usize) -> Layout<'a> {
    let nothing = || Layout::new(room.clone());
    let large_first = Search::run(problem, nothing(), available, most, problem.classes.iter());
    let limited = most < problem.demand.members.len();
    let enough = large_first.placed.len() >= most && (large_first.doomed.is_empty() || !limited);
    if enough || problem.classes.len() < 2 {
        return large_first;
    }
    // Where some members are placed without evictions, which ones are placed decides how many units are evicted.
    let small_first = Search::run(problem, nothing(), available, most, problem.classes.iter().rev());
    let rank = |layout: &Layout<'_>| {
        (Reverse(layout.placed.len()), if limited { Some(Cost::of_evictions(problem, &layout.doomed)) } else { None })
    };
    if rank(&small_first) < rank(&large_first) { small_first } else { large_first }
}

/// Places further members on free capacity, beside those that are placed and without these victims. Returns all placements.
pub(crate) fn fill_rest(
    problem: &Problem<'_>,
    room: &Occupancy<'_>,
    placed: Vec<(PodIndex, Rank)>,
    victims: &[UnitIndex],
) -> Vec<(PodIndex, Rank)> {
    let most = problem.demand.members.len();
    if placed.len() >= most {
        return placed;
    }
    let room = reprieve::with_plan(problem, room, victims, &placed);
    let layout = Layout { placed, ..Layout::new(room) };
    Search::run(problem, layout, &vec![false; problem.potential.units.len()], most, problem.classes.iter()).placed
}

impl<'a> Layout<'a> {
    /// Creates a layout without placements and victims, which begins with the occupancy `room`.
    fn new(room: Occupancy<'a>) -> Self {
        Self { placed: Vec::new(), doomed: Vec::new(), room }
    }
}

/// A greedy placement that is being made, and the units that may still be evicted for it.
struct Search<'p, 'a> {
    problem: &'p Problem<'a>,
    available: Vec<bool>,
    /// True if at least one unit is available as a victim.
    anybody: bool,
    tally: Tally,
    /// How many members are placed at most.
    most: usize,
    layout: Layout<'a>,
}

impl<'p, 'a> Search<'p, 'a> {
    /// Continues `layout` with members of these classes, one class after the other, until `most` members are placed or no more fit.
    /// `available` says by unit whether it may be evicted.
    fn run(
        problem: &'p Problem<'a>,
        layout: Layout<'a>,
        available: &[bool],
        most: usize,
        classes: impl Iterator<Item = &'p MemberClass>,
    ) -> Layout<'a> {
        let (anybody, tally) = (available.contains(&true), problem.budgets.tally());
        let mut search = Self { problem, available: available.to_vec(), anybody, tally, most, layout };
        for class in classes {
            search.place_class(class);
        }
        search.layout
    }

    /// Places the members of one class: on free capacity first, then by evicting the cheapest victim sets.
    fn place_class(&mut self, class: &'p MemberClass) {
        let placed: BTreeSet<PodIndex> = self.layout.placed.iter().map(|(pod, _)| *pod).collect();
        let left = self.most.saturating_sub(placed.len());
        let waiting = class.members.iter().filter(|member| !placed.contains(member)).take(left);
        let mut waiting = waiting.collect::<Vec<_>>().into_iter();
        let Some(&example) = class.members.first().filter(|_| waiting.len() > 0 && !self.problem.effort.spent()) else {
            return;
        };
        let mut front = Front::new(&self.layout.room, self.problem.nodes.len());
        for rank in 0..self.problem.nodes.len() {
            if class.unsuitable[rank].is_none() {
                self.refresh(&mut front, class, rank, waiting.len());
            }
        }
        while let Some(member) = waiting.next() {
            let remaining = waiting.len() + 1;
            front.reopen(&self.layout.room);
            let rank = loop {
                if let Some(rank) = self.tightest(&mut front, example) {
                    break Some(rank);
                }
                if self.problem.effort.spent() {
                    break None;
                }
                let cheapest = self.cheapest(&mut front, class, remaining);
                let Some(set) = cheapest.or_else(|| self.unblocking(&front, class, remaining)) else { break None };
                self.clear(&mut front, class, &set, remaining);
            };
            let Some(rank) = rank else { return };
            self.layout.room.add(*member, rank);
            self.layout.placed.push((*member, rank));
            self.refresh(&mut front, class, rank, remaining - 1);
        }
    }

    /// Returns the tightest node with free capacity in a cell to which inter-pod constraints admit the member; `None` if there is none, or
    /// no effort is left.
    fn tightest(&self, front: &mut Front, member: PodIndex) -> Option<Rank> {
        loop {
            let rank = front.tightest()?;
            if self.lets_in(front, member, rank)? {
                return Some(rank);
            }
        }
    }

    /// Returns whether inter-pod constraints admit a member to the cell of a node, and closes the cell if they do not; `None` if no effort
    /// is left.
    fn lets_in(&self, front: &mut Front, member: PodIndex, rank: Rank) -> Option<bool> {
        let room = &self.layout.room;
        if !room.looks_around() {
            return Some(true);
        }
        let looked = self.problem.effort.take(1);
        let Some(counter) = room.rejecting_counter(member, rank).filter(|_| looked) else {
            return looked.then_some(true);
        };
        front.close(front.cell_of[rank], counter, room.counter_state(counter));
        Some(false)
    }

    /// Returns the victim set with the lowest price on any node for one more of the `remaining` members; `None` if there is none. Noted
    /// prices can have increased, so the lowest one is computed again.
    fn cheapest(&mut self, front: &mut Front, class: &'p MemberClass, remaining: usize) -> Option<VictimSet> {
        let member = *class.members.first().filter(|_| self.anybody)?;
        while let Some(price) = front.cheapest() {
            if !self.lets_in(front, member, price.rank)? {
                continue;
            }
            front.pop(price.rank);
            let Some(set) = self.victims_on(class, price.rank, remaining) else { continue };
            if front.cheapest().is_none_or(|next| set.price() <= next) {
                return Some(set);
            }
            front.note(set.price());
        }
        None
    }

    /// Returns the cheapest victim set on a node for one more of the `remaining` members; `None` if no permitted evictions suffice.
    fn victims_on(&mut self, class: &'p MemberClass, rank: Rank, remaining: usize) -> Option<VictimSet> {
        let member = *class.members.first()?;
        let sets = VictimSets { problem: self.problem, class, member, available: &self.available };
        sets.cheapest(&mut self.layout.room, &self.tally, rank, remaining)
    }

    /// Returns the cheapest victim set after whose eviction inter-pod constraints admit one of the `remaining` members to a cell that was
    /// closed; `None` if there is none.
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

    /// Returns which of these units must be evicted before inter-pod constraints admit a member to the cell of a node; `None` if that does
    /// not suffice.
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

    /// Removes the units of a victim set from the occupancy, and recomputes the candidates on the nodes where they ran. `remaining` members
    /// are not placed yet.
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
        front.reopen_all();
        for rank in touched {
            self.refresh(front, class, rank, remaining);
        }
    }

    /// Recomputes the candidates on a node that changed: how many more members fit, or the price of victims if none does. `remaining`
    /// members are not placed yet.
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

/// Candidates for the next member: nodes with free capacity, and nodes where evictions free capacity.
struct Front {
    cells: Vec<Cell>,
    /// By rank: the cell.
    cell_of: Vec<usize>,
    /// By rank: the entry among the nodes with free capacity.
    entries: Vec<Option<Spare>>,
    /// The tightest node with free capacity of every cell that is not known to be closed.
    roomy: BTreeSet<Spare>,
    /// The cheapest victims of each of them.
    priced: BTreeSet<SetPrice>,
    /// Cells that inter-pod constraints close for the members, by the counter that rejects them, with its state at that time.
    closed: BTreeMap<RejectingCounter, (Option<CounterState>, Vec<usize>)>,
}

/// A node with free capacity: nodes without leaving pods first, then those where fewest members still fit, then by name.
type Spare = (bool, usize, Rank);

/// A cell: nodes that are in the same topology domains.
#[derive(Default)]
struct Cell {
    /// One of its nodes.
    first: Option<Rank>,
    /// Its nodes with free capacity.
    spare: BTreeSet<Spare>,
    /// Prices of victims. Entries of nodes that have changed are detected when they are popped.
    prices: BinaryHeap<Reverse<SetPrice>>,
    /// True if it is known that inter-pod constraints admit no member.
    closed: bool,
    /// Its entries among the nodes with free capacity, and among those where evictions free capacity.
    listed: (Option<Spare>, Option<SetPrice>),
}

impl Front {
    /// Creates the candidates for one class of members, without any: all cells are open, and all nodes count as full.
    fn new(room: &Occupancy<'_>, nodes: usize) -> Self {
        let cell_of: Vec<usize> = (0..nodes).map(|rank| room.cell(rank)).collect();
        let mut cells: Vec<Cell> = (0..room.cells()).map(|_| Cell::default()).collect();
        for (rank, cell) in cell_of.iter().enumerate() {
            cells[*cell].first.get_or_insert(rank);
        }
        let (roomy, priced, closed) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Self { cells, cell_of, entries: vec![None; nodes], roomy, priced, closed }
    }

    /// Sets how many more members fit on a node (`capacity`); `vacating` says that a pod is leaving it.
    fn set(&mut self, rank: Rank, vacating: bool, capacity: usize) {
        let number = self.cell_of[rank];
        let spare = &mut self.cells[number].spare;
        if let Some(entry) = self.entries[rank].take() {
            spare.remove(&entry);
        }
        if capacity > 0 {
            let entry = (vacating, capacity, rank);
            spare.insert(entry);
            self.entries[rank] = Some(entry);
        }
        self.list(number);
    }

    /// Updates the two lists of candidates after the cell with this number changed: its tightest node and its cheapest victims.
    fn list(&mut self, number: usize) {
        let cell = &mut self.cells[number];
        let now = match cell.closed {
            true => (None, None),
            false => (cell.spare.first().copied(), cell.prices.peek().map(|price| price.0)),
        };
        let before = std::mem::replace(&mut cell.listed, now);
        if before.0 != now.0 {
            before.0.map(|spare| self.roomy.remove(&spare));
            self.roomy.extend(now.0);
        }
        if before.1 != now.1 {
            before.1.map(|price| self.priced.remove(&price));
            self.priced.extend(now.1);
        }
    }

    /// Returns the best node with free capacity in any open cell: one without leaving pods, and then with the least capacity for further
    /// members; `None` if there is none.
    fn tightest(&self) -> Option<Rank> {
        self.roomy.first().map(|(_, _, rank)| *rank)
    }

    /// Returns the lowest noted price of a victim set in any open cell; `None` if there is none.
    fn cheapest(&self) -> Option<SetPrice> {
        self.priced.first().copied()
    }

    /// Adds the price of a victim set to the cell of its node.
    fn note(&mut self, price: SetPrice) {
        let number = self.cell_of[price.rank];
        self.cells[number].prices.push(Reverse(price));
        self.list(number);
    }

    /// Removes the lowest noted price from the cell that contains the node.
    fn pop(&mut self, rank: Rank) {
        let number = self.cell_of[rank];
        self.cells[number].prices.pop();
        self.list(number);
    }

    /// Closes the cell with this number: none of its nodes is a candidate until `counter`, which rejects the members, has another state
    /// than `state`.
    fn close(&mut self, number: usize, counter: RejectingCounter, state: Option<CounterState>) {
        self.cells[number].closed = true;
        self.closed.entry(counter).or_insert_with(|| (state, Vec::new())).1.push(number);
        self.list(number);
    }

    /// Reopens the closed cells whose counter has changed its state, after members were placed.
    fn reopen(&mut self, room: &Occupancy<'_>) {
        self.reopen_where(|counter, state| room.counter_state(counter) != state);
    }

    /// Reopens all closed cells, because pods were removed: their nodes are candidates again.
    fn reopen_all(&mut self) {
        self.reopen_where(|_, _| true);
    }

    /// Reopens the closed cells for which `changed` returns true, given the counter that rejected the members and its state when the cell was
    /// closed.
    fn reopen_where(&mut self, changed: impl Fn(RejectingCounter, Option<CounterState>) -> bool) {
        let mut reopened = Vec::new();
        self.closed.retain(|counter, (state, cells)| {
            let stays = !changed(*counter, *state);
            if !stays {
                reopened.append(cells);
            }
            stays
        });
        for number in reopened {
            self.cells[number].closed = false;
            self.list(number);
        }
    }
}
