//! Stored plans as the watch shows them. Complete objects are kept only until a new leader has resumed the plans. After that, and for ended
//! plans, only the fields that the history needs are kept.

use crate::limits::rates::NamespaceCounts;
use giveway_crds::breaker::PlanOutcome;
use giveway_crds::plan::{PlanState, StoredPreemptor};
use giveway_crds::preemption::{PreemptionStatus, plan_of_part};
use giveway_crds::{Preemption, critical};
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

/// A stored `Preemption`, or a part of one.
#[derive(Clone, Debug)]
pub struct PlanRecord {
    /// UID of the object.
    pub uid: SmolStr,
    /// The preemptor; empty if there is none.
    pub preemptor: StoredPreemptor,
    /// True if it is for a critical add-on: a node may have a taint for it.
    pub critical: bool,
    /// The node that the plan chose for a critical add-on.
    pub node: Option<SmolStr>,
    /// Its status; only the first part of a plan has one.
    pub status: PreemptionStatus,
    /// How it ended, if that counts for a circuit breaker.
    pub outcome: Option<PlanOutcome>,
    /// When it was created, in seconds since the epoch.
    pub created: i64,
    /// Approximate size in etcd, in bytes.
    pub bytes: usize,
    /// Number of victims in each namespace, while a new leader may have to count them for the limits on evictions.
    victims: NamespaceCounts,
    /// UIDs of the pods that a completed plan placed, until a new leader has read them.
    placed: Vec<SmolStr>,
    /// The object, while it may have to be resumed.
    object: Option<Box<Preemption>>,
}

/// Every stored plan, by name of the object.
#[derive(Debug, Default)]
pub struct Plans {
    records: BTreeMap<SmolStr, PlanRecord>,
    /// Plans that were deleted since the last pass.
    pub removed: Vec<SmolStr>,
    /// The outcomes that the watch has shown since the last pass and that count for circuit breakers, by name of the plan.
    pub outcomes: BTreeMap<SmolStr, PlanOutcome>,
    /// True if a complete list arrived since the last pass.
    pub listed: bool,
    resumed: bool,
}

/// The evictions of a plan of an earlier leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierEvictions {
    /// Name of the plan.
    pub plan: SmolStr,
    /// Maximum number of evicted pods in each namespace.
    pub need: NamespaceCounts,
    /// End of the plan, in seconds since the epoch; `None` while it is in flight.
    pub at: Option<i64>,
}

/// Approximate size of one victim, one placement, or one other field of an object, in bytes.
const BYTES_A_LINE: usize = 200;

impl Plans {
    /// Returns the keys of all `Preemption` objects that are stored.
    pub(super) fn names(&self) -> Vec<ObjectKey> {
        self.records.keys().map(|name| ObjectKey::new("", name)).collect()
    }

    /// Stores the new state of the `Preemption` with this name; `None` if it was deleted. Always returns false: no decision depends on it.
    pub(super) fn update(&mut self, name: &SmolStr, object: Option<Box<Preemption>>) -> bool {
        let Some(object) = object else {
            self.outcomes.remove(name);
            if self.records.remove(name).is_some() && plan_of_part(name) == name {
                self.removed.push(name.clone());
            }
            return false;
        };
        let (spec, status) = (&object.spec, object.status.clone().unwrap_or_default());
        let lines = 5 + spec.placements.len() + spec.victims.iter().map(|unit| 1 + unit.pods.len()).sum::<usize>();
        let is_completed = !self.resumed && status.state == PlanState::Completed;
        let placed = spec.placements.iter().filter(|_| is_completed).map(|place| SmolStr::new(&place.uid));
        let preemptor = spec.preemptor.clone().unwrap_or_default();
        let outcome = PlanOutcome::of(&spec.cause, &preemptor, &status);
        if let Some(outcome) = &outcome {
            self.outcomes.insert(name.clone(), outcome.clone());
        }
        let record = PlanRecord {
            uid: object.uid().unwrap_or_default().into(),
            preemptor,
            critical: critical::tainted_for(spec).is_some(),
            node: critical::tainted_for(spec).and_then(|_| Some(spec.placements.first()?.node.as_str().into())),
            created: object.creation_timestamp().map_or(0, |time| time.0.as_second()),
            bytes: lines * BYTES_A_LINE,
            victims: if self.resumed { NamespaceCounts::new() } else { victims(&object) },
            placed: placed.collect(),
            object: (!self.resumed && status.state.in_flight()).then_some(object),
            status,
            outcome,
        };
        self.records.insert(name.clone(), record);
        false
    }

    /// Returns every `Preemption` object, by its name.
    pub fn iter(&self) -> impl Iterator<Item = (&SmolStr, &PlanRecord)> {
        self.records.iter()
    }

    /// Returns the `Preemption` object of this name, or `None` if it does not exist.
    pub fn get(&self, name: &str) -> Option<&PlanRecord> {
        self.records.get(name)
    }

