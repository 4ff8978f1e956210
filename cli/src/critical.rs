//! Decision of the operator for a critical add-on (design, section 5, "Critical pods"): the same rules and planner,
//! without changes to the cluster.

use crate::answer::{GraceLine, PlanAnswer, RescueLine, placed};
use crate::error::CliError;
use crate::world::{World, preemptor_of};
use giveway_crds::condition::Reason;
use giveway_crds::{critical, keys};
use giveway_planner::model::Pod;
use giveway_planner::rescue::{Eviction, can_taint, feasible_node, is_shortened, taint};
use giveway_planner::{ObjectKey, Preemptor, Rescue, Strategy, rescue};

/// Returns what `plan --critical` prints for the pod `key`.
///
/// # Errors
/// The pod does not exist or is not a critical add-on.
pub(crate) fn plan(world: &World, key: &ObjectKey) -> Result<PlanAnswer, CliError> {
    let pod = world.cluster.pod(key).filter(|pod| world.addons.evicts_for(pod));
    let pod = pod.ok_or_else(|| CliError::NotCritical { file: world.source.clone(), why: not_critical(world, key) })?;
    Ok(decide(world, pod))
}

/// Returns what `plan` prints for a pod that is a critical add-on: where it fits, or which pods the operator would evict.
pub(crate) fn decide(world: &World, pod: &Pod) -> PlanAnswer {
    let (key, preemptor) = (&pod.key, Preemptor::Pod(pod.key.clone()));
    let mut answer = PlanAnswer {
        strategy: critical::STRATEGY,
        preemptor: preemptor.to_string(),
        priority: pod.priority,
        notes: notes(world, pod),
        ..PlanAnswer::default()
    };
    let context = world.context(&preemptor, Strategy::default());
    match rescue(&world.cluster, key, &world.addons, &context) {
        Rescue::Nothing => {
            answer.schedulable = true;
            answer.message = not_waiting(world, pod);
        }
        Rescue::Fits(node) => {
            answer.schedulable = true;
            let now = feasible_node(&world.cluster, key, &context).is_some();
            let when = if now { "now" } else { "once the pods that are leaving anyway have terminated" };
            answer.message = format!("It fits on node {node} {when}; no pod is evicted.");
            answer.placements = vec![placed(key, &node)];
        }
        Rescue::Evict(eviction) => fill_in_plan(&mut answer, world, pod, &eviction),
        Rescue::Hopeless(why) => answer.set_unschedulable(Reason::CriticalAddonUnschedulable, why.to_string()),
    }
    answer
}

/// Sets the fields of `answer` from the plan `eviction`, which evicts pods for the critical add-on `pod`.
fn fill_in_plan(answer: &mut PlanAnswer, world: &World, pod: &Pod, eviction: &Eviction) {
    answer.fill_from_plan(world, &eviction.plan);
    let step = eviction.step;
    let node = eviction.plan.placements.first().map(|placed| placed.node.to_string()).unwrap_or_default();
    let taint = can_taint(&world.cluster, pod, &node);
    answer.message = format!(
        "It fits on node {node} once its victims have terminated: {}. Step {}: {}.",
        eviction.plan.cost,
        step.number(),
        step.means()
    );
    for (line, victim) in answer.victims.iter_mut().zip(&eviction.plan.victims) {
        let pods = victim.pods.iter().filter_map(|pod| world.cluster.pod(&pod.key));
        line.graces = pods.map(grace_line).collect();
    }
    answer.critical_addon = Some(RescueLine {
        step: step.number(),
        means: step.means(),
        taint,
        kept: reservation_sentence(pod, &node, taint),
        shortened_graces: eviction.shortened,
    });
}

/// Returns the pod's termination grace period, and the one with which it is evicted for a critical add-on.
fn grace_line(pod: &Pod) -> GraceLine {
    let given = if is_shortened(pod) { critical::LONGEST_GRACE } else { pod.grace };
    GraceLine { pod: pod.key.to_string(), seconds: pod.grace, given }
}

/// Returns a sentence about how capacity on `node` is reserved for `pod` while the victims terminate: by a taint if `tainted`,
/// otherwise by a nomination, with the reason.
fn reservation_sentence(pod: &Pod, node: &str, tainted: bool) -> String {
    let uid = if pod.uid.is_empty() { "UID" } else { pod.uid.as_str() };
    let taint_text = format!("CriticalAddonsOnly={uid}:NoSchedule");
    if tainted {
        return format!("Node {node} gets the taint {taint_text} until it is bound.");
    }
    let why = match pod.tolerates(&taint(&pod.uid)) {
        true => format!("node {node} has another taint of the key CriticalAddonsOnly"),
        false => format!("it does not tolerate the taint {taint_text}"),
    };
    format!("It is nominated to node {node}, without a taint, because {why}.")
}

