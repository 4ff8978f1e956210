//! Critical add-ons in the arbiter. The planner decides for one critical add-on at a time, and its plan is carried out like other plans.
//! Taints of Giveway without a plan in flight are removed.

use super::Arbiter;
use crate::clock::Clock;
use crate::critical_addons::taints::tainted_nodes;
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::observability::metrics::catalogue;
use crate::plans::{self, AddonRescue, Flight};
use crate::speaker::notice::EventNotice;
use giveway_crds::condition::Reason;
use giveway_crds::mode::Mode;
use giveway_crds::plan::{Cause, StoredRescue};
use giveway_crds::wording::conditions::addon;
use giveway_crds::wording::events;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use giveway_planner::rescue::{self, Eviction, Hopeless, Rescue, can_taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use std::time::Instant;

impl Arbiter {
    /// Makes a plan for the most important critical add-on that has been pending for long enough, unless another one has a plan in flight.
    /// Also removes taints that no plan needs.
    pub(super) fn rescue(&mut self, clock: Clock) {
        let Some(terms) = self.critical_addons.terms.clone() else { return };
        let schedulers = &self.config.scheduler_names;
        self.critical_addons.queue.note(&self.model, &self.plans.flights, &terms, schedulers, clock.now);
        self.metrics.set(&catalogue::CRITICAL_WAITING, &[], self.critical_addons.queue.count());
        if let Some((tainted, stray)) = self.critical_addons.taints.sweep(&self.model, &self.plans.flights, clock.now) {
            self.metrics.set(&catalogue::TAINTED, &[], tainted);
            stray.into_iter().for_each(|command| self.actuator.dispatch(command));
        }
        if self.critical_addons.queue.count() > 0 {
            self.read_scheduler_lease(clock.now);
        }
        if self.plans.flights.any_keeps_node() {
            self.metrics.set(&catalogue::TAINTED, &[], tainted_nodes(&self.model).len());
            return;
        }
        let mut due = self.critical_addons.queue.due(&self.model, self.config.critical_addons_after, clock.now);
        // An add-on that was not bound on a node comes after the others until the ban ends.
        due.sort_by_key(|(pod, _)| self.banned_nodes_in_words(&Preemptor::Pod(pod.clone())).is_some());
        for (pod, since) in due {
            let preemptor = Preemptor::Pod(pod.clone());
            if self.plans.flights.contains(&preemptor) {
                continue;
            }
            let waiting = self.preemption.waiting.entry(preemptor.clone()).or_default();
            let excluded_victims = waiting.excluded_victims(clock.now);
            let is_forced = waiting.seen.is_none();
            if waiting.not_before.is_some_and(|time| time > clock.now)
                || waiting.disruption_back_off(clock.now).is_some()
            {
                continue;
            }
            if !self.scheduler.is_alive(since, clock.now) {
                let seconds = clock.now.duration_since(since).as_secs();
                let message = addon::scheduler_may_be_down(seconds, &self.config.scheduler_lease);
                self.tell_waiting(&pod, Reason::SchedulerNotResponding, message, clock.now);
                continue;
            }
            let Some(uid) = self.model.uid_of(&preemptor).cloned() else { continue };
            // At most one node has a taint of Giveway: a taint that could not be removed prevents a new plan.
            if !tainted_nodes(&self.model).is_empty() {
                if let Some(message) = self.critical_addons.taints.kept().map(str::to_owned) {
                    self.tell_waiting(&pod, Reason::CriticalAddonUnschedulable, message, clock.now);
                }
                continue;
            }
            if !self.critical_addons.queue.is_turn(&uid, self.model.version, is_forced, clock.now) {
                continue;
            }
            self.preemption.waiting.entry(preemptor.clone()).or_default().seen = Some(self.model.version);
            let priority = self.model.priority_of(&preemptor).unwrap_or(0);
            if self.restraint.switch.mode() == Mode::Off {
                self.tell_waiting(&pod, Reason::SwitchedOff, Self::off_reason().message, clock.now);
                continue;
            }
            let mut context = self.context(rescue::reservation_priority(priority));
            context.exempt = excluded_victims;
            context
                .exempt
                .extend(self.model.pods_of_unknown_groups().iter().chain(self.restraint.bans.victims()).cloned());
            context.lingering = self.model.lingering(clock.epoch_seconds);
            let started = Instant::now();
            let mut found = rescue::rescue(&self.model.cluster, &pod, &terms, &context);
            if let Rescue::Evict(eviction) = &found
                && let Some(on_banned_nodes) = self.pods_on_banned_nodes(&preemptor, &eviction.plan.placements)
            {
                context.exempt.extend(on_banned_nodes);
                found = rescue::rescue(&self.model.cluster, &pod, &terms, &context);
            }
            self.metrics.observe(&catalogue::DECISION_SECONDS, &[], started.elapsed());
            let banned = match &found {
                Rescue::Evict(eviction) => self.banned(&eviction.plan.placements),
                _ => None,
            };
            let helped = matches!(found, Rescue::Evict(_)) && banned.is_none();
            self.critical_addons.queue.answered(&uid, helped);
            if let Some(message) = banned {
                self.tell_waiting(&pod, Reason::CriticalAddonUnschedulable, message, clock.now);
                return;
            }
            match found {
                Rescue::Evict(eviction) => match self.restraint.reason() {
                    Some(reason) => {
                        if let Some(message) = self.observe_rescue(&preemptor, &eviction, clock) {
                            self.tell_waiting(&pod, reason, message, clock.now);
                        }
                    }
                    None => self.start_rescue(&preemptor, &eviction, clock),
                },
                Rescue::Hopeless(why) => {
                    let mut message = self.hopeless_message(&pod, &why);
                    let victim = self.banned_victim_in_words(&preemptor, rescue::reservation_priority(priority));
                    for sentence in self.banned_nodes_in_words(&preemptor).into_iter().chain(victim) {
                        message = format!("{message} {sentence}");
                    }
                    self.tell_waiting(&pod, Reason::CriticalAddonUnschedulable, message, clock.now);
                }
                Rescue::Fits(node) => {
                    let now = rescue::feasible_node(&self.model.cluster, &pod, &context).is_some();
                    let message = match now {
                        true => addon::fits(&node),
                        false => addon::fits_after_termination(&node),
                    };
                    self.tell_waiting(&pod, Reason::CriticalAddonFits, message, clock.now);
                }
                Rescue::Nothing => {}
            }
            // One call of the planner in a pass: the other add-ons follow in the next passes.
            return;
        }
    }

    /// Starts a plan that evicts pods from a node for a critical add-on.
    fn start_rescue(&mut self, preemptor: &Preemptor, eviction: &Eviction, clock: Clock) {
        let Some(flight) = self.rescue_flight(preemptor, eviction, clock) else { return };
        self.metrics.count(&catalogue::RESCUES, &[eviction.step.number().to_string().as_str()]);
        for line in &eviction.plan.trace {
            tracing::info!(%preemptor, "{line}");
        }
        self.open(flight);
    }

    /// Returns the plan for a critical add-on in the form in which it is carried out; `None` if Giveway does not preempt for add-ons or the
    /// plan has no placement. It is not in flight yet.
    pub(super) fn rescue_flight(&mut self, preemptor: &Preemptor, eviction: &Eviction, clock: Clock) -> Option<Flight> {
        let terms = self.critical_addons.terms.clone()?;
        let placed = eviction.plan.placements.first()?;
        let cluster = &self.model.cluster;
        let taint = cluster.pod(&placed.pod).is_some_and(|pod| can_taint(cluster, pod, &placed.node));
        let priority = cluster.pod(&placed.pod).map_or(0, |pod| pod.priority);
        let stored_preemptor = self.stored_preemptor(preemptor, priority);
        let stored = StoredRescue { step: eviction.step.number(), taint };
        let mut plan = self.new_plan(&eviction.plan, stored_preemptor, clock);
        plan.critical_addon = Some(stored);
        plan.cause = Cause::CriticalAddon;
        Some(Flight::new(preemptor.clone(), priority, plan, clock.now).rescuing(AddonRescue::new(stored, terms)))
    }

    /// Returns the message for the event of a critical add-on that no evictions help, without the names of budgets that the pod's namespace
    /// must not see.
    fn hopeless_message(&self, pod: &ObjectKey, why: &Hopeless) -> String {
        let (names, mut shown) = (self.config.names(), why.clone());
        for budget in shown.nearest.iter_mut().flat_map(|nearest| &mut nearest.guaranteed) {
            if !names.known(&budget.key.namespace, &pod.namespace) {
                budget.key = ObjectKey::default();
            }
        }
        shown.to_string()
    }

    /// Publishes an event on a critical add-on: why no pod is evicted for it. Events with the same reason are at least some minutes apart.
    fn tell_waiting(&mut self, pod: &ObjectKey, reason: Reason, message: String, now: Instant) {
        let preemptor = Preemptor::Pod(pod.clone());
        let Some(uid) = self.model.uid_of(&preemptor).cloned() else { return };
        if !self.speaker.is_due(&uid, reason.as_str(), now) {
            return;
        }
        tracing::warn!(%pod, %message, "no pod is evicted for a critical add-on");
        self.metrics.outcome(reason);
        let warning = reason != Reason::CriticalAddonFits;
        self.tell(&preemptor, warning, reason, "Rescuing", message);
    }

    /// Handles the answer to adding (`add`) or removing the taint for the pod with this UID on a node: informs the plan, and publishes an
    /// event on the node. `plan` is the name of the `Preemption`, if the taint has one.
    pub(super) fn taint_written(
        &mut self,
        node: &SmolStr,
        uid: &SmolStr,
        add: bool,
        plan: Option<&str>,
        result: &Result<(), CallError>,
        now: Instant,
    ) {
        // A node that no longer exists has no taint.
        let done = matches!((add, result), (_, Ok(())) | (false, Err(CallError::Gone)));
        if !add {
            self.critical_addons.taints.removed(node, uid, result.as_ref().err().filter(|_| !done));
        }
        if let Err(error) = result {
            tracing::warn!(%node, add, %error, "taint not written");
        } else {
            tracing::info!(%node, pod = %uid, add, "taint");
        }
        let flight = plan.and_then(|plan| self.plans.flights.with_id(plan));
        let note = if add { events::node_reserved } else { events::node_released };
        let note = match flight {
            Some(flight) => {
                flight.taint_answered(add, done, now);
                note(uid, Some(plans::named_preemptor(flight)))
            }
            None => note(uid, None),
        };
        if result.is_err() {
            return;
        }
        let Some(node_uid) = self.model.nodes.get(node).cloned() else { return };
        let reason = if add { Reason::ReservedForCriticalAddon } else { Reason::ReservationEnded };
        let about = (ObjectKey::new("", node), node_uid);
        self.publish(EventNotice::on("Node", about, false, reason, format!("Rescuing {uid}"), note));
    }

    /// Requests a read of kube-scheduler's Lease, if critical add-ons are enabled and it was not read a moment ago. The chart permits the
    /// read only if they are enabled.
    pub(super) fn read_scheduler_lease(&mut self, now: Instant) {
        if self.critical_addons.terms.is_some() && self.scheduler.due(now) {
            self.actuator.dispatch(Command::ReadSchedulerLease(self.config.scheduler_lease.clone()));
        }
    }

    /// Records when kube-scheduler last renewed its Lease; `None` if the Lease does not exist. A failed read changes nothing.
    pub(super) fn scheduler_lease_read(&mut self, result: Result<Option<MicroTime>, CallError>, now: Instant) {
        match result {
            Ok(renewed) => self.scheduler.read(renewed, now),
            // A failed read does not mean that the scheduler is down: the last result is used until it is too old.
            Err(error) => tracing::warn!(%error, "the Lease of kube-scheduler was not read"),
        }
    }
}