    /// Returns the evictions of the plans of earlier leaders, before they are resumed: of plans in flight, and of plans that ended at
    /// `since` or later, in seconds since the epoch. `here` returns true for a pod (name and UID) that exists and is not terminating.
    pub fn earlier_evictions(&self, since: i64, here: impl Fn(&ObjectKey, &str) -> bool) -> Vec<EarlierEvictions> {
        let mut found: BTreeMap<&str, EarlierEvictions> = BTreeMap::new();
        for (name, record) in &self.records {
            let plan = plan_of_part(name);
            let Some(first) = self.records.get(plan) else { continue };
            // A plan in state `Planned` has evicted no pod, and the status of an ended plan contains the number of evicted pods.
            let most = usize::try_from(first.status.evicted).unwrap_or(0);
            let (at, need) = match (first.has_ended(), &record.object) {
                (true, _) if first.finished() >= since => (Some(first.finished()), record.victims.clone()),
                (false, Some(object)) if first.status.state > PlanState::Planned => (None, removed(object, &here)),
                _ => continue,
            };
            let past = found.entry(plan).or_insert_with(|| EarlierEvictions {
                plan: plan.into(),
                need: NamespaceCounts::new(),
                at,
            });
            for (namespace, count) in need {
                let known = past.need.entry(namespace).or_default();
                *known += count;
                *known = if at.is_some() { (*known).min(most) } else { *known };
            }
        }
        found.into_values().collect()
    }

    /// Returns the pods that completed plans for PodGroups placed: for each, the PodGroup and the UID of the pod. Empty after
    /// [`Self::to_resume`].
    pub fn completed(&self) -> impl Iterator<Item = (&StoredPreemptor, &str)> {
        let completed = self.records.iter().filter_map(move |(name, record)| {
            let first = self.records.get(plan_of_part(name))?;
            let is_completed = first.status.state == PlanState::Completed && first.preemptor.kind == "PodGroup";
            is_completed.then_some((&first.preemptor, record))
        });
        completed.flat_map(|(preemptor, record)| {
            // Only the first part has a status, so the objects of the others are kept until plans are resumed.
            let of_part = record.object.iter().flat_map(|part| &part.spec.placements).map(|place| place.uid.as_str());
            record.placed.iter().map(SmolStr::as_str).chain(of_part).map(move |uid| (preemptor, uid))
        })
    }

    /// Returns the plans and departures whose status is in flight, by name: the `Preemption` objects in which each is stored. A second call
    /// returns none of them.
    pub fn to_resume(&mut self) -> BTreeMap<SmolStr, Vec<Preemption>> {
        self.resumed = true;
        for record in self.records.values_mut() {
            (record.victims, record.placed) = (NamespaceCounts::new(), Vec::new());
        }
        let mut plans: BTreeMap<SmolStr, Vec<Preemption>> = BTreeMap::new();
        for (name, record) in &mut self.records {
            if let Some(object) = record.object.take() {
                plans.entry(plan_of_part(name).into()).or_default().push(*object);
            }
        }
        // Parts have no state of their own: the state of the first part applies.
        plans.retain(|plan, _| self.records.get(plan).is_some_and(|first| first.status.state.in_flight()));
        plans
    }

    /// Returns the UIDs of the critical add-ons for which a stored plan may have added a taint to a node.
    pub fn tainted_for(&self) -> BTreeSet<&str> {
        let critical = self.records.values().filter(|record| record.critical);
        critical.map(|record| record.preemptor.uid.as_str()).collect()
    }

    /// Returns true if a plan that was carried out and ended at `since` or later, in seconds since the epoch, nominated the critical add-on
    /// with this UID to `node`.
    pub fn nominated(&self, uid: &str, node: &str, since: i64) -> bool {
        let ours = |record: &PlanRecord| record.node.as_deref() == Some(node) && record.preemptor.uid == uid;
        let carried_out = |record: &PlanRecord| record.has_ended() && record.status.state != PlanState::Observed;
        self.records.values().any(|record| ours(record) && carried_out(record) && record.finished() >= since)
    }

    /// Returns true if the plan with this name is stored and has not ended.
    pub fn in_flight(&self, plan: &str) -> bool {
        self.records.get(plan).is_some_and(|record| record.status.state.in_flight())
    }
}

/// Returns the number of pods that a `Preemption` evicts in each namespace.
fn victims(object: &Preemption) -> NamespaceCounts {
    let mut need = NamespaceCounts::new();
    for unit in &object.spec.victims {
        *need.entry(unit.namespace.as_str().into()).or_default() += unit.pods.len();
    }
    need
}

/// Returns in each namespace the number of victims of a `Preemption` that have terminated or are terminating: those for which `here` (name
/// and UID) returns false.
fn removed(object: &Preemption, here: impl Fn(&ObjectKey, &str) -> bool) -> NamespaceCounts {
    let mut need = NamespaceCounts::new();
    for unit in &object.spec.victims {
        let removed = |name: &str, uid: &str| !here(&ObjectKey::new(&unit.namespace, name), uid);
        let count = unit.pods.iter().filter(|pod| removed(&pod.name, &pod.uid)).count();
        *need.entry(unit.namespace.as_str().into()).or_default() += count;
    }
    need
}

