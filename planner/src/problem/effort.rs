//! Bounds the effort of a decision. It counts looks at a node or a pod over the whole decision, so that its time is bounded in any cluster
//! (`planner/BENCHMARKS.md`). Counting instead of timing gives the same decision on a busy machine.

use crate::limits::{
    ADDON_LOOKS, DECISION_LOOKS, ELSEWHERE_LOOKS, EXPLANATION_LOOKS, LAST_RESORT_LOOKS, NODE_LOOKS, PLAIN_LOOKS,
};
use std::cell::Cell;
use std::rc::Rc;

/// The remaining effort, in *looks*: a look is one check of a node or pod. A clone shares the count with the original.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    left: Rc<Cell<usize>>,
    /// Looks that are reserved for the last placement.
    kept: Rc<Cell<usize>>,
    /// How many searches that try everything were cut short.
    exhausted_times: Rc<Cell<usize>>,
}

impl Effort {
    /// Creates an effort of this many looks, and a reserve of further ones for the last placement.
    fn new(looks: usize, reserve: usize) -> Self {
        Self { left: Rc::new(Cell::new(looks)), kept: Rc::new(Cell::new(reserve)), exhausted_times: Rc::default() }
    }

    /// Returns the effort that a whole decision may take.
    pub(crate) fn of_decision() -> Self {
        Self::new(DECISION_LOOKS, LAST_RESORT_LOOKS)
    }

    /// Returns the effort for the choice of victims on one node.
    pub(crate) fn of_node() -> Self {
        Self::new(NODE_LOOKS, 0)
    }

    /// Returns the effort for the plain placement, which puts each member on the first node where it fits.
    pub(crate) fn of_plain() -> Self {
        Self::new(PLAIN_LOOKS, 0)
    }

    /// Returns the effort for the explanation of a shortfall, which is made even after a decision has used up its own.
    pub(crate) fn of_words() -> Self {
        Self::new(EXPLANATION_LOOKS, 0)
    }

    /// Returns the effort for the search for one critical add-on.
    pub(crate) fn of_search() -> Self {
        Self::new(ADDON_LOOKS, 0)
    }

    /// Returns the effort for the check which pods fit on other nodes.
    pub(crate) fn of_places() -> Self {
        Self::new(ELSEWHERE_LOOKS, 0)
    }

    /// Uses this many looks. Returns false if fewer were left; none is left then.
    pub(crate) fn take(&self, looks: usize) -> bool {
        let left = self.left();
        self.left.set(left.saturating_sub(looks));
        left >= looks
    }

    /// Returns how many looks are left, without the reserve.
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

    /// Returns how many searches that try every choice were cut short: what these did not find may exist.
    pub(crate) fn exhausted_times(&self) -> usize {
        self.exhausted_times.get()
    }

    /// Returns true if no looks are left: searches must end.
    pub(crate) fn spent(&self) -> bool {
        self.left() == 0
    }
}
