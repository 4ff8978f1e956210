//! Every plan in flight, and the pure state machine that leads from the stored plan to the bound pods.
//!
//! ```text
//! Planned → Evicting → WaitingForVictims → Ungating → Completed
//!    └──────────┴──────────────┴───────────────┴─────→ Cancelled / Failed
//! ```
//!
//! A [`Flight`] is advanced from what the model shows (level-triggered), so it does not matter which watch events were
//! seen, and a new leader advances a resumed flight exactly like its own. It returns [`Command`]s and makes no API
//! calls itself.
//!
//! Guarantees (design, sections 5 and 6): no eviction is commanded before the API server has confirmed to this leader
//! that the plan is stored; the eviction of a victim is repeated only after a failed call; if one pod of a PodGroup in
//! disruption mode `PodGroup` was evicted, all of its pods are, even if the plan is cancelled, except where their
//! namespace is protected by then; victims whose eviction a guaranteed budget can refuse are evicted first; no pod is
//! evicted before the [rehearsal](rehearsal) succeeded.

mod check;
mod claims;
mod domain;
mod evict;
mod flights;
mod mutual_exclusion;
mod overlap;
mod protection;
mod ration;
mod rehearsal;
mod rescue;
mod reservations;
mod resume;
mod sentences;
mod stages;
mod summary;
#[cfg(test)]
mod tests;
mod ungating;
mod wind_down;

pub use check::with_placeholders;
pub use flights::{Flights, LONGEST_WAIT};
pub use ration::{ReachedLimit, limit_sentence};
pub use rehearsal::RejectedCall;
pub use rescue::AddonRescue;
pub use reservations::EndedReservations;
pub use sentences::{effect, named_preemptor, plan_message, preemptor_reference, victim_message};
#[cfg(test)]
pub(crate) use summary::VISITS;
pub use ungating::WaitForScheduler;
pub use wind_down::RemainingPods;

use crate::clock::Clock;
use crate::messages::call::{Call, UNSEEN};
use crate::messages::command::Command;
use crate::model::Model;
use crate::model::scheduler::{SchedulerPace, SchedulerWait};
use check::Check;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::plan_end;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use giveway_planner::{Context, Placement, Preemptor};
use mutual_exclusion::MutualExclusion;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The plans in flight, and those effects of ended plans that still last.
#[derive(Debug, Default)]
pub struct ActivePlans {
    /// The plans in flight.
    pub flights: Flights,
    /// Reservations of plans that ended some seconds ago.
    pub ended_reservations: EndedReservations,
    /// Nodes that are not ready, but only for a short time yet.
    pub recovering: BTreeSet<SmolStr>,
    /// Number of plans and departures that this process has made. Their names contain it.
    pub made: u64,
}

/// Limits and options of one pass.
#[derive(Clone, Copy, Debug)]
pub struct PlanLimits<'a> {
    /// How long ungated pods may take to be bound in any case before the placement is checked again.
    pub binding_timeout: Duration,
    /// How fast kube-scheduler works.
    pub scheduler: SchedulerPace,
    /// True if postponed and waiting plans may be compared with a new plan in this pass. A comparison takes as long as a decision.
    pub may_compare: bool,
    /// The UIDs of the pods that other plans and departures evict, except those of plans that may still be rejected.
    pub certain: &'a BTreeSet<SmolStr>,
    /// By budget, how many healthy pods plans of higher priority evict: [`Flights::claimed_by_higher_plans`].
    pub claimed: &'a BTreeMap<ObjectKey, usize>,
}

/// The state of the cluster, the time and the limits with which a plan is advanced.
#[derive(Clone, Copy)]
struct Now<'a> {
    model: &'a Model,
    /// The other plans in flight.
    context: &'a Context,
    clock: Clock,
    limits: PlanLimits<'a>,
}

/// A member that the plan places.
#[derive(Clone, Debug, Default)]
pub struct PlannedMember {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// The node on which the plan places it.
    pub node: SmolStr,
    /// The call that sets `status.nominatedNodeName`.
    pub nominate: Call,
    /// The call that removes the scheduling gate.
    pub ungate: Call,
    /// The dry run of that call, for one member of each template.
    pub rehearsal: Call,
}

