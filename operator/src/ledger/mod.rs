//! The ledger: every decision in flight, and the pure state machine that carries it from stored plan to bound pods.
//!
//! ```text
//! Planned → Evicting → WaitingForVictims → Releasing → Completed
//!    └──────────┴──────────────┴───────────────┴─────→ Cancelled / Failed
//! ```
//!
//! A [`Flight`] is advanced level by level from what the model shows, so it does not matter which events were seen,
//! and a new leader advances a resumed flight exactly as its own. It returns [`Command`]s and never calls anybody.
//!
//! Guarantees (design, sections 5 and 6): no eviction is commanded before the plan was acknowledged as stored by this
//! leader; each victim is commanded again only after a failed call; a unit that lost one pod by this plan loses all,
//! even when the plan is dropped.

#[cfg(test)]
mod tests;

use crate::command::{Command, EvictCall};
use crate::model::Model;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use giveway_planner::plan::{Context, Decision, Placement, Preemptor, Reservation};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long the watch may lag behind an acknowledged call before the call is made again.
const SETTLE: Duration = Duration::from_secs(2);
/// How long victims may take to leave before other room is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Calls for one pod that may fail before the plan is given up.
const MAX_TRIES: u32 = 6;

/// Time, given from outside.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Monotonic time.
    pub now: Instant,
    /// Wall clock, seconds since the epoch.
    pub epoch_seconds: i64,
}

/// What may be configured.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long released pods may take to be bound before the placement is looked at again.
    pub release_timeout: Duration,
}

/// One API call that a flight needs for one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Call {
    /// Not made yet.
    #[default]
    Idle,
    /// Made, no answer yet; so many failed before it.
    Pending(u32),
    /// Acknowledged at this time.
    Done(Instant),
    /// Failed so many times, last at this time.
    Failed(Instant, u32),
}

impl Call {
    /// Whether the call may be made (again) now, given that the model does not show its effect.
    pub fn due(self, now: Instant) -> bool {
        match self {
            Self::Idle => true,
            Self::Pending(_) => false,
            Self::Done(at) => now.duration_since(at) >= SETTLE,
            Self::Failed(at, tries) => now.duration_since(at) >= Duration::from_millis(100 << tries.min(6)),
        }
    }

    /// Notes that the call is made.
    pub fn start(&mut self) {
        *self = Self::Pending(self.tries());
    }

    /// Notes the answer.
    pub fn answered(&mut self, ok: bool, now: Instant) {
        *self = if ok { Self::Done(now) } else { Self::Failed(now, self.tries() + 1) };
    }

    /// Whether an answer is awaited.
    pub fn pending(self) -> bool {
        matches!(self, Self::Pending(_))
    }

    fn tries(self) -> u32 {
        match self {
            Self::Pending(tries) | Self::Failed(_, tries) => tries,
            Self::Idle | Self::Done(_) => 0,
        }
    }

    fn exhausted(self) -> bool {
        self.tries() >= MAX_TRIES
    }
}

/// A member that gets a place.
#[derive(Clone, Debug)]
pub struct Member {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// The node it is to run on.
    pub node: String,
    /// The patch of `status.nominatedNodeName`.
    pub nominate: Call,
    /// The removal of the gate.
    pub release: Call,
}

/// A pod that goes.
#[derive(Clone, Debug)]
pub struct VictimPod {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Index of its unit in the plan.
    pub unit: usize,
    /// The eviction.
    pub call: Call,
    /// Whether the API server accepted the eviction.
    pub accepted: bool,
}

/// How a flight ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// `Completed`, `Cancelled` or `Failed`.
    pub state: PlanState,
    /// Why, as a sentence.
    pub message: String,
}

