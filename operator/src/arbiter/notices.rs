//! Events on preemptors and on the objects that prevent a preemption. Events that every decision would repeat are published at intervals.

use super::Arbiter;
use crate::messages::command::Command;
use crate::speaker::notice::Notice;
use crate::speaker::words::Sentence;
use giveway_crds::condition::Reason;
use giveway_planner::Preemptor;
use giveway_planner::Shortfall;
use giveway_planner::model::{Budget, ObjectKey};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Minimum time between two events about the same matter on one object.
const QUIET: Duration = Duration::from_secs(300);

/// Maximum number of a victim's budgets that get an event, because users can create thousands of budgets for their own pods.
const TOLD: usize = 8;

/// Recent events: at most one in [`QUIET`] for each object and matter.
#[derive(Debug, Default)]
pub(super) struct Repeated(BTreeMap<(String, String), Instant>);

impl Repeated {
    /// The matter of events about a plan that waits for the limits on evictions.
    pub(super) const RATES: &str = "rates";

    /// Returns true if an event about this matter may be published now on the object with this UID.
    pub(super) fn is_news(&mut self, uid: &str, matter: &str, now: Instant) -> bool {
        let key = (uid.to_owned(), matter.to_owned());
        if self.0.get(&key).is_some_and(|said| now.duration_since(*said) < QUIET) {
            return false;
        }
        self.0.retain(|_, said| now.duration_since(*said) < QUIET);
        self.0.insert(key, now);
        true
    }
}

impl Arbiter {
    /// Creates an event on a preemptor; `None` if it does not exist.
    pub(super) fn notice(
        &self,
        preemptor: &Preemptor,
        warning: bool,
        reason: Reason,
        action: String,
        note: Sentence,
    ) -> Option<Notice> {
        let (kind, key, uid) = match preemptor {
            Preemptor::Group(key) => ("PodGroup", key, self.model.groups.get(key)?.uid.clone()),
            Preemptor::Pod(key) => ("Pod", key, self.model.cluster.pod(key)?.uid.clone()),
        };
        Some(Notice { kind: kind.into(), key: key.clone(), uid, warning, reason, action, note })
    }

    /// Publishes events on the budgets that prevent a preemption.
    pub(super) fn tell_budgets(&mut self, preemptor: &Preemptor, shortfall: &Shortfall, now: Instant) {
        for guaranteed in shortfall.told() {
            let Some(budget) = self.model.cluster.budgets().find(|b| b.key == guaranteed.key).cloned() else {
                continue;
            };
            let uid = self.model.uid_of(preemptor).cloned().unwrap_or_default();
            let kind = if matches!(preemptor, Preemptor::Group(_)) { "pod group" } else { "pod" };
            let note = Sentence::about(kind, preemptor.key(), &uid).text(format!(
                " of priority {} waits: {} of {} places would need pods of {guaranteed}.",
                shortfall.priority, shortfall.withheld, shortfall.needed,
            ));
            self.tell_budget(&budget, &uid, Reason::GuaranteedBudget, note, now);
        }
    }

    /// Publishes events on a victim and its budgets: the API server refused the eviction. `matter` identifies the plan or departure, `why`
    /// is the reason.
    pub(super) fn tell_refusal(&mut self, pod: &ObjectKey, uid: &str, matter: &str, why: &str, now: Instant) {
        let Some(victim) = self.model.cluster.pod(pod).filter(|p| p.uid == uid) else { return };
        let budgets: Vec<Budget> = self.model.cluster.budgets_of(victim).into_iter().take(TOLD).cloned().collect();
        let note = Sentence::from(format!("The eviction of pod {pod} was refused: {why}"));
        if self.repeated.is_news(uid, matter, now) {
            self.actuator.dispatch(Command::Publish(Notice {
                kind: "Pod".into(),
                key: pod.clone(),
                uid: uid.into(),
                warning: true,
                reason: Reason::EvictionRefused,
                action: format!("Evicting for {matter}"),
                note: note.clone(),
            }));
        }
        for budget in budgets {
            self.tell_budget(&budget, matter, Reason::EvictionRefused, note.clone(), now);
        }
    }

    fn tell_budget(&mut self, budget: &Budget, matter: &str, reason: Reason, note: Sentence, now: Instant) {
        if self.repeated.is_news(&budget.uid, &format!("{reason} {matter}"), now) {
            self.actuator.dispatch(Command::Publish(Notice {
                kind: "PodDisruptionBudget".into(),
                key: budget.key.clone(),
                uid: budget.uid.clone(),
                warning: false,
                reason,
                action: format!("Preempting for {matter}"),
                note,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_to_an_object_once_in_five_minutes() {
        let (mut repeated, now) = (Repeated::default(), Instant::now());
        assert!(repeated.is_news("uid-db", "pod/default/p", now));
        assert!(!repeated.is_news("uid-db", "pod/default/p", now + Duration::from_secs(299)));
        assert!(repeated.is_news("uid-db", "pod/default/q", now));
        assert!(repeated.is_news("uid-web", "pod/default/p", now));
        assert!(repeated.is_news("uid-db", "pod/default/p", now + Duration::from_secs(300)));
    }
}
