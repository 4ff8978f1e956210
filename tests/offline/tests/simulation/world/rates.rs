//! The limits on evictions per minute, judged by the requests of the operator and the answers of the API server, without the operator's own
//! count (`docs/advanced/limit-evictions.md`). Evictions of every cause count. Units of plans, also of those for critical add-ons, and partially scheduled gangs
//! wait; a PodGroup that is already partially disrupted does not, also if another user has removed one of its pods.

use super::World;
use crate::simulation::server::EPOCH;
use giveway_crds::plan::{Cause, StoredVictim};
use giveway_operator::config::Config;
use giveway_operator::messages::command::Command;

use giveway_tests::audit::{History, OPERATOR, Removal};
use std::collections::BTreeMap;

/// An eviction counts for this time after it was accepted, in milliseconds: ten seconds less than a minute, because a new leader knows the
/// times of an earlier one in whole seconds only.
const COUNTS: i64 = 50_000;

/// When the operator requested what, in milliseconds.
#[derive(Default)]
pub struct Requests {
    /// The last request to evict a pod, by name of the Preemption and UID of the pod. A request that was withdrawn or refused before does not
    /// count.
    evictions: BTreeMap<(String, String), u64>,
    /// The first request to store a Preemption, by its name.
    stored: BTreeMap<String, u64>,
}

impl Requests {
    /// Notes a command of the operator.
    pub fn note(&mut self, command: &Command, now: u64) {
        match command {
            Command::Evict(call) if !call.rehearsal => {
                let key = (call.cause.id().to_owned(), call.uid.to_string());
                self.evictions.insert(key, now);
            }
            Command::StorePlan { plan, .. } => {
                self.stored.entry(plan.id.clone()).or_insert(now);
            }
            _ => {}
        }
    }
}

/// An accepted eviction, with times in milliseconds.
struct Eviction<'h> {
    /// The name of the Preemption, and the number of the unit among its victims.
    unit: (&'h str, usize),
    cause: Cause,
    /// When another user first removed a pod of the unit, if one did.
    disrupted: Option<i64>,
    requested: i64,
    accepted: i64,
}

/// The result for one simulation.
#[derive(Default)]
pub struct Limited {
    /// The number of units that waited for the limit or might have had to: others were evicted in the minute before.
    pub judged: usize,
    /// The number of evictions that do not wait, but counted for one of these units.
    pub others: usize,
    /// One message for each breach.
    pub broken: Vec<String>,
}

/// Returns the limit; `None` if there is none. All pods are in one namespace, so that both limits are limits on the same evictions.
fn limit(config: &Config) -> Option<usize> {
    let limits = [config.evictions_per_minute_per_cluster, config.evictions_per_minute_per_namespace];
    limits.into_iter().flatten().min().map(|most| most as usize)
}

/// Judges when the eviction of each unit that has to wait began: all evictions in the minute before and those that began with it are at most
/// as many as the limit, or the unit is alone.
pub fn judge(world: &World, history: &History) -> Limited {
    let mut found = Limited::default();
    let Some(most) = limit(&world.config) else { return found };
    let evictions = evictions(world, history);
    let mut units: BTreeMap<(i64, (&str, usize)), usize> = BTreeMap::new();
    for eviction in evictions.iter().filter(|eviction| eviction.waits(begin(world, &evictions, eviction))) {
        *units.entry((begin(world, &evictions, eviction), eviction.unit)).or_default() += 1;
    }
    let mut times: Vec<i64> = units.keys().map(|(time, _)| *time).collect();
    times.dedup();
    for time in times {
        let together: BTreeMap<(&str, usize), usize> =
            units.iter().filter(|((at, _), _)| *at == time).map(|((_, unit), pods)| (*unit, *pods)).collect();
        let counts = |eviction: &&Eviction<'_>| {
            let recent = eviction.requested < time && eviction.accepted >= time - COUNTS;
            recent && !together.contains_key(&eviction.unit)
        };
        let before: Vec<&Eviction<'_>> = evictions.iter().filter(counts).collect();
        if before.is_empty() && together.len() == 1 {
            continue;
        }
        found.judged += together.len();
        found.others += before.iter().filter(|eviction| !eviction.waits(begin(world, &evictions, eviction))).count();
        let all = before.len() + together.values().sum::<usize>();
        if all > most {
            let names: Vec<&str> = together.keys().map(|(plan, _)| *plan).collect();
            let (names, second) = (names.join(", "), time / 1_000);
            found.broken.push(format!(
                "{all} evictions in a minute, and {most} are allowed: {names} began to evict at {second} s, after {}",
                before.len()
            ));
        }
    }
    found
}

impl Eviction<'_> {
    /// Returns true if an eviction whose unit began at this time had to wait for the limit. If another user removed a pod of a PodGroup in
    /// mode `PodGroup`, a leader that resumed the plan cannot tell that from an eviction by the leader before.
    fn waits(&self, begin: i64) -> bool {
        let waits = matches!(self.cause, Cause::Preemptor | Cause::CriticalAddon | Cause::PartiallyScheduled);
        waits && self.disrupted.is_none_or(|at| at > begin)
    }
}

/// Returns the accepted evictions. Those of a Preemption that an administrator deleted are left out, and those of which the operator could
/// not know whether they were carried out: a next leader does not count them.
fn evictions<'h>(world: &World, history: &'h History) -> Vec<Eviction<'h>> {
    let mut found = Vec::new();
    for removal in history.evicted() {
        let Some(record) = history.plan_of(removal) else { continue };
        let id = record.plan.id.as_str();
        let deleted = world.deleted.iter().any(|deleted| deleted.name == id);
        if deleted || world.thwarted.contains_key(&removal.uid) {
            continue;
        }
        let of_unit = |unit: &StoredVictim| unit.pods.iter().any(|pod| pod.uid == removal.uid);
        let unit = record.plan.victims.iter().position(of_unit).unwrap_or(0);
        let pods =
            record.plan.victims.get(unit).filter(|unit| unit.kind == "PodGroup").into_iter().flat_map(|it| &it.pods);
        let uids: Vec<&str> = pods.map(|pod| pod.uid.as_str()).collect();
        let by_others =
            |other: &&Removal| other.accepted && other.user != OPERATOR && uids.contains(&other.uid.as_str());
        let disrupted = history.removals.iter().filter(by_others).map(milliseconds).min();
        let accepted = milliseconds(removal);
        let requested = world.requests.evictions.get(&(id.to_owned(), removal.uid.clone()));
        // A request whose answer was lost is repeated after the eviction.
        let requested = requested.map_or(accepted, |at| accepted.min(*at as i64));
        found.push(Eviction { unit: (id, unit), cause: record.plan.cause, disrupted, requested, accepted });
    }
    found
}

/// Returns the time of a removal, in milliseconds since the start.
fn milliseconds(removal: &Removal) -> i64 {
    removal.at.as_millisecond() - EPOCH * 1_000
}

/// Returns when the eviction of a unit began: with its first request, or for a partially scheduled gang when its Preemption was to be stored,
/// because the limit is reserved for it from then on.
fn begin(world: &World, evictions: &[Eviction<'_>], eviction: &Eviction<'_>) -> i64 {
    let unit = evictions.iter().filter(|other| other.unit == eviction.unit);
    let first = unit.map(|other| other.requested).min().unwrap_or(eviction.requested);
    let stored = world.requests.stored.get(eviction.unit.0).filter(|_| eviction.cause == Cause::PartiallyScheduled);
    stored.map_or(first, |at| first.min(*at as i64))
}
