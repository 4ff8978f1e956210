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

/// A greedy placement with the units (single pods or whole groups) that are evicted for it.
#[derive(Clone)]
pub(crate) struct GreedyPlacement<'a> {
    /// Members and the ranks of their nodes, in the order in which they were placed.
    pub(crate) placed: Vec<(PodIndex, Rank)>,
    /// Units that were removed from the occupancy to let members fit.
    pub(crate) evicted: Vec<UnitIndex>,
    /// The occupancy with the members placed and the victims removed.
    pub(crate) occupancy: Occupancy<'a>,
}

/// Places as many of the wanted members as it can in `occupancy`, and evicts only units for which `available`, by index of the unit (a
/// single pod or a whole group), is true. Members with large requests are placed first; if some do not fit, or not all members are wanted,
/// the placement of small ones first is tried as well.
pub(crate) fn place<'a>(problem: &Problem<'a>, occupancy: &Occupancy<'a>, available: &[bool]) -> GreedyPlacement<'a> {
    place_up_to(problem, occupancy, available, problem.demand.wanted)
}

/// Places as many members as it can in `occupancy`, without evictions.
pub(crate) fn fill<'a>(problem: &Problem<'a>, occupancy: &Occupancy<'a>) -> GreedyPlacement<'a> {
    fill_up_to(problem, occupancy, problem.demand.members.len())
}

/// Places at most `most` members in `occupancy`, without evictions.
pub(crate) fn fill_up_to<'a>(problem: &Problem<'a>, occupancy: &Occupancy<'a>, most: usize) -> GreedyPlacement<'a> {
    place_up_to(problem, occupancy, &vec![false; problem.potential.units.len()], most)
}

/// Places at most `most` members in `occupancy`, and evicts only units for which `available`, by index of the unit (a single pod or a whole
/// group), is true. Members with large requests are placed first; if that is not enough, small ones first as well. Of the two placements,
/// the one with more members is returned; of equally many, if not all members are to be placed, the one of lower cost.
fn place_up_to<'a>(
    problem: &Problem<'a>,
    occupancy: &Occupancy<'a>,
    available: &[bool],
    most: usize,
) -> GreedyPlacement<'a> {
    let nothing = || GreedyPlacement::new(occupancy.clone());
    let large_first = GreedySearch::run(problem, nothing(), available, most, problem.classes.iter());
    let limited = most < problem.demand.members.len();
    let enough = large_first.placed.len() >= most && (large_first.evicted.is_empty() || !limited);
    if enough || problem.classes.len() < 2 {
        return large_first;
    }
    // Where some members are placed without evictions, which ones are placed decides how many units are evicted.
    let small_first = GreedySearch::run(problem, nothing(), available, most, problem.classes.iter().rev());
    let rank = |layout: &GreedyPlacement<'_>| {
        (Reverse(layout.placed.len()), if limited { Some(Cost::of_evictions(problem, &layout.evicted)) } else { None })
    };
    if rank(&small_first) < rank(&large_first) { small_first } else { large_first }
}

/// Places further members on capacity that is free in `occupancy` with `victims` evicted and the members of `placed` on their nodes.
/// Returns all placements: those of `placed`, and then the further ones.
pub(crate) fn fill_rest(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
    placed: Vec<(PodIndex, Rank)>,
    victims: &[UnitIndex],
) -> Vec<(PodIndex, Rank)> {
    let most = problem.demand.members.len();
    if placed.len() >= most {
        return placed;
    }
    let occupancy = reprieve::with_plan(problem, occupancy, victims, &placed);
    let layout = GreedyPlacement { placed, ..GreedyPlacement::new(occupancy) };
    GreedySearch::run(problem, layout, &vec![false; problem.potential.units.len()], most, problem.classes.iter()).placed
}

impl<'a> GreedyPlacement<'a> {
    /// Creates a placement without members and evictions, which starts from this occupancy.
    fn new(occupancy: Occupancy<'a>) -> Self {
        Self { placed: Vec::new(), evicted: Vec::new(), occupancy }
    }
}

