//! Computes the status of a PodGroup. Pure; the status is written only if it differs from the stored one.

pub mod debounce;
mod domain;
#[cfg(test)]
mod tests;
pub mod writing;

pub use domain::contradiction;

use crate::model::{GroupRecord, Model};
use crate::plans::Flight;
use giveway_crds::brief::{MOST_OF_MESSAGE, first_characters};
use giveway_crds::condition::{self, Reason, types};
use giveway_crds::lending::RequestedPriority;
use giveway_crds::plan::{PlanState, PreemptionSummary};
use giveway_crds::pod_group::{PodCounts, PreemptedPod, PreemptorReference};
use giveway_crds::wording::conditions::pod_group::{BoundMembers, ExistingMembers, OtherPriority};
use giveway_crds::wording::conditions::progress::UngatedMembers;
use giveway_crds::wording::conditions::{self, pod_group, progress};
use giveway_crds::wording::{Names, Sentence};
use giveway_crds::{PodGroupStatus, WorkloadStatus, workload::GroupCounts};
use giveway_planner::Preemptor;
use giveway_planner::model::{Cluster, Finished, Group, ObjectKey, Pod, PodPhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Why a preemptor without a plan in flight is pending, by the last decision; or the state of a capacity request to a cluster autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitReason {
    /// The reason of a condition.
    pub reason: Reason,
    /// The message.
    pub message: String,
}

impl WaitReason {
    /// Creates the reason and message why a preemptor is pending, as a condition has them.
    pub fn new(reason: Reason, message: String) -> Self {
        Self { reason, message }
    }
}

/// Why all or some pods of a PodGroup are evicted, for its condition `DisruptionTarget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victimhood {
    /// Name of the `Preemption`.
    pub plan: String,
    /// The preemptor, if there is one.
    pub preemptor: Option<PreemptorReference>,
    /// The reason of the condition `DisruptionTarget`.
    pub reason: Reason,
    /// The message.
    pub message: Sentence,
    /// True if all pods of the PodGroup are disrupted together, false for single pods.
    pub whole: bool,
}

/// Everything that the status of a PodGroup depends on.
pub struct GroupFacts<'a> {
    /// The state of the cluster.
    pub model: &'a Model,
    /// The PodGroup in the planner's form.
    pub group: &'a Group,
    /// Its other fields.
    pub record: &'a GroupRecord,
    /// The plan in flight for it.
    pub flight: Option<&'a Flight>,
    /// The last plan that ended, if it is newer than the status.
    pub last_plan: Option<&'a PreemptionSummary>,
    /// The last decision.
    pub wait_reason: Option<&'a WaitReason>,
    /// Set while it is being disrupted.
    pub victim_of: Option<&'a Victimhood>,
    /// Why the `Preemption` of this disruption cannot be stored.
    pub unwritten: Option<&'a str>,
    /// The state of its capacity request.
    pub capacity: Option<&'a WaitReason>,
    /// A problem that prevents its scheduling.
    pub problem: Option<&'a str>,
    /// Why members of it do not exist, as sentences.
    pub absent: Option<&'a str>,
    /// Its finished members.
    pub finished: &'a Finished,
    /// The marks of preempted pods that stay in its status.
    pub marks: BTreeMap<String, PreemptedPod>,
    /// Which names of other namespaces the status may contain.
    pub names: Names,
    /// The current time.
    pub now: Time,
}

