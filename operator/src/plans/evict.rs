//! Evictions of a plan: their order, their method, and what each outcome means for the plan.

use super::rescue::shortened_grace;
use super::stages::beside_all_plans;
use super::{Advance, Flight, Now, VictimPod, current};
use crate::messages::call::Call;
use crate::messages::command::{Command, EvictCall, EvictOutcome, EvictionCause};
use crate::model::Model;
use giveway_crds::plan::PlanState;
use giveway_crds::wording::conditions::plan_end::{self, EvictionFailure, eviction_failed};
use giveway_planner::model::{ObjectKey, Pod};
use giveway_planner::rescue::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

impl Flight {
    /// Records the answer to the eviction, or to its dry run, of the victim with this UID. Cancels the plan if the victim cannot be
    /// evicted.
    pub fn evicted(&mut self, uid: &str, outcome: &EvictOutcome, now: Instant) {
        let Some(victim) = self.victims.iter_mut().find(|v| v.uid == uid) else { return };
        // The dry run and the eviction of a victim are never in flight at the same time.
        let is_rehearsal = victim.rehearsal.pending();
        let call = if is_rehearsal { &mut victim.rehearsal } else { &mut victim.call };
        call.evicted(outcome, now);
        let (is_exhausted, unit) = (call.exhausted(), victim.unit);
        victim.accepted |= outcome.is_accepted();
        let is_unanswered = matches!(outcome, EvictOutcome::Unanswered(_));
        let ends_wait = is_rehearsal && self.is_unanswered_for_too_long(is_unanswered, now);
        match outcome {
            EvictOutcome::Refused(why) => self.leave_out(uid, EvictionFailure::Budget, why),
            EvictOutcome::Rejected(why) => {
                self.forbidden.insert(uid.into());
                self.leave_out(uid, EvictionFailure::Rejected, why);
            }
            EvictOutcome::Error(why) if is_exhausted && !self.units_with_evictions().contains(&unit) => {
                self.leave_out(uid, EvictionFailure::Failed, why);
            }
            EvictOutcome::Unanswered(why) if ends_wait => self.leave_out(uid, EvictionFailure::Failed, why),
            _ => {}
        }
    }

    /// Cancels the plan because the victim with this UID cannot be evicted, and records the victim, so that the next plan does not evict
    /// it. `why` is the answer to the call.
    fn leave_out(&mut self, uid: &str, failure: EvictionFailure, why: &str) {
        let Some(victim) = self.victims.iter().find(|victim| victim.uid == uid) else { return };
        let sentence = eviction_failed(&victim.pod, &victim.uid, failure, why);
        self.refused.insert(uid.into(), why.to_owned());
        self.drop_plan(PlanState::Cancelled, sentence);
    }

    /// Adds the evictions that may start now to `out`: first of victims that a PodDisruptionBudget can refuse, then of the others. None
    /// starts before the state `Evicting` is stored and the dry runs have succeeded.
    pub(super) fn evict(&mut self, now: Now<'_>, out: &mut Advance) {
        let Now { model, clock, limits, .. } = now;
        // The state `Evicting` is stored first, so that a leader that resumes a plan in state `Planned` knows that no
        // pod was evicted for it.
        if self.stored.is_none_or(|state| state < PlanState::Evicting) {
            return;
        }
        let (started, calls) = (self.units_with_evictions(), self.evictions(model, |_| true));
        let refusable = calls.iter().filter(|(_, c)| c.refusable()).count();
        if self.cancel_if_budget_breached(model, &calls, limits.claimed) {
            return;
        }
        if !self.rehearse(model, clock, out) || self.depends_on_other_plans(now) {
            return;
        }
        let blocked = self.blocked_nodes(&model.cluster);
        if refusable > 0 && !blocked.as_ref().is_some_and(BTreeSet::is_empty) {
            return;
        }
        // A PodGroup that has grown would be disrupted only partially. It is not evicted; the next check cancels the
        // plan.
        let grown = if self.rescue.is_some() { BTreeSet::new() } else { self.grown_units(&model.cluster) };
        for (index, call) in calls {
            let unit = self.victims[index].unit;
            let may_be_evicted_now = || self.may_evict_unit(unit, blocked.as_ref()) && self.may_start(unit);
            if !started.contains(&unit) && (grown.contains(&unit) || !may_be_evicted_now()) {
                continue;
            }
            if refusable > 0 && !call.refusable() {
                continue;
            }
            let victim = &mut self.victims[index];
            if victim.call.due(clock.now) {
                victim.call.start();
                let pod = current(&model.cluster, &victim.pod, &victim.uid);
                victim.shortened = pod.filter(|_| call.grace.is_some()).map(|pod| pod.grace);
                out.commands.push(Command::Evict(Box::new(call)));
            }
        }
    }

    /// Cancels the plan before its first eviction if its members fit now and its state cannot be stored: then no pod is evicted for as long
    /// as the writes are rejected.
    pub(super) fn use_free_capacity_while_unwritten(&mut self, now: Now<'_>) {
        let waits = self.ending.is_none() && self.unwritten.is_some() && !self.may_have_evicted();
        if waits
            && self.may_ask_planner_again(now)
            && self.fitting_members(&now.model.cluster, &beside_all_plans(now.context)).is_some()
        {
            self.drop_plan(PlanState::Cancelled, plan_end::capacity_became_free());
        }
    }

