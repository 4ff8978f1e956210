//! Requests: the preemptor, the strategy, and what a decision has to respect besides the cluster.

use crate::model::ObjectKey;
use smol_str::SmolStr;
use std::collections::BTreeSet;

/// The pod or group that needs capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preemptor {
    /// The members of a group that are not bound yet.
    Group(ObjectKey),
    /// A single pod.
    Pod(ObjectKey),
}

impl Preemptor {
    /// Key of the group or pod.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Group(key) | Self::Pod(key) => key,
        }
    }
}

impl std::fmt::Display for Preemptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(key) => write!(f, "podgroup/{key}"),
            Self::Pod(key) => write!(f, "pod/{key}"),
        }
    }
}

/// The preemptors for which the capacity of a reservation is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Preemptors of at most this priority.
    UpTo(i32),
    /// All preemptors.
    Always,
    /// None: the placement was cancelled. The nomination of the pod, which may still exist, reserves nothing either.
    Never,
    /// None, because the decision has evicted no pod yet and may be cancelled.
    NotYet,
}

impl Holds {
    /// Returns true if the reserved capacity is unavailable to a preemptor of this priority.
    pub fn against(self, priority: i32) -> bool {
        match self {
            Self::UpTo(highest) => highest >= priority,
            Self::Always => true,
            Self::Never | Self::NotYet => false,
        }
    }
}

/// A placement of a decision in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// UID of the pod.
    pub uid: SmolStr,
    /// The pod, which is in the model and not bound yet.
    pub pod: ObjectKey,
    /// The node on which capacity is reserved for it.
    pub node: SmolStr,
    /// The preemptors for which its capacity is unavailable: usually up to the priority of its own preemptor.
    pub holds: Holds,
}

/// How a plan is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Chooses victims and placement together; never worse than [`Strategy::Kep5710`].
    #[default]
    LeastCost,
    /// KEP-5710 step by step, with one placement.
    Kep5710,
}

impl Strategy {
    /// Every strategy, the default first.
    pub const ALL: [Self; 2] = [Self::LeastCost, Self::Kep5710];

    /// The name as it is written on the command line and in a stored plan.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeastCost => "least-cost",
            Self::Kep5710 => "kep5710",
        }
    }

    /// Reads the name; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// What a decision has to respect besides the cluster itself.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Placements of the decisions in flight.
    pub reservations: Vec<Reservation>,
    /// UIDs of the pods that decisions in flight evict: they still run, and will terminate.
    pub departing: BTreeSet<SmolStr>,
    /// UIDs of terminating pods that are overdue: they count as running, and preemptors do not wait for their capacity.
    /// For a critical add-on also those that still have long to terminate.
    pub lingering: BTreeSet<SmolStr>,
    /// Names of nodes that are not ready for a short time only: a check of a decision ignores their taints `not-ready` and `unreachable`.
    pub recovering: BTreeSet<SmolStr>,
    /// Whether a preemptor with policy `Never` also waits for the capacity of leaving pods, which is then reserved for it.
    pub waits: bool,
    /// UIDs of pods that must not be victims, nor any unit they belong to.
    pub exempt: BTreeSet<SmolStr>,
    /// How to search.
    pub strategy: Strategy,
}
