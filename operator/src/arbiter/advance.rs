//! Advances the plans in flight: what each of them has to respect, its calls, and the events about its stages.

use super::{Arbiter, departures};
use crate::clock::Clock;
use crate::departures::plan_store::Record;
use crate::messages::command::{Command, EvictOutcome};
use crate::observability::metrics::catalogue;
use crate::plans::{Advance, Flight, PlanLimits};
use crate::status::Victimhood;
use crate::{plans, status};
use giveway_crds::condition::Reason;
use giveway_crds::plan::PlanState;
use giveway_crds::wording::conditions::disruption;
use giveway_crds::wording::events;
use giveway_planner::Context;
use giveway_planner::Preemptor;
use giveway_planner::Respect;
use giveway_planner::model::ObjectKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

impl Arbiter {
    /// Adds a plan to the plans in flight, and marks the PodGroups of its preemptor and victims, so that their statuses are computed again.
    pub(super) fn launch(&mut self, mut flight: Flight) {
        if self.restraint.rates.most().limits() {
            flight.ration = Some(BTreeSet::new());
        }
        for victim in &flight.plan.victims {
            let group = self.group_of_unit(victim);
            self.statuses.dirty.extend(group);
        }
        if let Preemptor::Group(key) = &flight.preemptor {
            self.gangs.succession.end_for(key, self.gangs.labelled.controllers());
            if flight.evicts() {
                self.statuses.last_plans.remove(key);
            }
        }
        self.statuses.touch(&flight.preemptor);
        self.preemption.planned(&flight.preemptor);
        self.plans.flights.insert(flight, &mut self.model.cluster);
        self.model.version += 1;
    }

    /// Returns the context in which the planner decides for a preemptor of this priority: with the pods that plans and departures in flight
    /// evict, and respecting all reservations.
    pub(super) fn context(&self, priority: i32) -> Context {
        let mut departing = self.plans.flights.departing(priority);
        departing.extend(self.departures.departing().cloned());
        Context { departing, ..Context::default() }
    }

    /// Returns the context in which a plan with evictions that has left state `Planned` is checked: reservations of equal or lower priority
    /// by plans without an eviction do not cancel it, nor does a short outage of a node.
    pub(super) fn context_after_first_eviction(&self, context: Context) -> Context {
        Context { recovering: self.plans.recovering.clone(), respect: Respect::StartedOrHigher, ..context }
    }

    /// Removes the reservations of plans that ended some seconds ago from the model: from now on the nominations of the pods count again.
    fn expire_reservations(&mut self, now: Instant) {
        let nodes = self.plans.ended_reservations.expire(&self.plans.flights, &mut self.model.cluster, now);
        self.model.version += u64::from(!nodes.is_empty());
        nodes.iter().for_each(|node| self.model.changes.note_node(node));
    }

