//! The stages of a plan except `Evicting`: reserving placements, waiting for the termination of victims, and ungating
//! the members.

use super::{Advance, Check, Flight, Limits, VictimPod, current, is_gone};
use crate::clock::Clock;
use crate::model::Model;
use crate::speaker::words::Sentence;
use giveway_crds::plan::PlanState;
use giveway_planner::SmolStr;
use giveway_planner::model::Cluster;
use giveway_planner::{Context, Placement, Preemptor, Respect};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long victims may take to terminate before the planner looks for other capacity.
const PATIENCE: Duration = Duration::from_secs(10);

/// Minimum interval between two searches for a plan that is better than a waiting one.
const LOOK: Duration = Duration::from_secs(1);

impl Flight {
    /// Returns true if the planner may be asked now whether a better plan exists. It is not asked twice about the same
    /// version of the model.
    fn looks(&mut self, model: &Model, clock: Clock, limits: Limits) -> bool {
        let since = |(at, version)| version != model.version && clock.now.duration_since(at) >= LOOK;
        let looks = limits.look && self.looked.is_none_or(since);
        if looks {
            self.looked = Some((clock.now, model.version));
        }
        looks
    }

    pub(super) fn planned(
        &mut self,
        model: &Model,
        context: &Context,
        clock: Clock,
        limits: Limits,
        out: &mut Advance,
    ) {
        let cluster = &model.cluster;
        if self.evicts() {
            if self.stored.is_none() {
                return;
            }
            let any_may_begin = (0..self.plan.victims.len()).any(|unit| self.may_begin(unit));
            let begins = self.is_due(cluster, clock) && any_may_begin;
            // A postponed plan reserves nothing. It is checked from time to time, and always right before it starts.
            let is_news = self.looked.is_none_or(|(_, version)| version != model.version);
            if is_news && (begins || !self.put_off || self.looks(model, clock, limits)) {
                self.looked = Some((clock.now, model.version));
                if let Some(message) = self.outdated(model, context) {
                    self.drop_plan(PlanState::Cancelled, message);
                    return;
                }
                self.checked = Some(Check::FitsThen);
            }
            if !begins {
                self.put_off = true;
                return;
            }
            // `put_off` is reset here, so that a plan is replaced at most once.
            if std::mem::take(&mut self.put_off) && !self.renewed && self.fewer_would_go(cluster, context) {
                self.superseded = true;
                self.drop_plan(
                    PlanState::Cancelled,
                    "Room for some of the pods appeared: a plan with fewer victims takes its place.",
                );
                return;
            }
        } else if let Err(why) = self.fits_then(cluster, context) {
            self.drop_plan(PlanState::Cancelled, format!("The place was taken: {why}"));
            return;
        }
        self.keep_places(cluster, clock, out);
        if self.evicts() {
            let (turn, calls) = (self.turn(cluster), self.evictions(model));
            let is_rehearsed = self.rehearse(model, &calls, clock, out);
            if is_rehearsed
                && (0..self.plan.victims.len()).any(|unit| self.is_turn_of(unit, &turn) && self.may_begin(unit))
            {
                self.plan.state = PlanState::Evicting;
            }
        } else if self.places_kept(cluster) {
            self.plan.state = PlanState::WaitingForVictims;
        }
    }

    /// Returns true if evictions may start: the plan is stored, and the delay of its preemptor has passed.
    pub(super) fn is_due(&self, cluster: &Cluster, clock: Clock) -> bool {
        let delay = self.delay_seconds(cluster);
        // Without a delay the clock does not matter.
        self.stored.is_some() && (delay == 0 || clock.epoch_seconds >= self.planned_epoch().saturating_add(delay))
    }

    fn planned_epoch(&self) -> i64 {
        self.plan.planned_at.as_ref().map_or(0, |t| t.0.as_second())
    }

    /// Marks a new plan as postponed if its delay has not passed, so that it reserves nothing.
    pub fn put_off_until_due(&mut self, cluster: &Cluster, clock: Clock) {
        let due = self.planned_epoch().saturating_add(self.delay_seconds(cluster));
        self.put_off = self.evicts() && clock.epoch_seconds < due;
    }

