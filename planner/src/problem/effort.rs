//! How much a decision may look at. What is counted are looks at a node or a pod, each of which takes about a tenth of a
//! microsecond, over the whole decision, so that it ends in less than 100 ms whatever the cluster looks like
//! (`planner/BENCHMARKS.md`). Counting instead of timing gives the same answer on a busy machine.

use std::cell::Cell;
use std::rc::Rc;

/// Looks that a decision for a preemptor may take.
const DECISION: usize = 400_000;
/// Looks that saying why there is no room may take.
const WORDS: usize = 150_000;
/// Looks that the search for one critical add-on may take.
const RESCUE: usize = 120_000;
/// Looks that finding out who has a place elsewhere may take. Without them nobody has one, which only breaks ties.
const ELSEWHERE: usize = 60_000;
/// Looks of a search that the exact search on one node may take, so that other nodes are looked at, too.
pub(crate) const ON_ONE_NODE: usize = 20_000;

/// The looks that are left; a copy counts with the original.
#[derive(Clone, Debug)]
pub(crate) struct Effort(Rc<Cell<usize>>);

impl Effort {
    /// For a decision.
    pub(crate) fn of_decision() -> Self {
        Self(Rc::new(Cell::new(DECISION)))
    }

    /// For saying why there is no room.
    pub(crate) fn of_words() -> Self {
        Self(Rc::new(Cell::new(WORDS)))
    }

    /// For the search for one critical add-on.
    pub(crate) fn of_search() -> Self {
        Self(Rc::new(Cell::new(RESCUE)))
    }

    /// For places elsewhere.
    pub(crate) fn of_places() -> Self {
        Self(Rc::new(Cell::new(ELSEWHERE)))
    }

    /// Takes some looks; `false` when there are not so many left.
    pub(crate) fn take(&self, looks: usize) -> bool {
        let left = self.left();
        self.0.set(left.saturating_sub(looks));
        left >= looks
    }

    /// How many looks are left.
    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }

    /// Whether nothing more may be looked at.
    pub(crate) fn spent(&self) -> bool {
        self.left() == 0
    }
}