impl PlannedMember {
    /// Returns the command that removes the member's scheduling gate, or that only dry-runs this if `rehearsal` is true.
    fn removal_of_gate(&self, (preemptor, priority): (&Preemptor, i32), plan: &StoredPlan, rehearsal: bool) -> Command {
        Command::Ungate {
            preemptor: preemptor.clone(),
            priority,
            plan: plan.id.clone(),
            pod: self.pod.clone(),
            uid: self.uid.clone(),
            domain: plan.domain.clone(),
            rehearsal,
        }
    }

    /// Returns the command that nominates this node for the member, or withdraws its nomination if `node` is `None`. `plan` is the name of
    /// the `Preemption`.
    fn nomination(&self, (preemptor, priority): (&Preemptor, i32), plan: &str, node: Option<SmolStr>) -> Command {
        let (preemptor, plan) = (preemptor.clone(), plan.to_owned());
        let (pod, uid, rehearsal) = (self.pod.clone(), self.uid.clone(), false);
        Command::Nominate { preemptor, priority, plan, pod, uid, node, rehearsal }
    }
}

/// A pod that the plan evicts.
#[derive(Clone, Debug, Default)]
pub struct VictimPod {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// Index of its unit of eviction in the `victims` of the stored plan: a single pod, or a whole PodGroup in mode `PodGroup`.
    pub unit: usize,
    /// The dry run of the eviction.
    pub rehearsal: Call,
    /// The eviction.
    pub call: Call,
    /// True if the API server accepted the eviction, or none is needed.
    pub accepted: bool,
    /// True if the pod terminates or does not exist any more. A pod that has only finished does not count.
    pub left: bool,
    /// True if the cluster shows that the pod terminates soon ([`Pod::leaves`]), or does not have it any more.
    pub leaves: bool,
    /// The pod's own grace period in seconds, if the eviction shortened it.
    pub shortened: Option<i64>,
    /// The priority from which on preemptors may violate its budget, as last observed. It is kept after the pod has
    /// terminated, because it then still protects the other pods of the unit.
    pub threshold: Option<i32>,
}

/// How a plan ended, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// `Completed`, `Cancelled` or `Failed`.
    pub state: PlanState,
    /// Why.
    pub message: Sentence,
    /// True if a new plan is made at once, which keeps the reservations of this one.
    pub again: bool,
}

