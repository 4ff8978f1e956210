//! Departures in the arbiter. They begin when kube-scheduler has preempted a member of a PodGroup, when a gang has been partially scheduled
//! for too long, and when a plan is cancelled after its first evictions. The status of the PodGroup and an event report them.

use super::Arbiter;
use super::decide::next_id;
use crate::clock::Clock;
use crate::departures::begin::{self, DepartureRequest, SCHEDULER};
use crate::departures::plan_store::PlanStore;
use crate::departures::{Departures, strength};
use crate::limits::rates::ExceededLimit;
use crate::model::Model;
use crate::model::preempted_by_scheduler::PreemptedByScheduler;
use crate::plans::{Flight, RemainingPods, limit_sentence};
use crate::status::Victimhood;
use giveway_crds::condition::Reason;
use giveway_crds::plan::{Cause, PlanState, StoredPlan};
use giveway_crds::pod_group::PreemptorReference;
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::disruption::{self, PartialGangRemedy};
use giveway_crds::wording::conditions::resumed;
use giveway_crds::wording::events;
use giveway_planner::Preemptor;
use giveway_planner::model::ObjectKey;
use std::cmp::Reverse;

/// Begins the evictions, each stored as a departure in a `Preemption`, of the pods of partially disrupted PodGroups (`rest`) that a
/// cancelled plan has not evicted. `made` numbers the new objects in the term of this leader. Returns true if departures that are stored
/// evict all of these pods.
pub(super) fn evict_remaining_victims(
    model: &Model,
    rest: &[RemainingPods],
    (departures, store): (&mut Departures, &mut PlanStore),
    (made, term): (&mut u64, &str),
    clock: Clock,
) -> bool {
    for rest in rest {
        if let Some(request) = begin::partially_disrupted(model, rest) {
            departures.begin(model, store, request, (next_id(made, term), term), clock);
        }
    }
    rest.iter().all(|rest| departures.are_stored(&rest.group, &rest.pods))
}

impl Arbiter {
    /// Begins departures (evictions of a disrupted PodGroup) for the other pods of PodGroups of which kube-scheduler has preempted a pod
    /// since the last pass. This runs before plans for the PodGroups advance and before decisions are made for replacement pods.
    pub(super) fn begin_departures(&mut self, clock: Clock) {
        for preempted in self.model.take_preempted_by_scheduler().into_values() {
            let PreemptedByScheduler { group, .. } = &preempted;
            self.statuses.dirty.insert(group.clone());
            if let Some((reason, why)) = self.not_evicted(&group.namespace) {
                self.tell_not_disrupted(&preempted, reason, &why);
                continue;
            }
            let Some(request) = begin::member_preempted(&self.model, &preempted) else { continue };
            if !self.begin_departure(request, Reason::Preempted, "Evicting", clock) {
                continue;
            }
            self.metrics.outcome(Reason::PreemptionByScheduler);
            self.cancel_own_plan(group, disruption::own_plan_ends_for_scheduler());
        }
    }

    /// Cancels the plan in flight for which this PodGroup is the preemptor, because its pods are evicted as a whole: a new plan is made for
    /// all its members. In state `Ungating` it is not cancelled, because the members are already ungated and have a node.
    pub(super) fn cancel_own_plan(&mut self, group: &ObjectKey, why: &str) {
        let own = self.plans.flights.get_mut(&Preemptor::Group(group.clone()));
        if let Some(flight) = own.filter(|flight| flight.plan.state != PlanState::Ungating) {
            flight.drop_plan(PlanState::Cancelled, why);
        }
    }

    /// Begins a departure (evictions of a disrupted PodGroup) and publishes an event about it on the PodGroup, with this reason and action.
    /// Returns false if other departures already evict the pods.
    fn begin_departure(&mut self, request: DepartureRequest, reason: Reason, action: &str, clock: Clock) -> bool {
        let (group, message, cause) = (request.group.clone(), request.message.clone(), request.cause);
        let term = self.leadership.term();
        let id = next_id(&mut self.plans.made, term);
        if !self.departures.begin(&self.model, &mut self.plan_store, request, (id.clone(), term), clock) {
            return false;
        }
        self.tell_group(&group, reason, action, message.clone());
        self.note_disruption(group, cause, id, message);
        true
    }

