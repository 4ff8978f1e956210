//! What a dump shows of each part of the operator. Names are in full and texts are cut, so that no entry is long.

use super::{cut, line, section};
use crate::clock::Clock;
use crate::departures::Departures;
use crate::departures::view::DepartureView;
use crate::plans::{Flight, Flights};
use crate::preemption::queue::PendingPreemptor;
use giveway_crds::plan::{PlanState, StoredPlan, StoredVictim};
use giveway_planner::Preemptor;
use giveway_planner::model::Cluster;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// Maximum number of units that the entry of a plan names.
const MOST_UNITS: usize = 10;

/// The section `operator`. It has no entries whose number could grow.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    /// Whether this process leads.
    pub leader: Leader,
    /// The mode.
    pub mode: &'static str,
    /// Why no pod may be evicted now, as the beginning of a sentence.
    pub restraint: Option<String>,
    /// The limits on evictions and calls.
    pub limits: LimitsView,
    /// Number of plans in flight, with and without victims.
    pub plans: usize,
    /// Number of pods for which plans have reserved capacity.
    pub reservations: usize,
    /// Number of bans: placements that kube-scheduler did not bind, and victims whose eviction was rejected.
    pub bans: usize,
    /// The open circuit breakers.
    pub breakers: BreakersView,
    /// Number of critical add-ons that are Unschedulable.
    pub critical_addons_waiting: usize,
    /// Number of PodGroups whose status is not written yet.
    pub statuses_waiting: usize,
    /// The queues, by name.
    pub queues: BTreeMap<&'static str, QueueView>,
    /// The watches, by kind.
    pub watches: BTreeMap<String, WatchView>,
    /// The watch because of which nothing is decided, as a sentence.
    pub broken_watch: Option<String>,
}

/// Whether a process leads, and what it has done to begin.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    /// The identity of the process, which is `status.term` of the Preemptions of its term.
    pub term: String,
    /// For how many seconds it may still write; absent if it does not lead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
    /// True if everything that it watches has been listed; a standby does not watch the stored plans.
    pub synced: bool,
    /// True if it has resumed the plans of the earlier leader.
    pub resumed: bool,
}

/// The limits on evictions and calls.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitsView {
    /// Maximum number of evictions per minute in a namespace.
    pub evictions_per_minute_per_namespace: Option<u32>,
    /// Maximum number of evictions per minute in the cluster.
    pub evictions_per_minute_per_cluster: Option<u32>,
    /// Number of evictions in the last minute; 0 without a limit per minute.
    pub evictions_in_the_last_minute: usize,
    /// Maximum number of evictions per second.
    pub evictions_per_second: u32,
    /// Maximum number of calls in flight, without evictions.
    pub concurrent_calls: u32,
}

/// The open circuit breakers.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakersView {
    /// Number of preemptors with an open breaker.
    pub preemptors: usize,
    /// Number of namespaces with an open breaker.
    pub namespaces: usize,
    /// True if the breaker of the cluster is open.
    pub cluster: bool,
}

/// A queue.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// Number of entries.
    pub depth: usize,
    /// For how many seconds the oldest entry has been waiting.
    pub age_seconds: u64,
}

/// A watch.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchView {
    /// How many seconds ago it last delivered something; absent if it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_age_seconds: Option<u64>,
    /// For how many seconds it has been failing; absent if it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_seconds: Option<u64>,
}

impl Operator {
    /// Returns the line of the section `operator`.
    pub fn line(&self, clock: Clock) -> String {
        line("operator", &clock.time(), self)
    }
}

/// A plan in flight.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanEntry<'a> {
    name: &'a str,
    preemptor: String,
    priority: i32,
    cause: &'static str,
    state: &'static str,
    /// The last state that the API server has confirmed.
    stored: Option<&'static str>,
    waits_for: &'static str,
    message: String,
    age_seconds: Option<i64>,
    members: usize,
    bound: usize,
    victims: usize,
    evicted: usize,
    terminated: usize,
    refused: usize,
    units: Vec<String>,
    resumed: bool,
}

