//! How much a decision may look at. What is counted is looks at a node or a pod, each of which takes some tenths of a
//! microsecond, so that a decision ends in less than 100 ms whatever the cluster looks like (`planner/BENCHMARKS.md`, C).

/// Looks that the search for one critical add-on may take.
const SEARCH: usize = 120_000;
/// Looks that finding out who has a place elsewhere may take. Without them nobody has one, which only breaks ties.
const ELSEWHERE: usize = 60_000;
/// Looks of them that the exact search on one node may take, so that other nodes are looked at, too.
pub(crate) const ON_ONE_NODE: usize = 20_000;

/// The looks that are left.
#[derive(Clone, Debug)]
pub(crate) struct Effort(usize);

impl Effort {
    /// For the search.
    pub(crate) fn of_search() -> Self {
        Self(SEARCH)
    }

    /// For places elsewhere.
    pub(crate) fn of_places() -> Self {
        Self(ELSEWHERE)
    }

    /// Takes some looks; `false` when there are not so many left.
    pub(crate) fn take(&mut self, looks: usize) -> bool {
        let enough = self.0 >= looks;
        self.0 = self.0.saturating_sub(looks);
        enough
    }

    /// How many looks are left.
    pub(crate) fn left(&self) -> usize {
        self.0
    }

    /// Whether nothing more may be looked at.
    pub(crate) fn spent(&self) -> bool {
        self.0 == 0
    }
}
