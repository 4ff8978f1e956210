//! Rehearsal: before the first eviction of a plan, the calls are tried that the admission of other components could reject (design, section 5).
//!
//! * The evictions, as dry runs: of all victims, or of a large plan those that a budget can refuse and one for each controller.
//! * The removal of the scheduling gate, as a dry run for one member of each template. One controller may use several, as a RayCluster
//!   does; members without a controller count as made from one template if they differ only in their names.
//!
//! The nomination of a member, and the taint of a critical add-on's node, are [accepted](super::overlap) before the first eviction as well.
//!
//! A rejection ends the plan without an eviction. If it is a victim's, the next plan leaves this victim out. If it is a member's, no plan is
//! made until a dry run of the [rejected call](RejectedCall) succeeds. The same happens if the API server answers none of these calls for
//! some minutes although the watches work: a webhook that does not answer delays each of them for longer than the operator waits.

use super::{Advance, Flight, VictimPod, current};
use crate::clock::Clock;
use crate::messages::call::Call;
use crate::messages::command::{Command, EvictCall};
use crate::messages::report::{CallError, MemberCall};
use crate::model::Model;
use giveway_crds::plan::{PlanState, StoredDomain};
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::plan_end;
use giveway_planner::model::ObjectKey;
use giveway_planner::{Preemptor, SmolStr};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Maximum number of victims of a plan for which all evictions are rehearsed, and of templates of which the removal of the gate is.
const ALL: usize = 256;
/// How long the calls before the first eviction may stay without any answer.
const LONGEST_UNANSWERED: Duration = Duration::from_secs(120);
/// The same of the removals of scheduling gates, before which pods may have been evicted.
const LONGEST_UNANSWERED_UNGATING: Duration = Duration::from_secs(600);

/// A call for a member that the API server rejected, or that failed repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCall {
    /// Which call it is.
    pub call: MemberCall,
    /// The member.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// The node of the plan.
    pub node: SmolStr,
    /// The topology domain of the plan.
    pub domain: Option<StoredDomain>,
    /// The words of the component that rejected it.
    pub words: String,
}

impl RejectedCall {
    /// Returns the command that makes the rejected call again as a dry run, for a preemptor with this priority.
    pub fn rehearse(&self, preemptor: &Preemptor, priority: i32) -> Command {
        let (preemptor, plan) = (preemptor.clone(), String::new());
        let (pod, uid, rehearsal) = (self.pod.clone(), self.uid.clone(), true);
        match self.call {
            MemberCall::Nominate => {
                Command::Nominate { preemptor, priority, plan, pod, uid, node: Some(self.node.clone()), rehearsal }
            }
            MemberCall::Ungate => {
                Command::Ungate { preemptor, priority, plan, pod, uid, domain: self.domain.clone(), rehearsal }
            }
        }
    }

    /// Returns a sentence about the rejection. It ends with the words of the component that rejected the call.
    pub fn sentence(&self) -> Sentence {
        let sentence = match self.call {
            MemberCall::Nominate => plan_end::nomination_rejected,
            MemberCall::Ungate => plan_end::ungating_rejected,
        };
        sentence(&self.pod, &self.uid, &self.words)
    }
}

impl Flight {
    /// Adds the dry runs of the calls that could be rejected to `out`, except those that were made. Returns true if all of them were
    /// accepted.
    pub(super) fn rehearse(&mut self, model: &Model, clock: Clock, out: &mut Advance) -> bool {
        let evictions = self.rehearse_evictions(model, clock, out);
        let ungating = self.rehearse_ungating(model, clock, out);
        evictions && ungating
    }

    /// Adds the dry runs of the evictions that were not tried yet to `out`; of a plan with more than 256 victims, only those that a budget
    /// can refuse and one for each controller. PodGroups of which a pod was evicted are left out: they are evicted in any case. Returns
    /// true if all dry runs were accepted.
    fn rehearse_evictions(&mut self, model: &Model, clock: Clock, out: &mut Advance) -> bool {
        let started = self.units_with_evictions();
        let is_untried = |v: &VictimPod| !matches!(v.rehearsal, Call::Done(_)) && v.call == Call::Idle;
        let untried = self.evictions(model, |victim| is_untried(victim) && !started.contains(&victim.unit));
        let chosen = (self.victims.len() > ALL).then(|| self.one_victim_per_controller());
        let is_chosen = |index: &usize| chosen.as_ref().is_none_or(|chosen| chosen.contains(index));
        let mut allowed = true;
        for (index, call) in untried.into_iter().filter(|(index, call)| call.refusable() || is_chosen(index)) {
            allowed = false;
            let rehearsal = &mut self.victims[index].rehearsal;
            if rehearsal.due(clock.now) {
                rehearsal.start();
                out.commands.push(Command::Evict(Box::new(EvictCall { rehearsal: true, ..call })));
            }
        }
        allowed
    }