    /// Returns the eviction calls for the victims for which `which` returns true and whose eviction was not accepted yet, each with the
    /// index of its victim in `victims`. A victim with an eviction in flight is left out if no budget selects it.
    pub(super) fn evictions(&self, model: &Model, which: impl Fn(&VictimPod) -> bool) -> Vec<(usize, EvictCall)> {
        let guarded = self.guarded_units(model);
        let victims = self.victims.iter().enumerate().filter(|(_, v)| self.must_be_evicted(v) && which(v));
        let call = |(i, v): (usize, &VictimPod)| {
            let pod = current(&model.cluster, &v.pod, &v.uid)?;
            // The eviction is in flight and no budget selects the pod, so it can neither be refused nor delay
            // others: it is skipped here.
            let settled = v.call.pending() && !model.cluster.is_budgeted(pod);
            (!settled).then(|| (i, self.evict_call(model, (v, pod), guarded.contains(&v.unit))))
        };
        victims.filter_map(call).collect()
    }

    /// Cancels the plan if the guaranteed budgets, as far as they are known here, do not allow the next evictions in addition to those in
    /// flight and to those that [plans of higher priority](super::claims) claim. `calls` are the evictions with the indexes of their
    /// victims; `claimed` is the number of claimed pods by budget. Returns true if the plan was cancelled.
    fn cancel_if_budget_breached(
        &mut self,
        model: &Model,
        calls: &[(usize, EvictCall)],
        claimed: &BTreeMap<ObjectKey, usize>,
    ) -> bool {
        let guarded: BTreeSet<usize> = calls.iter().filter(|(_, call)| call.refusable()).map(|(i, _)| *i).collect();
        let pod = |v: &VictimPod| current(&model.cluster, &v.pod, &v.uid).filter(|pod| pod.live());
        let on_their_way = self.victims.iter().filter(|v| v.needs_no_request()).filter_map(pod);
        let next = guarded.iter().map(|i| &self.victims[*i]).filter(|v| v.call == Call::Idle).filter_map(pod);
        let mut refused = model.budget_violations(on_their_way.chain(next), claimed);
        refused.retain(|uid, _| {
            guarded.iter().any(|i| self.victims[*i].uid == *uid && self.victims[*i].call == Call::Idle)
        });
        let first = refused.iter().next().and_then(|(uid, why)| {
            let victim = self.victims.iter().find(|v| v.uid == *uid)?;
            Some(eviction_failed(&victim.pod, &victim.uid, EvictionFailure::Budget, why))
        });
        let Some(message) = first else { return false };
        self.drop_plan(PlanState::Cancelled, message);
        self.refused.append(&mut refused);
        true
    }

    /// Returns the call that evicts this victim, whose current state is `pod`. `guarded` is true if a budget of its unit of eviction is
    /// guaranteed against the preemptor: then the pod is not deleted if the budget refuses.
    fn evict_call(&self, model: &Model, (victim, pod): (&VictimPod, &Pod), guarded: bool) -> EvictCall {
        let unit = &self.plan.victims[victim.unit];
        let rescue = self.rescue.as_ref();
        let budgeted = model.cluster.is_budgeted(pod);
        let grace = if rescue.is_some() { shortened_grace(pod) } else { pod.capped_grace() };
        EvictCall {
            cause: EvictionCause::Plan { preemptor: self.preemptor.clone(), id: self.plan.id.clone() },
            priority: self.priority,
            pod: victim.pod.clone(),
            uid: victim.uid.clone(),
            budgeted,
            may_force: !guarded && rescue.is_none_or(|rescue| rescue.step == Step::Any),
            grace,
            rehearsal: false,
            again: false,
            message: super::victim_message(self, &unit.kind, unit.priority, grace.map(|_| pod.grace)),
            permission: self.permission.clone(),
        }
    }

    /// Returns true if the victim still has to be evicted: no eviction was accepted or has become unnecessary, and none is rejected for
    /// good.
    pub(super) fn must_be_evicted(&self, victim: &VictimPod) -> bool {
        !victim.accepted && !self.forbidden.contains(&victim.uid)
    }

    /// Returns the indexes of the plan's victims (pods or whole PodGroups) with a pod whose budget is guaranteed against the preemptor.
    /// Pods that have terminated count too.
    pub(super) fn guarded_units(&self, model: &Model) -> BTreeSet<usize> {
        let now = |v: &VictimPod| model.threshold(current(&model.cluster, &v.pod, &v.uid)?);
        let guarded = |v: &&VictimPod| v.threshold.max(now(v)).is_some_and(|threshold| threshold > self.own_priority());
        self.victims.iter().filter(guarded).map(|v| v.unit).collect()
    }

    /// Returns the indexes of the plan's victims that are PodGroups in mode `PodGroup` and of which this plan evicted a pod, or may have. A
    /// refused eviction evicted no pod. Neither did a call that failed too often: such a pod terminates, and counts as accepted, if a call
    /// took effect all the same.
    pub(super) fn units_with_evictions(&self) -> BTreeSet<usize> {
        if self.plan.state < PlanState::Evicting {
            return BTreeSet::new();
        }
        let denied = |v: &VictimPod| self.refused.contains_key(&v.uid) || v.call.exhausted();
        let asked = |v: &VictimPod| v.call != Call::Idle && (v.accepted || !denied(v));
        self.victims
            .iter()
            .filter(|v| asked(v) || (self.started_earlier && v.left))
            .map(|v| v.unit)
            .filter(|unit| self.plan.victims[*unit].kind == "PodGroup")
            .collect()
    }
}
