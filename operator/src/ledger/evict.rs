//! Evicting: in which order, by which means, and what an answer means for the plan.

use super::call::Call;
use super::{Advance, Clock, Flight, VictimPod, current};
use crate::command::{Command, EvictCall, EvictOutcome};
use giveway_crds::plan::PlanState;
use giveway_planner::model::{Cluster, Pod};
use std::collections::BTreeSet;
use std::time::Instant;

impl Flight {
    /// Notes that the eviction of a pod was answered.
    pub fn evicted(&mut self, uid: &str, outcome: &EvictOutcome, now: Instant) {
        let Some(victim) = self.victims.iter_mut().find(|v| v.uid == uid) else { return };
        match outcome {
            EvictOutcome::Accepted | EvictOutcome::Gone => {
                victim.accepted = true;
                victim.call.answered(true, now);
            }
            EvictOutcome::Refused(message) => {
                victim.call.answered(false, now);
                self.refused.insert(uid.to_owned());
                let message = format!("The eviction of pod {} was refused: {message}", victim.pod);
                self.drop_plan(PlanState::Cancelled, message);
            }
            EvictOutcome::Error(_) => victim.call.answered(false, now),
            EvictOutcome::Withdrawn => victim.call = Call::Idle,
        }
    }

    /// Commands evictions: first of victims that a budget may refuse, then of the others. With `only_begun`, only of
    /// units that lost a pod already.
    pub(super) fn evict(&mut self, cluster: &Cluster, clock: Clock, only_begun: bool, out: &mut Advance) {
        // Written ahead: whoever resumes a plan that says `Planned` knows that nobody was evicted for it.
        if self.stored.is_none_or(|state| state < PlanState::Evicting) {
            return;
        }
        let begun = self.begun_units();
        let calls: Vec<(usize, EvictCall)> = self
            .victims
            .iter()
            .enumerate()
            .filter(|(_, v)| !v.accepted && (!only_begun || begun.contains(&v.unit)))
            .filter_map(|(i, v)| {
                let pod = current(cluster, &v.pod, &v.uid)?;
                Some((i, self.evict_call(cluster, v, pod)))
            })
            .collect();
        let refusable = calls.iter().any(|(_, c)| !c.may_force);
        for (index, call) in calls {
            if refusable && call.may_force && !only_begun {
                continue;
            }
            let victim = &mut self.victims[index];
            if victim.call.due(clock.now) {
                victim.call.start();
                out.commands.push(Command::Evict(Box::new(call)));
            }
        }
    }

    fn evict_call(&self, cluster: &Cluster, victim: &VictimPod, pod: &Pod) -> EvictCall {
        let unit = &self.plan.victims[victim.unit];
        let budgeted = !cluster.budgets_of(pod).is_empty();
        let may_force = !budgeted || pod.threshold.is_none_or(|t| self.priority >= t);
        EvictCall {
            preemptor: self.preemptor.clone(),
            plan: self.plan.id.clone(),
            pod: victim.pod.clone(),
            uid: victim.uid.clone(),
            budgeted,
            may_force,
            again: self.resumed || victim.call != Call::Idle,
            message: crate::status::victim_message(self, &unit.kind, unit.priority),
            permission: self.permission.clone(),
        }
    }

    /// Units of which a pod was evicted by this plan.
    pub(super) fn begun_units(&self) -> BTreeSet<usize> {
        if self.plan.state < PlanState::Evicting {
            return BTreeSet::new();
        }
        self.victims
            .iter()
            .filter(|v| v.call != Call::Idle || (self.resumed && v.accepted))
            .map(|v| v.unit)
            .filter(|unit| self.plan.victims[*unit].kind == "PodGroup")
            .collect()
    }
}
