//! The first stages of a plan, except `Evicting`: reserving placements, and waiting for the termination of victims.

use super::{Advance, Check, Ending, Flight, Now, VictimPod, current, has_been_removed};
use crate::clock::Clock;
use giveway_crds::plan::PlanState;
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::plan_end;
use giveway_planner::SmolStr;
use giveway_planner::model::Cluster;
use giveway_planner::{Context, Placement, Preemptor, Respect};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long victims may take to terminate before the planner looks for other capacity.
const PATIENCE: Duration = Duration::from_secs(10);

/// Minimum interval between two searches for a plan that is better than a waiting one.
const LOOK: Duration = Duration::from_secs(1);

impl Flight {
    /// Returns true if the planner may be asked now whether a better plan than this one exists, and then records that it is asked: at most
    /// once per second, not twice about the same version of the model, and only if the limits of the pass permit it.
    pub(super) fn may_ask_planner_again(&mut self, Now { model, clock, limits, .. }: Now<'_>) -> bool {
        let since = |(at, version)| version != model.version && clock.now.duration_since(at) >= LOOK;
        let looks = limits.may_compare && self.looked.is_none_or(since);
        if looks {
            self.looked = Some((clock.now, model.version));
        }
        looks
    }

    /// Advances a plan in state `Planned`: reserves its placements, and begins the state `Evicting` when the first evictions are due, or
    /// `WaitingForVictims` if it has no victims. Cancels a plan that is outdated.
    pub(super) fn planned(&mut self, now: Now<'_>, out: &mut Advance) {
        let Now { model, context, clock, .. } = now;
        let cluster = &model.cluster;
        if self.evicts() {
            if self.stored.is_none() {
                return;
            }
            let any_may_start = (0..self.plan.victims.len()).any(|unit| self.may_start(unit));
            let begins = self.is_due(cluster, clock) && any_may_start;
            // A postponed plan reserves nothing. It is checked from time to time, and always right before it starts.
            let is_new_version = self.looked.is_none_or(|(_, version)| version != model.version);
            if is_new_version && (begins || !self.postponed || self.may_ask_planner_again(now)) {
                self.looked = Some((clock.now, model.version));
                if let Some(message) = self.outdated(model, context) {
                    self.drop_plan(PlanState::Cancelled, message);
                    return;
                }
                self.checked = Some(Check::FitsThen);
            }
            if !begins {
                self.postponed = true;
                return;
            }
            // `postponed` is reset here, so that a plan is replaced at most once.
            if std::mem::take(&mut self.postponed) && !self.renewed && self.new_plan_evicts_fewer(cluster, context) {
                self.superseded = true;
                self.drop_plan(PlanState::Cancelled, plan_end::fewer_victims());
                return;
            }
        } else if let Err(why) = self.fits_after_terminations(cluster, context) {
            self.drop_plan(PlanState::Cancelled, plan_end::became_infeasible(&why));
            return;
        }
        self.maintain_reservations(cluster, clock, out);
        if self.evicts() {
            let blocked = self.blocked_nodes(cluster);
            let is_rehearsed = self.rehearse(model, clock, out);
            if is_rehearsed
                && (0..self.plan.victims.len())
                    .any(|unit| self.may_evict_unit(unit, blocked.as_ref()) && self.may_start(unit))
            {
                self.plan.state = PlanState::Evicting;
            }
        } else if self.are_placements_reserved(cluster) {
            self.plan.state = PlanState::WaitingForVictims;
        }
    }

    /// Returns true if the plan has evictions that may not start before the API server has confirmed, in this leader's term, that the
    /// current state of the plan is stored.
    pub fn waits_for_storing(&self) -> bool {
        let is_stored = self.stored.is_some_and(|stored| stored >= self.plan.state);
        self.evicts() && self.plan.state <= PlanState::Evicting && !is_stored
    }

    /// Returns true if evictions may start: the plan is stored, and the preemption delay of its PodGroup has passed.
    pub(super) fn is_due(&self, cluster: &Cluster, clock: Clock) -> bool {
        let delay = self.delay_seconds(cluster);
        // Without a delay the clock does not matter.
        self.stored.is_some() && (delay == 0 || clock.epoch_seconds >= self.planned_epoch().saturating_add(delay))
    }

    /// Returns when the plan was made, in seconds since the epoch; 0 if that is unknown.
    fn planned_epoch(&self) -> i64 {
        self.plan.planned_at.as_ref().map_or(0, |t| t.0.as_second())
    }

