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
//! even when the plan is dropped; victims that a guaranteed budget can refuse go first, and where there are several, none
//! of them goes before the eviction API was asked about all.

mod call;
mod check;
mod crowding;
mod domain;
mod evict;
mod flights;
mod overlap;
mod protection;
mod ration;
mod rescue;
mod resume;
mod sentences;
mod stages;
#[cfg(test)]
mod tests;
mod wind_down;

pub use call::{Call, Calls};
pub use check::{Check, with_placeholders};
pub use crowding::Crowding;
pub use flights::Flights;
pub use ration::{HeldBack, told_full};
pub use rescue::Rescue;
pub use sentences::{describe, taker, victim_message};
pub use wind_down::Rest;

use crate::command::Command;
use crate::model::Model;
use crate::server_time::ServerTime;
use crate::words::Sentence;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use giveway_planner::{Context, Holds, Placement, Preemptor, Reservation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Time, given from outside.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Monotonic time.
    pub now: Instant,
    /// Wall clock of the API server, seconds since the epoch.
    pub epoch_seconds: i64,
}

impl Clock {
    /// The time at this moment.
    pub fn read(server_time: &ServerTime) -> Self {
        Self { now: Instant::now(), epoch_seconds: server_time.epoch_seconds() }
    }

    /// A time in the future, as it is written in sentences.
    pub fn at(self, then: Instant) -> Timestamp {
        let seconds = then.saturating_duration_since(self.now).as_millis().div_ceil(1000);
        let then = self.epoch_seconds.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
        Timestamp::from_second(then).unwrap_or_default()
    }

    /// The wall clock as it is written into objects.
    pub fn time(self) -> Time {
        Time(Timestamp::from_second(self.epoch_seconds).unwrap_or_default())
    }
}

/// What may be configured.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long released pods may take to be bound before the placement is looked at again.
    pub release_timeout: Duration,
    /// Whether plans that wait are compared with other plans in this pass, which takes as long as a decision.
    pub look: bool,
}

/// A member that gets a place.
#[derive(Clone, Debug)]
pub struct Member {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// The node it is to run on.
    pub node: SmolStr,
    /// The patch of `status.nominatedNodeName`.
    pub nominate: Call,
    /// The removal of the gate.
    pub release: Call,
}

impl Member {
    /// Nominates it for a node, or withdraws its nomination.
    fn nomination(&self, (preemptor, priority): (&Preemptor, i32), plan: &str, node: Option<SmolStr>) -> Command {
        let (preemptor, plan) = (preemptor.clone(), plan.to_owned());
        Command::Nominate { preemptor, priority, plan, pod: self.pod.clone(), uid: self.uid.clone(), node }
    }
}

/// A pod that goes.
#[derive(Clone, Debug)]
pub struct VictimPod {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// Index of its unit in the plan.
    pub unit: usize,
    /// The dry run that comes before it where others can be refused as well.
    pub rehearsal: Call,
    /// The eviction.
    pub call: Call,
    /// Whether the API server accepted the eviction, or none is needed.
    pub accepted: bool,
    /// Whether it was seen to be gone or on its way out, and not only to have ended by itself.
    pub left: bool,
    /// True if the cluster shows that it terminates, or does not have it any more.
    pub leaves: bool,
    /// The grace that it had, in seconds, where it was shortened.
    pub shortened: Option<i64>,
    /// From which priority on its budgets may be violated, as it was last seen: it guards the others of its unit also when it is gone.
    pub threshold: Option<i32>,
}

/// How a flight ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// `Completed`, `Cancelled` or `Failed`.
    pub state: PlanState,
    /// Why.
    pub message: Sentence,
    /// Whether another plan is made at once, which keeps the places that this one held.
    pub again: bool,
}

