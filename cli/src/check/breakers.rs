//! Circuit breakers: after plans that evicted pods and whose preemptors were not bound, the operator evicts no more pods for
//! a while. They are computed from the stored plans, exactly as by the operator.

use super::facts::Installation;
use super::finding::Finding;
use super::wording::operator;
use crate::world::World;
use giveway_crds::breaker::{OpenBreakers, PlanOutcome, PreemptorBreaker, SharedBreaker};
use giveway_crds::keys::GROUP;
use giveway_crds::plan::StoredPreemptor;
use giveway_crds::{PodGroup, Preemption};
use giveway_planner::ObjectKey;
use giveway_planner::model::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

/// Computes which circuit breakers are open at `now`, from the ends of stored plans. `objects` are the PodGroups and Preemptions; those
/// that cannot be read are skipped. `world` has the pods of the cluster.
pub(super) fn open(objects: &[Value], world: &World, now: Timestamp) -> OpenBreakers {
    let of_kind = |kind: &'static str| {
        objects.iter().filter(move |object| {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            object["kind"] == kind && version.split('/').next() == Some(GROUP)
        })
    };
    let groups = of_kind("PodGroup").filter_map(|object| crate::world::read::<PodGroup>(object, "cluster").ok());
    let groups: BTreeSet<String> = groups.filter_map(|group| group.metadata.uid).collect();
    let stored = of_kind("Preemption").filter_map(|object| crate::world::read::<Preemption>(object, "cluster").ok());
    let outcomes: Vec<PlanOutcome> = stored.filter_map(|stored| outcome(&stored)).collect();
    let waits = |preemptor: &StoredPreemptor| {
        let key = ObjectKey::new(&preemptor.namespace, &preemptor.name);
        let is_pending = |pod: &Pod| pod.live() && !pod.bound();
        if preemptor.kind == "Pod" {
            return world.cluster.pod(&key).is_some_and(|pod| pod.uid == preemptor.uid && is_pending(pod));
        }
        let is_member = |pod: &Pod| pod.group_key().is_some_and(|group| group == key);
        groups.contains(&preemptor.uid) && world.cluster.pods().any(|pod| is_pending(pod) && is_member(pod))
    };
    OpenBreakers::at(now.as_second(), outcomes.iter(), waits)
}

/// Returns how a stored plan ended, as the circuit breakers count it; `None` for a plan that they do not count.
fn outcome(stored: &Preemption) -> Option<PlanOutcome> {
    PlanOutcome::of(&stored.spec.cause, stored.spec.preemptor.as_ref()?, stored.status.as_ref()?)
}

/// Returns one finding for the circuit breaker of the cluster if it is open, one for all open ones of namespaces, and one for all open
/// ones of preemptors. Only the first one is a failure of the installation: the others may be caused by the users of a namespace.
pub(super) fn findings(facts: &Installation) -> Vec<Finding> {
    let open = match &facts.breakers {
        Ok(open) => open,
        Err(why) => return vec![operator::breakers_unknown(why)],
    };
    let mut found = Vec::new();
    if let Some(breaker) = &open.cluster {
        found.push(operator::breaker_of_cluster(breaker.preemptors(), end(breaker)));
    }
    if !open.namespaces.is_empty() {
        let named = open
            .namespaces
            .iter()
            .map(|(namespace, breaker)| operator::breaker_of_namespace(namespace, breaker.preemptors(), end(breaker)));
        found.push(operator::breakers_of_namespaces(named));
    }
    if !open.preemptors.is_empty() {
        found.push(operator::breakers_of_preemptors(open.preemptors.values().map(preemptor_text)));
    }
    found
}

/// Returns a text about the open circuit breaker of a preemptor: its name, the number of its failed plans, and when the breaker ends.
fn preemptor_text(breaker: &PreemptorBreaker) -> String {
    let StoredPreemptor { kind, namespace, name, .. } = &breaker.preemptor;
    let preemptor = format!("{}/{namespace}/{name}", kind.to_lowercase());
    operator::breaker_of_preemptor(&preemptor, breaker.plans, time(breaker.until))
}

/// Returns until when a circuit breaker stops all evictions; `None` if it permits one plan at a time again.
fn end(breaker: &SharedBreaker) -> Option<Timestamp> {
    breaker.stops_all().then(|| time(breaker.until))
}

