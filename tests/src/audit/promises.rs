//! The promises of the design (section 6), checked against the audit log after every test.

use super::breach::{Breach, BreachKind};
use super::history::History;
use super::{causes, critical_addons, disruption, in_turn, planned, preemptors, terms, topology, victims};
use std::collections::{BTreeMap, BTreeSet};

pub use super::disruption::partial_disruption_count;
pub use super::planned::unplanned_count;

/// The checks, and the excuses for disturbances by the test itself. An excuse names the disturbance and is limited to it.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Preemptors that need not be bound, with the largest number of pods that may have been evicted for each.
    excused: BTreeMap<String, usize>,
    /// The largest number of pods that may have been evicted for all other unbound preemptors together.
    for_unbound: usize,
    /// Gangs that stay partially scheduled, with the largest number of pods that may be evicted of each for that reason.
    partially_scheduled: BTreeMap<String, usize>,
    /// The largest number of partial disruptions.
    partially_disrupted: usize,
    /// Prefixes of the names of the preemptors and PodGroups to which `for_unbound` and `partially_disrupted` apply; `None` for
    /// all.
    disturbed: Option<Vec<String>>,
    /// Namespaces that a flag of the operator protects, in addition to those with the annotation.
    protected: BTreeSet<String>,
    /// PodDisruptionBudgets for which kube-scheduler does not ask the webhook.
    unguarded: BTreeSet<String>,
}

impl Promises {
    /// Returns all checks, without an excuse.
    pub fn new() -> Self {
        Self::default()
    }

    /// The test takes the placements or the pods of this preemptor away after the evictions, so that it is not bound. At most
    /// `evictions` pods may have been evicted for it.
    #[must_use]
    pub fn excuse_unbound(mut self, preemptor: &str, evictions: usize) -> Self {
        self.excused.insert(preemptor.to_owned(), evictions);
        self
    }

    /// The test keeps some pods of this gang pending, so that the gang is evicted because it is partially scheduled. At most `evictions` of
    /// its pods may be evicted for that reason.
    #[must_use]
    pub fn excuse_partially_scheduled(mut self, gang: &str, evictions: usize) -> Self {
        self.partially_scheduled.insert(gang.to_owned(), evictions);
        self
    }

    /// Another client uses up the budgets of victims during the evictions, so that at most `evictions` pods are evicted for
    /// preemptors that are not bound.
    #[must_use]
    pub fn allow_evictions_for_unbound(mut self, evictions: usize) -> Self {
        self.for_unbound = evictions;
        self
    }

    /// Another client uses up a guaranteed budget between the evictions of a PodGroup, so that at most `groups` PodGroups are
    /// partially disrupted. The operator evicts the other pods when the budget allows it.
    #[must_use]
    pub fn allow_partial_disruptions(mut self, groups: usize) -> Self {
        self.partially_disrupted = groups;
        self
    }

    /// Limits [`allow_evictions_for_unbound`](Self::allow_evictions_for_unbound) and
    /// [`allow_partial_disruptions`](Self::allow_partial_disruptions) to the preemptors and PodGroups with one of these prefixes:
    /// those that the other client disturbed.
    #[must_use]
    pub fn only_for(mut self, prefixes: impl IntoIterator<Item = String>) -> Self {
        self.disturbed = Some(prefixes.into_iter().collect());
        self
    }

    /// Also checks that no pod of these namespaces is evicted, which a flag of the operator protects.
    #[must_use]
    pub fn protecting(mut self, namespaces: impl IntoIterator<Item = String>) -> Self {
        self.protected.extend(namespaces);
        self
    }

    /// The test keeps kube-scheduler from asking the webhook, or acts as kube-scheduler, so that this budget is not honoured.
    #[must_use]
    pub fn excuse_unguarded(mut self, budget: &str) -> Self {
        self.unguarded.insert(budget.to_owned());
        self
    }