/// A plan in flight: made, stored as a `Preemption`, and not ended.
#[derive(Clone, Debug)]
pub struct Flight {
    /// The preemptor.
    pub preemptor: Preemptor,
    /// The preemptor's effective priority. For a critical add-on it is the priority of critical pods, so that other
    /// plans respect its reservation.
    pub priority: i32,
    /// The plan as stored, with its current state. Its messages name objects of all namespaces, because only
    /// administrators read it.
    pub plan: StoredPlan,
    /// The message for the preemptor's status and events.
    pub message: Sentence,
    /// The last state that the API server has confirmed as stored in this leader's term; `None` before the first
    /// confirmation.
    pub stored: Option<PlanState>,
    /// Why its last write failed, until one succeeds.
    pub unwritten: Option<String>,
    /// Since when no call before its first eviction, or no removal of a scheduling gate, has got an answer.
    unanswered_since: Option<Instant>,
    /// Since when its first eviction waits for evictions of other plans, on which it depends.
    pub depends_since: Option<Instant>,
    /// Cancelled with the plan, which withdraws evictions that have not been sent yet.
    permission: CancellationToken,
    /// The members that the plan places.
    pub members: Vec<PlannedMember>,
    /// The pods that the plan evicts.
    pub victims: Vec<VictimPod>,
    /// Set if the preemptor is a critical add-on.
    pub rescue: Option<AddonRescue>,
    /// True if the victim PodGroups have got their events.
    pub victims_notified: bool,
    /// True if the plan was taken over from an earlier leader, whose calls are unknown.
    pub resumed: bool,
    /// True if that leader may have evicted pods for it: it had stored the state `Evicting` or a later one.
    started_earlier: bool,
    /// When the plan was made or resumed, on the monotonic clock.
    pub started: Instant,
    /// The states that the plan reached in this leader's term, with the time.
    pub stages: Vec<(PlanState, Instant)>,
    /// When all evictions had been accepted.
    awaited: Option<Instant>,
    /// The result of the last check, or `None` if an object has changed since then on which the plan depends.
    checked: Option<Check>,
    /// The wait for kube-scheduler, since all members have been ungated. It starts again with each progress.
    pub binding_wait: Option<SchedulerWait>,
    /// Since when kube-scheduler cannot bind the members because of nominations of other plans, if the time limit is reached.
    crowded: Option<Instant>,
    /// [`Model::scheduler_decisions`] when the members began to be ungated: later reports are about the placements of this plan.
    ungated_at: Option<u64>,
    /// How many members were bound or reported when the wait began.
    heard: usize,
    /// Why kube-scheduler is waited for longer than the time limit, as of some moments ago.
    pub waits_for_scheduler: Option<WaitForScheduler>,
    /// When the plan was last checked in state `Evicting`.
    rechecked: Option<Instant>,
    /// When the planner was last asked whether a better plan exists, and the [`Model::version`] at that time.
    looked: Option<(Instant, u64)>,
    /// Set if the plan is cancelled or has failed, until the units of which it evicted a pod are handed over and its
    /// nominations are withdrawn.
    pub ending: Option<Ending>,
    /// The members whose nominations exclude each other, set once all members have been ungated.
    mutual_exclusion: Option<MutualExclusion>,
    /// True if a stored departure evicts the remaining pods of PodGroups in mode `PodGroup` that this cancelled plan
    /// has disrupted.
    pub handed_over: bool,
    /// Victims whose eviction was refused, by UID, with the reason. The next plan does not evict them.
    pub refused: BTreeMap<SmolStr, String>,
    /// Those of `refused` whose eviction is not permitted at all, and victims in namespaces that have become protected.
    /// Their eviction is not retried.
    pub forbidden: BTreeSet<SmolStr>,
    /// The first call for a member that was rejected.
    pub rejected: Option<RejectedCall>,
    /// Members that kube-scheduler did not bind in time although they fit, by UID, with the node of each.
    pub unbound: Vec<(SmolStr, SmolStr)>,
    /// Placeholder pods that reserve capacity for the members, by UID. They are deleted as soon as the members'
    /// placements are reserved.
    pub placeholders: BTreeSet<SmolStr>,
    /// The units whose eviction may start now under the limits on evictions per minute; `None` if there are no limits.
    pub ration: Option<BTreeSet<usize>>,
    /// The limit that delays the other units.
    pub reached_limit: Option<ReachedLimit>,
    /// True if the plan is or was postponed, by its delay or by the limits on evictions per minute.
    pub postponed: bool,
    /// True if the plan replaced one that was superseded.
    pub renewed: bool,
    /// True if a new plan with fewer victims replaces this one at once.
    pub superseded: bool,
}

/// What [`Flight::advance`] decides, for the caller to carry out.
#[derive(Debug, Default)]
pub struct Advance {
    /// Calls to make.
    pub commands: Vec<Command>,
    /// The remaining pods of PodGroups in mode `PodGroup` that this cancelled plan has disrupted. The plan ends once a
    /// stored departure evicts them.
    pub rest: Vec<RemainingPods>,
    /// Set if the plan has ended.
    pub ended: Option<Ending>,
}

