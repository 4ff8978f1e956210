//! The end of a plan: nominations and taints are withdrawn, and the remaining pods of partially disrupted PodGroups in
//! mode `PodGroup` are handed over to [departures](crate::departures).

use super::{Advance, Ending, Flight, current, plan_message};
use crate::clock::Clock;
use crate::messages::call::Call;
use crate::model::Model;
use giveway_crds::plan::{PlanState, StoredPreemptor};
use giveway_crds::wording::Sentence;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::collections::BTreeSet;

/// The remaining pods of a PodGroup in mode `PodGroup` of which a cancelled plan evicted some pods.
#[derive(Clone, Debug)]
pub struct RemainingPods {
    /// ID of the plan.
    pub plan: String,
    /// The PodGroup.
    pub group: ObjectKey,
    /// UIDs of the pods that were not evicted.
    pub pods: BTreeSet<SmolStr>,
    /// True if a pod of the PodGroup has a budget that is guaranteed against the preemptor, also a pod that has terminated.
    pub guaranteed: bool,
    /// The priority of the plan.
    pub priority: i32,
    /// The preemptor of the plan.
    pub preemptor: StoredPreemptor,
}

impl Flight {
    /// Ends the plan as `Cancelled` or `Failed` (`state`) with this message, unless its end has started. Evictions that were not sent are
    /// withdrawn.
    pub fn drop_plan(&mut self, state: PlanState, message: impl Into<Sentence>) {
        self.end(Ending { state, message: message.into(), again: false });
    }

    /// Ends the plan, unless its end has started. Evictions that have not been sent yet are withdrawn.
    pub(super) fn end(&mut self, ending: Ending) {
        if self.ending.is_none() {
            self.ending = Some(ending);
            std::mem::take(&mut self.permission).cancel();
        }
    }

    /// Records the plan as stored although its `Preemption` cannot be written any more or was deleted, because otherwise the plan would
    /// wait for the first confirmation without end.
    pub fn stop_waiting_for_storing(&mut self) {
        self.stored.get_or_insert(self.plan.state);
    }

    /// Returns, for each PodGroup in mode `PodGroup` of which the plan evicted some pods, its pods that were not evicted. PodGroups in
    /// protected namespaces are left out.
    fn remaining_pods(&self, model: &Model) -> Vec<RemainingPods> {
        let guaranteed = self.guarded_units(model);
        let of = |unit: usize| {
            let pods = self.victims.iter().filter(|victim| victim.unit == unit && !victim.accepted);
            let victim = &self.plan.victims[unit];
            RemainingPods {
                plan: self.plan.id.clone(),
                group: ObjectKey::new(&victim.namespace, &victim.name),
                pods: pods.map(|victim| victim.uid.clone()).collect(),
                guaranteed: guaranteed.contains(&unit),
                priority: self.priority,
                preemptor: self.plan.preemptor.clone(),
            }
        };
        let rest = self.units_with_evictions().into_iter().map(of).filter(|rest| !rest.pods.is_empty());
        rest.filter(|rest| model.cluster.protection(&rest.group.namespace).is_none()).collect()
    }

    /// Cancels the plan's requested evictions that were not sent to the API server yet.
    pub fn withdraw_unsent_evictions(&mut self) {
        // While the watches are broken no call is made.
        self.unanswered_since = None;
        if self.victims.iter().any(|victim| victim.call.pending()) {
            std::mem::take(&mut self.permission).cancel();
        }
    }

    /// Carries out the `ending` of the plan: withdraws nominations and taints, hands over the remaining pods of partially disrupted
    /// PodGroups, and then sets `out.ended`. It is called in each pass until all of that is done.
    pub(super) fn wind_down(&mut self, model: &Model, clock: Clock, ending: Ending, out: &mut Advance) {
        let cluster = &model.cluster;
        let untainted = self.untaint(cluster, clock, out);
        if untainted {
            self.release_node(out);
        }
        // Only the outcomes of all evictions show which PodGroups were disrupted.
        if self.victims.iter().any(|victim| victim.call.pending()) {
            return;
        }
        if !self.handed_over {
            out.rest = self.remaining_pods(model);
            if !out.rest.is_empty() {
                return;
            }
        }
        if !untainted {
            return;
        }
        if ending.state != PlanState::Completed && self.members.iter().any(|m| m.nominate.pending()) {
            return;
        }
        // The next plan leaves out a refused victim or a deleted member, and keeps the reservations of the others.
        if ending.state != PlanState::Completed && self.refused.is_empty() && !ending.again {
            for member in &self.members {
                if let Some(pod) = current(cluster, &member.pod, &member.uid)
                    && pod.node.is_none()
                    && (pod.nominated_node.is_some() || matches!(member.nominate, Call::Done(_)))
                {
                    out.commands.push(member.nomination((&self.preemptor, self.priority), &self.plan.id, None));
                }
            }
        }
        self.plan.state = ending.state;
        self.message = match ending.state {
            PlanState::Completed if self.evicts() => plan_message(self).text(" ").then(ending.message.clone()),
            _ => ending.message.clone(),
        };
        self.plan.message = self.message.to_string();
        out.ended = Some(ending);
    }
}