/// A decision in flight.
#[derive(Clone, Debug)]
pub struct Flight {
    /// For whom.
    pub preemptor: Preemptor,
    /// The preemptor's effective priority; for a critical add-on that of critical pods, so that others respect its place.
    pub priority: i32,
    /// The plan as stored, with its current state. Its sentences name everybody: they are for administrators.
    pub plan: StoredPlan,
    /// What happens, or happened, for those who read the preemptor.
    pub message: Sentence,
    /// The state of the plan that the API server acknowledged in this leader's term; `None` before the first time.
    pub stored: Option<PlanState>,
    /// Cancelled with the plan: evictions that wait for their turn are not made any more.
    pub permission: CancellationToken,
    /// The members that are placed.
    pub members: Vec<Member>,
    /// The pods that go.
    pub victims: Vec<VictimPod>,
    /// Set when it is for a critical add-on.
    pub rescue: Option<Rescue>,
    /// Whether the groups that give way were told.
    pub told: bool,
    /// Whether the plan was taken over from an earlier leader, whose calls are not known.
    pub resumed: bool,
    /// When the plan was made or resumed, on the monotonic clock.
    pub started: Instant,
    /// The states that it came to in this leader's term, and when.
    pub stages: Vec<(PlanState, Instant)>,
    /// When every victim was on its way.
    pub awaited: Option<Instant>,
    /// What was found when the plan was last checked; `None` after something changed that the plan depends on.
    pub checked: Option<Check>,
    /// Since when none of the released members was bound: at first since their release.
    pub released: Option<Instant>,
    /// How many members were bound then.
    pub bound_then: usize,
    /// When the plan was last checked while it evicts.
    pub rechecked: Option<Instant>,
    /// When the planner was last asked whether a better plan exists, and the [`Model::version`] at that time.
    pub looked: Option<(Instant, u64)>,
    /// Set when the plan is dropped but units that were begun have to be finished first.
    pub ending: Option<Ending>,
    /// The members that keep each other out while they are nominated, once all have started.
    pub crowding: Option<Crowding>,
    /// True if a stored departure evicts what the plan, which was cancelled, leaves of PodGroups in mode `PodGroup`.
    pub handed_over: bool,
    /// Victims that were refused for a budget, by UID, and why: the next plan spares them.
    pub refused: BTreeMap<SmolStr, String>,
    /// Those of them whose eviction is not allowed at all, and those whose namespaces are protected by now: nobody waits for it.
    pub forbidden: BTreeSet<SmolStr>,
    /// Whether the eviction API is asked about every victim before the first one goes: an eviction for this preemptor was not
    /// allowed before.
    pub careful: bool,
    /// Members that the scheduler did not bind in time though they fit, by UID, and the node of each.
    pub unbound: Vec<(SmolStr, SmolStr)>,
    /// Pods that keep room for the members, by UID: they are removed as soon as the members' places are reserved.
    pub placeholders: BTreeSet<SmolStr>,
    /// The units that the rates of evictions allow to begin now; `None` where there are no limits.
    pub ration: Option<BTreeSet<usize>>,
    /// What holds the others back.
    pub held_back: Option<HeldBack>,
    /// Whether the plan has waited for its time, or for room in the rates of evictions.
    pub put_off: bool,
    /// Whether it took the place of one that was superseded.
    pub renewed: bool,
    /// Set when another plan is made in its place at once, whose time has come.
    pub superseded: bool,
}

