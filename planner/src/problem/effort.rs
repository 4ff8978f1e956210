//! Bounds the effort of a decision. It counts looks at a node or a pod over the whole decision, so that its time is bounded in any cluster
//! (`planner/BENCHMARKS.md`). Counting instead of timing gives the same decision on a busy machine.

use crate::limits::{
    ADDON_LOOKS, DECISION_LOOKS, ELSEWHERE_LOOKS, EXPLANATION_LOOKS, LAST_RESORT_LOOKS, NODE_LOOKS, PLAIN_LOOKS,
};
use std::cell::Cell;
use std::rc::Rc;

/// The effort that is left for a search, in *looks*: a look is one check of a node or pod. A clone shares the count with the original.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    left: Rc<Cell<usize>>,
    /// Looks that are reserved for the last placement.
    kept: Rc<Cell<usize>>,
    /// How many searches that try everything were cut short.
    exhausted_times: Rc<Cell<usize>>,
}

impl Effort {
    /// Creates an effort of this many looks (checks of a node or pod), and of `reserve` further ones for the last placement
    /// ([`Self::add_reserve`]).
    fn new(looks: usize, reserve: usize) -> Self {
        Self { left: Rc::new(Cell::new(looks)), kept: Rc::new(Cell::new(reserve)), exhausted_times: Rc::default() }
    }

    /// Creates the effort for a whole decision about a preemptor: [`DECISION_LOOKS`] checks of a node or pod.
    pub(crate) fn of_decision() -> Self {
        Self::new(DECISION_LOOKS, LAST_RESORT_LOOKS)
    }

    /// Creates the effort for the choice of victims on one node: [`NODE_LOOKS`] checks of a node or pod.
    pub(crate) fn of_node() -> Self {
        Self::new(NODE_LOOKS, 0)
    }

    /// Creates the effort for the plain placement, which puts each member on the first node where it fits: [`PLAIN_LOOKS`] checks of a node
    /// or pod.
    pub(crate) fn of_plain_placement() -> Self {
        Self::new(PLAIN_LOOKS, 0)
    }

    /// Creates the effort for explaining why a preemptor does not fit, which is done even after a decision has used up its own:
    /// [`EXPLANATION_LOOKS`] checks of a node or pod.
    pub(crate) fn of_explanation() -> Self {
        Self::new(EXPLANATION_LOOKS, 0)
    }

    /// Creates the effort for the search for one critical add-on: [`ADDON_LOOKS`] checks of a node or pod.
    pub(crate) fn of_addon_search() -> Self {
        Self::new(ADDON_LOOKS, 0)
    }

    /// Creates the effort for the check which victims fit on other nodes: [`ELSEWHERE_LOOKS`] checks of a node or pod.
    pub(crate) fn of_check_elsewhere() -> Self {
        Self::new(ELSEWHERE_LOOKS, 0)
    }

    /// Subtracts this many looks (checks of a node or pod) from the effort. Returns false if fewer were left; then none is left.
    pub(crate) fn take(&self, looks: usize) -> bool {
        let left = self.left();
        self.left.set(left.saturating_sub(looks));
        left >= looks
    }

    /// Returns how many looks (checks of a node or pod) are left, without the reserve.
    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// Adds the looks that are reserved for the last placement to those that are left. Does nothing when it is called again.
    pub(crate) fn add_reserve(&self) {
        self.left.set(self.left() + self.kept.take());
    }

    /// Records that a search which tries every choice ended early, because no looks were left for it.
    pub(crate) fn record_cut_search(&self) {
        self.exhausted_times.set(self.exhausted_times.get() + 1);
    }

    /// Returns how many searches that try every choice ended early: what these did not find may exist.
    pub(crate) fn exhausted_times(&self) -> usize {
        self.exhausted_times.get()
    }

    /// Returns true if no looks are left, so that searches must end.
    pub(crate) fn spent(&self) -> bool {
        self.left() == 0
    }
}
