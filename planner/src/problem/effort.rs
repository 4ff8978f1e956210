//! Bounds the effort of a decision. It counts looks at a node or a pod, each of which takes about a tenth of a microsecond, over the whole
//! decision, so that a decision takes less than 100 ms in any cluster (`planner/BENCHMARKS.md`). Counting instead of timing gives the same
//! decision on a busy machine.

use std::cell::Cell;
use std::rc::Rc;

/// Looks that a decision for a preemptor may use to choose victims.
const DECISION: usize = 320_000;
/// Further looks, reserved to place the members with all potential victims removed, if it is known that they fit then but the looks above
/// were used up before a placement was found.
const LAST_RESORT: usize = 80_000;
/// Looks that the choice of victims on one of the nodes for a single pod may use. It does not depend on what other nodes took, so that the
/// choice can be kept from one decision to the next.
const NODE: usize = 40_000;
/// Looks of the plain greedy placement, each of which takes about a hundredth of a microsecond: as many as classes × nodes.
const PLAIN: usize = 5_000_000;
/// Looks that the explanation of a shortfall may use.
const WORDS: usize = 150_000;
/// Looks that the search for one critical add-on may use.
const RESCUE: usize = 120_000;
/// Looks that the check which pods fit on other nodes may use. Beyond them no pod is taken to fit elsewhere, which affects later steps of the order only.
const ELSEWHERE: usize = 60_000;
/// Looks that the exact search on one node may use, so that other nodes are searched, too.
pub(crate) const ON_ONE_NODE: usize = 20_000;

/// The remaining looks; a clone shares the count with the original.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    left: Rc<Cell<usize>>,
    kept: Rc<Cell<usize>>,
    exhausted_times: Rc<Cell<usize>>,
}

impl Effort {
    /// Creates a budget of `left` looks, and `kept` more for the last placement.
    fn new(left: usize, kept: usize) -> Self {
        Self { left: Rc::new(Cell::new(left)), kept: Rc::new(Cell::new(kept)), exhausted_times: Rc::default() }
    }

    /// The effort for a decision.
    pub(crate) fn of_decision() -> Self {
        Self::new(DECISION, LAST_RESORT)
    }

    /// The effort for the choice of victims on one node.
    pub(crate) fn of_node() -> Self {
        Self::new(NODE, 0)
    }

    /// The effort for plain greedy placements.
    pub(crate) fn of_plain() -> Self {
        Self::new(PLAIN, 0)
    }

    /// The effort for the explanation of a shortfall.
    pub(crate) fn of_words() -> Self {
        Self::new(WORDS, 0)
    }

    /// The effort for the search for one critical add-on.
    pub(crate) fn of_search() -> Self {
        Self::new(RESCUE, 0)
    }

    /// The effort for the check which pods fit on other nodes.
    pub(crate) fn of_places() -> Self {
        Self::new(ELSEWHERE, 0)
    }

    /// Uses some looks; returns false if fewer are left.
    pub(crate) fn take(&self, looks: usize) -> bool {
        let left = self.left();
        self.left.set(left.saturating_sub(looks));
        left >= looks
    }

    /// Returns how many looks are left.
    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// Adds the looks that are reserved for the last placement, once.
    pub(crate) fn last_resort(&self) {
        self.left.set(self.left() + self.kept.take());
    }

    /// Records that a search that tries every choice was cut short.
    pub(crate) fn exhaust(&self) {
        self.exhausted_times.set(self.exhausted_times.get() + 1);
    }

    /// Returns how many searches that try everything ended before they had: what these did not find may exist.
    pub(crate) fn exhausted_times(&self) -> usize {
        self.exhausted_times.get()
    }

    /// Returns true if no looks are left.
    pub(crate) fn spent(&self) -> bool {
        self.left() == 0
    }
}