/// A greedy placement in progress, and the units that may still be evicted for it.
struct GreedySearch<'p, 'a> {
    problem: &'p Problem<'a>,
    /// By index of the unit: whether it may be evicted.
    available: Vec<bool>,
    /// True if at least one unit is available as a victim.
    any_available: bool,
    /// The evictions so far, by budget.
    tally: Tally,
    /// How many members are placed at most.
    most: usize,
    layout: GreedyPlacement<'a>,
}

impl<'p, 'a> GreedySearch<'p, 'a> {
    /// Continues `layout` with members of these classes, one class after the other, until `most` members are placed or no more fit.
    /// `available` says by index of a unit (a single pod or a whole group) whether it may be evicted. Returns the continued placement.
    fn run(
        problem: &'p Problem<'a>,
        layout: GreedyPlacement<'a>,
        available: &[bool],
        most: usize,
        classes: impl Iterator<Item = &'p MemberClass>,
    ) -> GreedyPlacement<'a> {
        let (any_available, tally) = (available.contains(&true), problem.budgets.tally());
        let mut search = Self { problem, available: available.to_vec(), any_available, tally, most, layout };
        for class in classes {
            search.place_class(class);
        }
        search.layout
    }

    /// Places the members of one class: on free capacity first, then by evicting the victim sets (each has single pods and whole groups
    /// that are evicted together) with the lowest prices.
    fn place_class(&mut self, class: &'p MemberClass) {
        let placed: BTreeSet<PodIndex> = self.layout.placed.iter().map(|(pod, _)| *pod).collect();
        let left = self.most.saturating_sub(placed.len());
        let waiting = class.members.iter().filter(|member| !placed.contains(member)).take(left);
        let mut waiting = waiting.collect::<Vec<_>>().into_iter();
        let Some(&example) = class.members.first().filter(|_| waiting.len() > 0 && !self.problem.effort.spent()) else {
            return;
        };
        let mut candidates = Candidates::new(&self.layout.occupancy, self.problem.nodes.len());
        for rank in 0..self.problem.nodes.len() {
            if class.unsuitable[rank].is_none() {
                self.refresh(&mut candidates, class, rank, waiting.len());
            }
        }
        while let Some(member) = waiting.next() {
            let remaining = waiting.len() + 1;
            candidates.reopen_changed(&self.layout.occupancy);
            let rank = loop {
                if let Some(rank) = self.tightest(&mut candidates, example) {
                    break Some(rank);
                }
                if self.problem.effort.spent() {
                    break None;
                }
                let cheapest = self.cheapest(&mut candidates, class, remaining);
                let Some(set) = cheapest.or_else(|| self.cheapest_unblocking(&candidates, class, remaining)) else {
                    break None;
                };
                self.evict_set(&mut candidates, class, &set, remaining);
            };
            let Some(rank) = rank else { return };
            self.layout.occupancy.add(*member, rank);
            self.layout.placed.push((*member, rank));
            self.refresh(&mut candidates, class, rank, remaining - 1);
        }
    }

    /// Returns the preferred node with free capacity (first those without leaving pods, then the one with capacity for the fewest further
    /// members) in a cell (nodes in the same topology domains) to which inter-pod constraints admit the member. `None` if there is none, or
    /// no effort is left.
    fn tightest(&self, candidates: &mut Candidates, member: PodIndex) -> Option<Rank> {
        loop {
            let rank = candidates.tightest()?;
            if self.admits(candidates, member, rank)? {
                return Some(rank);
            }
        }
    }

    /// Returns whether inter-pod constraints admit a member to the cell (nodes in the same topology domains) of the node with this rank
    /// (its index in the list of nodes), and closes the cell in `candidates` if they do not; `None` if no effort is left.
    fn admits(&self, candidates: &mut Candidates, member: PodIndex, rank: Rank) -> Option<bool> {
        let occupancy = &self.layout.occupancy;
        if !occupancy.has_inter_pod_constraints() {
            return Some(true);
        }
        let looked = self.problem.effort.take(1);
        let Some(counter) = occupancy.rejecting_counter(member, rank).filter(|_| looked) else {
            return looked.then_some(true);
        };
        candidates.close_cell(candidates.cell_of[rank], counter, occupancy.counter_state(counter));
        Some(false)
    }

    /// Returns the victim set (single pods and whole groups that are evicted together) with the lowest price on any node for one more of
    /// the `remaining` members of this class; `None` if there is none. The prices in `candidates` may be too low, so the lowest one is
    /// computed again before it is returned.
    fn cheapest(&mut self, candidates: &mut Candidates, class: &'p MemberClass, remaining: usize) -> Option<VictimSet> {
        let member = *class.members.first().filter(|_| self.any_available)?;
        while let Some(price) = candidates.cheapest() {
            if !self.admits(candidates, member, price.rank)? {
                continue;
            }
            candidates.remove_lowest_price(price.rank);
            let Some(set) = self.victims_on(class, price.rank, remaining) else { continue };
            if candidates.cheapest().is_none_or(|next| set.price() <= next) {
                return Some(set);
            }
            candidates.add_price(set.price());
        }
        None
    }

    /// Returns the victim set (single pods and whole groups that are evicted together) with the lowest price for one more of the
    /// `remaining` members of this class on the node with this rank (its index in the list of nodes); `None` if no permitted evictions
    /// suffice.
    fn victims_on(&mut self, class: &'p MemberClass, rank: Rank, remaining: usize) -> Option<VictimSet> {
        let member = *class.members.first()?;
        let sets = VictimSets { problem: self.problem, class, member, available: &self.available };
        sets.cheapest(&mut self.layout.occupancy, &mut self.tally, rank, remaining)
    }

    /// Returns the victim set (single pods and whole groups that are evicted together) with the lowest price after whose eviction inter-pod
    /// constraints admit one of the `remaining` members of this class to a cell (nodes in the same topology domains) that they exclude now;
    /// `None` if there is none.
    fn cheapest_unblocking(
        &mut self,
        candidates: &Candidates,
        class: &'p MemberClass,
        remaining: usize,
    ) -> Option<VictimSet> {
        let member = *class.members.first()?;
        if !self.any_available || !self.layout.occupancy.has_inter_pod_constraints() {
            return None;
        }
        let mut looked_at: BTreeMap<usize, BTreeSet<UnitIndex>> = BTreeMap::new();
        for number in (0..self.available.len()).filter(|number| self.available[*number]) {
            let unit = &self.problem.potential.units[number];
            self.problem.effort.take(unit.pods.len());
            for pod in unit.pods.iter().filter(|pod| self.layout.occupancy.is_counted(**pod)) {
                if let Some(rank) = self.layout.occupancy.rank_of(*pod) {
                    looked_at.entry(self.layout.occupancy.cell(rank)).or_default().insert(number);
                }
            }
        }
        let mut best: Option<VictimSet> = None;
        for (cell, units) in looked_at {
            let Some(first) = candidates.cells[cell].first else { continue };
            if self.problem.effort.spent() {
                break;
            }
            let units: Vec<UnitIndex> = units.into_iter().collect();
            let Some(set) = self.needed_to_enter(member, first, &units) else { continue };
            let gain = candidates.cells[cell].spare.iter().map(|(_, fit, _)| *fit).fold(0, usize::saturating_add);
            let set = VictimSet::of(self.problem, &mut self.tally, set, gain.clamp(1, remaining), first);
            if let Some(set) = set
                && best.as_ref().is_none_or(|best| set.price() < best.price())
            {
                best = Some(set);
            }
        }
        best
    }

    /// Returns which of these units (single pods or whole groups) must be evicted so that inter-pod constraints admit a member to the cell
    /// (nodes in the same topology domains) of the node with this rank (its index in the list of nodes). `None` if the member is admitted
    /// already, or is not admitted even without all of these units.
    fn needed_to_enter(&mut self, member: PodIndex, rank: Rank, units: &[UnitIndex]) -> Option<Vec<UnitIndex>> {
        let (occupancy, potential) = (&mut self.layout.occupancy, &self.problem.potential);
        self.problem.effort.take(units.iter().map(|unit| 2 * potential.units[*unit].pods.len()).sum());
        occupancy.violated_constraint(member, rank)?;
        units.iter().for_each(|unit| occupancy.take(&potential.units[*unit].pods));
        let helps = occupancy.violated_constraint(member, rank).is_none();
        let mut needed = Vec::new();
        for unit in reprieve::order(self.problem, units) {
            occupancy.put(&potential.units[unit].pods);
            if helps && occupancy.violated_constraint(member, rank).is_some() {
                occupancy.take(&potential.units[unit].pods);
                needed.push(unit);
            }
        }
        needed.iter().for_each(|unit| occupancy.put(&potential.units[*unit].pods));
        (!needed.is_empty()).then_some(needed)
    }

    /// Removes the units of a victim set (single pods and whole groups that are evicted together) from the occupancy, and computes the
    /// candidates on the nodes where they ran again. `remaining` members of this class are not placed yet.
    fn evict_set(&mut self, candidates: &mut Candidates, class: &'p MemberClass, set: &VictimSet, remaining: usize) {
        let mut touched = Vec::new();
        for number in &set.units {
            let unit = &self.problem.potential.units[*number];
            self.layout.occupancy.take(&unit.pods);
            self.problem.budgets.add(&mut self.tally, unit);
            self.available[*number] = false;
            self.layout.evicted.push(*number);
            touched.extend(ranks(self.problem.cluster, self.problem.nodes, unit));
        }
        touched.sort_unstable();
        touched.dedup();
        candidates.reopen_all();
        for rank in touched {
            self.refresh(candidates, class, rank, remaining);
        }
    }

    /// Computes the candidate on the node with this rank (its index in the list of nodes) again: how many more members of this class fit,
    /// or the lowest price of a victim set (single pods and whole groups that are evicted together) if none fits. `remaining` members are
    /// not placed yet.
    fn refresh(&mut self, candidates: &mut Candidates, class: &'p MemberClass, rank: Rank, remaining: usize) {
        self.problem.effort.take(1);
        let capacity = match class.members.first() {
            Some(member) if class.unsuitable[rank].is_none() => {
                self.layout.occupancy.capacity_here(*member, rank, usize::MAX)
            }
            _ => 0,
        };
        candidates.set_capacity(rank, self.problem.vacating[rank], capacity);
        if capacity == 0
            && self.any_available
            && !self.problem.effort.spent()
            && let Some(set) = self.victims_on(class, rank, remaining)
        {
            candidates.add_price(set.price());
        }
    }
}

