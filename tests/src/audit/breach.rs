//! A promise that was not kept, with the facts that an excuse may depend on.

use super::record::Key;
use jiff::Timestamp;

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub struct Breach {
    /// The promise, with what an excuse may depend on.
    pub kind: BreachKind,
    /// One sentence for the output of the test.
    pub message: String,
}

/// The kinds of breaches that may have an excuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BreachKind {
    /// Pods were evicted for a preemptor that was not bound afterwards.
    Unbound {
        /// The name of the preemptor.
        preemptor: String,
        /// The number of evicted pods.
        evictions: usize,
    },
    /// A PodGroup in mode `PodGroup` lost some of its pods.
    PartialDisruption {
        /// The PodGroup.
        group: Key,
        /// The time of the first removal.
        first: Timestamp,
    },
    /// A pod was evicted for a plan that was deleted.
    DeletedPlan {
        /// The name of the plan.
        plan: String,
    },
    /// Pods were evicted with cause `PartiallyScheduled`.
    PartiallyScheduled {
        /// The PodGroup.
        group: Key,
        /// The UIDs of the pods.
        pods: Vec<String>,
        /// True if the gang had as many bound pods as it needs.
        complete: bool,
    },
    /// Pods were evicted with cause `PartiallyDisrupted`, although the cancelled plan had evicted no pod of their PodGroup.
    NotPartiallyDisrupted {
        /// The time at which the `Preemption` was stored.
        at: Timestamp,
        /// The UIDs of the pods of the PodGroup that are victims of the cancelled plan.
        pods: Vec<String>,
    },
    /// Any other promise: it has no excuse.
    Other,
}

impl Breach {
    /// Creates a breach without an excuse.
    pub(super) fn other(message: String) -> Self {
        Self { kind: BreachKind::Other, message }
    }
}