/// Returns a sentence why no pod is evicted for this critical add-on: it has ended, has a node, is a member of a group or is gated.
fn not_waiting(world: &World, pod: &Pod) -> String {
    match (&pod.node, world.cluster.group_of(pod)) {
        _ if !pod.live() => "It has finished or is terminating: no pod is evicted for it.".to_owned(),
        (Some(node), _) => format!("It is on node {node} already."),
        (None, Some(group)) => format!("It is a member of podgroup/{}, which is decided as a whole.", group.key),
        (None, None) => "It has a scheduling gate: no pod is evicted for it.".to_owned(),
    }
}

/// Returns notes about conditions under which the operator would not evict for this critical add-on now, such as a plan for another
/// one.
fn notes(world: &World, pod: &Pod) -> Vec<String> {
    let mut notes = Vec::new();
    if pod.bound() || !pod.live() {
        return notes;
    }
    if !pod.unschedulable {
        notes.push(
            "kube-scheduler has not found it Unschedulable: the operator waits for that, and then for its hold-off."
                .to_owned(),
        );
    }
    let own = world.last_plan(&Preemptor::Pod(pod.key.clone())).filter(|plan| plan.state.in_flight());
    match (own, &pod.nominated_node) {
        (Some(plan), _) => {
            notes.push(format!("Preemption {} is in progress for it: the operator continues it.", plan.id))
        }
        (None, Some(node)) => notes.push(format!(
            "Node {node} is nominated for it: until the nomination is withdrawn, the operator evicts no pod for it."
        )),
        (None, None) => {}
    }
    let others = world.plans.values().filter(|plan| plan.critical_addon.is_some() && plan.state.in_flight());
    for other in others.map(preemptor_of).filter(|other| *other != Preemptor::Pod(pod.key.clone())) {
        notes.push(format!("The operator preempts for one critical add-on at a time, now for {other}."));
    }
    notes
}