    /// Records what the status of a PodGroup says about its departure (evictions of a disrupted PodGroup): cause and message, and the name
    /// of its `Preemption` (`plan`).
    fn note_disruption(&mut self, group: ObjectKey, cause: Cause, plan: String, message: Sentence) {
        let (preemptor, reason) = match cause {
            Cause::MemberPreempted => (Some(PreemptorReference::scheduler(SCHEDULER)), Reason::PreemptionByScheduler),
            Cause::PartiallyScheduled => (None, Reason::PartiallyScheduled),
            // The status already names the preemptor of the plan.
            _ => (None, Reason::PreemptionByScheduler),
        };
        self.statuses.dirty.insert(group.clone());
        self.statuses.victims.insert(group, Victimhood { plan, preemptor, reason, message, whole: true });
    }

    /// Resumes the stored departures (evictions of a disrupted PodGroup) of an earlier leader: first those with the strongest cause,
    /// because a pod belongs to one departure at most. One that has no PodGroup is ended.
    pub(super) fn resume_departures(&mut self, mut plans: Vec<StoredPlan>, clock: Clock) {
        plans.sort_by_key(|plan| (Reverse(strength(plan.cause)), plan.id.clone()));
        for mut plan in plans {
            tracing::info!(plan = %plan.id, cause = plan.cause.as_str(), "resuming a stored departure");
            let (id, cause, message) = (plan.id.clone(), plan.cause, Sentence::from(plan.reason.as_str()));
            self.leadership.term().clone_into(&mut plan.term);
            plan.message.clone_from(&plan.reason);
            match self.departures.resume(&self.model, &mut self.plan_store, plan, clock.now) {
                Some(group) => self.note_disruption(group, cause, id, message),
                None => self.end_stored_plan(&id, resumed::departure_without_group().to_owned(), clock),
            }
        }
        self.departures.complete_resumption();
    }

    /// Begins the evictions of gangs that have been partially scheduled for too long, advances all departures (evictions of a disrupted
    /// PodGroup), and requests their evictions.
    pub(super) fn advance_departures(&mut self, clock: Clock) {
        self.disrupt_partially_scheduled(clock);
        if self.departures.is_empty() {
            return;
        }
        let restraint = self.restraint.reason().map(|_| self.restraint.in_words());
        let step = self.departures.pass(&self.model, &mut self.plan_store, restraint.as_deref(), clock);
        for command in step.commands {
            self.count_asked(&command, clock);
            self.actuator.dispatch(command);
        }
        for (group, pod, uid, why) in step.refused {
            self.tell_refusal(&pod, &uid, &departure_in_words(&group), &why, clock.now);
        }
        self.statuses.dirty.extend(step.ended);
    }

