//! A placement for all members, found greedily: free places first, the tightest first; then the cheapest clearing per
//! member that gains a place.
//!
//! What is cleared for one member is free for the next ones, on every node where the evicted units ran, so that few
//! units are touched and what is freed is used up.

use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{MemberClass, Problem, Tally, UnitIndex, ranks};
use crate::search::victim_sets::{Price, VictimSet, VictimSets};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

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
        let mut search = Self { problem, available: available.to_vec(), tally: problem.budgets.tally(), layout };
        for class in classes {
            search.place_shape(class);
        }
        search.layout
    }

    fn place_shape(&mut self, class: &'p MemberClass) {
        let mut front = Front::new(self.problem.nodes.len());
        for rank in 0..self.problem.nodes.len() {
            self.refresh(&mut front, class, rank, class.members.len());
        }
        let mut waiting = class.members.iter();
        while let Some(member) = waiting.next() {
            let remaining = waiting.len() + 1;
            let rank = loop {
                if let Some(rank) = front.tightest() {
                    break Some(rank);
                }
                let Some(clearing) = self.cheapest(&mut front, class, remaining) else { break None };
                self.clear(&mut front, class, &clearing, remaining);
            };
            let Some(rank) = rank else { return };
            self.layout.room.add(*member, rank);
            self.layout.placed.push((*member, rank));
            self.refresh_after(&mut front, class, &[rank], remaining - 1);
        }
    }

    /// The cheapest clearing anywhere. Prices can have gone up since they were noted, so they are asked again.
    fn cheapest(&mut self, front: &mut Front, class: &'p MemberClass, remaining: usize) -> Option<VictimSet> {
        while let Some(price) = front.pop() {
            let Some(clearing) = self.clearing(class, price.rank, remaining) else { continue };
            if front.next_price().is_none_or(|next| clearing.price() <= next) {
                return Some(clearing);
            }
            front.note(clearing.price());
        }
        None
    }

    fn clearing(&mut self, class: &'p MemberClass, rank: Rank, remaining: usize) -> Option<VictimSet> {
        let pod = self.problem.cluster.pod_at(*class.members.first()?)?;
        let victim_sets = VictimSets { problem: self.problem, class, pod, available: &self.available };
        victim_sets.cheapest(&mut self.layout.room, &self.tally, rank, remaining)
    }

    /// Takes the units of a clearing out.
    fn clear(&mut self, front: &mut Front, class: &'p MemberClass, clearing: &VictimSet, remaining: usize) {
        let mut touched = Vec::new();
        for number in &clearing.units {
            let unit = &self.problem.potential.units[*number];
            self.layout.room.take(&unit.pods);
            self.problem.budgets.add(&mut self.tally, unit);
            self.available[*number] = false;
            self.layout.doomed.push(*number);
            touched.extend(ranks(self.problem.cluster, self.problem.nodes, unit));
        }
        touched.sort_unstable();
        touched.dedup();
        self.refresh_after(front, class, &touched, remaining);
    }

    /// Looks again at nodes that changed, and at those for which that matters.
    fn refresh_after(&mut self, front: &mut Front, class: &'p MemberClass, touched: &[Rank], remaining: usize) {
        let pod = class.members.first().and_then(|index| self.problem.cluster.pod_at(*index));
        let affected = pod.map_or_else(Vec::new, |pod| self.layout.room.affected(pod, touched));
        for rank in affected {
            self.refresh(front, class, rank, remaining);
        }
    }

    fn refresh(&mut self, front: &mut Front, class: &'p MemberClass, rank: Rank, remaining: usize) {
        let pod = class.members.first().and_then(|index| self.problem.cluster.pod_at(*index));
        let capacity = match (pod, &class.unsuitable[rank]) {
            (Some(pod), None) => self.layout.room.capacity(pod, rank, usize::MAX),
            _ => 0,
        };
        front.set(rank, self.problem.vacating[rank], capacity);
        if capacity == 0
            && let Some(clearing) = self.clearing(class, rank, remaining)
        {
            front.note(clearing.price());
        }
    }
}

/// Where the next member can go: nodes with room, and nodes where room can be made.
struct Front {
    /// Nodes with room: those nobody has to leave first, then by how many members still fit, then by name.
    spare: BTreeSet<(bool, usize, Rank)>,
    /// By rank: the entry in `spare`.
    entries: Vec<Option<(bool, usize, Rank)>>,
    /// Prices of victim_sets. Entries of nodes that changed since are found out when they are popped.
    prices: BinaryHeap<Reverse<Price>>,
}

impl Front {
    fn new(nodes: usize) -> Self {
        Self { spare: BTreeSet::new(), entries: vec![None; nodes], prices: BinaryHeap::new() }
    }

    fn set(&mut self, rank: Rank, vacating: bool, capacity: usize) {
        if let Some(entry) = self.entries[rank].take() {
            self.spare.remove(&entry);
        }
        if capacity > 0 {
            let entry = (vacating, capacity, rank);
            self.spare.insert(entry);
            self.entries[rank] = Some(entry);
        }
    }

    fn tightest(&self) -> Option<Rank> {
        self.spare.first().map(|entry| entry.2)
    }

    fn note(&mut self, price: Price) {
        self.prices.push(Reverse(price));
    }

    fn pop(&mut self) -> Option<Price> {
        self.prices.pop().map(|entry| entry.0)
    }

    fn next_price(&self) -> Option<Price> {
        self.prices.peek().map(|entry| entry.0)
    }
}