    /// Advances every plan that is due in this pass, and carries out what the plans request: calls, events, the statuses to write, and
    /// their ends.
    pub(super) fn advance(&mut self, clock: Clock) {
        self.expire_reservations(clock.now);
        let binding_timeout = Duration::from_secs(self.config.binding_timeout_seconds);
        let (mut spent, mut reads_lease) = (Duration::ZERO, false);
        self.plans.flights.awake().for_each(|preemptor| self.statuses.touch(preemptor));
        // If plans no longer fit together, the one that is checked first is cancelled and the others keep their placements: so plans are
        // sorted by ascending priority, the youngest first.
        let mut order: Vec<Preemptor> = self.plans.flights.take_due(clock.now);
        order.sort_by_key(|preemptor| {
            self.plans.flights.get(preemptor).map(|flight| (flight.priority, Reverse(flight.started)))
        });
        // Plans for critical add-ons wait for fewer terminating pods than other plans.
        let kind = |flight: &Flight| (flight.priority, flight.rescue.is_some(), flight.has_started_evictions());
        let kinds: BTreeSet<(i32, bool, bool)> =
            order.iter().filter_map(|preemptor| self.plans.flights.get(preemptor)).map(kind).collect();
        let context = |(priority, critical, evicting)| {
            let lingering =
                if critical { self.model.lingering(clock.epoch_seconds) } else { self.model.overdue().clone() };
            let known = self.context(priority);
            match evicting {
                true => Context { lingering, ..self.context_after_first_eviction(known) },
                false => Context { lingering, ..known },
            }
        };
        let mut contexts: BTreeMap<(i32, bool, bool), Context> =
            kinds.into_iter().map(|kind| (kind, context(kind))).collect();
        let mut certain = self.plans.flights.departing_for_certain();
        certain.extend(self.departures.departing().cloned());
        let version = self.model.version;
        for preemptor in order {
            let claimed = self.plans.flights.claimed_by_higher_plans(&preemptor, &self.model);
            let Some(flight) = self.plans.flights.get_mut_without_waking(&preemptor) else { continue };
            let Some(context) = contexts.get(&kind(flight)) else { continue };
            let (before, continued, was_postponed) =
                (flight.plan.state, flight.ending.is_none(), flight.is_postponed());
            let waited_for_scheduler = flight.waits_for_scheduler;
            if before == PlanState::Planned
                && let Preemptor::Group(key) = &preemptor
            {
                flight.placeholders = self.model.placeholders(key).map(|pod| pod.uid.clone()).collect();
            }
            let may_compare = self.preemption.round.may_compare(clock.now, spent);
            let scheduler = self.scheduler.pace(clock.now);
            let limits = PlanLimits { binding_timeout, scheduler, may_compare, certain: &certain, claimed: &claimed };
            let (start, waits) = (Instant::now(), matches!(before, PlanState::Planned | PlanState::WaitingForVictims));
            let mut advance = flight.advance(&self.model, context, clock, limits);
            if !advance.rest.is_empty() {
                let ids = (&mut self.plans.made, self.leadership.term());
                let stores = (&mut self.departures, &mut self.plan_store);
                flight.handed_over =
                    departures::evict_remaining_victims(&self.model, &advance.rest, stores, ids, clock);
                if flight.handed_over {
                    let Advance { commands, ended, .. } = flight.advance(&self.model, context, clock, limits);
                    advance.commands.extend(commands);
                    advance.ended = ended;
                }
            }
            if waits {
                spent += start.elapsed();
            }
            for uid in self.departures.requests.admit_all(&mut advance.commands) {
                flight.evicted(&uid, &EvictOutcome::Withdrawn, clock.now);
            }
            let (now, depends) = (flight.plan.state, flight.depends_since.is_some());
            let differs = (continued, was_postponed) != (flight.ending.is_none(), flight.is_postponed())
                || waited_for_scheduler != flight.waits_for_scheduler;
            reads_lease |= flight.is_unbound_for(binding_timeout / 2, clock.now);
            let had_effect = now != before || differs || !advance.commands.is_empty() || flight.rescue.is_some();
            if flight.evicts() {
                self.plan_store.note(&Record::from(&*flight));
            }
            if now != before {
                // The plans that are advanced next see both what this one reserves and what it evicts.
                for ((priority, ..), context) in &mut contexts {
                    context.departing.extend(flight.departing_for(*priority).cloned());
                }
                certain.extend(flight.departing_for_certain().cloned());
            }
            if now != before && advance.ended.is_none() {
                flight.stages.push((now, clock.now));
                self.tell_stage(&preemptor, now);
            }
            self.plans.flights.reserve(&preemptor, &mut self.model.cluster);
            self.plans.flights.advanced(&preemptor, had_effect || depends, clock.now);
            // The status does not depend on the time alone.
            if had_effect {
                self.statuses.touch(&preemptor);
            }
            self.tell_victims(&preemptor);
            for command in advance.commands {
                if let Command::Nominate { uid, node: None, .. } = &command {
                    self.gangs.housekeeping.withdrawn(uid, clock.now);
                }
                self.count_asked(&command, clock);
                self.actuator.dispatch(command);
            }
            if let Some(ending) = advance.ended {
                self.ended(&preemptor, &ending, clock);
            }
        }
        self.preemption.round.end_comparisons(clock.now, spent);
        if reads_lease {
            self.read_scheduler_lease(clock.now);
        }
        // A plan ended in this loop, so what was computed earlier in the loop is not final: another version makes it be computed again.
        if self.model.version != version {
            self.model.version += 1;
        }
    }

    /// Publishes an event on the preemptor whose plan has reached this state, if it is `Evicting` or `Ungating`.
    fn tell_stage(&mut self, preemptor: &Preemptor, state: PlanState) {
        let Some(flight) = self.plans.flights.get(preemptor) else { return };
        if flight.evicts() {
            let trace_id = self.tracer.id(&flight.plan);
            tracing::info!(%preemptor, plan = %flight.plan.id, trace_id, ?state, "plan");
        }
        let members = flight.members.len();
        let note = match state {
            PlanState::Evicting => {
                self.metrics.count(&catalogue::REHEARSALS, &["passed"]);
                events::evicting(flight.victims.len(), members)
            }
            PlanState::Ungating => events::members_start(members, flight.plan.domain.as_ref()),
            _ => return,
        };
        let action = format!("{} {}", status::state_reason(state), flight.plan.id);
        self.tell(preemptor, false, status::state_reason(state), action, note);
    }

    /// Reports the preemptor to the PodGroups of the victims of its plan, by events and in their status, once for each plan and not before
    /// it has left state `Planned`. Cancels the own plans of PodGroups that are evicted as a whole.
    fn tell_victims(&mut self, preemptor: &Preemptor) {
        let Some(flight) = self.plans.flights.get_mut_without_waking(preemptor) else { return };
        if flight.victims_notified || !flight.evicts() || flight.plan.state == PlanState::Planned {
            return;
        }
        flight.victims_notified = true;
        let flight = flight.clone();
        for victim in &flight.plan.victims {
            let key = ObjectKey::new(&victim.namespace, &victim.name);
            let whole = victim.kind == "PodGroup";
            let message = plans::victim_message(&flight, &victim.kind, victim.priority, None);
            if whole {
                self.cancel_own_plan(&key, disruption::own_plan_ends_for_plan());
                self.tell_group(&key, Reason::Preempted, &format!("Preempting {}", flight.plan.id), message.clone());
            }
            let group = self.group_of_unit(victim);
            // The status of a PodGroup with a departure already shows the cause.
            if let Some(group) = group.filter(|group| !self.departures.has_departure_of(group)) {
                self.statuses.dirty.insert(group.clone());
                let plan = flight.plan.id.clone();
                let (preemptor, reason) = (Some(plans::preemptor_reference(&flight)), Reason::PreemptionByScheduler);
                self.statuses.victims.insert(group, Victimhood { plan, preemptor, reason, message, whole });
            }
        }
    }
}
