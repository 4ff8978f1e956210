//! Excuses: breaches of promises that a fault or an event from outside explains. Each excuse names the pods, PodGroups or plans that it
//! covers, and follows from a disturbance that the world recorded.

use crate::simulation::breakers::is_stopped_by_breaker;
use crate::simulation::object::Kind;
use crate::simulation::server::time_of;
use crate::simulation::world::{DeletedPlan, World};
use giveway_crds::plan::{Cause, StoredPlan};
use giveway_tests::audit::preemptors::{Outcome, outcomes};
use giveway_tests::audit::{BreachKind, History, OPERATOR, PlanRecord, PodRecord, Removal, SCHEDULER};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// The leader may not have observed an event within this time before, in milliseconds: a watch lags by up to 8.5 s, and a call is in
/// transit for up to 12 s.
const UNHEARD: i64 = 21_000;

/// A disturbance and the end of a leader within this time of each other count as related, in milliseconds.
const NEAR: u64 = 60_000;

/// The evictions of one PodGroup are requested within this time.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// What a disturbance affects.
#[derive(Clone, Debug)]
pub enum Touch {
    /// All plans.
    Everybody,
    /// The pods of an owner, pending or bound.
    Owner(String),
    /// The pods that are on this node or have a placement there.
    Node(String),
}

/// An event from outside that may take pods or capacity from a plan.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// The time, in milliseconds.
    pub at: u64,
    pub touch: Touch,
}

/// The breaches that are excused.
#[derive(Default)]
pub struct Excuses {
    /// Names of preemptors that need not be bound.
    unbound: BTreeSet<String>,
    /// PodGroups that may be partially disrupted if the first removal is between these times.
    partial: Vec<(String, Timestamp, Timestamp)>,
    /// Plans for which an eviction may have been in transit when the plan was deleted.
    deleted_plans: BTreeSet<String>,
    /// The pods that may be evicted because their gang was partially scheduled, by UID.
    partially_scheduled: BTreeSet<String>,
    /// The pods that may have left without an accepted eviction, by UID: an eviction failed, or another user removed the pod.
    left: BTreeSet<String>,
    /// Start and end of the times when the operator did not know which of its evictions were carried out.
    cut_off: Vec<(Timestamp, Timestamp)>,
}

impl Excuses {
    /// Returns the excuses that follow from the disturbances of this world.
    pub fn of(world: &World, history: &History) -> Self {
        let unbound = judged(world, history).into_iter().filter(|(_, reason)| reason.is_some());
        let unbound = unbound.map(|(outcome, _)| outcome.name).collect();
        let mut excuses = Self { unbound, ..Self::default() };
        excuses.without_a_leader(world, history);
        excuses.cancelled_departures(world, history);
        excuses.removed_by_others(history);
        excuses.partially_scheduled_gangs(world, history);
        excuses.partially_disrupted_groups(world, history);
        excuses.protected_namespace(world, history);
        excuses.denied_evictions(world);
        excuses
    }

    /// Returns true if a breach is excused.
    pub fn cover(&self, breach: &BreachKind) -> bool {
        match breach {
            BreachKind::Unbound { preemptor, .. } => self.unbound.contains(preemptor),
            BreachKind::PartialDisruption { group, first } => {
                self.partial.iter().any(|(name, from, to)| *name == group.1 && (*from..=*to).contains(first))
            }
            BreachKind::DeletedPlan { plan } => self.deleted_plans.contains(plan),
            BreachKind::PartiallyScheduled { pods, .. } => {
                pods.iter().all(|uid| self.partially_scheduled.contains(uid))
            }
            BreachKind::NotPartiallyDisrupted { at, pods } => {
                let cut_off = self.cut_off.iter().any(|(from, to)| (*from..=*to).contains(at));
                cut_off || pods.iter().any(|uid| self.left.contains(uid))
            }
            BreachKind::Other => false,
        }
    }

    /// Permits a partial disruption of the PodGroup if the first removal is at this time or shortly after.
    fn partial_from(&mut self, group: &str, at: Timestamp) {
        self.partial.push((group.to_owned(), at, at.saturating_add(UNDER_WAY).unwrap_or(at)));
    }