    /// Marks the plan as postponed, so that it reserves nothing, if it has victims and its PodGroup's preemption delay has not passed.
    /// Otherwise removes this mark.
    pub fn postpone_until_due(&mut self, cluster: &Cluster, clock: Clock) {
        let due = self.planned_epoch().saturating_add(self.delay_seconds(cluster));
        self.postponed = self.evicts() && clock.epoch_seconds < due;
    }

    /// Returns true if the plan has victims and its PodGroup has a preemption delay, whether or not the delay has passed.
    pub fn is_delayed(&self, cluster: &Cluster) -> bool {
        self.evicts() && self.delay_seconds(cluster) > 0
    }

    /// Returns for how many seconds after the plan was made its evictions are delayed: the PodGroup's `preemptionDelaySeconds`; 0 for a
    /// pod.
    fn delay_seconds(&self, cluster: &Cluster) -> i64 {
        match &self.preemptor {
            Preemptor::Group(key) => cluster.group(key).map_or(0, |g| i64::from(g.delay_seconds)),
            Preemptor::Pod(_) => 0,
        }
    }

    /// Adds to `out` the nominations of members whose nomination is missing or was cleared, except of members whose nominations exclude
    /// each other.
    pub(super) fn nominate_members(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) {
        let (preemptor, priority, plan) = (self.preemptor.clone(), self.priority, self.plan.id.clone());
        let mutual_exclusion = self.mutual_exclusion.as_ref();
        for member in &mut self.members {
            let Some(pod) = current(cluster, &member.pod, &member.uid) else { continue };
            if mutual_exclusion.is_some_and(|mutual_exclusion| mutual_exclusion.contains(&member.uid)) {
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

    /// Advances a plan in state `WaitingForVictims`: begins the state `Ungating` when the members fit and their placements are reserved.
    /// Cancels the plan if the members will not fit, or if other capacity has become free meanwhile.
    pub(super) fn await_victims(&mut self, now: Now<'_>) {
        let Now { model, context, clock, .. } = now;
        let cluster = &model.cluster;
        // A member that is not gated may have been bound to another node. The other members keep their placements.
        let elsewhere = |p: &Placement| {
            let pod = current(cluster, &p.pod, &p.uid);
            pod.is_some_and(|pod| pod.live() && pod.node.as_ref().is_some_and(|node| *node != p.node))
        };
        let placements: Vec<Placement> = self.placements().into_iter().filter(|p| !elsewhere(p)).collect();
        let fits = |removed: &BTreeSet<SmolStr>| self.still_fits(cluster, &placements, context, removed);
        let known = self.checked.filter(|_| self.awaited.is_some());
        let mut check = match known {
            Some(check) => check,
            None => {
                let victims_removed = self.victims.iter().all(|v| has_been_removed(cluster, &v.pod, &v.uid));
                let fits_now = victims_removed && fits(&BTreeSet::new()).is_ok();
                if !fits_now && let Err(why) = fits(&self.leaving(cluster, context)) {
                    let lingers = |victim: &&VictimPod| context.lingering.contains(&victim.uid);
                    let message = match self.victims.iter().find(lingers) {
                        Some(victim) => plan_end::victim_is_overdue(&victim.pod, &victim.uid, &why),
                        None => Sentence::from(plan_end::became_infeasible_after_evictions(&why)),
                    };
                    self.drop_plan(PlanState::Cancelled, message);
                    return;
                }
                if fits_now { Check::FitsNow } else { Check::FitsThen }
            }
        };
        let since = *self.awaited.get_or_insert(clock.now);
        if check == Check::FitsNow {
            if self.are_placements_reserved(cluster) {
                self.plan.state = PlanState::Ungating;
            }
        } else if clock.now.duration_since(since) >= PATIENCE && self.may_ask_planner_again(now) {
            // The containers of all victims that still exist have ended, so that they use no capacity that the members
            // need: the plan keeps its placements and waits no longer.
            if self.still_fits(cluster, &placements, context, &BTreeSet::new()).is_ok() {
                check = Check::FitsNow;
            } else if self
                .fitting_members(cluster, &beside_all_plans(context))
                .is_some_and(|places| places >= self.members.len())
            {
                // Second attempt (KEP-5710): other capacity that is free may be used, without any further eviction. The members stay
                // nominated until they are nominated for the next plan, so that no pod of the same priority takes the capacity of either.
                let message = plan_end::other_capacity_is_free().into();
                self.end(Ending { state: PlanState::Cancelled, message, again: true });
                return;
            }
        }
        self.checked = Some(check);
    }
}

/// Returns the context for a search for other capacity: capacity that is reserved by plans that have evicted no pod counts as used.
pub(super) fn beside_all_plans(context: &Context) -> Context {
    Context { respect: Respect::AllPlanned, ..context.clone() }
}