/// Returns the status that a PodGroup should have. Fields and conditions that the facts do not determine keep the values in its stored
/// status.
pub fn group_status(facts: &GroupFacts<'_>) -> PodGroupStatus {
    let old = &facts.record.status;
    let counts = count(facts);
    let finished = facts.finished;
    let mut status = PodGroupStatus {
        conditions: old.conditions.clone(),
        observed_generation: facts.record.generation,
        pods: Some(counts),
        finished: finished.remember.clone(),
        preemption: plan_summary(facts).or_else(|| old.preemption.clone()),
        preempted_by: facts
            .victim_of
            .and_then(|v| v.preemptor.as_ref())
            .map(|preemptor| facts.without_hidden_names(preemptor))
            .or_else(|| old.preempted_by.clone()),
        preempted_pods: facts.marks.clone(),
    };
    let generation = facts.record.generation;
    let mut set = |type_: &str, value: bool, reason: Reason, message: &str| {
        condition::set(&mut status.conditions, type_, value, reason, message, generation, facts.now.clone());
    };
    let now = scheduled(facts, counts, finished.count);
    set(types::SCHEDULED, now.0, now.1, &now.2);
    let (ever, reason, message) = initially_scheduled(facts, now);
    set(types::INITIALLY_SCHEDULED, ever, reason, &message);
    let others = [
        (types::PREEMPTING, planned(facts)),
        (types::DISRUPTION_TARGET, disrupted(facts, counts, finished.count)),
        (types::CAPACITY_REQUESTED, capacity(facts)),
        (types::PODS_NOT_MATCHING_PRIORITY, mismatch(facts)),
    ];
    for (type_, (value, reason, message)) in others.into_iter().filter_map(|(type_, found)| Some((type_, found?))) {
        set(type_, value, reason, &message);
    }
    status
}

/// Returns true if `new` differs from `old` in more than counts of pods and messages of conditions: in the state or reason of a condition,
/// the plan, the preemptor, or the marks of preempted pods.
pub fn has_changed(old: &PodGroupStatus, new: &PodGroupStatus) -> bool {
    let conditions = |status: &PodGroupStatus| {
        let reasons = |c: &Condition| (c.type_.clone(), c.status.clone(), c.reason.clone());
        status.conditions.iter().map(reasons).collect::<Vec<_>>()
    };
    conditions(old) != conditions(new)
        || old.preemption != new.preemption
        || old.preempted_by != new.preempted_by
        || old.preempted_pods != new.preempted_pods
        || old.finished.replaced != new.finished.replaced
        || old.observed_generation != new.observed_generation
}

/// Counts the pods of a PodGroup by state, as its status has them.
fn count(facts: &GroupFacts<'_>) -> PodCounts {
    let mut counts = PodCounts::default();
    for pod in facts.model.cluster.members(&facts.group.key) {
        counts.total += 1;
        let is_scheduled = pod.live() && pod.node.is_some();
        counts.gated += i32::from(pod.gated && pod.live());
        counts.scheduled += i32::from(is_scheduled);
        counts.ready += i32::from(is_scheduled && pod.ready);
        match pod.phase {
            PodPhase::Succeeded => counts.succeeded += 1,
            PodPhase::Failed => counts.failed += 1,
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {}
        }
    }
    counts
}

/// Converts a count in a status to a number of pods; a negative one is 0.
fn size(count: i32) -> usize {
    usize::try_from(count).unwrap_or_default()
}

/// Returns how many members must be bound for the PodGroup to count as scheduled: `minCount` of a gang, 1 for another group.
fn needed(facts: &GroupFacts<'_>) -> usize {
    facts.group.min_count.unwrap_or(1)
}

/// Returns status, reason and message of the condition `Scheduled`: true if bound and finished members are at least as many as needed.
/// `finished` is the number of finished members.
fn scheduled(facts: &GroupFacts<'_>, counts: PodCounts, finished: usize) -> (bool, Reason, String) {
    let needed = needed(facts);
    let enough = size(counts.scheduled).saturating_add(finished) >= needed && counts.scheduled > 0;
    // A PodGroup whose pods have all succeeded was scheduled, even if that was never written.
    if enough || finished >= needed.max(1) {
        return (true, Reason::Scheduled, bound(facts, counts, finished));
    }
    let was = condition::is_true(&facts.record.status.conditions, types::INITIALLY_SCHEDULED);
    let (reason, mut message) = match was && facts.flight.is_none() && facts.wait_reason.is_none() {
        true => (Reason::WaitingForPods, bound(facts, counts, finished)),
        false => missing_reason(facts, finished),
    };
    if let Some(why) = facts.absent.filter(|_| reason == Reason::WaitingForPods) {
        message.push(' ');
        message.push_str(why);
    }
    (false, reason, message)
}