    /// Excuses deletions of the `Preemption` of a plan in flight if a leader ended within a minute. Promise 2 holds across leader changes because
    /// every eviction is stored before it is made, and because the leader stores the rest of a disrupted PodGroup again when it observes that
    /// the `Preemption` was deleted (design, section 5, "One engine"). If it ends before, nothing shows the next leader which pods were evicted:
    /// every PodGroup of the plan may stay partially disrupted, also one of which the first pod was evicted after the deletion, by a request
    /// that the leader made before it observed the deletion.
    fn without_a_leader(&mut self, world: &World, history: &History) {
        let near = |at: u64| world.ended.iter().any(|ended| ended.abs_diff(at) < NEAR);
        for plan in world.deleted.iter().filter(|plan| near(plan.at)) {
            let until = evicts_until(history, plan);
            self.partial.extend(plan.groups.iter().map(|group| (group.clone(), plan.planned, until)));
        }
        let failed = |pods: &[String]| pods.iter().any(|pod| world.thwarted.contains_key(pod));
        let in_transit = world.deleted.iter().filter(|plan| plan.unheard || failed(&plan.pods));
        self.deleted_plans.extend(in_transit.map(|plan| plan.name.clone()));
    }

    /// Excuses PodGroups of which kube-scheduler preempted a pod, if an administrator deletes the `Preemption` of the other pods before one
    /// of them is evicted.
    fn cancelled_departures(&mut self, world: &World, history: &History) {
        let cause =
            |name: &str| history.plans.iter().find(|record| record.plan.id == name).map(|record| record.plan.cause);
        let evicted = history.evicted();
        let has_evicted = |name: &str| evicted.iter().any(|removal| removal.plan.as_deref() == Some(name));
        for plan in &world.deleted {
            if cause(&plan.name) == Some(Cause::MemberPreempted) && !has_evicted(&plan.name) {
                let from =
                    plan.planned.saturating_sub(Duration::from_millis(UNHEARD.unsigned_abs())).unwrap_or(plan.planned);
                self.partial.extend(plan.groups.iter().map(|group| (group.clone(), from, time_of(plan.at))));
            }
        }
    }

    /// Excuses PodGroups of which another user removes the other pods before they are evicted: with their owner or their node, or one by
    /// one. A call failed or was late, or there was no leader.
    fn removed_by_others(&mut self, history: &History) {
        let by_others = |removal: &&Removal| removal.accepted && removal.user != OPERATOR && removal.user != SCHEDULER;
        for removal in history.removals.iter().filter(by_others) {
            let group = history.pods.get(&removal.uid).and_then(|pod| pod.group.clone());
            let from = removal.at.saturating_sub(Duration::from_millis(UNHEARD.unsigned_abs())).unwrap_or(removal.at);
            self.partial.extend(group.map(|group| (group, from, removal.at)));
        }
    }

    /// Excuses partially scheduled gangs, whose bound pods the operator evicts. Such a gang may be partially disrupted if a budget refuses
    /// some of the evictions, or if an eviction arrives after the gang has become completely bound. The cause of a deleted `Preemption` is
    /// unknown when its evictions arrive, so they are excused, too.
    fn partially_scheduled_gangs(&mut self, world: &World, history: &History) {
        let deleted = world.deleted.iter().flat_map(|plan| &plan.pods);
        self.partially_scheduled = world.halves.may_go.keys().chain(deleted).cloned().collect();
        for removal in history.evicted() {
            let Some(group) = world.halves.may_go.get(&removal.uid) else { continue };
            let failed = world.thwarted.get(&removal.uid);
            let late = world.halves.crossed.contains(&removal.uid)
                || failed.is_some_and(|at| time_of(at + 15_000) >= removal.at);
            if late || world.server.changes(Kind::Budget).iter().any(|budget| budget.name == *group) {
                self.partial_from(group, removal.at);
            }
        }
    }