    /// Returns true if a plan with evictions of this preemptor is delayed.
    pub fn is_delayed(&self, cluster: &Cluster) -> bool {
        self.evicts() && self.delay_seconds(cluster) > 0
    }

    fn delay_seconds(&self, cluster: &Cluster) -> i64 {
        match &self.preemptor {
            Preemptor::Group(key) => cluster.group(key).map_or(0, |g| i64::from(g.delay_seconds)),
            Preemptor::Pod(_) => 0,
        }
    }

    /// Nominates nodes for members whose nomination is missing or was cleared.
    pub(super) fn reserve(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) {
        let (preemptor, priority, plan) = (self.preemptor.clone(), self.priority, self.plan.id.clone());
        let mutual_exclusion = self.mutual_exclusion.as_ref();
        for member in &mut self.members {
            let Some(pod) = current(cluster, &member.pod, &member.uid) else { continue };
            if mutual_exclusion.is_some_and(|mutual_exclusion| mutual_exclusion.holds(&member.uid)) {
                continue;
            }
            if pod.node.is_some() || !pod.live() || pod.nominated_node.as_deref() == Some(member.node.as_str()) {
                continue;
            }
            if member.nominate.due(clock.now) {
                member.nominate.start();
                out.commands.push(member.nomination((&preemptor, priority), &plan, Some(member.node.clone())));
            }
        }
    }

    pub(super) fn await_victims(&mut self, model: &Model, context: &Context, clock: Clock, limits: Limits) {
        let cluster = &model.cluster;
        // A member that is not gated may have been bound to another node. The other members keep their placements.
        let elsewhere = |p: &Placement| {
            let pod = current(cluster, &p.pod, &p.uid);
            pod.is_some_and(|pod| pod.live() && pod.node.as_ref().is_some_and(|node| *node != p.node))
        };
        let placements: Vec<Placement> = self.placements().into_iter().filter(|p| !elsewhere(p)).collect();
        let fits = |gone: &BTreeSet<SmolStr>| self.still_fits(cluster, &placements, context, gone);
        let known = self.checked.filter(|_| self.awaited.is_some());
        let mut check = match known {
            Some(check) => check,
            None => {
                let victims_gone = self.victims.iter().all(|v| is_gone(cluster, &v.pod, &v.uid));
                let fits_now = victims_gone && fits(&BTreeSet::new()).is_ok();
                if !fits_now && let Err(why) = fits(&self.leaving(cluster, context)) {
                    let lingers = |victim: &&VictimPod| context.lingering.contains(&victim.uid);
                    let what = match self.victims.iter().find(lingers) {
                        Some(victim) => Sentence::about("pod", &victim.pod, &victim.uid)
                            .text(" should have been gone by now and nobody waits for it any more"),
                        None => "The place was taken while victims left".into(),
                    };
                    self.drop_plan(PlanState::Cancelled, what.text(format!(": {why}")));
                    return;
                }
                if fits_now { Check::FitsNow } else { Check::FitsThen }
            }
        };
        let since = *self.awaited.get_or_insert(clock.now);
        if check == Check::FitsNow {
            if self.places_kept(cluster) {
                self.plan.state = PlanState::Releasing;
            }
        } else if clock.now.duration_since(since) >= PATIENCE && self.looks(model, clock, limits) {
            // The containers of all victims that still exist have ended, so that they use no capacity that the members
            // need: the plan keeps its placements and waits no longer.
            if self.still_fits(cluster, &placements, context, &BTreeSet::new()).is_ok() {
                check = Check::FitsNow;
            } else if self.fits_elsewhere(cluster, &beside_all_plans(context)) {
                // Second attempt (KEP-5710): other capacity that is free may be used, without any further eviction.
                self.drop_plan(PlanState::Cancelled, "Victims take long to leave, and other room is free by now.");
                return;
            }
        }
        self.checked = Some(check);
    }

    /// Returns true if all members were ungated and, for a plan with victims, kube-scheduler has bound none of them for
    /// `after`. A plan without victims is repeatedly replaced while its members are not bound, so it would never reach
    /// that time.
    pub fn stands_still(&self, after: Duration, now: Instant) -> bool {
        let waited = || self.released.is_some_and(|since| now.duration_since(since) >= after);
        self.plan.state == PlanState::Releasing && (!self.evicts() || waited())
    }