    /// Begins the evictions, each stored as a departure, of the gangs that have been partially scheduled for too long, as far as the mode
    /// and the limits on evictions permit it. Otherwise publishes an event with the reason.
    fn disrupt_partially_scheduled(&mut self, clock: Clock) {
        let after = self.config.partially_scheduled_timeout;
        if after.is_zero() {
            return;
        }
        self.gangs.partial_gangs.note(&self.model, &self.statuses.dirty, clock.now);
        for (group, half) in self.gangs.partial_gangs.due(&self.model, after, clock.now) {
            // Where groups are not served, no gang is scheduled together.
            if !self.model.cluster.serves_groups_in(&group.namespace) {
                self.gangs.partial_gangs.restart(&group, clock.now);
                continue;
            }
            let preemptor = Preemptor::Group(group.clone());
            // A plan may still complete the gang, even a plan that has just completed. A delay is not waited for: users set it, and it may be a
            // day.
            let may_complete = |flight: &Flight| !flight.is_postponed() && !flight.makes_no_progress(after, clock.now);
            if self.plans.flights.get(&preemptor).is_some_and(may_complete) {
                continue;
            }
            let full = match self.restraint.reason() {
                None => self.limit_reached_for(&group, half.pods, clock),
                Some(_) => None,
            };
            if let Some(full) = full {
                self.tell_limit_reached(&group, &full, clock);
                continue;
            }
            self.gangs.partial_gangs.restart(&group, clock.now);
            let said = self.model.scheduler_message(&half.waits);
            if let Some((reason, why)) = self.not_evicted(&group.namespace) {
                let message = half.sentence(after, PartialGangRemedy::NotPermitted(&why), said);
                self.tell_group(&group, reason, "NotEvicting", message.into());
                continue;
            }
            let message = half.sentence(after, half.remedy(), said);
            if half.ownerless.is_some() {
                self.tell_group(&group, Reason::PartiallyScheduled, "NotEvicting", message.into());
                continue;
            }
            let Some(request) = begin::partially_scheduled(&self.model, &group, message.into()) else { continue };
            let pods = request.pods.clone();
            if !self.begin_departure(request, Reason::PartiallyScheduled, "Evicting", clock) {
                continue;
            }
            for uid in &pods {
                self.restraint.rates.note(&group.namespace, uid, clock.now);
            }
            self.metrics.outcome(Reason::PartiallyScheduled);
            self.preemption.remembered(preemptor).back_off_after_disruption(clock.now);
        }
    }

    /// Publishes an event on a partially scheduled gang: its pods are evicted later, when the limit that is reached allows it.
    fn tell_limit_reached(&mut self, group: &ObjectKey, full: &ExceededLimit, clock: Clock) {
        let uid = self.model.cluster.group(group).map(|group| group.uid.clone()).unwrap_or_default();
        if self.speaker.is_due(&uid, Reason::EvictionsLimited.as_str(), clock.now) {
            let why = limit_sentence(full, clock.at(full.until));
            let note = events::partial_gang_evicted_later(why);
            self.tell_group(group, Reason::EvictionsLimited, "LimitingEvictions", note);
        }
    }

    /// Returns why no pod of a namespace may be evicted without a preemptor now: the mode, or the protection of the namespace. `None` if it
    /// is permitted.
    fn not_evicted(&self, namespace: &str) -> Option<(Reason, String)> {
        let restraint = self.restraint.reason().map(|reason| (reason, self.restraint.in_words()));
        let protection = || Some((Reason::Protected, self.model.cluster.protection(namespace)?.to_string()));
        restraint.or_else(protection)
    }

    /// Publishes an event on a PodGroup in mode `PodGroup` of which kube-scheduler preempted a pod: why its other bound pods are not
    /// evicted. Publishes none if it has no such pods, or if other evictions of the PodGroup are in progress.
    fn tell_not_disrupted(&self, preempted: &PreemptedByScheduler, reason: Reason, why: &str) {
        let PreemptedByScheduler { pod, group, .. } = preempted;
        let others = begin::other_bound_members(&self.model, preempted).count();
        if others == 0 || self.departures.has_departure_of(group) {
            return;
        }
        let message = events::others_not_evicted(&pod.name, others, why);
        tracing::info!(%group, %message, "no departure");
        self.metrics.outcome(reason);
        self.tell_group(group, reason, "NotEvicting", message.into());
    }

    /// Publishes a warning event on a PodGroup. `action` and `reason` are fields of the event, `note` is its message.
    pub(super) fn tell_group(&self, group: &ObjectKey, reason: Reason, action: &str, note: Sentence) {
        self.tell(&Preemptor::Group(group.clone()), true, reason, action, note);
    }
}

/// Returns the text that names the departure of a PodGroup (evictions because it is disrupted) as the cause of evictions, for the field
/// `action` of events.
pub(super) fn departure_in_words(group: &ObjectKey) -> String {
    format!("the disruption of podgroup/{group}")
}