/// Where the next member of a class can be placed: nodes with free capacity, and nodes where evictions free capacity. Nodes are grouped in
/// cells: those of one cell are in the same topology domains, so that inter-pod constraints admit a member to all of them or to none.
struct Candidates {
    cells: Vec<Cell>,
    /// By rank of a node: the number of its cell.
    cell_of: Vec<usize>,
    /// By rank of a node: its entry among the nodes with free capacity.
    entries: Vec<Option<Spare>>,
    /// For every cell that is not closed: its node with free capacity for fewest further members.
    tightest_of_cells: BTreeSet<Spare>,
    /// For every cell that is not closed: its lowest price of a victim set.
    cheapest_of_cells: BTreeSet<SetPrice>,
    /// The closed cells, those of which inter-pod constraints admit no member of the class: by the counter that rejects the members, with
    /// the state of the counter at that time.
    closed: BTreeMap<RejectingCounter, (Option<CounterState>, Vec<usize>)>,
}

/// A node with free capacity: whether pods are leaving it, for how many more members its capacity suffices, and its rank. In this order,
/// the least one is preferred.
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

impl Candidates {
    /// Creates the candidates for one class of members on this number of nodes: all cells (nodes in the same topology domains) are open,
    /// and no node has free capacity or a price yet.
    fn new(occupancy: &Occupancy<'_>, nodes: usize) -> Self {
        let cell_of: Vec<usize> = (0..nodes).map(|rank| occupancy.cell(rank)).collect();
        let mut cells: Vec<Cell> = (0..occupancy.cells()).map(|_| Cell::default()).collect();
        for (rank, cell) in cell_of.iter().enumerate() {
            cells[*cell].first.get_or_insert(rank);
        }
        let (tightest_of_cells, cheapest_of_cells, closed) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Self { cells, cell_of, entries: vec![None; nodes], tightest_of_cells, cheapest_of_cells, closed }
    }