    /// Returns the indexes, among the victim pods, of the first pod of each controller and of all pods without a controller.
    fn one_victim_per_controller(&self) -> BTreeSet<usize> {
        let mut controllers = BTreeSet::new();
        let is_first = |(index, victim): (usize, &VictimPod)| {
            let unit = &self.plan.victims[victim.unit];
            let is_new = unit.owner.as_ref().is_none_or(|owner| controllers.insert((&unit.namespace, owner)));
            is_new.then_some(index)
        };
        self.victims.iter().enumerate().filter_map(is_first).collect()
    }

    /// Adds dry runs of the removal of the scheduling gate to `out`, for one member of each pod template. Returns true if all of them were
    /// accepted.
    fn rehearse_ungating(&mut self, model: &Model, clock: Clock, out: &mut Advance) -> bool {
        let (preemptor, priority, plan) = (&self.preemptor, self.priority, &self.plan);
        let mut templates = BTreeSet::new();
        let mut allowed = true;
        for member in &mut self.members {
            let Some(pod) = current(&model.cluster, &member.pod, &member.uid) else { continue };
            let template = (pod.owner.as_ref().map(|owner| owner.uid.as_str()), model.template_hash_of(pod));
            if !pod.gated || !pod.live() || templates.len() >= ALL || !templates.insert(template) {
                continue;
            }
            if matches!(member.rehearsal, Call::Done(_)) {
                continue;
            }
            allowed = false;
            if member.rehearsal.due(clock.now) {
                member.rehearsal.start();
                out.commands.push(member.removal_of_gate((preemptor, priority), plan, true));
            }
        }
        allowed
    }

    /// Records the answer to a call for the member with this UID; the call was a dry run if `rehearsal` is true. Ends the plan if the call
    /// was rejected, failed too often, or is unanswered for too long.
    pub fn member_answered(
        &mut self,
        uid: &str,
        (call, rehearsal): (MemberCall, bool),
        result: &Result<(), CallError>,
        now: Instant,
    ) {
        let Some(index) = self.members.iter().position(|member| member.uid == uid) else { return };
        let is_unanswered = matches!(result, Err(CallError::Unanswered(_)));
        let ends_wait = self.is_unanswered_for_too_long(is_unanswered, now);
        let member = &mut self.members[index];
        let state = match call {
            MemberCall::Nominate => &mut member.nominate,
            MemberCall::Ungate if rehearsal => &mut member.rehearsal,
            MemberCall::Ungate => &mut member.ungate,
        };
        match result {
            Ok(()) | Err(CallError::Gone) => state.answered(true, now),
            Err(CallError::Unanswered(_)) if !ends_wait => state.unanswered(now),
            Err(error) => {
                state.answered(false, now);
                if ends_wait || state.exhausted() || matches!(error, CallError::Rejected(_)) {
                    let rejected = RejectedCall {
                        call,
                        pod: member.pod.clone(),
                        uid: member.uid.clone(),
                        node: member.node.clone(),
                        domain: self.plan.domain.clone(),
                        words: error.to_string(),
                    };
                    self.cancel_after_rejection(rejected);
                }
            }
        }
    }

    /// Records whether a call before the first eviction, or a call for a member, got no answer (`is_unanswered`). Returns true if none of
    /// these calls has got one for so long that the plan ends. Between the first eviction and ungating the plan continues without a time
    /// limit.
    pub(super) fn is_unanswered_for_too_long(&mut self, is_unanswered: bool, now: Instant) -> bool {
        if !is_unanswered {
            self.unanswered_since = None;
            return false;
        }
        let longest = match self.plan.state {
            PlanState::Ungating => LONGEST_UNANSWERED_UNGATING,
            _ if self.may_have_evicted() => return false,
            _ => LONGEST_UNANSWERED,
        };
        now.saturating_duration_since(*self.unanswered_since.get_or_insert(now)) >= longest
    }

    /// Ends the plan because the API server rejected a call: it is cancelled before the first eviction, and fails
    /// afterwards.
    fn cancel_after_rejection(&mut self, rejected: RejectedCall) {
        let state = if self.may_have_evicted() { PlanState::Failed } else { PlanState::Cancelled };
        self.drop_plan(state, rejected.sentence());
        self.rejected.get_or_insert(rejected);
    }
}