/// Returns what a plan waits for.
fn waits_for(flight: &Flight) -> &'static str {
    let state = flight.plan.state;
    if flight.ending.is_some() {
        return "EvictedUnits";
    }
    match state {
        _ if flight.waits_for_storing() => "Storing",
        PlanState::Planned if flight.reached_limit.is_some() => "EvictionsLimited",
        PlanState::Planned if flight.is_postponed() => "PreemptionDelay",
        PlanState::Planned => "Nominations",
        PlanState::Evicting if flight.reached_limit.is_some() => "EvictionsLimited",
        PlanState::Evicting => "Evictions",
        PlanState::WaitingForVictims => "Victims",
        PlanState::Releasing => "Bindings",
        PlanState::Completed | PlanState::Cancelled | PlanState::Failed | PlanState::Observed => "Nothing",
    }
}

/// Returns how many seconds ago a plan was made.
fn age(plan: &StoredPlan, clock: Clock) -> Option<i64> {
    let made = plan.planned_at.as_ref()?.0.as_second();
    Some(clock.epoch_seconds.saturating_sub(made).max(0))
}

fn unit(unit: &StoredVictim) -> String {
    format!("{}/{}/{}", unit.kind.to_lowercase(), unit.namespace, unit.name)
}

fn plan<'a>(flight: &'a Flight, cluster: &Cluster, clock: Clock) -> PlanEntry<'a> {
    PlanEntry {
        name: &flight.plan.id,
        preemptor: flight.preemptor.to_string(),
        priority: flight.priority,
        cause: flight.plan.cause.as_str(),
        state: flight.plan.state.as_str(),
        stored: flight.stored.map(PlanState::as_str),
        waits_for: waits_for(flight),
        message: cut(&flight.message_with_limit()),
        age_seconds: age(&flight.plan, clock),
        members: flight.members.len(),
        bound: flight.bound(cluster),
        victims: flight.victims.len(),
        evicted: flight.victims.iter().filter(|victim| victim.accepted).count(),
        terminated: flight.removed_victims(cluster),
        refused: flight.refused.len(),
        units: flight.plan.victims.iter().take(MOST_UNITS).map(unit).collect(),
        resumed: flight.resumed,
    }
}

/// Returns the line of the section `plans`: the plans in flight, the oldest first.
pub fn plans(flights: &Flights, cluster: &Cluster, clock: Clock) -> String {
    let mut all: Vec<&Flight> = flights.values().collect();
    all.sort_by_key(|flight| flight.plan.planned_at.as_ref().map(|time| time.0));
    section("plans", &clock.time(), all.into_iter().map(|flight| plan(flight, cluster, clock)))
}

/// A departure.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DepartureEntry<'a> {
    name: &'a str,
    pod_group: String,
    cause: &'static str,
    stage: &'static str,
    age_seconds: Option<i64>,
    pods: usize,
    evicted: usize,
    refused: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
}

fn departure(view: DepartureView<'_>, clock: Clock) -> DepartureEntry<'_> {
    DepartureEntry {
        name: &view.plan.id,
        pod_group: view.group.to_string(),
        cause: view.plan.cause.as_str(),
        stage: view.stage.as_str(),
        age_seconds: age(view.plan, clock),
        pods: view.pods,
        evicted: view.evicted,
        refused: view.refused,
        refusal: view.refusal.as_deref().map(cut),
    }
}

/// Returns the line of the section `departures`.
pub fn departures(departures: &Departures, clock: Clock) -> String {
    let all: Vec<DepartureView<'_>> = departures.views().collect();
    section("departures", &clock.time(), all.into_iter().map(|view| departure(view, clock)))
}

/// A preemptor without a plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitingEntry {
    preemptor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Number of failed plans in a row.
    failures: u32,
    /// Number of plans in a row that were cancelled because an eviction was refused or rejected.
    refusals: u32,
    /// In how many seconds the next plan may be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    retried_in_seconds: Option<u64>,
    /// For how many seconds other preemptors come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    others_first_seconds: Option<u64>,
    /// Number of pods that are excluded as victims for this preemptor, besides those with a ban.
    excluded_victims: usize,
}