    /// Excuses evictions of the remaining pods of a PodGroup although no eviction for the cancelled plan was accepted. The operator assumes
    /// that an eviction was carried out if it has no answer, if it failed, or if another user removed the pod.
    fn partially_disrupted_groups(&mut self, world: &World, history: &History) {
        let by_others = history.removals.iter().filter(|removal| removal.accepted && removal.user != OPERATOR);
        self.left = by_others.map(|removal| &removal.uid).chain(world.thwarted.keys()).cloned().collect();
        let unheard = UNHEARD.unsigned_abs();
        self.cut_off = world.cuts.iter().map(|(from, to)| (time_of(*from), time_of(to + unheard))).collect();
    }

    /// Excuses PodGroups of which some evictions were accepted before or after others were denied.
    fn denied_evictions(&mut self, world: &World) {
        for (owner, from) in world.denials.split() {
            let from = time_of(from.saturating_sub(UNHEARD.unsigned_abs()));
            self.partial.push((owner.to_owned(), from, Timestamp::MAX));
        }
    }

    /// Excuses PodGroups whose other pods are not evicted because the namespace is protected after the first eviction, or because
    /// kube-scheduler preempts one of the pods while the namespace is protected. Evictions in transit are carried out.
    fn protected_namespace(&mut self, world: &World, history: &History) {
        let spans = || world.protected.iter().map(|(from, to)| (time_of(from.saturating_sub(20_000)), time_of(*to)));
        let of = |removal: &Removal| history.pods.get(&removal.uid).and_then(|pod| pod.group.clone());
        for removal in history.removals.iter().filter(|removal| removal.accepted) {
            if spans().any(|(from, to)| (from..=to).contains(&removal.at))
                && let Some(group) = of(removal)
            {
                self.partial_from(&group, removal.at);
            }
        }
    }
}

/// Returns the time of the last eviction for a plan whose `Preemption` was deleted, or of the deletion if there was none later. Evictions that
/// are requested although the leader must have observed the deletion do not count.
fn evicts_until(history: &History, plan: &DeletedPlan) -> Timestamp {
    let observed = time_of(plan.at + UNHEARD.unsigned_abs());
    let is_for_plan = |removal: &&Removal| history.plan_of(removal).is_some_and(|record| record.plan.id == plan.name);
    let evicted = history.evicted().into_iter().filter(|removal| removal.at <= observed).filter(is_for_plan);
    evicted.map(|removal| removal.at).fold(time_of(plan.at), Ord::max)
}

/// Returns all preemptors for which pods were evicted, with the reason for which one may stay unbound.
pub fn judged(world: &World, history: &History) -> Vec<(Outcome, Option<String>)> {
    let outcomes = outcomes(history).into_iter();
    outcomes.map(|outcome| (reason(world, history, &outcome), outcome)).map(|(why, outcome)| (outcome, why)).collect()
}

/// Returns the reason for which a preemptor may stay unbound: capacity or pods were taken from it between the first eviction of its last
/// plan and the time at which it was completely bound. The initial state, added capacity and events that do not concern the plan are not a
/// reason.
fn reason(world: &World, history: &History, outcome: &Outcome) -> Option<String> {
    let plan = last_of(history, &outcome.plan)?;
    let end = outcome.complete.unwrap_or(Timestamp::MAX);
    if let Some(disturbance) = disturbed(world, &plan.plan, outcome.first, end) {
        return Some(disturbance);
    }
    // Includes preemptors that were created after the plan was made, but that the leader may not have observed before the first eviction.
    let made =
        history.plans.iter().find(|record| record.plan.id == outcome.plan).map_or(outcome.first, |made| made.asked);
    let during = |at: Timestamp| (made.min(outcome.first)..=end).contains(&at);
    let breaker = || {
        let is_unbound = outcome.complete.is_none();
        (is_unbound && is_stopped_by_breaker(world, &outcome.name)).then(|| "a circuit breaker is open".to_owned())
    };
    overtaken(history, plan, during).or_else(breaker)
}

