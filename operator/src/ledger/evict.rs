//! Evicting: in which order, by which means, and what an answer means for the plan.

use super::call::Call;
use super::rescue::shortened_grace;
use super::{Advance, Clock, Flight, VictimPod, current};
use crate::command::{Cause, Command, EvictCall, EvictOutcome};
use crate::model::Model;
use crate::words::Sentence;
use giveway_crds::plan::PlanState;
use giveway_planner::SmolStr;
use giveway_planner::model::Pod;
use giveway_planner::rescue::Step;
use std::collections::BTreeSet;
use std::time::Instant;

/// After so many attempts, some three seconds, the operator believes that it may not evict.
const TRIES_UNAUTHORIZED: u32 = 4;

impl Flight {
    /// Notes that the eviction of a pod was answered.
    pub fn evicted(&mut self, uid: &str, outcome: &EvictOutcome, now: Instant) {
        let Some(victim) = self.victims.iter_mut().find(|v| v.uid == uid) else { return };
        // A dry run and the eviction are never under way together.
        let call = if victim.rehearsal.pending() { &mut victim.rehearsal } else { &mut victim.call };
        match outcome {
            EvictOutcome::Allowed => call.answered(true, now),
            EvictOutcome::Accepted | EvictOutcome::Forced | EvictOutcome::Gone => {
                call.answered(true, now);
                victim.accepted = true;
            }
            EvictOutcome::Refused(message) => {
                call.answered(false, now);
                self.refused.insert(uid.into(), message.clone());
                let sentence = refusal(victim, message, FOR_ITS_BUDGET);
                self.drop_plan(PlanState::Cancelled, sentence);
            }
            EvictOutcome::Unauthorized(_) if call.tries() < TRIES_UNAUTHORIZED => call.answered(false, now),
            EvictOutcome::Forbidden(message) | EvictOutcome::Unauthorized(message) => {
                call.answered(false, now);
                self.refused.insert(uid.into(), message.clone());
                self.forbidden.insert(uid.into());
                let sentence = refusal(victim, message, "it is not allowed");
                self.drop_plan(PlanState::Cancelled, sentence);
            }
            EvictOutcome::Error(_) => call.answered(false, now),
            EvictOutcome::Unanswered(_) => call.unanswered(now),
            EvictOutcome::Withdrawn => call.withdrawn(now),
        }
    }