/// Returns the sentence with the numbers of bound, ready and needed members. `finished` is the number of finished members.
fn bound(facts: &GroupFacts<'_>, counts: PodCounts, finished: usize) -> String {
    let bound = pod_group::bound(BoundMembers {
        bound: size(counts.scheduled),
        ready: size(counts.ready),
        finished,
        needed: needed(facts),
        domain: domain::bound(facts).as_ref(),
    });
    match contradiction(&facts.model.cluster, facts.group) {
        Some(why) => format!("{bound} {why}"),
        None => bound,
    }
}

/// Returns status, reason and message of the condition `PodGroupInitiallyScheduled`, given those of the condition `Scheduled`. Once true it
/// stays true with the reason `Scheduled`; its message still describes the current state.
fn initially_scheduled(
    facts: &GroupFacts<'_>,
    (now, reason, message): (bool, Reason, String),
) -> (bool, Reason, String) {
    if now || !condition::is_true(&facts.record.status.conditions, types::INITIALLY_SCHEDULED) {
        return (now, reason, message);
    }
    let message = match facts.flight.is_none() && facts.wait_reason.is_none() {
        true => pod_group::was_scheduled(&message),
        false => pod_group::pending_again(&message),
    };
    (true, Reason::Scheduled, message)
}

/// Returns reason and message why fewer members of the PodGroup are bound than it needs: what prevents it, or else that members do not
/// exist. `finished` is the number of finished members.
fn missing_reason(facts: &GroupFacts<'_>, finished: usize) -> (Reason, String) {
    if let Some(known) = waits_for(facts.model, facts.problem, facts.flight, facts.wait_reason) {
        return known;
    }
    let below = members_below_priority(facts).filter(|pod| pod.node.is_none()).count();
    let gated = gated_by_others(&facts.model.cluster, &facts.group.key);
    let live = facts.model.cluster.members(&facts.group.key).filter(|pod| pod.live()).count();
    let live = live.saturating_sub(below).saturating_sub(gated);
    let members = ExistingMembers { needed: needed(facts), live, finished, below, gated };
    (Reason::WaitingForPods, pod_group::members_missing(members))
}

/// Returns the reason and message why a preemptor is pending: `problem`, which prevents its scheduling; else the progress of the plan in
/// flight (`flight`); else the last decision (`wait_reason`). `None` if there is none of them: it only lacks members.
pub fn waits_for(
    model: &Model,
    problem: Option<&str>,
    flight: Option<&Flight>,
    wait_reason: Option<&WaitReason>,
) -> Option<(Reason, String)> {
    if let Some(problem) = problem {
        return Some((Reason::SchedulerError, pod_group::unusable(problem)));
    }
    if let Some(flight) = flight {
        return Some(in_flight(model, flight));
    }
    wait_reason.map(|wait| (wait.reason, wait.message.clone()))
}

/// Returns reason and message of the condition `Scheduled` while a plan is in flight: its stage, and why it cannot be stored, if so.
fn in_flight(model: &Model, flight: &Flight) -> (Reason, String) {
    let (reason, mut message) = stage(model, flight);
    if let Some(why) = flight.unwritten.as_deref().filter(|_| flight.waits_for_storing()) {
        message.push(' ');
        message.push_str(&progress::not_stored(why));
    }
    (reason, message)
}