    /// Sets how many more members fit on the node with this rank (its index in the list of nodes) (`capacity`). `vacating` says that a pod
    /// is leaving the node.
    fn set_capacity(&mut self, rank: Rank, vacating: bool, capacity: usize) {
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
        self.update_lists(number);
    }

    /// Updates the lists of the tightest nodes and of the lowest prices after the cell (nodes in the same topology domains) with this
    /// number changed.
    fn update_lists(&mut self, number: usize) {
        let cell = &mut self.cells[number];
        let now = match cell.closed {
            true => (None, None),
            false => (cell.spare.first().copied(), cell.prices.peek().map(|price| price.0)),
        };
        let before = std::mem::replace(&mut cell.listed, now);
        if before.0 != now.0 {
            before.0.map(|spare| self.tightest_of_cells.remove(&spare));
            self.tightest_of_cells.extend(now.0);
        }
        if before.1 != now.1 {
            before.1.map(|price| self.cheapest_of_cells.remove(&price));
            self.cheapest_of_cells.extend(now.1);
        }
    }

    /// Returns the preferred node with free capacity in any open cell (nodes in the same topology domains): one without leaving pods, and
    /// then with capacity for the fewest further members. `None` if there is none.
    fn tightest(&self) -> Option<Rank> {
        self.tightest_of_cells.first().map(|(_, _, rank)| *rank)
    }