/// A decision in flight.
#[derive(Clone, Debug)]
pub struct Flight {
    /// For whom.
    pub preemptor: Preemptor,
    /// The preemptor's effective priority.
    pub priority: i32,
    /// The plan as stored, with its current state.
    pub plan: StoredPlan,
    /// The state of the plan that the API server acknowledged in this leader's term; `None` before the first time.
    pub stored: Option<PlanState>,
    /// Cancelled with the plan: evictions that wait for their turn are not made any more.
    pub permission: CancellationToken,
    /// The members that are placed.
    pub members: Vec<Member>,
    /// The pods that go.
    pub victims: Vec<VictimPod>,
    /// Whether the groups that give way were told.
    pub told: bool,
    /// Whether the plan was taken over from an earlier leader, whose calls are not known.
    pub resumed: bool,
    /// When the plan was made or resumed, on the monotonic clock.
    pub started: Instant,
    /// When every victim was on its way.
    pub awaited: Option<Instant>,
    /// When the members were released.
    pub released: Option<Instant>,
    /// Set when the plan is dropped but units that were begun have to be finished first.
    pub ending: Option<Ending>,
    /// Victims that the API server refused for a budget: the next plan spares them.
    pub refused: BTreeSet<String>,
}

/// What [`Flight::advance`] wants.
#[derive(Debug, Default)]
pub struct Advance {
    /// Calls to make.
    pub commands: Vec<Command>,
    /// Set when the flight is over.
    pub ended: Option<Ending>,
}

impl Flight {
    /// A new flight. Members are in the preemptor's namespace.
    pub fn new(preemptor: Preemptor, priority: i32, plan: StoredPlan, now: Instant) -> Self {
        let namespace = match &preemptor {
            Preemptor::Group(key) | Preemptor::Pod(key) => key.namespace.clone(),
        };
        let members = plan
            .placements
            .iter()
            .map(|p| Member {
                pod: ObjectKey::new(&namespace, &p.pod),
                uid: p.uid.clone(),
                node: p.node.clone(),
                nominate: Call::Idle,
                release: Call::Idle,
            })
            .collect();
        let victims = plan
            .victims
            .iter()
            .enumerate()
            .flat_map(|(unit, v)| {
                v.pods.iter().map(move |p| VictimPod {
                    pod: ObjectKey::new(&v.namespace, &p.name),
                    uid: p.uid.clone(),
                    unit,
                    call: Call::Idle,
                    accepted: false,
                })
            })
            .collect::<Vec<_>>();
        Self {
            preemptor,
            priority,
            plan,
            stored: None,
            permission: CancellationToken::new(),
            members,
            victims,
            told: false,
            resumed: false,
            started: now,
            awaited: None,
            released: None,
            ending: None,
            refused: BTreeSet::new(),
        }
    }

    /// Whether somebody is evicted by this plan.
    pub fn evicts(&self) -> bool {
        !self.victims.is_empty()
    }