/// Converts seconds since the epoch to a timestamp; the epoch itself if they are out of range.
fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::judge::tests::healthy;
    use super::*;
    use crate::live::Objects;
    use serde_json::json;

    const NOW: &str = "2026-11-21T12:00:00Z";

    /// Returns the namespace and the name in `NAMESPACE/NAME`; without a namespace it is `ml`.
    fn key(group: &str) -> (&str, &str) {
        group.split_once('/').unwrap_or(("ml", group))
    }

    fn group(group: &str) -> Value {
        let (namespace, name) = key(group);
        json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
            "spec": {"schedulingPolicy": {"basic": {}}, "priority": 100}
        })
    }

    /// Returns a plan for a PodGroup that ended at this time after it had evicted a pod.
    fn plan(group: &str, number: usize, state: &str, ended: &str) -> Value {
        let (namespace, group) = key(group);
        let name = format!("{group}-{number}");
        json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": name, "uid": name},
            "spec": {
                "cause": "Preemptor", "strategy": "least-cost",
                "preemptor": {"kind": "PodGroup", "namespace": namespace, "name": group, "uid": format!("uid-{group}"), "priority": 100}
            },
            "status": {"state": state, "evicted": 1, "finishedAt": ended}
        })
    }

    fn pod(group: &str) -> Value {
        let (namespace, group) = key(group);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{group}-0"), "namespace": namespace, "uid": format!("uid-{group}-0"),
                "labels": {"scheduling.giveway.dev/pod-group": group}
            },
            "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}
        })
    }

    /// Returns the findings with these objects, of which the pods and PodGroups with these names exist and are pending.
    fn found(pending: &[&str], mut objects: Vec<Value>) -> Vec<(Status, String)> {
        let items = pending.iter().map(|group| pod(group)).collect();
        let world = World::new(Objects { items, ..Objects::default() }, true).unwrap();
        objects.extend(pending.iter().map(|name| group(name)));
        let breakers = Ok(open(&objects, &world, NOW.parse().unwrap()));
        let findings = findings(&Installation { breakers, ..healthy() });
        let closes =
            |finding: &Finding| finding.remedy.ends_with("then Giveway evicts pods for these preemptors again.");
        assert!(findings.iter().all(|finding| finding.check == "breakers" && closes(finding)), "{findings:?}");
        findings.into_iter().map(|finding| (finding.status, finding.message)).collect()
    }

    fn three(group: &str) -> Vec<Value> {
        (1..=3).map(|number| plan(group, number, "Failed", "2026-11-21T11:55:00Z")).collect()
    }

    #[test]
    fn the_open_breaker_of_a_preemptor_is_a_warning_that_names_it() {
        let words = "No pod is evicted for 1 preemptor, because several plans in a row evicted pods for it, and it was not bound: \
                     podgroup/ml/train (3 plans) until 2026-11-21T12:05:00Z.";
        assert_eq!(found(&["train"], three("train")), [(Status::Warn, words.to_owned())]);
        assert_eq!(found(&[], three("train")), [], "it was deleted");
        assert_eq!(found(&["train"], three("train").split_off(1)), [], "only two plans");
    }

    #[test]
    fn the_open_breaker_of_the_cluster_is_a_failure() {
        let names = ["ml/a", "ml/b", "web/c", "web/d", "batch/e"];
        let at = |ended: &str| names.map(|name| plan(name, 1, "Cancelled", ended)).to_vec();
        let begin = "Plans for 5 preemptors in a row evicted pods, and none of these preemptors was bound: ";
        let stopped = format!("{begin}no pod is evicted for any preemptor until 2026-11-21T12:05:00Z.");
        assert_eq!(found(&names, at("2026-11-21T11:55:00Z")), [(Status::Fail, stopped)]);
        let trials = format!("{begin}one plan with evictions is made at a time until one completes.");
        assert_eq!(found(&names, at("2026-11-21T11:45:00Z")), [(Status::Fail, trials)]);
        let mut plans = at("2026-11-21T11:55:00Z");
        plans.push(plan("ml/f", 1, "Completed", "2026-11-21T11:56:00Z"));
        assert_eq!(found(&names, plans), []);
    }

    #[test]
    fn the_open_breaker_of_a_namespace_is_a_warning_and_no_failure() {
        let names = ["a", "b", "c", "d", "e"];
        let at = |ended: &str| names.map(|name| plan(name, 1, "Cancelled", ended)).to_vec();
        let words = |end: &str| {
            format!(
                "No pod is evicted for preemptors of 1 namespace, because several plans in a row evicted pods for different preemptors of \
                 the namespace, and none of these preemptors was bound: ml (5 preemptors) until {end}."
            )
        };
        let expected = |end: &str| [(Status::Warn, words(end))];
        assert_eq!(found(&names, at("2026-11-21T11:55:00Z")), expected("2026-11-21T12:05:00Z"));
        let trials = "a plan completes, except for one plan at a time";
        assert_eq!(found(&names, at("2026-11-21T11:45:00Z")), expected(trials));
    }

    #[test]
    fn a_healthy_installation_has_no_finding_and_unknown_breakers_are_a_warning() {
        assert!(findings(&healthy()).is_empty());
        let unknown = findings(&Installation { breakers: Err("forbidden".to_owned()), ..healthy() });
        let message = "Whether circuit breakers are open is not known: forbidden";
        assert_eq!((unknown.len(), unknown[0].status, unknown[0].message.as_str()), (1, Status::Warn, message));
    }
}
