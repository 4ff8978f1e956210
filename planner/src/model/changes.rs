//! What changed in the model, so that answers that were kept can catch up in as many steps as there were changes.

use super::equivalence::ClassId;
use super::{BudgetIndex, GroupIndex, NodeIndex};
use std::collections::VecDeque;

/// So many changes are kept; whoever is further behind starts anew.
const KEPT: usize = 1 << 15;

/// Something that answers can depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A node came or went: the order of nodes is another.
    Nodes,
    /// The node itself changed.
    Node(NodeIndex),
    /// Pods on a node came, went, or count differently.
    Pods(NodeIndex),
    /// A whole group became larger, smaller, older or younger.
    Unit(GroupIndex),
    /// A budget changed, or its pods, or how these count.
    Budget(BudgetIndex),
    /// A kind of pods has a number that another one may have had before.
    Class(ClassId),
}

/// The last changes, numbered from the first one on.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    kept: VecDeque<Change>,
    dropped: u64,
}

impl Changes {
    pub(super) fn note(&mut self, change: Change) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(change);
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    /// Those after the first `seen`; `None` when they are not all kept.
    pub(super) fn since(&self, seen: u64) -> Option<impl Iterator<Item = Change> + '_> {
        let skip = usize::try_from(seen.checked_sub(self.dropped)?).ok()?;
        Some(self.kept.iter().skip(skip).copied())
    }
}