    /// Commands evictions: first of victims that a budget may refuse, then of the others.
    pub(super) fn evict(&mut self, model: &Model, clock: Clock, out: &mut Advance) {
        // Written ahead: a leader that resumes a plan in state `Planned` knows that no pod was evicted for it.
        if self.stored.is_none_or(|state| state < PlanState::Evicting) {
            return;
        }
        let (begun, guarded) = (self.begun_units(), self.guarded_units(model));
        let calls: Vec<(usize, EvictCall)> = self
            .victims
            .iter()
            .enumerate()
            .filter(|(_, v)| self.has_to_go(v))
            .filter_map(|(i, v)| {
                let pod = current(&model.cluster, &v.pod, &v.uid)?;
                // Nothing is to be said of it before it is answered: no budget can refuse it and hold others back.
                let settled = v.call.pending() && !model.cluster.is_budgeted(pod);
                (!settled).then(|| (i, self.evict_call(model, (v, pod), guarded.contains(&v.unit))))
            })
            .collect();
        let refusable = calls.iter().filter(|(_, c)| c.refusable()).count();
        if self.breaches(model, &calls) {
            return;
        }
        if (refusable > 1 || self.careful) && !self.rehearse(&calls, clock, out) {
            return;
        }
        let turn = self.turn(&model.cluster);
        if refusable > 0 && !turn.is_everybody() {
            return;
        }
        // The next check drops the plan; until then nobody begins what would not go whole.
        let grown = if self.rescue.is_some() { BTreeSet::new() } else { self.grown_units(&model.cluster) };
        for (index, call) in calls {
            let unit = self.victims[index].unit;
            let turn_has_come = || self.is_turn_of(unit, &turn) && self.may_begin(unit);
            if !begun.contains(&unit) && (grown.contains(&unit) || !turn_has_come()) {
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

    /// Takes the evictions of the pods with these UIDs out of `commands`, because others have requested them. Two plans share a victim if
    /// one of them is going to displace the other; the second one waits until the pod terminates.
    pub fn leave_to_others(&mut self, commands: &mut Vec<Command>, requested: &BTreeSet<SmolStr>, now: Instant) {
        commands.retain(|command| {
            let Command::Evict(call) = command else { return true };
            let is_requested = !call.rehearsal && requested.contains(&call.uid);
            if is_requested {
                self.evicted(&call.uid, &EvictOutcome::Withdrawn, now);
            }
            !is_requested
        });
    }

    /// Drops the plan when guarded victims whose turn has come cannot go, by what is known here.
    fn breaches(&mut self, model: &Model, calls: &[(usize, EvictCall)]) -> bool {
        let guarded: BTreeSet<usize> = calls.iter().filter(|(_, call)| call.refusable()).map(|(i, _)| *i).collect();
        let pod = |v: &VictimPod| current(&model.cluster, &v.pod, &v.uid).filter(|pod| pod.live());
        let on_their_way = self.victims.iter().filter(|v| v.asked()).filter_map(pod);
        let next = guarded.iter().map(|i| &self.victims[*i]).filter(|v| v.call == Call::Idle).filter_map(pod);
        let mut refused = model.breaches(on_their_way.chain(next));
        refused.retain(|uid, _| {
            guarded.iter().any(|i| self.victims[*i].uid == *uid && self.victims[*i].call == Call::Idle)
        });
        let first = refused.iter().next().and_then(|(uid, why)| {
            let victim = self.victims.iter().find(|v| v.uid == *uid)?;
            Some(refusal(victim, why, FOR_ITS_BUDGET))
        });
        let Some(message) = first else { return false };
        self.drop_plan(PlanState::Cancelled, message);
        self.refused.append(&mut refused);
        true
    }

    /// Asks the eviction API about everybody whom it can refuse, or about all where a refusal is to be feared. Returns whether it would allow every single one.
    fn rehearse(&mut self, calls: &[(usize, EvictCall)], clock: Clock, out: &mut Advance) -> bool {
        let mut allowed = true;
        for (index, call) in calls.iter().filter(|(_, call)| call.refusable() || self.careful) {
            let rehearsal = &mut self.victims[*index].rehearsal;
            if matches!(rehearsal, Call::Done(_)) {
                continue;
            }
            allowed = false;
            if rehearsal.due(clock.now) {
                rehearsal.start();
                out.commands.push(Command::Evict(Box::new(EvictCall { rehearsal: true, ..call.clone() })));
            }
        }
        allowed
    }

    /// `guarded` says that a budget of its unit is guaranteed against the preemptor.
    fn evict_call(&self, model: &Model, (victim, pod): (&VictimPod, &Pod), guarded: bool) -> EvictCall {
        let unit = &self.plan.victims[victim.unit];
        let rescue = self.rescue.as_ref();
        let budgeted = model.cluster.is_budgeted(pod);
        let grace = if rescue.is_some() { shortened_grace(pod) } else { pod.capped_grace() };
        EvictCall {
            cause: Cause::Plan { preemptor: self.preemptor.clone(), id: self.plan.id.clone() },
            priority: self.priority,
            pod: victim.pod.clone(),
            uid: victim.uid.clone(),
            budgeted,
            may_force: !guarded && rescue.is_none_or(|rescue| rescue.step == Step::Any),
            grace,
            rehearsal: false,
            again: self.resumed || victim.call != Call::Idle,
            message: super::victim_message(self, &unit.kind, unit.priority, grace.map(|_| pod.grace)),
            permission: self.permission.clone(),
        }
    }

    /// Whether a victim is not on its way yet, and may be evicted at all.
    pub(super) fn has_to_go(&self, victim: &VictimPod) -> bool {
        !victim.accepted && !self.forbidden.contains(&victim.uid)
    }

    /// The units with a pod whose budgets are guaranteed against the preemptor, also a pod that is gone.
    pub(super) fn guarded_units(&self, model: &Model) -> BTreeSet<usize> {
        let now = |v: &VictimPod| model.threshold(current(&model.cluster, &v.pod, &v.uid)?);
        let guarded = |v: &&VictimPod| v.threshold.max(now(v)).is_some_and(|threshold| threshold > self.own_priority());
        self.victims.iter().filter(guarded).map(|v| v.unit).collect()
    }

    /// Units of which a pod was evicted by this plan, or may have been. A refusal evicts nobody, and neither did calls that failed again
    /// and again: each of them looked first whether the one before had been carried out.
    pub(super) fn begun_units(&self) -> BTreeSet<usize> {
        if self.plan.state < PlanState::Evicting {
            return BTreeSet::new();
        }
        let denied = |v: &VictimPod| self.refused.contains_key(&v.uid) || v.call.exhausted();
        let asked = |v: &VictimPod| v.call != Call::Idle && (v.accepted || !denied(v));
        self.victims
            .iter()
            .filter(|v| asked(v) || (self.resumed && v.left))
            .map(|v| v.unit)
            .filter(|unit| self.plan.victims[*unit].kind == "PodGroup")
            .collect()
    }
}

/// Why a victim stays, for other namespaces than its own.
const FOR_ITS_BUDGET: &str = "its disruption budget does not allow it";

/// Why a victim stays. What the API server says of it is for its own namespace.
fn refusal(victim: &VictimPod, why: &str, elsewhere: &str) -> Sentence {
    Sentence::from("The eviction of ").object("pod", &victim.pod, &victim.uid).text(" was refused: ").detail(
        &victim.pod.namespace,
        why,
        elsewhere,
    )
}
