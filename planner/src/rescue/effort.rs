//! How much a decision may look at. What is counted is looks at a node or a pod, each of which takes about a tenth of a
//! microsecond, so that a decision ends in a fraction of 100 ms whatever the cluster looks like.

/// Looks that a decision for one critical add-on may take.
const LOOKS: usize = 400_000;

/// The looks that are left.
#[derive(Clone, Debug)]
pub(super) struct Effort(usize);

impl Effort {
    pub(super) fn new() -> Self {
        Self(LOOKS)
    }

    /// Takes some looks; `false` when there are not so many left.
    pub(super) fn take(&mut self, looks: usize) -> bool {
        let enough = self.0 >= looks;
        self.0 = self.0.saturating_sub(looks);
        enough
    }

    /// Whether nothing more may be looked at.
    pub(super) fn spent(&self) -> bool {
        self.0 == 0
    }
}