/// Returns the first disturbance that may have taken pods or capacity from a plan between these times, or that the leader may not have
/// observed at the first one.
pub fn disturbed(world: &World, plan: &StoredPlan, from: Timestamp, to: Timestamp) -> Option<String> {
    let from = Timestamp::from_millisecond(from.as_millisecond() - UNHEARD).unwrap_or(from);
    let mut disturbed = world.disturbed.iter().filter(|it| it.touch.concerns(plan));
    let it = disturbed.find(|it| (from..=to).contains(&time_of(it.at)))?;
    Some(format!("{:?} at {} s", it.touch, it.at / 1_000))
}

/// Returns the last stored version of a plan.
fn last_of<'h>(history: &'h History, plan: &str) -> Option<&'h PlanRecord> {
    history.plans.iter().rev().find(|record| record.plan.id == plan)
}

impl Touch {
    /// Returns true if the disturbance may take pods or capacity from this plan.
    fn concerns(&self, plan: &StoredPlan) -> bool {
        let victims = || plan.victims.iter().flat_map(|unit| &unit.pods);
        match self {
            Self::Everybody => true,
            Self::Owner(owner) => {
                let own = |name: &str| name.strip_prefix(owner.as_str()).is_some_and(|rest| rest.starts_with('-'));
                let preemptor = &plan.preemptor.name;
                preemptor == owner || own(preemptor) || victims().any(|pod| own(&pod.name))
            }
            Self::Node(node) => {
                plan.placements.iter().any(|placement| placement.node == *node)
                    || victims().any(|pod| pod.node == *node)
            }
        }
    }
}