    /// The places this flight holds against preemptors of equal or lower priority (ASYNC, nomination).
    pub fn reservations(&self) -> impl Iterator<Item = Reservation> + '_ {
        self.members.iter().map(|m| Reservation {
            uid: m.uid.clone(),
            pod: m.pod.clone(),
            node: m.node.clone(),
            priority: self.priority,
        })
    }

    /// The placements as the planner takes them.
    pub fn placements(&self) -> Vec<Placement> {
        self.members
            .iter()
            .map(|m| Placement { pod: m.pod.clone(), uid: m.uid.clone(), node: m.node.clone() })
            .collect()
    }

    /// UIDs that this flight evicts, whether they are gone already or not.
    pub fn departing(&self) -> impl Iterator<Item = &String> {
        self.victims.iter().map(|v| &v.uid)
    }

    /// How many victims are gone.
    pub fn gone(&self, cluster: &Cluster) -> usize {
        self.victims.iter().filter(|v| is_gone(cluster, &v.pod, &v.uid)).count()
    }

    /// For how many victims an eviction was requested.
    pub fn begun(&self) -> usize {
        self.victims.iter().filter(|v| v.call != Call::Idle).count()
    }

    /// Whether the plan evicts pods of this group.
    pub fn takes_from(&self, cluster: &Cluster, group: &ObjectKey) -> bool {
        self.plan.victims.iter().any(|v| {
            let key = ObjectKey::new(&v.namespace, &v.name);
            if v.kind == "PodGroup" {
                key == *group
            } else {
                cluster.pod(&key).and_then(Pod::group_key).is_some_and(|of| of == *group)
            }
        })
    }

    /// How many of the placed members have a node.
    pub fn bound(&self, cluster: &Cluster) -> usize {
        self.members.iter().filter(|m| current(cluster, &m.pod, &m.uid).is_some_and(|p| p.node.is_some())).count()
    }

    /// Notes that the eviction of a pod was answered.
    pub fn evicted(&mut self, uid: &str, outcome: &crate::command::EvictOutcome, now: Instant) {
        use crate::command::EvictOutcome;
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

    /// Notes that a nomination or a release was answered.
    pub fn member_answered(&mut self, uid: &str, release: bool, ok: bool, now: Instant) {
        if let Some(member) = self.members.iter_mut().find(|m| m.uid == uid) {
            let call = if release { &mut member.release } else { &mut member.nominate };
            call.answered(ok, now);
        }
    }

    /// Drops the plan. Units of which a pod was evicted already are finished first.
    pub fn drop_plan(&mut self, state: PlanState, message: impl Into<String>) {
        if self.ending.is_none() {
            self.ending = Some(Ending { state, message: message.into() });
            // Evictions that wait for their turn are not made; what was begun is commanded anew.
            std::mem::take(&mut self.permission).cancel();
        }
    }

    /// Looks at the cluster and says what to do next. `context` holds the other decisions in flight.
    pub fn advance(&mut self, model: &Model, context: &Context, clock: Clock, limits: Limits) -> Advance {
        let mut out = Advance::default();
        let cluster = &model.cluster;
        self.observe(cluster);
        if self.ending.is_none()
            && let Some(ending) = self.overtaken(cluster)
        {
            self.drop_plan(ending.state, ending.message);
        }
        if self.ending.is_none() && self.given_up() {
            self.drop_plan(
                PlanState::Failed,
                "An API call for the plan failed again and again; see the operator's log.",
            );
        }
        if let Some(ending) = self.ending.clone() {
            self.wind_down(cluster, clock, ending, &mut out);
            return out;
        }
        if self.plan.state == PlanState::Planned {
            self.planned(cluster, context, clock, &mut out);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Evicting {
            self.reserve(cluster, clock, &mut out);
            self.evict(cluster, clock, false, &mut out);
            if self.victims.iter().all(|v| v.accepted) {
                self.plan.state = PlanState::WaitingForVictims;
            }
        }
        if self.ending.is_none() && self.plan.state == PlanState::WaitingForVictims {
            self.reserve(cluster, clock, &mut out);
            self.await_victims(cluster, context, clock);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Releasing {
            self.release(model, context, clock, limits, &mut out);
        }
        if let Some(ending) = self.ending.clone()
            && out.ended.is_none()
        {
            self.wind_down(cluster, clock, ending, &mut out);
        }
        out
    }

    /// A victim that terminates or is gone needs no eviction, whoever saw to it.
    fn observe(&mut self, cluster: &Cluster) {
        for victim in &mut self.victims {
            let leaving = current(cluster, &victim.pod, &victim.uid).is_none_or(|p| p.terminating || !p.live());
            victim.accepted |= leaving;
        }
    }

    /// Whether a call failed so often that the plan has no prospect. A group that was begun is never given up.
    fn given_up(&self) -> bool {
        self.members.iter().any(|m| m.nominate.exhausted() || m.release.exhausted())
            || self.victims.iter().any(|v| v.call.exhausted() && self.plan.victims[v.unit].kind != "PodGroup")
    }

    /// Whether the plan has no sense any more: the preemptor, or a member of it, is gone or placed.
    fn overtaken(&self, cluster: &Cluster) -> Option<Ending> {
        let cancelled = |message: String| Some(Ending { state: PlanState::Cancelled, message });
        if let Preemptor::Group(key) = &self.preemptor {
            let Some(group) = cluster.group(key) else {
                return cancelled("The pod group was deleted.".into());
            };
            if let Some(min) = group.min_count {
                let placed: BTreeSet<&str> = self.members.iter().map(|m| m.uid.as_str()).collect();
                let have = cluster
                    .members(key)
                    .filter(|p| p.live() && (p.node.is_some() || placed.contains(p.uid.as_str())))
                    .count();
                if have < min {
                    return cancelled(format!("Only {have} of the {min} pods needed are left with a place."));
                }
            }
        }
        let released = self.plan.state == PlanState::Releasing;
        let mut unbound = 0;
        for member in &self.members {
            match current(cluster, &member.pod, &member.uid) {
                None if !released => return cancelled(format!("Pod {} is gone.", member.pod)),
                Some(pod) if !pod.live() && !released => {
                    return cancelled(format!("Pod {} is going away.", member.pod));
                }
                Some(pod) if pod.live() && pod.node.is_none() => unbound += 1,
                _ => {}
            }
        }
        if unbound > 0 {
            return None;
        }
        let bound = self.bound(cluster);
        Some(if self.plan.state == PlanState::Planned && self.evicts() {
            Ending {
                state: PlanState::Cancelled,
                message: "The scheduler found a place meanwhile; nobody was evicted.".into(),
            }
        } else {
            Ending {
                state: PlanState::Completed,
                message: format!("{bound} of {} placed pods were bound.", self.members.len()),
            }
        })
    }

    fn planned(&mut self, cluster: &Cluster, context: &Context, clock: Clock, out: &mut Advance) {
        if self.evicts() {
            if self.stored.is_none() {
                return;
            }
            if let Some(message) = self.outdated(cluster, context) {
                self.drop_plan(PlanState::Cancelled, message);
                return;
            }
            if clock.epoch_seconds < self.planned_epoch() + self.delay_seconds(cluster) {
                return;
            }
        } else if let Err(why) = giveway_planner::still_fits(
            cluster,
            &self.placements(),
            self.priority,
            context,
            &self.leaving(cluster, context),
        ) {
            self.drop_plan(PlanState::Cancelled, format!("The place was taken: {why}"));
            return;
        }
        self.reserve(cluster, clock, out);
        if self.members.iter().all(|m| reserved(cluster, m)) {
            self.plan.state = if self.evicts() { PlanState::Evicting } else { PlanState::WaitingForVictims };
        }
    }

    /// Delayed preemption (KEP-5710): the plan is checked against fresh state right before the first eviction.
    fn outdated(&self, cluster: &Cluster, context: &Context) -> Option<String> {
        if let Decision::Fits { placements, .. } = giveway_planner::plan(cluster, &self.preemptor, context)
            && placements.len() >= self.members.len()
        {
            return Some("Room appeared; nobody was evicted.".into());
        }
        for victim in &self.victims {
            if let Some(pod) = current(cluster, &victim.pod, &victim.uid)
                && cluster.effective_priority(pod) >= self.priority
            {
                return Some(format!("Pod {} is not of lower priority any more; nobody was evicted.", victim.pod));
            }
        }
        for (index, unit) in self.plan.victims.iter().enumerate().filter(|(_, u)| u.kind == "PodGroup") {
            let known: BTreeSet<&str> =
                self.victims.iter().filter(|v| v.unit == index).map(|v| v.uid.as_str()).collect();
            let grown = cluster
                .members(&ObjectKey::new(&unit.namespace, &unit.name))
                .any(|p| p.live() && p.node.is_some() && !known.contains(p.uid.as_str()));
            if grown {
                return Some(format!(
                    "Pod group {}/{} has more pods than when the plan was made; nobody was evicted.",
                    unit.namespace, unit.name
                ));
            }
        }
        giveway_planner::still_fits(
            cluster,
            &self.placements(),
            self.priority,
            context,
            &self.leaving(cluster, context),
        )
        .err()
        .map(|why| format!("The plan does not fit any more; nobody was evicted: {why}"))
    }

    /// Everybody who will be gone when this plan is through: its victims, those of other plans, and whoever terminates.
    fn leaving(&self, cluster: &Cluster, context: &Context) -> BTreeSet<String> {
        let mut gone: BTreeSet<String> = self.departing().cloned().collect();
        gone.extend(context.departing.iter().cloned());
        let nodes: BTreeSet<&str> = self.members.iter().map(|m| m.node.as_str()).collect();
        for node in nodes {
            gone.extend(cluster.pods_on(node).filter(|p| p.terminating).map(|p| p.uid.clone()));
        }
        gone
    }

    fn planned_epoch(&self) -> i64 {
        self.plan.planned_at.as_ref().map_or(0, |t| t.0.as_second())
    }

    fn delay_seconds(&self, cluster: &Cluster) -> i64 {
        match &self.preemptor {
            Preemptor::Group(key) => cluster.group(key).map_or(0, |g| i64::from(g.delay_seconds)),
            Preemptor::Pod(_) => 0,
        }
    }

    /// Nominates members whose nomination is missing or was cleared.
    fn reserve(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) {
        let (preemptor, plan) = (self.preemptor.clone(), self.plan.id.clone());
        for member in &mut self.members {
            let Some(pod) = current(cluster, &member.pod, &member.uid) else { continue };
            if pod.node.is_some() || !pod.live() || pod.nominated_node.as_deref() == Some(member.node.as_str()) {
                continue;
            }
            if member.nominate.due(clock.now) {
                member.nominate.start();
                out.commands.push(Command::Nominate {
                    preemptor: preemptor.clone(),
                    plan: plan.clone(),
                    pod: member.pod.clone(),
                    uid: member.uid.clone(),
                    node: Some(member.node.clone()),
                });
            }
        }
    }

    /// Commands evictions: first of victims that a budget may refuse, then of the others. With `only_begun`, only of
    /// units that lost a pod already.
    fn evict(&mut self, cluster: &Cluster, clock: Clock, only_begun: bool, out: &mut Advance) {
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
    fn begun_units(&self) -> BTreeSet<usize> {
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

    fn await_victims(&mut self, cluster: &Cluster, context: &Context, clock: Clock) {
        let placements = self.placements();
        let fits =
            |gone: &BTreeSet<String>| giveway_planner::still_fits(cluster, &placements, self.priority, context, gone);
        let victims_gone = self.victims.iter().all(|v| is_gone(cluster, &v.pod, &v.uid));
        if victims_gone && fits(&BTreeSet::new()).is_ok() {
            if self.members.iter().all(|m| reserved(cluster, m)) {
                self.plan.state = PlanState::Releasing;
            }
            return;
        }
        if let Err(why) = fits(&self.leaving(cluster, context)) {
            self.drop_plan(PlanState::Cancelled, format!("The place was taken while victims left: {why}"));
            return;
        }
        // Second attempt (KEP-5710): other room that is free may be taken, without any further eviction.
        let since = *self.awaited.get_or_insert(clock.now);
        if clock.now.duration_since(since) >= PATIENCE
            && let Decision::Fits { placements, .. } = giveway_planner::plan(cluster, &self.preemptor, context)
            && placements.len() >= self.members.len()
        {
            self.drop_plan(PlanState::Cancelled, "Victims take long to leave, and other room is free by now.");
        }
    }

    fn release(&mut self, model: &Model, context: &Context, clock: Clock, limits: Limits, out: &mut Advance) {
        let cluster = &model.cluster;
        self.reserve(cluster, clock, out);
        let (preemptor, plan) = (self.preemptor.clone(), self.plan.id.clone());
        for member in &mut self.members {
            let Some(pod) = current(cluster, &member.pod, &member.uid) else { continue };
            if pod.held && pod.live() && member.release.due(clock.now) {
                member.release.start();
                out.commands.push(Command::Release {
                    preemptor: preemptor.clone(),
                    plan: plan.clone(),
                    pod: member.pod.clone(),
                    uid: member.uid.clone(),
                });
            }
        }
        let held = self.members.iter().any(|m| current(cluster, &m.pod, &m.uid).is_some_and(|p| p.held));
        if held {
            return;
        }
        let since = *self.released.get_or_insert(clock.now);
        // Second attempt (KEP-5710, delayed preemption): while the nomination is feasible, no new eviction starts. When
        // it is not, and the scheduler gave a member up or time is up, planning starts from scratch.
        let waiting: Vec<Placement> = self
            .placements()
            .into_iter()
            .filter(|p| current(cluster, &p.pod, &p.uid).is_some_and(|pod| pod.live() && pod.node.is_none()))
            .collect();
        let late = clock.now.duration_since(since) >= limits.release_timeout;
        let given_up = waiting.iter().any(|p| current(cluster, &p.pod, &p.uid).is_some_and(|pod| pod.unschedulable));
        if !late && !given_up {
            return;
        }
        let leaving = self.leaving(cluster, context);
        if let Err(why) = giveway_planner::still_fits(cluster, &waiting, self.priority, context, &leaving) {
            self.drop_plan(PlanState::Failed, format!("The scheduler could not bind every released pod: {why}"));
        } else if late {
            let said = waiting.iter().find_map(|p| model.scheduler_message(&p.pod)).unwrap_or("nothing");
            let message = format!(
                "The scheduler did not bind every released pod within {} s. It says: {said}",
                limits.release_timeout.as_secs()
            );
            self.drop_plan(PlanState::Failed, message);
        }
    }

    /// Finishes units that were begun, withdraws nominations, and ends the flight.
    fn wind_down(&mut self, cluster: &Cluster, clock: Clock, ending: Ending, out: &mut Advance) {
        self.evict(cluster, clock, true, out);
        let begun = self.begun_units();
        if self.victims.iter().any(|v| v.call.pending() || (begun.contains(&v.unit) && !v.accepted)) {
            return;
        }
        if ending.state != PlanState::Completed {
            if self.members.iter().any(|m| m.nominate.pending()) {
                return;
            }
            for member in &self.members {
                if let Some(pod) = current(cluster, &member.pod, &member.uid)
                    && pod.node.is_none()
                    && (pod.nominated_node.is_some() || matches!(member.nominate, Call::Done(_)))
                {
                    out.commands.push(Command::Nominate {
                        preemptor: self.preemptor.clone(),
                        plan: self.plan.id.clone(),
                        pod: member.pod.clone(),
                        uid: member.uid.clone(),
                        node: None,
                    });
                }
            }
        }
        self.plan.state = ending.state;
        self.plan.message = match ending.state {
            PlanState::Completed => format!("{} {}", self.plan.message, ending.message).trim_start().to_owned(),
            _ => ending.message.clone(),
        };
        out.ended = Some(ending);
    }
}

/// How the preemptor is called in sentences.
pub fn describe(preemptor: &Preemptor) -> String {
    match preemptor {
        Preemptor::Group(key) => format!("pod group {key}"),
        Preemptor::Pod(key) => format!("pod {key}"),
    }
}

/// The pod of this UID, if it exists.
fn current<'a>(cluster: &'a Cluster, pod: &ObjectKey, uid: &str) -> Option<&'a Pod> {
    cluster.pod(pod).filter(|p| p.uid == uid)
}

fn is_gone(cluster: &Cluster, pod: &ObjectKey, uid: &str) -> bool {
    current(cluster, pod, uid).is_none()
}

/// Whether the place of a member is reserved: nominated as acknowledged or as seen, or bound already.
fn reserved(cluster: &Cluster, member: &Member) -> bool {
    matches!(member.nominate, Call::Done(_))
        || current(cluster, &member.pod, &member.uid)
            .is_some_and(|p| p.node.is_some() || p.nominated_node.as_deref() == Some(member.node.as_str()))
}

/// Every flight, by preemptor.
pub type Flights = BTreeMap<Preemptor, Flight>;

/// The decisions in flight as the planner has to know them when it plans for `preemptor`.
pub fn context(flights: &Flights, preemptor: &Preemptor, spared: BTreeSet<String>) -> Context {
    let others = || flights.values().filter(|f| f.preemptor != *preemptor && f.ending.is_none());
    Context {
        reservations: others().flat_map(Flight::reservations).collect(),
        departing: others().flat_map(Flight::departing).cloned().collect(),
        spared,
        ..Context::default()
    }
}