/// What [`Flight::advance`] wants.
#[derive(Debug, Default)]
pub struct Advance {
    /// Calls to make.
    pub commands: Vec<Command>,
    /// What the plan, which was cancelled, leaves of PodGroups in mode `PodGroup`: it ends when a stored departure evicts that.
    pub rest: Vec<Rest>,
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
                uid: SmolStr::new(&p.uid),
                node: SmolStr::new(&p.node),
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
                    uid: SmolStr::new(&p.uid),
                    unit,
                    rehearsal: Call::Idle,
                    call: Call::Idle,
                    accepted: false,
                    left: false,
                    leaves: false,
                    shortened: None,
                    threshold: None,
                })
            })
            .collect::<Vec<_>>();
        Self {
            preemptor,
            priority,
            message: Sentence::from(plan.message.as_str()),
            plan,
            stored: None,
            permission: CancellationToken::new(),
            members,
            victims,
            rescue: None,
            told: false,
            resumed: false,
            started: now,
            stages: Vec::new(),
            awaited: None,
            checked: None,
            released: None,
            bound_then: 0,
            rechecked: None,
            looked: None,
            ending: None,
            crowding: None,
            handed_over: false,
            refused: BTreeMap::new(),
            forbidden: BTreeSet::new(),
            careful: false,
            unbound: Vec::new(),
            placeholders: BTreeSet::new(),
            ration: None,
            held_back: None,
            put_off: false,
            renewed: false,
            superseded: false,
        }
    }

    /// Whether somebody is evicted by this plan, as it was stored.
    pub fn evicts(&self) -> bool {
        !self.plan.victims.is_empty()
    }

    /// Returns true if its placements are reserved.
    fn reserves(&self) -> bool {
        self.ending.is_none() && !self.is_put_off()
    }

    /// Returns true if the cluster shows the placement of a member as a nomination, which reserves as much as the plan does.
    fn is_shown(&self, cluster: &Cluster, member: &Member) -> bool {
        let started = self.has_begun_to_evict() || self.plan.state >= PlanState::Releasing;
        let shows = |pod: &Pod| pod.nominated_node.as_deref() == Some(member.node.as_str());
        let same = |pod: &Pod| cluster.effective_priority(pod) == self.priority;
        started && current(cluster, &member.pod, &member.uid).is_some_and(|pod| shows(pod) && same(pod))
    }

    /// The places this flight holds against preemptors of equal or lower priority (ASYNC, nomination).
    pub fn reservations(&self) -> impl Iterator<Item = Reservation> + '_ {
        self.members.iter().map(|member| self.reservation(member))
    }

    fn reservation(&self, member: &Member) -> Reservation {
        Reservation {
            uid: member.uid.clone(),
            pod: member.pod.clone(),
            node: member.node.clone(),
            holds: Holds::UpTo(self.priority),
        }
    }

    /// Returns true if the plan ends, and its members stay nominated for their next plan.
    fn stays_nominated(&self) -> bool {
        let for_next = |ending: &Ending| ending.again || !self.refused.is_empty();
        self.ending.as_ref().is_some_and(|ending| ending.state != PlanState::Completed && for_next(ending))
    }

    /// The places that it has given up: until its nominations are withdrawn, nobody is kept from them.
    pub fn given_up_places(&self) -> Vec<Reservation> {
        let is_completed = |ending: &Ending| ending.state == PlanState::Completed;
        match &self.ending {
            Some(ending) if !is_completed(ending) && !self.stays_nominated() => self.reservations().collect(),
            _ => Vec::new(),
        }
    }

    /// The places that its members stay nominated for until they have another plan.
    pub fn kept_nominations(&self) -> Vec<Reservation> {
        if self.stays_nominated() { self.reservations().collect() } else { Vec::new() }
    }

    /// The placements as the planner takes them.
    pub fn placements(&self) -> Vec<Placement> {
        self.members
            .iter()
            .map(|m| Placement { pod: m.pod.clone(), uid: m.uid.clone(), node: m.node.clone() })
            .collect()
    }

    /// UIDs that this flight evicts, whether they are gone already or not: all of them, or those that were begun when
    /// the plan is being dropped.
    pub fn departing(&self) -> impl Iterator<Item = &SmolStr> {
        self.going(self.ending.is_some())
    }

    /// Victims that go: all of them, or only those that go whatever becomes of the plan (an eviction was asked for, or
    /// their unit was begun).
    fn going(&self, only_certain: bool) -> impl Iterator<Item = &SmolStr> {
        let begun = only_certain.then(|| self.begun_units());
        let leaves = move |v: &&VictimPod| begun.as_ref().is_none_or(|units| v.asked() || units.contains(&v.unit));
        self.victims.iter().filter(leaves).map(|v| &v.uid)
    }

    /// Returns true if the plan has victims, and its first eviction was stored ahead.
    pub fn has_begun_to_evict(&self) -> bool {
        self.plan.state > PlanState::Planned && self.evicts()
    }

    /// Returns true if the plan waits for its time or for the rates of evictions, before its first eviction.
    pub fn is_put_off(&self) -> bool {
        self.plan.state == PlanState::Planned && (self.put_off || self.held_back.is_some())
    }

    /// Returns true if the victims may stay after all, as far as a preemptor of this priority is concerned: also if the limits on
    /// evictions have not allowed all of them yet.
    fn may_not_go(&self, priority: i32) -> bool {
        let is_limited = self.ration.as_ref().is_some_and(|units| units.len() < self.plan.victims.len());
        let may_be_held_back = self.plan.state == PlanState::Planned && is_limited;
        self.ending.is_some() || self.priority < priority || self.is_put_off() || may_be_held_back
    }

    /// Victims for which an eviction was asked for and not refused, or that leave by themselves.
    pub fn asked(&self) -> impl Iterator<Item = &SmolStr> {
        self.victims.iter().filter(|v| v.asked()).map(|v| &v.uid)
    }

    /// Victims whose eviction was accepted, which the watch does not show yet.
    pub fn evicted_unseen<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = (&'a SmolStr, &'a ObjectKey)> {
        let done = |v: &&VictimPod| matches!(v.call, Call::Done(_));
        let unseen = |v: &&VictimPod| current(cluster, &v.pod, &v.uid).is_some_and(Pod::live);
        self.victims.iter().filter(done).filter(unseen).map(|v| (&v.uid, &v.pod))
    }

    /// The nodes of the members and victims.
    pub fn nodes(&self) -> BTreeSet<SmolStr> {
        let members = self.plan.placements.iter().map(|placement| &placement.node);
        let victims = self.plan.victims.iter().flat_map(|victim| &victim.pods).map(|pod| &pod.node);
        members.chain(victims).map(SmolStr::new).collect()
    }

    /// Returns true if pods on other nodes can make a node infeasible for a member.
    pub(super) fn depends_on_other_nodes(&self, cluster: &Cluster) -> bool {
        self.members.iter().any(|member| cluster.pod(&member.pod).is_some_and(Pod::depends_on_other_nodes))
    }

    /// Returns true if the pod with this UID is a member.
    pub fn places(&self, uid: &str) -> bool {
        self.members.iter().any(|member| member.uid == uid)
    }

    /// Returns true if an eviction of the pod with this UID was requested and not refused, or if it terminates without one.
    pub fn has_asked(&self, uid: &str) -> bool {
        self.victims.iter().any(|victim| victim.uid == uid && victim.asked())
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

    /// Notes that a nomination or a release was answered.
    pub fn member_answered(&mut self, uid: &str, release: bool, ok: bool, now: Instant) {
        if let Some(call) = self.member_call(uid, release) {
            call.answered(ok, now);
        }
    }

    /// Notes that a nomination or a release was not answered.
    pub fn member_unanswered(&mut self, uid: &str, release: bool, now: Instant) {
        if let Some(call) = self.member_call(uid, release) {
            call.unanswered(now);
        }
    }

    fn member_call(&mut self, uid: &str, release: bool) -> Option<&mut Call> {
        let member = self.members.iter_mut().find(|m| m.uid == uid)?;
        Some(if release { &mut member.release } else { &mut member.nominate })
    }

    /// Looks at the cluster and says what to do next. `context` holds the decisions in flight.
    pub fn advance(&mut self, model: &Model, context: &Context, clock: Clock, limits: Limits) -> Advance {
        let mut out = Advance::default();
        let cluster = &model.cluster;
        self.observe(model);
        self.spare_protected(cluster);
        if self.ending.is_none()
            && let Some(ending) = match self.rescue {
                Some(_) => self.rescue_overtaken(cluster, clock),
                None => self.overtaken(cluster, context),
            }
        {
            let again = ending.again;
            self.drop_plan(ending.state, ending.message);
            self.ending.iter_mut().for_each(|ending| ending.again = again);
        }
        if self.ending.is_none()
            && let Some(why) = self.given_up()
        {
            self.drop_plan(PlanState::Failed, why);
        }
        if let Some(ending) = self.ending.clone() {
            self.wind_down(model, clock, ending, &mut out);
            return out;
        }
        if self.plan.state == PlanState::Planned {
            self.planned(model, context, clock, limits, &mut out);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Evicting {
            self.keep_places(cluster, clock, &mut out);
            self.recheck(model, context, clock);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Evicting {
            self.evict(model, clock, &mut out);
            if self.victims.iter().all(|v| v.accepted) {
                self.plan.state = PlanState::WaitingForVictims;
            }
        }
        if self.ending.is_none() && self.plan.state == PlanState::WaitingForVictims {
            self.keep_places(cluster, clock, &mut out);
            self.await_victims(model, context, clock, limits);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Releasing {
            self.release(model, context, clock, limits, &mut out);
        }
        if let Some(ending) = self.ending.clone()
            && out.ended.is_none()
        {
            self.wind_down(model, clock, ending, &mut out);
        }
        out
    }

    /// A victim that leaves or is gone needs no eviction, whoever saw to it.
    fn observe(&mut self, model: &Model) {
        for victim in &mut self.victims {
            let pod = current(&model.cluster, &victim.pod, &victim.uid);
            victim.threshold = victim.threshold.max(pod.and_then(|pod| model.threshold(pod)));
            victim.accepted |= pod.is_none_or(|p| p.leaves || p.ended());
            victim.left |= pod.is_none_or(|p| p.terminating);
            victim.leaves = pod.is_none_or(|p| p.leaves);
        }
    }
}

impl VictimPod {
    /// Whether its eviction is under way or was accepted, or it leaves by itself.
    fn asked(&self) -> bool {
        self.call.pending() || self.accepted
    }
}

/// The pod of this UID, if it exists.
fn current<'a>(cluster: &'a Cluster, pod: &ObjectKey, uid: &str) -> Option<&'a Pod> {
    cluster.pod(pod).filter(|p| p.uid == uid)
}

/// Whether a victim takes no room any more: it does not exist, or has ended by itself. One that was told to go is waited for
/// until the kubelet has said that nothing of it is left.
fn is_gone(cluster: &Cluster, pod: &ObjectKey, uid: &str) -> bool {
    current(cluster, pod, uid).is_none_or(|pod| pod.ended() && !pod.terminating)
}

/// Whether the place of a member is reserved: nominated as acknowledged or as seen, or bound already.
fn reserved(cluster: &Cluster, member: &Member) -> bool {
    matches!(member.nominate, Call::Done(_))
        || current(cluster, &member.pod, &member.uid)
            .is_some_and(|p| p.node.is_some() || p.nominated_node.as_deref() == Some(member.node.as_str()))
}

/// The plans in flight as the planner needs them when it plans at this priority, for any preemptor: a preemptor's own reservations do not
/// block it. A plan that is put off reserves nothing, because it may be put off for a day. Of the victims of such a plan, and of a plan of
/// lower priority, which may be cancelled for this one, only those count as leaving that leave in any case. What the cluster shows itself
/// is left out: nominations, and victims that are terminating or gone.
pub fn context(flights: &Flights, cluster: &Cluster, priority: i32) -> Context {
    let mut context = Context::default();
    for flight in flights.values() {
        if flight.reserves() {
            let hidden = flight.members.iter().filter(|member| !flight.is_shown(cluster, member));
            context.reservations.extend(hidden.map(|member| flight.reservation(member)));
        }
        if flight.victims.iter().any(|victim| !victim.leaves) {
            context.departing.extend(flight.going(flight.may_not_go(priority)).cloned());
        }
    }
    context
}

/// The same after these places were given up, of which the cluster still has the nominations: two equal plans that do not fit side by
/// side any more must not be given up for each other, nor the second one for what is left of the first. Pods that have another plan keep
/// the placements that it gives them.
pub fn without_given_up(context: &mut Context, flights: &Flights, places: &[Reservation]) {
    let keeps = |uid: &str| flights.with_pod(uid).any(|flight| flight.reserves() && flight.places(uid));
    let free: Vec<Reservation> = places.iter().filter(|place| !keeps(&place.uid)).cloned().collect();
    give_up(context, &free);
}

/// The same where what these pods have are the places that are given up.
pub fn give_up(context: &mut Context, places: &[Reservation]) {
    if places.is_empty() {
        return;
    }
    let pods: BTreeSet<&SmolStr> = places.iter().map(|place| &place.uid).collect();
    context.reservations.retain(|reservation| !pods.contains(&reservation.uid));
    // A reservation that holds nothing: without any, the pod's nomination would hold the place.
    context.reservations.extend(places.iter().map(|place| Reservation { holds: Holds::Never, ..place.clone() }));
}

/// The same for a plan that has begun to evict: it is not cancelled for the reservation of a plan of equal or lower priority for which
/// no pod was evicted or ungated yet. Such a plan may count on victims of others, which may stay for their budgets or the rates. `kept` are
/// the nominations that plans left which are over.
pub fn without_guests(mut context: Context, flights: &Flights, kept: &[Reservation], priority: i32) -> Context {
    let nothing_done = |f: &Flight| f.plan.state == PlanState::Planned || !f.evicts();
    let guest = |f: &&Flight| nothing_done(f) && f.plan.state < PlanState::Releasing && f.priority <= priority;
    let guests: BTreeSet<&SmolStr> =
        flights.values().filter(guest).flat_map(|f| f.members.iter().map(|m| &m.uid)).collect();
    // A reservation that holds nothing: without any, the pod's nomination would hold the place.
    for reservation in context.reservations.iter_mut().filter(|reservation| guests.contains(&reservation.uid)) {
        reservation.holds = Holds::NotYet;
    }
    let has_plan = |uid: &str| flights.with_pod(uid).any(|flight| flight.reserves() && flight.places(uid));
    let is_higher = |place: &Reservation| matches!(place.holds, Holds::UpTo(of) if of > priority);
    let kept = kept.iter().filter(|place| !is_higher(place) && !has_plan(&place.uid));
    context.reservations.extend(kept.map(|place| Reservation { holds: Holds::NotYet, ..place.clone() }));
    context
}

/// The same for who looks for another place than its own: what a guest holds is not free.
fn with_guests(context: &Context) -> Context {
    let mut context = context.clone();
    for reservation in context.reservations.iter_mut().filter(|reservation| reservation.holds == Holds::NotYet) {
        reservation.holds = Holds::Always;
    }
    context
}
