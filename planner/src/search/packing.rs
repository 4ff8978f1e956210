//! Places a number of members without evictions: greedily and, if that does not reach the number and there are few members and nodes, by
//! trying every node for every member.

use crate::filters::{Occupancy, Rank};
use crate::limits::{PACKING_SIZE, PACKING_TRIES};
use crate::model::PodIndex;
use crate::problem::{MemberClass, Problem};
use crate::search::greedy::fill_up_to;

/// Members with their nodes.
type Placed = Vec<(PodIndex, Rank)>;

/// Places at least `goal` members. `None` if no placement was found.
pub(super) fn pack(problem: &Problem<'_>, room: &Occupancy<'_>, goal: usize) -> Option<Placed> {
    let layout = fill_up_to(problem, room, goal);
    if layout.placed.len() >= goal { Some(layout.placed) } else { try_everything(problem, room, goal) }
}

/// Places `goal` members where the greedy placement does not. `None` also if the input is not small.
pub(crate) fn try_everything(problem: &Problem<'_>, room: &Occupancy<'_>, goal: usize) -> Option<Placed> {
    if greedy_is_exact(problem) || !small(problem) {
        return None;
    }
    let members: Vec<(PodIndex, &MemberClass)> =
        problem.classes.iter().flat_map(|class| class.members.iter().map(move |member| (*member, class))).collect();
    let mut attempt = PackingAttempt { problem, room: room.clone(), goal, placed: Vec::new(), tries: PACKING_TRIES };
    if attempt.place(&members) {
        return Some(attempt.placed);
    }
    if !room.looks_around() {
        attempt.tell_end();
        return None;
    }
    // A member with inter-pod constraints may have to be placed before or after the others.
    attempt.tries = PACKING_TRIES;
    let mut waiting: Vec<(&[PodIndex], &MemberClass)> =
        problem.classes.iter().map(|class| (class.members.as_slice(), class)).collect();
    if attempt.place_in_any_order(&mut waiting) {
        return Some(attempt.placed);
    }
    attempt.tell_end();
    None
}

/// Returns true if there are so few members and nodes that every placement is tried.
pub(super) fn small(problem: &Problem<'_>) -> bool {
    problem.demand.members.len() * problem.nodes.len() <= PACKING_SIZE
}

/// Returns true if [`pack`] finds a placement whenever one exists, unless it [gave up](crate::problem::Effort::exhausted_times).
pub(super) fn exact(problem: &Problem<'_>) -> bool {
    greedy_is_exact(problem) || small(problem)
}

/// Returns true if the greedy placement finds one whenever one exists.
pub(crate) fn greedy_is_exact(problem: &Problem<'_>) -> bool {
    problem.classes.len() == 1 && !problem.now.looks_around()
}

/// A search that tries every placement of the members.
struct PackingAttempt<'p, 'a> {
    problem: &'p Problem<'a>,
    room: Occupancy<'a>,
    goal: usize,
    placed: Placed,
    tries: usize,
}

impl<'p> PackingAttempt<'p, '_> {
    /// Places the first of `members` on each node in turn, or leaves it unplaced, and then the others. Returns true if enough are placed.
    fn place(&mut self, members: &[(PodIndex, &MemberClass)]) -> bool {
        if self.placed.len() >= self.goal {
            return true;
        }
        let Some(((member, class), rest)) = members.split_first() else { return false };
        if self.placed.len() + members.len() < self.goal {
            return false;
        }
        for rank in (0..self.problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()) {
            if !self.may_try() {
                return false;
            }
            if self.room.refuse(*member, rank).is_none() {
                self.room.add(*member, rank);
                self.placed.push((*member, rank));
                if self.place(rest) {
                    return true;
                }
                self.placed.pop();
                self.room.remove(*member, rank);
            }
        }
        self.place(rest)
    }

    /// Records that not every placement was tried, if that is so.
    fn tell_end(&self) {
        if self.tries == 0 || self.problem.effort.spent() {
            self.problem.effort.record_cut_search();
        }
    }

    /// Counts a try. Returns false if the limit of this attempt or the effort of the decision is used up.
    fn may_try(&mut self) -> bool {
        self.tries = self.tries.saturating_sub(1);
        self.tries > 0 && self.problem.effort.take(1)
    }

    /// Places the next member of any class on each node in turn, and then the others. Returns true if enough are placed.
    fn place_in_any_order(&mut self, waiting: &mut Vec<(&'p [PodIndex], &'p MemberClass)>) -> bool {
        if self.placed.len() >= self.goal {
            return true;
        }
        for at in 0..waiting.len() {
            let (members, class) = waiting[at];
            let Some((member, rest)) = members.split_first() else { continue };
            for rank in (0..self.problem.nodes.len()).filter(|rank| class.unsuitable[*rank].is_none()) {
                if !self.may_try() {
                    return false;
                }
                if self.room.refuse(*member, rank).is_some() {
                    continue;
                }
                self.room.add(*member, rank);
                self.placed.push((*member, rank));
                waiting[at].0 = rest;
                if self.place_in_any_order(waiting) {
                    return true;
                }
                waiting[at].0 = members;
                self.placed.pop();
                self.room.remove(*member, rank);
            }
        }
        false
    }
}