/// Returns the reason if a preemptor of higher priority evicted pods of this preemptor, was bound or nominated to one of its nodes, or had
/// a plan for one.
pub fn overtaken(history: &History, plan: &PlanRecord, during: impl Fn(Timestamp) -> bool) -> Option<String> {
    let (name, priority) = (&plan.plan.preemptor.name, plan.plan.preemptor.priority);
    let own =
        |uid: &str| history.pods.get(uid).is_some_and(|pod| pod.group.as_ref() == Some(name) || pod.key.1 == *name);
    let placed = |node: &str| plan.plan.placements.iter().any(|placement| placement.node == node);
    let evicted = history.evicted().into_iter().find(|removal| during(removal.at) && own(&removal.uid));
    if let Some(removal) = evicted {
        return Some(format!("{} was evicted itself", removal.pod.1));
    }
    let binding = history.bindings.iter().find(|binding| {
        let higher = history.effective_priority(&binding.uid).is_some_and(|of| of > priority);
        during(binding.at) && higher && !own(&binding.uid) && placed(&binding.node)
    });
    if let Some(binding) = binding {
        return Some(format!("{} was bound to {}", binding.pod.1, binding.node));
    }
    // A plan without victims is not stored: nominations reserve its nodes.
    let nominated = history.nominations.iter().find(|nomination| {
        let of_name = |pod: &PodRecord| pod.key == nomination.pod;
        let uid = history.pods.iter().find(|(_, pod)| of_name(pod)).map_or("", |(uid, _)| uid.as_str());
        let higher = history.effective_priority(uid).is_some_and(|of| of > priority);
        during(nomination.at) && higher && !own(uid) && nomination.node.as_deref().is_some_and(placed)
    });
    if let Some(nomination) = nominated {
        return Some(format!(
            "{} was nominated to {}",
            nomination.pod.1,
            nomination.node.as_deref().unwrap_or_default()
        ));
    }
    let higher = history.plans.iter().find(|other| {
        let same = other.plan.placements.iter().any(|other| placed(&other.node));
        during(other.at) && other.plan.preemptor.priority > priority && same
    });
    higher.map(|other| format!("plan {} has a higher priority", other.plan.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::object::uid;
    use crate::simulation::server::Server;
    use giveway_tests::audit::{ADMIN, unanswered};
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_partial_disruption_is_excused_for_its_group_and_its_time() {
        let mut excuses = Excuses::default();
        excuses.partial_from("low", at(100));
        let covered = |group: &str, seconds: i64| {
            let group = ("default".to_owned(), group.to_owned());
            excuses.cover(&BreachKind::PartialDisruption { group, first: at(seconds) })
        };
        assert!(covered("low", 100) && covered("low", 101));
        assert!(!covered("high", 100), "another PodGroup");
        assert!(!covered("low", 98) && !covered("low", 102), "another time");
    }

    fn evict(server: &mut Server, at: u64, name: &str, plan: &str) {
        server.now = at;
        let insisted = uid(server.get(Kind::Pod, name).unwrap()).to_owned();
        server.evict(OPERATOR, (name, &insisted, None), None, Some(plan), false).unwrap();
    }

    #[test]
    fn a_plan_evicts_until_the_leader_observes_the_deletion_of_its_preemption() {
        let mut server = Server::default();
        let mut pods = Vec::new();
        for name in ["low-0", "low-1", "low-2"] {
            let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n1"},
                "status": {"phase": "Running", "conditions": []}});
            server.create(OPERATOR, Kind::Pod, pod).unwrap();
            pods.push(json!({"name": name, "uid": uid(server.get(Kind::Pod, name).unwrap()), "node": "n1"}));
        }
        let unit = json!({"kind": "PodGroup", "namespace": "default", "name": "low", "priority": 10, "pods": pods});
        let plan = json!({"metadata": {"name": "plan"}, "spec": {"victims": [unit]}});
        server.create(OPERATOR, Kind::Preemption, plan).unwrap();
        server.now = 10_000;
        server.delete(ADMIN, Kind::Preemption, "plan");
        let (name, groups, planned) = ("plan".to_owned(), vec!["low".to_owned()], time_of(0));
        let plan = DeletedPlan { name, groups, pods: Vec::new(), unheard: false, planned, at: 10_000 };
        let until = |server: &Server| evicts_until(&unanswered::history_of(&server.audit), &plan);
        assert_eq!(until(&server), time_of(10_000), "no pod was evicted");
        evict(&mut server, 10_028, "low-0", "plan");
        assert_eq!(until(&server), time_of(10_028), "the leader had not observed the deletion");
        evict(&mut server, 11_000, "low-1", "other");
        assert_eq!(until(&server), time_of(10_028), "for another plan");
        evict(&mut server, 40_000, "low-2", "plan");
        assert_eq!(until(&server), time_of(10_028), "the leader must have observed the deletion");
    }

    #[test]
    fn preemptors_and_deleted_plans_are_excused_by_name() {
        let mut excuses = Excuses::default();
        excuses.unbound.insert("high".to_owned());
        excuses.deleted_plans.insert("plan".to_owned());
        let unbound = |name: &str| excuses.cover(&BreachKind::Unbound { preemptor: name.to_owned(), evictions: 3 });
        assert!(unbound("high") && !unbound("low"));
        let deleted = |name: &str| excuses.cover(&BreachKind::DeletedPlan { plan: name.to_owned() });
        assert!(deleted("plan") && !deleted("other"));
        assert!(!excuses.cover(&BreachKind::Other));
    }

    #[test]
    fn evictions_of_partially_scheduled_gangs_are_excused_by_pod() {
        let mut excuses = Excuses::default();
        excuses.partially_scheduled.insert("half".to_owned());
        let covered = |pods: &[&str]| {
            let (group, pods) = (("default".to_owned(), "low".to_owned()), owned(pods));
            excuses.cover(&BreachKind::PartiallyScheduled { group, pods, complete: true })
        };
        assert!(covered(&["half"]));
        assert!(!covered(&["half", "other"]), "another pod");
    }

    #[test]
    fn evictions_after_a_plan_without_one_are_excused_by_a_pod_that_left_or_a_lost_connection() {
        let mut excuses = Excuses::default();
        excuses.left.insert("failed".to_owned());
        excuses.cut_off.push((at(100), at(120)));
        let covered = |seconds: i64, pods: &[&str]| {
            excuses.cover(&BreachKind::NotPartiallyDisrupted { at: at(seconds), pods: owned(pods) })
        };
        assert!(covered(50, &["failed", "other"]) && covered(110, &["other"]));
        assert!(!covered(50, &["other"]), "another pod");
        assert!(!covered(130, &["other"]), "another time");
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}