/// Returns why a pod is not a critical add-on, as a sentence.
fn not_critical(world: &World, key: &ObjectKey) -> String {
    let Some(pod) = world.cluster.pod(key) else { return format!("pod/{key} does not exist") };
    let names: Vec<&str> = world.addons.namespaces.iter().map(String::as_str).collect();
    let places = match names.as_slice() {
        [] => {
            return format!(
                "critical add-ons are off (chart value criticalAddons.enabled), so no pod is evicted for pod/{key} as one"
            );
        }
        [one] => format!("namespace {one}"),
        more => format!("namespaces {}", more.join(", ")),
    };
    if world.addons.is_critical(pod) {
        return format!("pod/{key} is not a critical add-on: its priority {} counts only in {places}", pod.priority);
    }
    let annotation = format!("annotation {}: \"true\"", keys::ANNOTATION_CRITICAL);
    let lacks = match pod.asks_critical {
        true => format!("its {annotation} counts only in {places}"),
        false => format!("it has no {annotation}, which counts in {places}"),
    };
    let (priority, critical) = (pod.priority, critical::PRIORITY);
    format!("pod/{key} is not a critical add-on: its priority {priority} is below {critical}, and {lacks}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anonymize::anonymize;
    use crate::live::Objects;
    use giveway_cluster::objects::document::decode;
    use serde_json::{Value, json};

    const PODS: [&str; 5] = ["dns", "plain", "large", "both", "tolerant"];

    fn items() -> Vec<Value> {
        let list: Value = serde_yaml_ng::from_str(include_str!("../tests/data/critical.yaml")).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Returns the objects as a snapshot stores them.
    fn trimmed(items: &[Value]) -> Vec<Value> {
        items.iter().map(|item| decode(item.to_string().as_bytes()).unwrap()).collect()
    }

    fn world(items: Vec<Value>) -> World {
        World::new(Objects { source: "test".to_owned(), items, ..Objects::default() }, false).unwrap()
    }

    fn decided(world: &World, name: &str) -> Value {
        let answer = plan(world, &ObjectKey::new("kube-system", name)).unwrap();
        serde_json::to_value(answer).unwrap()
    }

    #[test]
    fn a_snapshot_keeps_all_that_decides() {
        let (all, kept) = (world(items()), world(trimmed(&items())));
        for pod in PODS {
            assert_eq!(decided(&kept, pod), decided(&all, pod), "{pod}");
        }
    }

    #[test]
    fn an_anonymized_snapshot_decides_the_same_but_for_the_names() {
        let plain = world(items());
        let mut hidden = trimmed(&items());
        anonymize(&mut hidden);
        let names: Vec<String> = (items().iter().zip(&hidden))
            .filter(|(item, _)| item["metadata"]["namespace"] == "kube-system")
            .map(|(_, hidden)| hidden["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        assert!(hidden.iter().all(|item| item["metadata"]["namespace"] != "shop"), "{hidden:?}");
        let hidden = world(hidden);
        for (pod, name) in PODS.iter().zip(&names) {
            let numbers = |answer: &Value| {
                let graces: Vec<Value> = (answer["victims"].as_array().unwrap().iter())
                    .flat_map(|victim| victim["graces"].as_array().unwrap().clone())
                    .map(|grace| json!([grace["seconds"], grace["given"]]))
                    .collect();
                let rescue = &answer["criticalAddon"];
                json!([answer["schedulable"], answer["cost"], rescue["step"], rescue["taint"], graces])
            };
            assert_eq!(numbers(&decided(&hidden, name)), numbers(&decided(&plain, pod)), "{pod}");
        }
    }

    /// One node already has the add-on's own taint, another node a taint of another component: the snapshot preserves
    /// the difference.
    #[test]
    fn a_taint_with_the_uid_of_a_plan_s_pod_is_that_pod_s_in_an_anonymized_snapshot_too() {
        let taints = |uid: &str| json!([{"key": "CriticalAddonsOnly", "value": uid, "effect": "NoSchedule"}]);
        for (uid, ours) in [("u-dns", true), ("u-other", false)] {
            let mut all = items();
            all[1]["spec"] = json!({"taints": taints(uid)});
            all.push(json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption",
                "metadata": {"name": "x-1"}, "status": {"state": "Completed"},
                "spec": {"preemptor": {"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": "u-dns", "priority": 0},
                    "strategy": "critical-addon", "criticalAddon": {"step": 1, "taint": true}}}));
            let mut hidden = trimmed(&all);
            anonymize(&mut hidden);
            let dns = all.iter().position(|item| item["metadata"]["name"] == "dns").unwrap();
            let name = hidden[dns]["metadata"]["name"].as_str().unwrap().to_owned();
            assert_eq!(decided(&world(all), "dns")["criticalAddon"]["taint"], ours);
            assert_eq!(decided(&world(hidden), &name)["criticalAddon"]["taint"], ours);
        }
    }

    #[test]
    fn a_static_pod_stays_in_a_snapshot_what_it_is() {
        let mut all = items();
        let mirror = json!({"kubernetes.io/config.mirror": "hash"});
        for item in all.iter_mut().filter(|item| item["spec"]["nodeName"] == "n2") {
            item["metadata"]["annotations"] = mirror.clone();
        }
        let (plain, kept) = (decided(&world(all.clone()), "dns"), decided(&world(trimmed(&all)), "dns"));
        assert_eq!(plain["placements"][0]["node"], "n1");
        assert_eq!(kept, plain);
    }

    #[test]
    fn what_keeps_the_operator_from_it_is_noted() {
        let notes = |state: &str, preemptor: &str, nominated: Option<&str>| {
            let mut all = items();
            let dns = all.iter_mut().find(|item| item["metadata"]["name"] == "dns").unwrap();
            dns["status"]["nominatedNodeName"] = json!(nominated);
            all.push(json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption",
                "metadata": {"name": "x-1"}, "status": {"state": state},
                "spec": {"preemptor": {"kind": "Pod", "namespace": "kube-system", "name": preemptor, "uid": "u", "priority": 0},
                    "strategy": "critical-addon", "criticalAddon": {"step": 1, "taint": true}}}));
            decided(&world(all), "dns").get("notes").cloned().unwrap_or_default()
        };
        assert_eq!(notes("Completed", "plain", None), json!(null));
        let other = "The operator preempts for one critical add-on at a time, now for pod/kube-system/plain.";
        assert_eq!(notes("Evicting", "plain", None), json!([other]));
        let own = "Preemption x-1 is in progress for it: the operator continues it.";
        assert_eq!(notes("Evicting", "dns", Some("n1")), json!([own]));
        let nominated =
            "Node n1 is nominated for it: until the nomination is withdrawn, the operator evicts no pod for it.";
        assert_eq!(notes("Completed", "dns", Some("n1")), json!([nominated]));
    }
}