/// Returns for how many seconds a time has not come; `None` if it has.
fn left(until: Option<Instant>, now: Instant) -> Option<u64> {
    until.filter(|until| *until > now).map(|until| until.duration_since(now).as_secs())
}

fn preemptor(preemptor: &Preemptor, waiting: &PendingPreemptor, now: Instant) -> WaitingEntry {
    let lasts = |until: &&Instant| **until > now;
    WaitingEntry {
        preemptor: preemptor.to_string(),
        reason: waiting.wait_reason.as_ref().map(|wait| wait.reason.as_str()),
        message: waiting.wait_reason.as_ref().map(|wait| cut(&wait.message)),
        failures: waiting.failures,
        refusals: waiting.refusals,
        retried_in_seconds: left(waiting.not_before, now),
        others_first_seconds: left(waiting.disruption_back_off, now),
        excluded_victims: waiting.excluded_victims.values().filter(lasts).count(),
    }
}

/// Returns the line of the section `waiting`: the preemptors without a plan, those that back off first.
pub fn waiting(preemptors: &BTreeMap<Preemptor, PendingPreemptor>, clock: Clock) -> String {
    let mut all: Vec<(&Preemptor, &PendingPreemptor)> = preemptors.iter().collect();
    all.sort_by_key(|(_, waiting)| left(waiting.not_before, clock.now).is_none());
    section("waiting", &clock.time(), all.into_iter().map(|(name, waiting)| preemptor(name, waiting, clock.now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_planner::model::ObjectKey;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn group(name: &str) -> Preemptor {
        Preemptor::Group(ObjectKey::new("default", name))
    }

    #[test]
    fn preemptors_that_back_off_come_first_with_the_time_of_their_next_plan() {
        let clock = Clock { now: Instant::now(), epoch_seconds: 0 };
        let after = |seconds| clock.now + Duration::from_secs(seconds);
        let failed = PendingPreemptor {
            not_before: Some(after(60)),
            failures: 7,
            excluded_victims: [("uid-a".into(), after(30)), ("uid-b".into(), clock.now)].into(),
            ..PendingPreemptor::default()
        };
        let over = PendingPreemptor { not_before: Some(clock.now), failures: 1, ..PendingPreemptor::default() };
        let waiting = waiting(&[(group("a"), over), (group("z"), failed)].into(), clock);
        let waiting: Value = serde_json::from_str(&waiting).unwrap();
        let entries = [
            json!({"preemptor": "podgroup/default/z", "failures": 7, "refusals": 0, "retriedInSeconds": 60,
                   "excludedVictims": 1}),
            json!({"preemptor": "podgroup/default/a", "failures": 1, "refusals": 0, "excludedVictims": 0}),
        ];
        assert_eq!(waiting["entries"], json!(entries));
    }

    #[test]
    fn an_entry_of_a_plan_is_short_whatever_the_number_of_its_victims() {
        let victim = |number: usize| StoredVictim {
            kind: "Pod".into(),
            name: format!("low-{number}"),
            ..StoredVictim::default()
        };
        let stored = StoredPlan {
            id: "p-1".into(),
            message: "x".repeat(10_000),
            victims: (0..10_000).map(victim).collect(),
            ..StoredPlan::default()
        };
        let mut flights = Flights::default();
        let mut cluster = Cluster::default();
        flights.insert(Flight::new(group("train"), 10, stored, Instant::now()), &mut cluster);
        let line = plans(&flights, &cluster, Clock { now: Instant::now(), epoch_seconds: 0 });
        assert!(line.len() < 2_000, "{} bytes", line.len());
        let plan: Value = serde_json::from_str(&line).unwrap();
        let plan = &plan["entries"][0];
        assert_eq!((&plan["preemptor"], &plan["name"]), (&json!("podgroup/default/train"), &json!("p-1")));
        assert_eq!(plan["units"].as_array().unwrap().len(), MOST_UNITS);
        assert_eq!(plan["waitsFor"], "Storing");
    }
}
