//! The last stage of a plan: the members are ungated, and kube-scheduler binds them.
//!
//! kube-scheduler considers one pod after the other, so a member that is not bound yet says nothing by itself. It counts as unbindable only
//! if kube-scheduler has reported on it, and has had the time to consider it again since then ([`SchedulerWait::progress`]). Each wait ends:
//!
//! | kube-scheduler | a member has a report | no member has one |
//! |---|---|---|
//! | binds other pods | wait until it has considered twice as many pods as were pending | the same |
//! | has considered as many | the plan fails, and the member is unbindable | the plan fails |
//! | decides nothing, for the time limit | the plan fails, and the member is unbindable | wait for ten minutes |
//! | does not renew its Lease | wait for ten minutes | the same |
//! | keeps capacity for other nominations | wait for ten minutes, until the victims of the other plans have terminated | the same |
//!
//! The last row: kube-scheduler adds the nominated pods of the same or a higher priority to a node before it decides whether a pod fits.
//! Plans that share a node nominate their members before their victims terminate, so a member fits only after all of these victims.
//!
//! It writes a report only when the content changes. So a report from before this plan counts, too, as soon as kube-scheduler has had the
//! time to replace it.
//!
//! A member whose binding was rejected is unbindable in any case, also if its placement has been taken by another pod since then.

use super::stages::beside_all_plans;
use super::{Advance, Flight, Now, current};
use crate::clock::Clock;
use crate::model::Model;
use crate::model::scheduler::{SILENCE, SchedulerProgress};
use giveway_crds::plan::PlanState;
use giveway_crds::wording::conditions::plan_end::{self, UnboundReport};
use giveway_crds::wording::conditions::progress;
use giveway_planner::model::Cluster;
use giveway_planner::{Context, Placement, Respect};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often the reason of a long wait is updated in the status.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Why kube-scheduler is waited for longer than the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitForScheduler {
    /// What kube-scheduler does.
    pub progress: SchedulerProgress,
    /// How many pods kube-scheduler binds per minute.
    pub bindings_per_minute: u64,
    /// When this was observed.
    pub at: Instant,
}

impl WaitForScheduler {
    /// Returns a sentence for the preemptor's status: why the members were not bound yet.
    pub fn sentence(&self) -> String {
        match self.progress {
            SchedulerProgress::Down => progress::scheduler_is_down().to_owned(),
            SchedulerProgress::Idle => progress::scheduler_is_idle().to_owned(),
            SchedulerProgress::Crowded => progress::nodes_are_crowded().to_owned(),
            _ => progress::scheduler_is_busy(self.bindings_per_minute),
        }
    }
}

impl Flight {
    /// Returns true if the plan is in state `Ungating` and, if it has victims, all members were ungated and kube-scheduler has made no
    /// progress with them for the time `after`. A plan without victims is repeatedly replaced while its members are not bound, so it would
    /// never reach that time.
    pub fn makes_no_progress(&self, after: Duration, now: Instant) -> bool {
        self.plan.state == PlanState::Ungating && (!self.evicts() || self.is_unbound_for(after, now))
    }

    /// Returns true if all members were ungated and kube-scheduler has made no progress with them for the time `after`.
    pub fn is_unbound_for(&self, after: Duration, now: Instant) -> bool {
        self.binding_wait.is_some_and(|wait| now.duration_since(wait.since) >= after)
    }