    /// Returns true if kube-scheduler must honour this budget.
    pub(super) fn guards(&self, budget: &str) -> bool {
        !self.unguarded.contains(budget)
    }

    /// Returns every breach, before excuses.
    pub fn breaches(&self, history: &History) -> Vec<Breach> {
        let mut breaches = planned::breaches(history);
        breaches.extend(disruption::breaches(history));
        breaches.extend(terms::breaches(history));
        breaches.extend(causes::breaches(history));
        let others = [
            victims::broken(history, &self.protected),
            critical_addons::broken(history),
            topology::broken(history),
            in_turn::broken(history),
        ];
        breaches.extend(others.into_iter().flatten().map(Breach::other));
        breaches.extend(for_unbound(history));
        breaches
    }

    /// Returns the messages of the breaches without an excuse; empty if every promise was kept.
    pub fn broken(&self, history: &History) -> Vec<String> {
        let breaches: Vec<Breach> =
            self.breaches(history).into_iter().filter(|breach| !self.excuses(&breach.kind)).collect();
        let mut used = [0; 2];
        for (limit, cost) in breaches.iter().filter_map(|breach| self.limit_of(&breach.kind)) {
            used[limit as usize] += cost;
        }
        let exceeded =
            |limit: Limit| used[limit as usize] > [self.for_unbound, self.partially_disrupted][limit as usize];
        let broken = |breach: &Breach| self.limit_of(&breach.kind).is_none_or(|(limit, _)| exceeded(limit));
        breaches.into_iter().filter(broken).map(|breach| breach.message).collect()
    }

    /// Returns true if an excuse names the preemptor or the gang of this breach.
    fn excuses(&self, kind: &BreachKind) -> bool {
        let (allowed, evictions) = match kind {
            BreachKind::Unbound { preemptor, evictions } => (self.excused.get(preemptor), *evictions),
            BreachKind::PartiallyScheduled { group, pods, complete: false } => {
                (self.partially_scheduled.get(&group.1), pods.len())
            }
            _ => return false,
        };
        allowed.is_some_and(|allowed| evictions <= *allowed)
    }

    /// Returns the limit that a breach counts towards, with the number by which it counts; `None` if it has no limit.
    fn limit_of(&self, kind: &BreachKind) -> Option<(Limit, usize)> {
        match kind {
            BreachKind::Unbound { preemptor, evictions } => {
                self.is_disturbed(preemptor).then_some((Limit::Unbound, *evictions))
            }
            BreachKind::PartialDisruption { group, .. } => {
                self.is_disturbed(&group.1).then_some((Limit::PartialDisruptions, 1))
            }
            BreachKind::DeletedPlan { .. }
            | BreachKind::PartiallyScheduled { .. }
            | BreachKind::NotPartiallyDisrupted { .. }
            | BreachKind::Other => None,
        }
    }

    fn is_disturbed(&self, name: &str) -> bool {
        self.disturbed.as_ref().is_none_or(|prefixes| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    }
}

/// The limits of [`Promises`], in the order of their use in [`Promises::broken`].
#[derive(Clone, Copy)]
enum Limit {
    Unbound,
    PartialDisruptions,
}

/// Checks promise 1: pods are evicted only if the whole preemptor is bound afterwards: all placements of its last plan, also those beyond
/// `minCount`.
fn for_unbound(history: &History) -> Vec<Breach> {
    let unbound = preemptors::outcomes(history).into_iter().filter(|outcome| outcome.complete.is_none());
    let breach = |outcome: preemptors::Outcome| {
        let preemptors::Outcome { name, evictions, needed, bound, .. } = outcome;
        let pods = if evictions == 1 { "pod was" } else { "pods were" };
        Breach {
            message: format!("{evictions} {pods} evicted for {name}, which has {bound} of {needed} pods bound"),
            kind: BreachKind::Unbound { preemptor: name, evictions },
        }
    };
    unbound.map(breach).collect()
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;