/// Returns reason and message of the condition `Scheduled` for the stage that a plan in flight has reached.
fn stage(model: &Model, flight: &Flight) -> (Reason, String) {
    let cluster = &model.cluster;
    let (placed, domain) = (flight.members.len(), flight.plan.domain.as_ref());
    if flight.plan.state == PlanState::Ungating {
        return ungating(model, flight);
    }
    if flight.evicts() {
        let (removed, victims) = (flight.removed_victims(cluster), flight.victims.len());
        let message = progress::victims_terminate(placed, domain, removed, victims);
        match &flight.reached_limit {
            Some(held) => {
                let why = Names::default().render(&held.sentence(), &flight.preemptor.key().namespace);
                (Reason::EvictionsLimited, format!("{message} {why}"))
            }
            None if flight.depends_since.is_some() => {
                (Reason::WaitingForPreemption, format!("{message} {}", progress::depends_on_another_plan()))
            }
            None => (Reason::WaitingForPreemption, message),
        }
    } else {
        let nodes: BTreeSet<&str> = flight.members.iter().map(|m| m.node.as_str()).collect();
        match nodes.into_iter().flat_map(|node| cluster.pods_on(node)).filter(|pod| pod.leaves).count() {
            0 => (Reason::Ungating, progress::capacity_reserved(placed, domain)),
            leaving => (Reason::WaitingForTermination, progress::fits_after_termination(placed, domain, leaving)),
        }
    }
}

/// Returns reason and message of the condition `Scheduled` while the members of a plan are ungated, and kube-scheduler binds them.
fn ungating(model: &Model, flight: &Flight) -> (Reason, String) {
    let cluster = &model.cluster;
    let bound = flight.bound(cluster);
    let members = UngatedMembers {
        placed: flight.members.len(),
        bound,
        others: others_bound(cluster, flight, bound),
        domain: flight.plan.domain.as_ref(),
    };
    let mut unbound = flight.members.iter().filter(|m| cluster.pod(&m.pod).is_some_and(|p| p.node.is_none()));
    let said = unbound.find_map(|m| model.scheduler_message(&m.pod));
    let waits = flight.waits_for_scheduler.map(|wait| format!(" {}", wait.sentence())).unwrap_or_default();
    match said.filter(|_| flight.binding_wait.is_some()) {
        Some(said) => {
            let (message, said) = (progress::ungated_not_bound(members), progress::scheduler_says(said));
            (Reason::SchedulerError, format!("{message}{waits} {said}"))
        }
        None => (Reason::Ungating, format!("{}{waits}", progress::ungated(members))),
    }
}

/// Returns how many live members of the PodGroup are bound that this plan did not place. `bound` is the number of bound members that it
/// placed. 0 if the preemptor is a single pod.
fn others_bound(cluster: &Cluster, flight: &Flight, bound: usize) -> usize {
    let Preemptor::Group(key) = &flight.preemptor else { return 0 };
    cluster.members(key).filter(|pod| pod.live() && pod.bound()).count().saturating_sub(bound)
}

impl GroupFacts<'_> {
    /// Returns the preemptor as it may be shown in the status: without its names if users of the PodGroup's namespace must not see them.
    fn without_hidden_names(&self, preemptor: &PreemptorReference) -> PreemptorReference {
        let known = |namespace: &String| self.names.known(namespace, &self.group.key.namespace);
        if preemptor.namespace.as_ref().is_none_or(known) { preemptor.clone() } else { preemptor.without_names() }
    }

    /// Returns the text of a message, without names that users of the PodGroup's namespace must not see.
    fn render(&self, sentence: &Sentence) -> String {
        self.names.render(sentence, &self.group.key.namespace)
    }
}

/// Returns the summary of the plan in flight, if it has victims and is stored; else that of the last plan that ended, if the status does
/// not show it yet; else `None`.
fn plan_summary(facts: &GroupFacts<'_>) -> Option<PreemptionSummary> {
    match facts.flight {
        Some(flight) if flight.evicts() && flight.stored.is_some() => Some(summary(flight, facts.names)),
        _ => facts.last_plan.cloned(),
    }
}