    /// Advances a plan in state `Ungating`: ungates the members and waits until kube-scheduler has bound them.
    pub(super) fn ungate(&mut self, now: Now<'_>, out: &mut Advance) {
        let Now { model, context, clock, limits } = now;
        let cluster = &model.cluster;
        if let Some(why) = self.member_asks_for_another_domain(cluster) {
            self.drop_plan(PlanState::Cancelled, why);
            return;
        }
        self.maintain_reservations(cluster, clock, out);
        self.ungated_at.get_or_insert(model.scheduler_decisions);
        if self.remove_gates(cluster, clock, out) {
            return;
        }
        self.withdraw_blocking_nominations(cluster, clock, out);
        let waiting = self.unbound_placements(cluster);
        let progress = self.scheduler_progress(now, &waiting);
        let late = match &mut self.rescue {
            // A critical add-on has a time limit of its own.
            Some(rescue) => rescue.has_had_its_turn(clock.now),
            None => self.ends_wait(progress, model, &waiting, clock.now),
        };
        // Second attempt (KEP-5710, delayed preemption): while the nomination is feasible, no new eviction starts. If
        // it is not feasible any more, and either kube-scheduler has reported a member or the time limit is reached, a
        // new plan is made.
        let reported = waiting.iter().any(|p| model.scheduler_report(&p.pod).is_some());
        if !late && !reported {
            return;
        }
        let looks = self.may_ask_planner_again(now);
        // Members whose nominations exclude each other are scheduled one after the other, possibly on other nodes than
        // planned.
        let in_turn = self.mutual_exclusion.as_ref().is_some_and(|mutual_exclusion| !mutual_exclusion.is_empty());
        let have_room =
            || self.fitting_members(cluster, &beside_all_plans(context)).is_some_and(|places| places >= waiting.len());
        if in_turn && !late && (!looks || have_room()) {
            return;
        }
        let leaving = self.leaving(cluster, context);
        if let Err(why) = self.still_fits(cluster, &waiting, context, &leaving) {
            self.note_rejected(model, &waiting);
            let message = plan_end::could_not_bind(&why, first_rejected(model, &waiting));
            self.drop_plan(PlanState::Failed, message);
        } else if late {
            let fits_since = self.rescue.as_ref().and_then(|rescue| rescue.fits_since);
            let since = fits_since.or(self.binding_wait.map(|wait| wait.since)).unwrap_or(clock.now);
            let waited = clock.now.duration_since(since).as_secs();
            let message = not_bound_in_time(model, &waiting, progress, waited);
            self.note_unbound(model, &waiting, progress, limits.scheduler.is_down);
            self.drop_plan(PlanState::Failed, message);
        }
    }

    /// Adds to `out` the removal of the scheduling gate of the members that have it. Returns true if any member still has it.
    fn remove_gates(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) -> bool {
        for member in &mut self.members {
            let Some(pod) = current(cluster, &member.pod, &member.uid) else { continue };
            if pod.gated && pod.live() && member.ungate.due(clock.now) {
                member.ungate.start();
                out.commands.push(member.removal_of_gate((&self.preemptor, self.priority), &self.plan, false));
            }
        }
        self.members.iter().any(|m| current(cluster, &m.pod, &m.uid).is_some_and(|p| p.gated && p.live()))
    }

    /// Returns the placements of those members that exist, have not finished and are not bound.
    fn unbound_placements(&self, cluster: &Cluster) -> Vec<Placement> {
        let waits =
            |p: &Placement| current(cluster, &p.pod, &p.uid).is_some_and(|pod| pod.live() && pod.node.is_none());
        self.placements().into_iter().filter(waits).collect()
    }

    /// Returns true if kube-scheduler has reported on this member (an event or condition) since the members began to be ungated.
    fn is_reported_again(&self, model: &Model, member: &Placement) -> bool {
        let since = self.ungated_at.unwrap_or(u64::MAX);
        model.scheduler_report(&member.pod).is_some_and(|report| report.decision > since)
    }

    /// Returns what kube-scheduler does with the unbound members (`waiting`) and whether it has had the time to bind them. The wait starts
    /// again whenever it binds a member, reports on one for the first time, or a node that was not ready becomes ready. Also updates the
    /// reason of the wait for the status.
    fn scheduler_progress(&mut self, now: Now<'_>, waiting: &[Placement]) -> SchedulerProgress {
        let Now { model, context, clock, limits } = now;
        let reported = waiting.iter().filter(|member| self.is_reported_again(model, member)).count();
        // A member that was reported before it is bound counts as progress twice.
        let heard = 2 * self.bound(&model.cluster) + reported;
        let recovers = self.members.iter().any(|member| context.recovering.contains(&member.node));
        if heard > self.heard || recovers {
            (self.heard, self.binding_wait) = (heard.max(self.heard), None);
        }
        let wait = self.binding_wait.get_or_insert_with(|| limits.scheduler.begin(clock.now));
        let mut progress = wait.progress(&limits.scheduler, limits.binding_timeout, clock.now);
        if progress != SchedulerProgress::Early {
            if self.rescue.is_none() && self.is_crowded(&model.cluster, context, waiting) {
                self.crowded.get_or_insert(clock.now);
                progress = SchedulerProgress::Crowded;
            } else if self.crowded.take().is_some() {
                // From now on kube-scheduler can bind the members, and gets the time for it.
                self.binding_wait = Some(limits.scheduler.begin(clock.now));
                progress = SchedulerProgress::Early;
            }
        }
        let now =
            WaitForScheduler { progress, bindings_per_minute: limits.scheduler.bindings_per_minute, at: clock.now };
        match (self.waits_for_scheduler, progress) {
            (_, SchedulerProgress::Early) => self.waits_for_scheduler = None,
            (Some(known), _) if known.progress == progress && clock.now.duration_since(known.at) < TELL_AGAIN => {}
            _ => self.waits_for_scheduler = Some(now),
        }
        progress
    }

