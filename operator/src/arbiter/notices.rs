//! Events on preemptors and on the objects that prevent a preemption, and the queued events on pods that wait.

use super::Arbiter;
use crate::messages::command::Command;
use crate::speaker::notice::EventNotice;
use crate::status;
use giveway_crds::condition::Reason;
use giveway_crds::wording::conditions::plan::NamedPreemptor;
use giveway_crds::wording::{Sentence, events};
use giveway_planner::Preemptor;
use giveway_planner::Shortfall;
use giveway_planner::model::{Budget, ObjectKey};
use std::time::Instant;

/// Maximum number of a victim's budgets that get an event, because users can create thousands of budgets for their own pods.
const MOST_BUDGETS: usize = 8;

impl Arbiter {
    /// Publishes an event at once, without a limit on their rate.
    pub(super) fn publish(&self, notice: EventNotice) {
        self.actuator.dispatch(Command::Publish(notice));
    }

    /// Publishes an event on a preemptor, if it exists. It is of type `Warning` if `warning` is true; `note` is its message.
    pub(super) fn tell(
        &self,
        preemptor: &Preemptor,
        warning: bool,
        reason: Reason,
        action: impl Into<String>,
        note: impl Into<Sentence>,
    ) {
        let (kind, uid) = match preemptor {
            Preemptor::Group(key) => ("PodGroup", self.model.groups.get(key).map(|group| &group.uid)),
            Preemptor::Pod(key) => ("Pod", self.model.cluster.pod(key).map(|pod| &pod.uid)),
        };
        let Some(uid) = uid.cloned() else { return };
        self.publish(EventNotice::on(kind, (preemptor.key().clone(), uid), warning, reason, action, note));
    }

    /// Publishes the queued events on waiting pods that the limits of events permit now.
    pub(super) fn publish_queued(&mut self, now: Instant) {
        let waits_for = |group: &ObjectKey| {
            let preemptor = Preemptor::Group(group.clone());
            let problem = self.model.cluster.group(group)?.class_problem.as_deref();
            let wait_reason = self.preemption.waiting.get(&preemptor).and_then(|waiting| waiting.wait_reason.as_ref());
            let reported = status::waits_for(&self.model, problem, self.plans.flights.get(&preemptor), wait_reason);
            // Pods that are being ungated no longer wait.
            reported.filter(|(reason, _)| *reason != Reason::Ungating)
        };
        for notice in self.speaker.pass(&self.model.cluster, waits_for, now) {
            self.publish(notice);
        }
    }

    /// Publishes events on the budgets that, according to this result of the planner, prevent a preemption for the preemptor.
    pub(super) fn tell_budgets(&mut self, preemptor: &Preemptor, shortfall: &Shortfall, now: Instant) {
        for guaranteed in shortfall.named_budgets() {
            let Some(budget) = self.model.cluster.budgets().find(|b| b.key == guaranteed.key).cloned() else {
                continue;
            };
            let uid = self.model.uid_of(preemptor).cloned().unwrap_or_default();
            let is_group = matches!(preemptor, Preemptor::Group(_));
            let named = NamedPreemptor { is_group, key: preemptor.key(), uid: &uid };
            let Shortfall { priority, withheld, needed, .. } = *shortfall;
            let note = events::budget_prevents_preemption(named, priority, withheld, needed, &guaranteed.to_string());
            self.tell_budget(&budget, &uid, Reason::GuaranteedBudget, note, now);
        }
    }

    /// Publishes events on a victim pod and its budgets that its eviction was refused. `matter` identifies the plan or departure, so that
    /// the same event is not published again within minutes; `why` is the reason.
    pub(super) fn tell_refusal(&mut self, pod: &ObjectKey, uid: &str, matter: &str, why: &str, now: Instant) {
        let Some(victim) = self.model.cluster.pod(pod).filter(|p| p.uid == uid) else { return };
        let budgets: Vec<Budget> =
            self.model.cluster.budgets_of(victim).into_iter().take(MOST_BUDGETS).cloned().collect();
        let note = Sentence::from(events::eviction_refused(pod, why));
        if self.speaker.is_due(uid, matter, now) {
            let (pod, action) = ((pod.clone(), uid.into()), format!("Evicting for {matter}"));
            self.publish(EventNotice::on("Pod", pod, true, Reason::EvictionRefused, action, note.clone()));
        }
        for budget in budgets {
            self.tell_budget(&budget, matter, Reason::EvictionRefused, note.clone(), now);
        }
    }

    /// Publishes an event on a budget, unless one with the same reason and `matter` (what identifies the plan, departure or preemptor) was
    /// published a short while ago.
    fn tell_budget(&mut self, budget: &Budget, matter: &str, reason: Reason, note: Sentence, now: Instant) {
        if self.speaker.is_due(&budget.uid, &format!("{reason} {matter}"), now) {
            let (about, action) = ((budget.key.clone(), budget.uid.clone()), format!("Preempting for {matter}"));
            self.publish(EventNotice::on("PodDisruptionBudget", about, false, reason, action, note));
        }
    }
}
