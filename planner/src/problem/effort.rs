//! Bounds the effort of a decision. It counts looks at a node or a pod over the whole decision, so that its time is bounded in any cluster
//! (`planner/BENCHMARKS.md`). Counting instead of timing gives the same decision on a busy machine.

use crate::limits::{
    ADDON_LOOKS, DECISION_LOOKS, ELSEWHERE_LOOKS, EXPLANATION_LOOKS, LAST_RESORT_LOOKS, NODE_LOOKS, PLAIN_LOOKS,
};
use std::cell::Cell;
use std::rc::Rc;

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
        Self::new(DECISION_LOOKS, LAST_RESORT_LOOKS)
    }

    /// The effort for the choice of victims on one node.
    pub(crate) fn of_node() -> Self {
        Self::new(NODE_LOOKS, 0)
    }

    /// The effort for plain greedy placements.
    pub(crate) fn of_plain() -> Self {
        Self::new(PLAIN_LOOKS, 0)
    }

    /// The effort for the explanation of a shortfall.
    pub(crate) fn of_words() -> Self {
        Self::new(EXPLANATION_LOOKS, 0)
    }

    /// The effort for the search for one critical add-on.
    pub(crate) fn of_search() -> Self {
        Self::new(ADDON_LOOKS, 0)
    }

    /// The effort for the check which pods fit on other nodes.
    pub(crate) fn of_places() -> Self {
        Self::new(ELSEWHERE_LOOKS, 0)
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