impl PlanRecord {
    /// Returns true if the plan was completed, cancelled or failed.
    pub fn has_ended(&self) -> bool {
        !self.status.state.in_flight()
    }

    /// Returns when the plan ended, or when its object was created if that is unknown, in seconds since the epoch.
    pub fn finished(&self) -> i64 {
        self.status.finished_at.as_ref().map_or(self.created, |time| time.0.as_second())
    }
}

/// Returns `status` changed to that of a plan which is not carried out: cancelled at `now`, with this message.
pub fn dropped(status: &PreemptionStatus, message: String, now: Time) -> PreemptionStatus {
    PreemptionStatus { state: PlanState::Cancelled, message, finished_at: Some(now), ..status.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    /// Stores a plan, or a part of one, with these victims in namespaces `a` and `b`.
    fn store(plans: &mut Plans, name: &str, status: Value, a: &[&str], b: &[&str]) {
        let unit = |namespace: &str, pods: &[&str]| {
            let pods: Vec<Value> = pods.iter().map(|pod| json!({"name": pod, "uid": pod, "node": "n"})).collect();
            json!({"kind": "Pod", "namespace": namespace, "name": "x", "priority": 1, "pods": pods})
        };
        let object = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "1970-01-01T00:00:01Z"},
            "spec": {"preemptor": {"kind": "Pod", "namespace": "d", "name": "p", "uid": "u", "priority": 1},
                     "strategy": "least-cost", "victims": [unit("a", a), unit("b", b)]},
            "status": status
        });
        plans.update(&name.into(), Some(Box::new(serde_json::from_value(object).unwrap())));
    }

    fn over(evicted: i32, second: i64) -> Value {
        let at = Timestamp::from_second(second).unwrap().to_string();
        json!({"state": "Completed", "term": "t", "evicted": evicted, "finishedAt": at})
    }

    fn found(plans: &Plans) -> Vec<String> {
        let here = |_: &ObjectKey, uid: &str| uid == "stays";
        let rows = |past: EarlierEvictions| {
            let need: Vec<String> = past.need.iter().map(|(namespace, count)| format!("{namespace}={count}")).collect();
            format!("{} {} {:?}", past.plan, need.join(" "), past.at)
        };
        plans.earlier_evictions(100, here).into_iter().map(rows).collect()
    }

    #[test]
    fn recent_evictions_are_counted_from_ended_plans_and_those_in_flight() {
        let mut plans = Plans::default();
        store(&mut plans, "old", over(2, 99), &["1", "2"], &[]);
        store(&mut plans, "over", over(3, 100), &["1"], &["2"]);
        store(&mut plans, "over.2", Value::Null, &[], &["3"]);
        store(&mut plans, "dropped", over(1, 200), &["1", "2"], &[]);
        store(&mut plans, "running", json!({"state": "Evicting", "term": "t"}), &["gone", "stays"], &["gone"]);
        store(&mut plans, "begins", json!({"state": "Planned", "term": "t"}), &["gone"], &[]);
        store(&mut plans, "observed", json!({"state": "Observed", "term": "t"}), &["gone"], &[]);
        let expected = ["dropped a=1 b=0 Some(200)", "over a=1 b=2 Some(100)", "running a=1 b=1 None"];
        assert_eq!(found(&plans), expected);
        plans.to_resume();
        assert!(plans.records.values().all(|record| record.victims.is_empty()), "it is not needed any more");
    }

    #[test]
    fn the_pods_that_completed_plans_of_pod_groups_have_placed_are_known_until_plans_are_resumed() {
        let mut plans = Plans::default();
        let store = |plans: &mut Plans, name: &str, kind: &str, status: Value, pods: &[&str]| {
            let placements: Vec<Value> = pods.iter().map(|uid| json!({"pod": uid, "uid": uid, "node": "n"})).collect();
            let object = json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": "1970-01-01T00:00:01Z"},
                "spec": {"preemptor": {"kind": kind, "namespace": "d", "name": "g", "uid": "u", "priority": 1},
                         "strategy": "least-cost", "placements": placements},
                "status": status
            });
            plans.update(&name.into(), Some(Box::new(serde_json::from_value(object).unwrap())));
        };
        let at = |state: &str| json!({"state": state, "term": "t"});
        store(&mut plans, "done", "PodGroup", at("Completed"), &["1", "2"]);
        store(&mut plans, "done.2", "PodGroup", Value::Null, &["3"]);
        store(&mut plans, "running", "PodGroup", at("Ungating"), &["4"]);
        store(&mut plans, "dropped", "PodGroup", at("Cancelled"), &["5"]);
        store(&mut plans, "single", "Pod", at("Completed"), &["6"]);
        let found = |plans: &Plans| plans.completed().map(|(_, uid)| uid.to_owned()).collect::<Vec<_>>();
        assert_eq!(found(&plans), ["1", "2", "3"]);
        plans.to_resume();
        store(&mut plans, "later", "PodGroup", at("Completed"), &["7"]);
        assert_eq!(found(&plans), Vec::<String>::new());
    }
}