    /// Returns the lowest price of a victim set (single pods and whole groups that are evicted together) in any open cell (nodes in the
    /// same topology domains); `None` if there is none.
    fn cheapest(&self) -> Option<SetPrice> {
        self.cheapest_of_cells.first().copied()
    }

    /// Adds the price of a victim set (single pods and whole groups that are evicted together) to the cell (nodes in the same topology
    /// domains) of its node.
    fn add_price(&mut self, price: SetPrice) {
        let number = self.cell_of[price.rank];
        self.cells[number].prices.push(Reverse(price));
        self.update_lists(number);
    }

    /// Removes the lowest price of a victim set (single pods and whole groups that are evicted together) from the cell (nodes in the same
    /// topology domains) that contains the node with this rank (its index in the list of nodes).
    fn remove_lowest_price(&mut self, rank: Rank) {
        let number = self.cell_of[rank];
        self.cells[number].prices.pop();
        self.update_lists(number);
    }

    /// Closes the cell (nodes in the same topology domains) with this number: none of its nodes is a candidate until the state of
    /// `counter`, the inter-pod counter (the counted pods of one spread or affinity rule) that rejects the members, differs from `state`.
    fn close_cell(&mut self, number: usize, counter: RejectingCounter, state: Option<CounterState>) {
        self.cells[number].closed = true;
        self.closed.entry(counter).or_insert_with(|| (state, Vec::new())).1.push(number);
        self.update_lists(number);
    }

    /// Opens the closed cells (nodes in the same topology domains) again whose counter (the counted pods of one spread or affinity rule)
    /// has changed its state in `occupancy`, because members were placed.
    fn reopen_changed(&mut self, occupancy: &Occupancy<'_>) {
        self.reopen_where(|counter, state| occupancy.counter_state(counter) != state);
    }

    /// Opens all closed cells (nodes in the same topology domains) again, because pods were removed: their nodes are candidates again.
    fn reopen_all(&mut self) {
        self.reopen_where(|_, _| true);
    }

    /// Opens those closed cells (nodes in the same topology domains) again for which `changed` returns true, given the counter (the counted
    /// pods of one spread or affinity rule) that rejected the members and its state when the cell was closed.
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
            self.update_lists(number);
        }
    }
}
