//! Winding a plan down: what was begun is finished, what was promised to nobody is withdrawn. What a budget keeps for long is left to
//! [others](Flight::left_torn).

use super::call::Call;
use super::{Advance, Clock, Ending, Flight, VictimPod, current};
use crate::model::Model;
use crate::words::Sentence;
use giveway_crds::plan::PlanState;
use giveway_planner::model::{Cluster, Pod};
use std::time::{Duration, Instant};

/// How long a plan that was dropped holds its preemptor while nothing but budgets keeps the rest of what it began: as long as victims may
/// take to leave before other room is looked for. A budget that somebody else has spent may stay closed for ever.
const KEPT: Duration = Duration::from_secs(10);

impl Flight {
    /// Drops the plan. Units of which a pod was evicted already are finished first.
    pub fn drop_plan(&mut self, state: PlanState, message: impl Into<Sentence>) {
        if self.ending.is_none() {
            self.ending = Some(Ending { state, message: message.into(), again: false });
            // Evictions that wait for their turn are not made; what was begun is commanded anew.
            std::mem::take(&mut self.permission).cancel();
        }
    }

    /// Notes that nothing more of the plan can be written. An earlier leader wrote ahead what it began, so that is finished all the
    /// same; who waited for the first write of this term would wait for ever.
    pub fn is_not_written(&mut self) {
        self.stored.get_or_insert(self.plan.state);
    }

    /// What a plan that was dropped still waits for, and why it was dropped; `None` when nobody is still to go for it.
    pub fn finishes(&self) -> Option<Sentence> {
        let ending = self.ending.as_ref()?;
        let words = "The plan was dropped, and the rest of the groups of which pods went is still to go: ";
        self.rest().next().is_some().then(|| Sentence::from(words).then(ending.message.clone()))
    }

    /// Pods of units that were begun, which have still to go.
    fn rest(&self) -> impl Iterator<Item = &VictimPod> {
        let begun = self.begun_units();
        self.victims.iter().filter(move |victim| begun.contains(&victim.unit) && self.has_to_go(victim))
    }

    /// Whether nothing but budgets has kept the rest for [long enough](KEPT): it is finished beside the preemptor's next plan then
    /// (design, section 4, "Evict").
    fn is_kept_by_budgets(&mut self, now: Instant) -> bool {
        if !self.rest().all(|victim| self.refused.contains_key(&victim.uid) && !victim.call.pending()) {
            return false;
        }
        now.duration_since(*self.kept.get_or_insert(now)) >= KEPT
    }

    /// Takes back the evictions that wait for their turn.
    pub fn hold(&mut self) {
        if self.victims.iter().any(|victim| victim.call.pending()) {
            std::mem::take(&mut self.permission).cancel();
        }
    }

    /// Finishes units that were begun, withdraws nominations, and ends the flight.
    pub(super) fn wind_down(&mut self, model: &Model, clock: Clock, ending: Ending, out: &mut Advance) {
        let cluster = &model.cluster;
        let untainted = self.untaint(cluster, clock, out);
        if untainted {
            self.let_node_go(out);
        }
        let waits_for_rest = self.rest().next().is_some() && !self.is_kept_by_budgets(clock.now);
        if waits_for_rest {
            self.evict(model, clock, true, out);
        }
        if waits_for_rest || self.victims.iter().any(|v| v.call.pending()) {
            return;
        }
        if !untainted {
            return;
        }
        let refused = !self.refused.is_empty();
        // The next plan follows at once. It must see who was evicted for this one, or they would be evicted twice.
        if refused && self.victims.iter().any(|v| unseen(cluster, v, clock)) {
            return;
        }
        if ending.state != PlanState::Completed && self.members.iter().any(|m| m.nominate.pending()) {
            return;
        }
        // A refused victim, or a member that is gone, is left out of the next plan, which keeps the places of the others.
        if ending.state != PlanState::Completed && !refused && !ending.again {
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
            PlanState::Completed if self.message.is_empty() => ending.message.clone(),
            PlanState::Completed => std::mem::take(&mut self.message).text(" ").then(ending.message.clone()),
            _ => ending.message.clone(),
        };
        self.plan.message = self.message.to_string();
        out.ended = Some(ending);
    }
}

/// Whether an eviction was accepted that the watch does not show yet, and has not had the time to.
fn unseen(cluster: &Cluster, victim: &VictimPod, clock: Clock) -> bool {
    let accepted = matches!(victim.call, Call::Done(_)) && !victim.call.due(clock.now);
    accepted && current(cluster, &victim.pod, &victim.uid).is_some_and(Pod::live)
}