/// Returns what the status of a PodGroup says about its plan in flight. `names` says which names of other namespaces may be shown.
pub fn summary(flight: &Flight, names: Names) -> PreemptionSummary {
    PreemptionSummary {
        name: flight.plan.id.clone(),
        state: flight.plan.state,
        victims: flight.plan.cost.victim_pods,
        message: first_characters(&flight.message_for_preemptor(names), MOST_OF_MESSAGE).to_owned(),
    }
}

/// Returns status, reason and message of the condition `Preempting`, from the plan in flight or from the one that ended last; `None` if the
/// condition does not change.
fn planned(facts: &GroupFacts<'_>) -> Option<(bool, Reason, String)> {
    let plan = plan_summary(facts)?;
    let reason = state_reason(plan.state);
    Some((plan.state.in_flight(), reason, plan.message))
}

/// Returns the reason that names this state of a plan in conditions, events and metrics.
pub fn state_reason(state: PlanState) -> Reason {
    match state {
        PlanState::Planned => Reason::Planned,
        PlanState::Evicting => Reason::Evicting,
        PlanState::WaitingForVictims => Reason::WaitingForVictims,
        PlanState::Ungating => Reason::Ungating,
        PlanState::Completed => Reason::Completed,
        PlanState::Cancelled => Reason::Cancelled,
        PlanState::Failed => Reason::Failed,
        PlanState::Observed => Reason::Observing,
    }
}

/// Returns status, reason and message of the condition `DisruptionTarget`; `None` if it does not change. `finished` is the number of
/// finished members.
fn disrupted(facts: &GroupFacts<'_>, counts: PodCounts, finished: usize) -> Option<(bool, Reason, String)> {
    if let Some(victim) = facts.victim_of {
        let unwritten = facts.unwritten.map(|why| format!(" {}", progress::not_stored(why))).unwrap_or_default();
        return victim.whole.then(|| (true, victim.reason, facts.render(&victim.message) + &unwritten));
    }
    let found = condition::find(&facts.record.status.conditions, types::DISRUPTION_TARGET);
    let target = found.is_some_and(|found| found.status == "True");
    let was_partially_scheduled = found.is_some_and(|found| found.reason == Reason::PartiallyScheduled.as_str());
    let terminating = facts.model.cluster.members(&facts.group.key).any(|p| p.terminating);
    if target && was_partially_scheduled && !terminating && counts.scheduled == 0 {
        return Some((false, Reason::WaitingForPods, pod_group::replacements_start_together().to_owned()));
    }
    (target && counts.scheduled > 0 && !terminating && size(counts.scheduled).saturating_add(finished) >= needed(facts))
        .then(|| (false, Reason::Scheduled, pod_group::bound_again(size(counts.scheduled))))
}

/// Returns status, reason and message of the condition `CapacityRequested`: the state of the request, or that it is not needed any more.
/// `None` if there has been no request.
fn capacity(facts: &GroupFacts<'_>) -> Option<(bool, Reason, String)> {
    if let Some(WaitReason { reason, message }) = facts.capacity {
        return Some((*reason != Reason::CapacityFailed, *reason, message.clone()));
    }
    condition::find(&facts.record.status.conditions, types::CAPACITY_REQUESTED)?;
    Some((false, Reason::CapacityNotNeeded, conditions::capacity::not_needed().to_owned()))
}

/// Returns the live members whose priority is lower than that of the PodGroup.
fn members_below_priority<'a>(facts: &GroupFacts<'a>) -> impl Iterator<Item = &'a Pod> + use<'a> {
    let group = facts.group;
    facts.model.cluster.members(&group.key).filter(|pod| pod.live() && group.is_above(pod))
}

/// Returns the number of live pending members that a gang does not count yet, because they have a scheduling gate of another controller.
/// Members whose priority is lower than the PodGroup's are left out.
pub fn gated_by_others(cluster: &Cluster, key: &ObjectKey) -> usize {
    let Some(group) = cluster.group(key) else { return 0 };
    let waits = |pod: &&Pod| pod.live() && !pod.bound() && pod.gated_by_others && !group.is_above(pod);
    cluster.members(key).filter(waits).count()
}