impl Flight {
    /// Returns a new plan in flight with the members and victims of `plan`. The members are in the preemptor's namespace.
    pub fn new(preemptor: Preemptor, priority: i32, plan: StoredPlan, now: Instant) -> Self {
        let namespace = match &preemptor {
            Preemptor::Group(key) | Preemptor::Pod(key) => key.namespace.clone(),
        };
        let members = plan
            .placements
            .iter()
            .map(|p| PlannedMember {
                pod: ObjectKey::new(&namespace, &p.pod),
                uid: SmolStr::new(&p.uid),
                node: SmolStr::new(&p.node),
                ..PlannedMember::default()
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
                    ..VictimPod::default()
                })
            })
            .collect::<Vec<_>>();
        Self {
            preemptor,
            priority,
            message: Sentence::from(plan.message.as_str()),
            plan,
            stored: None,
            unwritten: None,
            unanswered_since: None,
            depends_since: None,
            permission: CancellationToken::new(),
            members,
            victims,
            rescue: None,
            victims_notified: false,
            resumed: false,
            started_earlier: false,
            started: now,
            stages: Vec::new(),
            awaited: None,
            checked: None,
            binding_wait: None,
            crowded: None,
            ungated_at: None,
            heard: 0,
            waits_for_scheduler: None,
            rechecked: None,
            looked: None,
            ending: None,
            mutual_exclusion: None,
            handed_over: false,
            refused: BTreeMap::new(),
            forbidden: BTreeSet::new(),
            rejected: None,
            unbound: Vec::new(),
            placeholders: BTreeSet::new(),
            ration: None,
            reached_limit: None,
            postponed: false,
            renewed: false,
            superseded: false,
        }
    }

    /// Marks the plan as one of an earlier leader, which may have evicted pods for it if it stored the state `Evicting` or a later one.
    pub fn resume(&mut self) {
        (self.resumed, self.started_earlier) = (true, self.plan.state >= PlanState::Evicting);
    }

    /// Returns true if the stored plan has victims.
    pub fn evicts(&self) -> bool {
        !self.plan.victims.is_empty()
    }

    /// Returns on which node the plan places each member.
    pub fn placements(&self) -> Vec<Placement> {
        self.members
            .iter()
            .map(|m| Placement { pod: m.pod.clone(), uid: m.uid.clone(), node: m.node.clone() })
            .collect()
    }

    /// Returns the UIDs of the pods that this plan evicts, whether or not they have terminated: all victims, or if the plan is ending, only
    /// those whose eviction was requested or that are in a PodGroup of which it evicted a pod.
    pub fn departing(&self) -> impl Iterator<Item = &SmolStr> {
        let started = self.ending.is_some().then(|| self.units_with_evictions());
        let leaves = move |v: &&VictimPod| started.as_ref().is_none_or(|units| v.is_evicted_in_any_case(units));
        self.victims.iter().filter(leaves).map(|v| &v.uid)
    }

    /// Returns true if the plan has victims and its state is `Evicting` or a later one.
    pub fn has_started_evictions(&self) -> bool {
        self.plan.state > PlanState::Planned && self.evicts()
    }

    /// Returns true if the plan is postponed by its delay or by the limits on evictions per minute, and has not evicted
    /// a pod yet.
    pub fn is_postponed(&self) -> bool {
        self.plan.state == PlanState::Planned && (self.postponed || self.reached_limit.is_some())
    }

    /// Returns the UIDs of the victims that other preemptors see as terminating, each with the highest priority of such a preemptor.
    /// Victims that are evicted whatever happens to the plan count for all preemptors (`i32::MAX`). The others count for preemptors of at
    /// most the priority of this plan, and for none if the plan is postponed or ending.
    fn seen_as_terminating(&self) -> impl Iterator<Item = (&SmolStr, i32)> {
        let (started, may_stay) = (self.units_with_evictions(), self.victims_may_stay());
        self.victims.iter().filter_map(move |v| match v.is_evicted_in_any_case(&started) {
            true => Some((&v.uid, i32::MAX)),
            false => (!may_stay).then_some((&v.uid, self.priority)),
        })
    }

    /// Returns the UIDs of the victims that another preemptor, of this priority, sees as terminating.
    pub fn departing_for(&self, priority: i32) -> impl Iterator<Item = &SmolStr> {
        self.seen_as_terminating().filter(move |(_, most)| priority <= *most).map(|(uid, _)| uid)
    }

    /// Returns the UIDs of the victims on whose termination the first eviction of another plan may rely: all victims if the rehearsal of
    /// this plan (the dry runs before its first eviction) has succeeded, and otherwise those that are evicted in any case.
    pub fn departing_for_certain(&self) -> impl Iterator<Item = &SmolStr> {
        let is_rehearsed = self.plan.state >= PlanState::Evicting;
        self.seen_as_terminating().filter(move |(_, most)| is_rehearsed || *most == i32::MAX).map(|(uid, _)| uid)
    }

    /// Returns true if other preemptors must not count on the termination of all victims: the plan is ending or postponed, or the limits on
    /// evictions per minute do not allow all of its evictions yet.
    fn victims_may_stay(&self) -> bool {
        let is_limited = self.ration.as_ref().is_some_and(|units| units.len() < self.plan.victims.len());
        let is_partly_permitted = self.plan.state == PlanState::Planned && is_limited;
        self.ending.is_some() || self.is_postponed() || is_partly_permitted
    }

    /// Returns the nodes on which the plan places members or evicts pods.
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
    pub fn has_member(&self, uid: &str) -> bool {
        self.members.iter().any(|member| member.uid == uid)
    }

    /// Returns how many victims do not exist any more, or have finished, as far as the watch shows.
    pub fn removed_victims(&self, cluster: &Cluster) -> usize {
        self.victims.iter().filter(|v| has_been_removed(cluster, &v.pod, &v.uid)).count()
    }

    /// Returns for how many victims this leader has requested an eviction.
    pub fn requested_evictions(&self) -> usize {
        self.victims.iter().filter(|v| v.call != Call::Idle).count()
    }

    /// Returns true if this plan may have evicted a pod: an eviction was requested and not refused, or an earlier leader may have requested
    /// one.
    pub fn may_have_evicted(&self) -> bool {
        self.victims.iter().any(|victim| self.may_have_worked(victim) || (self.started_earlier && victim.accepted))
    }

    /// Returns true if the eviction of a victim was requested and not refused. A request that failed may have been carried out.
    fn may_have_worked(&self, victim: &VictimPod) -> bool {
        victim.call != Call::Idle && !self.refused.contains_key(&victim.uid)
    }

    /// Returns true if the plan evicts pods of this PodGroup.
    pub fn evicts_from(&self, cluster: &Cluster, group: &ObjectKey) -> bool {
        self.plan.victims.iter().any(|v| {
            let key = ObjectKey::new(&v.namespace, &v.name);
            if v.kind == "PodGroup" {
                key == *group
            } else {
                cluster.pod(&key).and_then(Pod::group_key).is_some_and(|of| of == *group)
            }
        })
    }

    /// Returns how many victims of this PodGroup, which is evicted as a whole, are not terminating yet.
    pub fn remaining_of(&self, cluster: &Cluster, group: &ObjectKey) -> usize {
        let is_of_group = |unit: usize| {
            let unit = &self.plan.victims[unit];
            unit.kind == "PodGroup" && unit.namespace == *group.namespace && unit.name == *group.name
        };
        let victims = self.victims.iter().filter(|victim| is_of_group(victim.unit));
        victims
            .filter(|victim| {
                current(cluster, &victim.pod, &victim.uid).is_some_and(|pod| pod.live() && !pod.terminating)
            })
            .count()
    }

    /// Returns how many of the placed members are bound.
    pub fn bound(&self, cluster: &Cluster) -> usize {
        self.members.iter().filter(|m| current(cluster, &m.pod, &m.uid).is_some_and(|p| p.node.is_some())).count()
    }

    /// Advances the plan by what the model shows, and returns the calls to make and whether the plan has ended. `context` describes the
    /// other plans in flight.
    pub fn advance(&mut self, model: &Model, context: &Context, clock: Clock, limits: PlanLimits<'_>) -> Advance {
        let mut out = Advance::default();
        let (now, cluster) = (Now { model, context, clock, limits }, &model.cluster);
        self.observe(model, clock.now);
        self.cancel_if_victim_protected(cluster);
        if self.ending.is_none()
            && let Some(ending) = match self.rescue {
                Some(_) => self.addon_ending_if_obsolete(cluster, clock),
                None => self.ending_if_obsolete(cluster, context),
            }
        {
            // An add-on whose time limit is reached is not tried again on this node for a while, whatever the reason was.
            if self.rescue.is_some() && ending.state == PlanState::Failed && self.may_have_evicted() {
                self.unbound = self.members.iter().map(|member| (member.uid.clone(), member.node.clone())).collect();
            }
            self.end(ending);
        }
        if self.ending.is_none()
            && let Some(why) = self.changed_preemptor(model)
        {
            self.drop_plan(PlanState::Cancelled, plan_end::not_valid(why.into()));
        }
        if self.ending.is_none()
            && let Some(why) = self.taint_failure()
        {
            self.drop_plan(PlanState::Failed, why);
        }
        if let Some(ending) = self.ending.clone() {
            self.wind_down(model, clock, ending, &mut out);
            return out;
        }
        if self.plan.state == PlanState::Planned {
            self.planned(now, &mut out);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Evicting {
            self.maintain_reservations(cluster, clock, &mut out);
            self.cancel_if_invalid(model, context, clock);
            self.use_free_capacity_while_unwritten(now);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Evicting {
            self.evict(now, &mut out);
            if self.victims.iter().all(|v| v.accepted) {
                self.plan.state = PlanState::WaitingForVictims;
            }
        }
        if self.ending.is_none() && self.plan.state == PlanState::WaitingForVictims {
            self.maintain_reservations(cluster, clock, &mut out);
            self.await_victims(now);
        }
        if self.ending.is_none() && self.plan.state == PlanState::Ungating {
            self.ungate(now, &mut out);
        }
        if let Some(ending) = self.ending.clone()
            && out.ended.is_none()
        {
            self.wind_down(model, clock, ending, &mut out);
        }
        out
    }

    /// Updates the victims from the model: a victim that terminates soon, has finished or does not exist needs no eviction. One whose
    /// eviction was accepted, but which the watch does not show as terminating in time, needs another request.
    fn observe(&mut self, model: &Model, now: Instant) {
        for victim in &mut self.victims {
            let pod = current(&model.cluster, &victim.pod, &victim.uid);
            victim.threshold = victim.threshold.max(pod.and_then(|pod| model.threshold(pod)));
            victim.accepted |= pod.is_none_or(|p| p.leaves || p.ended());
            victim.left |= pod.is_none_or(|p| p.terminating);
            victim.leaves = pod.is_none_or(|p| p.leaves);
            let is_unseen = matches!(victim.call, Call::Done(at) if now.duration_since(at) > UNSEEN);
            if is_unseen && pod.is_some_and(|p| !p.leaves && !p.ended()) {
                victim.accepted = false;
                victim.call.unanswered(now);
            }
        }
        if self.plan.state == PlanState::WaitingForVictims && self.victims.iter().any(|v| self.must_be_evicted(v)) {
            (self.plan.state, self.awaited, self.checked) = (PlanState::Evicting, None, None);
        }
    }
}

impl VictimPod {
    /// Returns true if the pod needs no further request now: an eviction is in flight or was accepted, or the pod terminates for another
    /// reason.
    fn needs_no_request(&self) -> bool {
        self.call.pending() || self.accepted
    }

    /// Returns true if the pod is evicted whatever happens to the plan: its eviction was requested, or a pod of its PodGroup was evicted.
    /// `started` has the indexes of the PodGroups of which the plan evicted a pod.
    fn is_evicted_in_any_case(&self, started: &BTreeSet<usize>) -> bool {
        self.needs_no_request() || started.contains(&self.unit)
    }
}

/// Returns the pod with this key if it exists and has this UID.
fn current<'a>(cluster: &'a Cluster, pod: &ObjectKey, uid: &str) -> Option<&'a Pod> {
    cluster.pod(pod).filter(|p| p.uid == uid)
}

/// Returns true if a victim uses no capacity any more: it does not exist, or it finished without being deleted. A pod
/// that is being deleted counts until the kubelet has confirmed the end of all its containers.
fn has_been_removed(cluster: &Cluster, pod: &ObjectKey, uid: &str) -> bool {
    current(cluster, pod, uid).is_none_or(|pod| pod.ended() && !pod.terminating)
}

/// Returns true if the capacity for a member on its planned node is reserved: the API server confirmed the nomination, the watch shows it,
/// or the member is bound.
fn reserved(cluster: &Cluster, member: &PlannedMember) -> bool {
    matches!(member.nominate, Call::Done(_))
        || current(cluster, &member.pod, &member.uid)
            .is_some_and(|p| p.node.is_some() || p.nominated_node.as_deref() == Some(member.node.as_str()))
}
