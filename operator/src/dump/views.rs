//! What a dump shows of each part of the operator. Names are in full and texts are cut, so that no entry is long.

use super::{section, shorten};
use crate::clock::Clock;
use crate::departures::Departures;
use crate::departures::view::DepartureView;
use crate::plans::{Flight, Flights};
use crate::preemption::queue::PendingPreemptor;
use giveway_crds::plan::{PlanState, StoredPlan, StoredVictim};
use giveway_planner::Preemptor;
use giveway_planner::model::Cluster;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Maximum number of units that the entry of a plan names.
const MOST_UNITS: usize = 10;

/// Returns in one word what a plan in flight waits for before its next step, for example `Evictions`.
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
        PlanState::Ungating => "Bindings",
        PlanState::Completed | PlanState::Cancelled | PlanState::Failed | PlanState::Observed => "Nothing",
    }
}

/// Returns how many seconds ago a plan was made; `None` if it does not say when.
fn age(plan: &StoredPlan, clock: Clock) -> Option<i64> {
    let made = plan.planned_at.as_ref()?.0.as_second();
    Some(clock.epoch_seconds.saturating_sub(made).max(0))
}

/// Returns a victim of a plan, a single pod or a whole PodGroup, as `pod/NAMESPACE/NAME` or `podgroup/NAMESPACE/NAME`.
fn unit(unit: &StoredVictim) -> String {
    format!("{}/{}/{}", unit.kind.to_lowercase(), unit.namespace, unit.name)
}

/// Returns a JSON object without its fields that are `null`.
fn without_nulls(mut entry: Value) -> Value {
    if let Value::Object(fields) = &mut entry {
        fields.retain(|_, value| !value.is_null());
    }
    entry
}

/// Returns the entry of a plan in flight in the section `plans`, as a JSON object.
fn plan(flight: &Flight, cluster: &Cluster, clock: Clock) -> Value {
    json!({
        "name": flight.plan.id,
        "preemptor": flight.preemptor.to_string(),
        "priority": flight.priority,
        "cause": flight.plan.cause.as_str(),
        "state": flight.plan.state.as_str(),
        // The last state that the API server has confirmed.
        "stored": flight.stored.map(PlanState::as_str),
        "waitsFor": waits_for(flight),
        "message": shorten(&flight.message_with_limit()),
        "ageSeconds": age(&flight.plan, clock),
        "members": flight.members.len(),
        "bound": flight.bound(cluster),
        "victims": flight.victims.len(),
        "evicted": flight.victims.iter().filter(|victim| victim.accepted).count(),
        "terminated": flight.removed_victims(cluster),
        "refused": flight.refused.len(),
        "units": flight.plan.victims.iter().take(MOST_UNITS).map(unit).collect::<Vec<_>>(),
        "resumed": flight.resumed,
    })
}

/// Returns the line of the dump's section `plans`: the plans in flight, the oldest first.
pub fn plans(flights: &Flights, cluster: &Cluster, clock: Clock) -> String {
    let mut all: Vec<&Flight> = flights.values().collect();
    all.sort_by_key(|flight| flight.plan.planned_at.as_ref().map(|time| time.0));
    section("plans", &clock.time(), all.into_iter().map(|flight| plan(flight, cluster, clock)))
}

/// Returns the entry of a departure in the section `departures`, as a JSON object.
fn departure(view: &DepartureView<'_>, clock: Clock) -> Value {
    without_nulls(json!({
        "name": view.plan.id,
        "podGroup": view.group.to_string(),
        "cause": view.plan.cause.as_str(),
        "stage": view.stage.as_str(),
        "ageSeconds": age(view.plan, clock),
        "pods": view.pods,
        "evicted": view.evicted,
        "refused": view.refused,
        "refusal": view.refusal.as_deref().map(shorten),
    }))
}

/// Returns the line of the dump's section `departures`: all departures.
pub fn departures(departures: &Departures, clock: Clock) -> String {
    let all: Vec<DepartureView<'_>> = departures.views().collect();
    section("departures", &clock.time(), all.iter().map(|view| departure(view, clock)))
}

/// Returns the whole seconds from `now` until `until`; `None` if there is no such time or it has passed.
fn seconds_until(until: Option<Instant>, now: Instant) -> Option<u64> {
    until.filter(|until| *until > now).map(|until| until.duration_since(now).as_secs())
}

/// Returns the entry of a pending preemptor in the section `waiting`, as a JSON object: why it has no plan, and in how many seconds it is
/// retried.
fn preemptor(preemptor: &Preemptor, waiting: &PendingPreemptor, now: Instant) -> Value {
    let lasts = |until: &&Instant| **until > now;
    without_nulls(json!({
        "preemptor": preemptor.to_string(),
        "reason": waiting.wait_reason.as_ref().map(|wait| wait.reason.as_str()),
        "message": waiting.wait_reason.as_ref().map(|wait| shorten(&wait.message)),
        "failures": waiting.failures,
        "refusals": waiting.refusals,
        "retriedInSeconds": seconds_until(waiting.not_before, now),
        "othersFirstSeconds": seconds_until(waiting.disruption_back_off, now),
        // Besides the pods with a ban.
        "excludedVictims": waiting.excluded_victims.values().filter(lasts).count(),
    }))
}

/// Returns the line of the dump's section `waiting`: the pending preemptors without a plan, first those that back off.
pub fn waiting(preemptors: &BTreeMap<Preemptor, PendingPreemptor>, clock: Clock) -> String {
    let mut all: Vec<(&Preemptor, &PendingPreemptor)> = preemptors.iter().collect();
    all.sort_by_key(|(_, waiting)| seconds_until(waiting.not_before, clock.now).is_none());
    section("waiting", &clock.time(), all.into_iter().map(|(name, waiting)| preemptor(name, waiting, clock.now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_planner::model::ObjectKey;
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