/// Returns status, reason and message of the condition `PodsNotMatchingPriority`: how many members have another priority than the PodGroup,
/// and the effect of that. `None` if there are none and the condition was not true.
fn mismatch(facts: &GroupFacts<'_>) -> Option<(bool, Reason, String)> {
    let asked = facts.group.known_priority()?;
    let cluster = &facts.model.cluster;
    let above = cluster.members(&facts.group.key).filter(|pod| pod.live() && pod.priority > asked);
    let mut parts = Vec::new();
    if let Some(members) = other_priority(members_below_priority(facts).filter(|pod| pod.node.is_none()), asked) {
        let classes = cluster.classes();
        let name = facts.group.class_name.as_deref();
        let remedy =
            RequestedPriority { group: &facts.group.key.name, class_name: name, priority: asked }.remedy_later(classes);
        parts.push(pod_group::pending_below_priority(members, &remedy));
    }
    let bound = other_priority(members_below_priority(facts).filter(|pod| pod.node.is_some()), asked);
    parts.extend(bound.map(pod_group::bound_below_priority));
    parts.extend(other_priority(above, asked).map(pod_group::above_priority));
    let was = condition::is_true(&facts.record.status.conditions, types::PODS_NOT_MATCHING_PRIORITY);
    match parts.is_empty() {
        false => Some((true, Reason::PriorityMismatch, parts.join(" "))),
        true => was.then(|| (false, Reason::PriorityMatches, pod_group::priorities_match().to_owned())),
    }
}

/// Returns the number of the pods in `found` and the range of their priorities, beside `asked`, the priority of the PodGroup; `None` if
/// there are no such pods.
fn other_priority<'a>(found: impl Iterator<Item = &'a Pod>, asked: i32) -> Option<OtherPriority> {
    let found: Vec<i32> = found.map(|pod| pod.priority).collect();
    let (low, high) = (*found.iter().min()?, *found.iter().max()?);
    Some(OtherPriority { count: found.len(), low, high, asked })
}

/// Returns the status that a Workload should have: how many PodGroups were created from its templates, and how many of them are scheduled,
/// pending and preempting.
pub fn workload_status(model: &Model, workload: &ObjectKey, now: Time) -> WorkloadStatus {
    let mut counts = GroupCounts::default();
    let mut waits: Option<(&ObjectKey, &str)> = None;
    for (key, record) in model.groups_of_workload(workload) {
        counts.total += 1;
        let conditions = &record.status.conditions;
        let scheduled = condition::find(conditions, types::SCHEDULED);
        if scheduled.is_some_and(|found| found.status == "True") {
            counts.scheduled += 1;
        } else {
            counts.pending += 1;
            waits = waits.or(Some((key, scheduled.map_or("", |found| found.reason.as_str()))));
        }
        counts.preempting += i32::from(condition::is_true(conditions, types::PREEMPTING));
    }
    let object = model.workloads.get(workload);
    let mut conditions = object.and_then(|object| object.status.clone()).map(|s| s.conditions).unwrap_or_default();
    let generation = object.and_then(|object| object.metadata.generation);
    let (reason, message) = match waits {
        Some((group, why)) => {
            let why = Some(why).filter(|why| !why.is_empty());
            let message = conditions::workload::group_pending(counts.scheduled, counts.total, &group.name, why);
            (Reason::WaitingForPods, message)
        }
        None if counts.total == 0 => (Reason::WaitingForPods, conditions::workload::no_group().to_owned()),
        None => (Reason::Scheduled, conditions::workload::all_scheduled(counts.total)),
    };
    let all = reason == Reason::Scheduled;
    condition::set(&mut conditions, types::GROUPS_SCHEDULED, all, reason, &message, generation, now);
    WorkloadStatus { conditions, observed_generation: generation, groups: Some(counts) }
}
