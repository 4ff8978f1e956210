//! Requests: the preemptor, the strategy, and what a decision has to respect besides the cluster.

use crate::model::{ObjectKey, Reservation};
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
    /// Returns the namespace and name of the group or pod.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Group(key) | Self::Pod(key) => key,
        }
    }
}

impl std::fmt::Display for Preemptor {
    /// Writes `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(key) => write!(f, "podgroup/{key}"),
            Self::Pod(key) => write!(f, "pod/{key}"),
        }
    }
}

/// Which reservations make capacity unavailable to a preemptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Respect {
    /// Those of preemptors of the same or a higher priority.
    #[default]
    SameOrHigher,
    /// The same, without plans of the preemptor's priority that have evicted and ungated no pod: for a plan that has evicted pods.
    StartedOrHigher,
    /// Those of `SameOrHigher`, and all plans that have evicted and ungated no pod: for a search for other free capacity.
    AllPlanned,
}

impl Respect {
    /// Returns true if a preemptor of this priority must leave the capacity of the reservation free, under this rule.
    pub fn counts(self, reservation: Reservation, priority: i32) -> bool {
        match (reservation, self) {
            (Reservation::Withdrawn, _) => false,
            (Reservation::Planned(_), Self::AllPlanned) => true,
            (Reservation::Planned(of), Self::StartedOrHigher) => of > priority,
            (Reservation::Started(of) | Reservation::Planned(of), _) => of >= priority,
        }
    }
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

    /// Returns the name of the strategy on the command line and in a stored plan.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeastCost => "least-cost",
            Self::Kep5710 => "kep5710",
        }
    }

    /// Parses the name of a strategy as [`Self::as_str`] returns it; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// What a decision has to respect besides the cluster itself.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Which reservations it respects.
    pub respect: Respect,
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
    /// The time, in ns since the epoch, until which the work of victims counts; without it their work is not compared.
    pub now: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_counts_against_preemptors_of_at_most_its_priority() {
        let counts = |reservation: Reservation, respect: Respect| {
            [9, 10, 11].map(|priority| respect.counts(reservation, priority))
        };
        let all = [Respect::SameOrHigher, Respect::StartedOrHigher, Respect::AllPlanned];
        assert_eq!(all.map(|respect| counts(Reservation::Started(10), respect)), [[true, true, false]; 3]);
        assert_eq!(all.map(|respect| counts(Reservation::Withdrawn, respect)), [[false; 3]; 3]);
        let planned = all.map(|respect| counts(Reservation::Planned(10), respect));
        assert_eq!(planned, [[true, true, false], [true, false, false], [true, true, true]]);
    }
}