    pub(super) fn release(
        &mut self,
        model: &Model,
        context: &Context,
        clock: Clock,
        limits: Limits,
        out: &mut Advance,
    ) {
        let cluster = &model.cluster;
        if let Some(why) = self.asks_for_another(cluster) {
            self.drop_plan(PlanState::Cancelled, why);
            return;
        }
        self.keep_places(cluster, clock, out);
        for member in &mut self.members {
            let Some(pod) = current(cluster, &member.pod, &member.uid) else { continue };
            if pod.held && pod.live() && member.release.due(clock.now) {
                member.release.start();
                out.commands.push(member.removal_of_gate((&self.preemptor, self.priority), &self.plan, false));
            }
        }
        let held = self.members.iter().any(|m| current(cluster, &m.pod, &m.uid).is_some_and(|p| p.held && p.live()));
        if held {
            return;
        }
        self.make_way_for_mates(cluster, clock, out);
        // The time limit starts again whenever kube-scheduler binds a member.
        let bound = self.bound(cluster);
        if bound > self.bound_then {
            (self.bound_then, self.released) = (bound, Some(clock.now));
        }
        // It also starts again when a node that was not ready becomes ready.
        if self.members.iter().any(|member| context.recovering.contains(&member.node)) {
            self.released = Some(clock.now);
        }
        let since = *self.released.get_or_insert(clock.now);
        // Second attempt (KEP-5710, delayed preemption): while the nomination is feasible, no new eviction starts. If
        // it is not feasible any more, and either kube-scheduler reports a member as unschedulable or the time limit is
        // reached, a new plan is made.
        let waiting: Vec<Placement> = self
            .placements()
            .into_iter()
            .filter(|p| current(cluster, &p.pod, &p.uid).is_some_and(|pod| pod.live() && pod.node.is_none()))
            .collect();
        // A critical add-on has a time limit of its own.
        let late = self.rescue.is_none() && clock.now.duration_since(since) >= limits.release_timeout;
        let given_up = waiting.iter().any(|p| current(cluster, &p.pod, &p.uid).is_some_and(|pod| pod.unschedulable));
        if !late && !given_up {
            return;
        }
        let looks = self.looks(model, clock, limits);
        // Members whose nominations exclude each other are scheduled one after the other, possibly on other nodes than
        // planned.
        let in_turn = self.mutual_exclusion.as_ref().is_some_and(|mutual_exclusion| !mutual_exclusion.is_empty());
        let have_room =
            || self.places_now(cluster, &beside_all_plans(context)).is_some_and(|places| places >= waiting.len());
        if in_turn && !late && (!looks || have_room()) {
            return;
        }
        let leaving = self.leaving(cluster, context);
        if let Err(why) = self.still_fits(cluster, &waiting, context, &leaving) {
            self.drop_plan(PlanState::Failed, format!("The scheduler could not bind every released pod: {why}"));
        } else if late {
            let message = format!(
                "kube-scheduler did not bind every released pod within {} s{}",
                limits.release_timeout.as_secs(),
                said_by_scheduler(model, &waiting)
            );
            let uid = |p: &Placement| cluster.pod(&p.pod).map(|pod| (pod.uid.clone(), p.node.clone()));
            self.unbound = waiting.iter().filter_map(uid).collect();
            self.drop_plan(PlanState::Failed, message);
        }
    }
}

/// Returns the context for a search for other capacity: capacity that is reserved by plans that have evicted no pod counts as used.
fn beside_all_plans(context: &Context) -> Context {
    Context { respect: Respect::AllPlanned, ..context.clone() }
}

/// Returns the end of a sentence about pods that kube-scheduler has not bound, with the first message of kube-scheduler
/// about one of them.
fn said_by_scheduler(model: &Model, waiting: &[Placement]) -> String {
    let said = |p: &Placement| {
        model.scheduler_message(&p.pod).filter(|said| !said.is_empty()).map(|said| (p.pod.name.clone(), said))
    };
    match waiting.iter().find_map(said) {
        Some((pod, said)) => format!(" and says of pod {pod}: {said}"),
        None => {
            let pod = waiting.first().map_or("-", |p| &p.pod.name);
            format!(" and wrote no reason on pod {pod}; see whether kube-scheduler runs and what it logs of that pod.")
        }
    }
}
