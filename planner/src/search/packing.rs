//! Places a number of members without evictions: greedily and, if that does not reach the number and there are few members and nodes, by
//! trying every node for every member.

use crate::filters::{Occupancy, Rank};
use crate::limits::{PACKING_SIZE, PACKING_TRIES};
use crate::model::PodIndex;
use crate::problem::{MemberClass, Problem};
use crate::search::greedy::fill_up_to;

/// Members with their nodes.
type Placed = Vec<(PodIndex, Rank)>;

/// Places `goal` members in `occupancy` without evictions, greedily or else by trying every placement. Returns them with the ranks (indexes
/// in the list of nodes) of their nodes; `None` if no placement was found.
pub(super) fn pack(problem: &Problem<'_>, occupancy: &Occupancy<'_>, goal: usize) -> Option<Placed> {
    let layout = fill_up_to(problem, occupancy, goal);
    if layout.placed.len() >= goal { Some(layout.placed) } else { try_everything(problem, occupancy, goal) }
}

/// Places `goal` members in `occupancy` by trying every node for every member, and returns them with the ranks (indexes in the list of
/// nodes) of their nodes. `None` if no placement is found, or none is tried: because the greedy placement is exact, or there are too many
/// members and nodes.
pub(crate) fn try_everything(problem: &Problem<'_>, occupancy: &Occupancy<'_>, goal: usize) -> Option<Placed> {
    if greedy_is_exact(problem) || !is_small(problem) {
        return None;
    }
    let members: Vec<(PodIndex, &MemberClass)> =
        problem.classes.iter().flat_map(|class| class.members.iter().map(move |member| (*member, class))).collect();
    let mut attempt =
        PackingAttempt { problem, occupancy: occupancy.clone(), goal, placed: Vec::new(), tries: PACKING_TRIES };
    if attempt.place(&members) {
        return Some(attempt.placed);
    }
    if !occupancy.has_inter_pod_constraints() {
        attempt.record_cut_short();
        return None;
    }
    // A member with inter-pod constraints may have to be placed before or after the others.
    attempt.tries = PACKING_TRIES;
    let mut waiting: Vec<(&[PodIndex], &MemberClass)> =
        problem.classes.iter().map(|class| (class.members.as_slice(), class)).collect();
    if attempt.place_in_any_order(&mut waiting) {
        return Some(attempt.placed);
    }
    attempt.record_cut_short();
    None
}

/// Returns true if there are so few members and nodes that every placement is tried.
pub(super) fn is_small(problem: &Problem<'_>) -> bool {
    problem.demand.members.len() * problem.nodes.len() <= PACKING_SIZE
}

/// Returns true if [`pack`] finds a placement whenever one exists, unless it was [cut short](crate::problem::Effort::exhausted_times).
pub(super) fn is_exact(problem: &Problem<'_>) -> bool {
    greedy_is_exact(problem) || is_small(problem)
}

/// Returns true if the greedy placement finds one whenever one exists: the members are of one class, and there are no inter-pod
/// constraints.
pub(crate) fn greedy_is_exact(problem: &Problem<'_>) -> bool {
    problem.classes.len() == 1 && !problem.now.has_inter_pod_constraints()
}

/// A search in progress that tries every placement of the members.
struct PackingAttempt<'p, 'a> {
    problem: &'p Problem<'a>,
    occupancy: Occupancy<'a>,
    goal: usize,
    placed: Placed,
    /// Remaining number of tries.
    tries: usize,
}

impl<'p> PackingAttempt<'p, '_> {
    /// Places the first of `members` on each node in turn, or leaves it unplaced, and then the others likewise, until `goal` members are
    /// placed. Returns true if they are; otherwise the placement is as before.
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
            if self.occupancy.refuse(*member, rank).is_none() {
                self.occupancy.add(*member, rank);
                self.placed.push((*member, rank));
                if self.place(rest) {
                    return true;
                }
                self.placed.pop();
                self.occupancy.remove(*member, rank);
            }
        }
        self.place(rest)
    }

    /// Records in the effort of the decision that this search did not try every placement, if its limit of tries or the effort was used up.
    fn record_cut_short(&self) {
        if self.tries == 0 || self.problem.effort.spent() {
            self.problem.effort.record_cut_search();
        }
    }

    /// Counts a try. Returns false if the limit of tries of this search, or the effort of the decision, is used up.
    fn may_try(&mut self) -> bool {
        self.tries = self.tries.saturating_sub(1);
        self.tries > 0 && self.problem.effort.take(1)
    }

    /// Places the next member of any class on each node in turn, and then the others likewise, until `goal` members are placed: with
    /// inter-pod constraints, the order in which classes are placed matters. `waiting` has by class the members that are not placed.
    /// Returns true if `goal` members are placed.
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
                if self.occupancy.refuse(*member, rank).is_some() {
                    continue;
                }
                self.occupancy.add(*member, rank);
                self.placed.push((*member, rank));
                waiting[at].0 = rest;
                if self.place_in_any_order(waiting) {
                    return true;
                }
                waiting[at].0 = members;
                self.placed.pop();
                self.occupancy.remove(*member, rank);
            }
        }
        false
    }
}