    /// Returns true if the unbound members (`waiting`) do not fit beside the pods on their nodes and all nominations of the same or a
    /// higher priority, which kube-scheduler respects.
    fn is_crowded(&self, cluster: &Cluster, context: &Context, waiting: &[Placement]) -> bool {
        let context = Context { respect: Respect::SameOrHigher, ..context.clone() };
        self.still_fits(cluster, waiting, &context, &BTreeSet::new()).is_err()
    }

    /// Returns true if the plan waits no longer for kube-scheduler to bind the unbound members (`waiting`): kube-scheduler had the time to
    /// do that, or makes no decisions.
    fn ends_wait(&self, progress: SchedulerProgress, model: &Model, waiting: &[Placement], now: Instant) -> bool {
        match progress {
            SchedulerProgress::Early | SchedulerProgress::Busy | SchedulerProgress::Down => false,
            SchedulerProgress::Crowded => self.crowded.is_some_and(|since| now.duration_since(since) >= SILENCE),
            SchedulerProgress::Idle => waiting.iter().any(|member| model.scheduler_report(&member.pod).is_some()),
            SchedulerProgress::Passed | SchedulerProgress::Silent => true,
        }
    }

    /// Records in `unbound` those of these members about which kube-scheduler reported an error: it chose a feasible node for them and
    /// could not bind them.
    fn note_rejected(&mut self, model: &Model, waiting: &[Placement]) {
        let rejected = waiting.iter().filter(|member| rejection(model, member).is_some());
        self.unbound = rejected.map(|p| (p.uid.clone(), p.node.clone())).collect();
    }

    /// Records in `unbound` those of these members that kube-scheduler has considered and did not bind. `is_down` is true if kube-scheduler
    /// does not renew its Lease.
    fn note_unbound(&mut self, model: &Model, waiting: &[Placement], progress: SchedulerProgress, is_down: bool) {
        let considered = |member: &&Placement| match (&self.rescue, progress) {
            (Some(_), _) => !is_down,
            // It had no choice.
            (None, SchedulerProgress::Crowded) => false,
            (None, SchedulerProgress::Idle | SchedulerProgress::Passed) => {
                model.scheduler_report(&member.pod).is_some()
            }
            (None, _) => self.is_reported_again(model, member),
        };
        let unbound = waiting.iter().filter(considered).map(|p| (p.uid.clone(), p.node.clone())).collect();
        self.unbound = unbound;
    }
}

/// Returns kube-scheduler's message about a member that it could not bind to a feasible node; `None` if it reported no such error.
fn rejection<'m>(model: &'m Model, member: &Placement) -> Option<&'m str> {
    model.scheduler_report(&member.pod).filter(|report| report.is_error).map(|report| report.message.as_str())
}

/// Returns the name of the first of these members that kube-scheduler could not bind to a feasible node, and its message about it.
fn first_rejected<'a>(model: &'a Model, waiting: &'a [Placement]) -> Option<(&'a str, &'a str)> {
    waiting.iter().find_map(|member| Some((member.pod.name.as_str(), rejection(model, member)?)))
}

/// Returns the message of a plan that ends because kube-scheduler has not bound these members (`waiting`) after this number of seconds. It
/// contains kube-scheduler's message about one of them, if there is one.
fn not_bound_in_time(model: &Model, waiting: &[Placement], progress: SchedulerProgress, seconds: u64) -> String {
    let said = |member: &Placement| model.scheduler_message(&member.pod).filter(|said| !said.is_empty());
    let found = waiting.iter().find_map(|member| Some((member.pod.name.as_str(), said(member)?)));
    let (pod, report) = match (found, progress) {
        (Some((pod, said)), _) => (pod, UnboundReport::Said(said)),
        (None, SchedulerProgress::Passed) => (first_name(waiting), UnboundReport::NoneInTime),
        (None, _) => (first_name(waiting), UnboundReport::None),
    };
    plan_end::not_bound_in_time(seconds, pod, report)
}

/// Returns the name of the first of these members, or `-` if there is none.
fn first_name(waiting: &[Placement]) -> &str {
    waiting.first().map_or("-", |member| member.pod.name.as_str())
}
