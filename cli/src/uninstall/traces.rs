//! What Giveway leaves on an object of somebody else, and the changes that take it away.

use giveway_crds::keys::{FINALIZER_PROTECTION, GATE, PREFIX};
use serde_json::{Map, Value, json};

/// Something of Giveway's on an object, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    /// The gate that holds a pod; whether it is removed.
    Gate(bool),
    /// A place that is kept for a pod on this node.
    Nomination(String),
    /// An annotation that admission wrote.
    Annotation(String),
    /// The finalizer that keeps a group while it has members.
    Finalizer,
}

/// What is removed from an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cleaning {
    /// All that was found, also what stays.
    pub(super) found: Vec<Trace>,
    /// A merge patch of the object; null for none.
    pub(super) patch: Value,
    /// A merge patch of its status; null for none.
    pub(super) status: Value,
}

/// What is removed from a pod. Its labels are its owner's: they say to which group it belongs, and mean nothing any more.
pub(super) fn of_pod(pod: &Value, release_held: bool) -> Cleaning {
    let (mut found, mut patch, mut status) = (Vec::new(), json!({}), Value::Null);
    let gates = pod["spec"]["schedulingGates"].as_array().map(Vec::as_slice).unwrap_or_default();
    let held = gates.iter().any(|gate| gate["name"] == GATE);
    if held {
        found.push(Trace::Gate(release_held));
        if release_held {
            let others: Vec<&Value> = gates.iter().filter(|gate| gate["name"] != GATE).collect();
            patch["spec"]["schedulingGates"] = if others.is_empty() { Value::Null } else { json!(others) };
        }
    }
    // kube-scheduler nominates for nobody that is held or never preempts, but for its own groups.
    let never = pod["spec"]["preemptionPolicy"] == "Never" && pod["spec"]["schedulingGroup"].is_null();
    let unbound = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    if let Some(node) = pod["status"]["nominatedNodeName"].as_str().filter(|node| !node.is_empty())
        && unbound
        && (held || never)
    {
        found.push(Trace::Nomination(node.to_owned()));
        status = json!({"status": {"nominatedNodeName": null}});
    }
    let mut annotations = Map::new();
    for key in pod["metadata"]["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        // A held pod that stays held keeps what it is held with: who installs Giveway again finds it as it was.
        if key.starts_with(PREFIX) && (release_held || !held) {
            found.push(Trace::Annotation(key.clone()));
            annotations.insert(key.clone(), Value::Null);
        }
    }
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(annotations);
    }
    Cleaning { found, patch: only_if_same(patch, pod), status }
}

/// What is removed from a group.
pub(super) fn of_group(group: &Value) -> Cleaning {
    let finalizers = group["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !finalizers.iter().any(|name| name == FINALIZER_PROTECTION) {
        return Cleaning::default();
    }
    let others: Vec<&Value> = finalizers.iter().filter(|name| *name != FINALIZER_PROTECTION).collect();
    let patch = only_if_same(json!({"metadata": {"finalizers": others}}), group);
    Cleaning { found: vec![Trace::Finalizer], patch, status: Value::Null }
}

/// The patch, for this very version of the object; null when it changes nothing.
fn only_if_same(mut patch: Value, object: &Value) -> Value {
    if patch.as_object().is_none_or(Map::is_empty) {
        return Value::Null;
    }
    for key in ["uid", "resourceVersion"] {
        patch["metadata"][key] = object["metadata"][key].clone();
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Value {
        json!({
            "metadata": {"uid": "u", "resourceVersion": "7", "labels": {"scheduling.giveway.dev/pod-group": "g"},
                "annotations": {"scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority", "other": "kept"}},
            "spec": {"schedulingGates": [{"name": GATE}, {"name": "example.com/other"}]},
            "status": {"nominatedNodeName": "n1"}
        })
    }

    #[test]
    fn a_held_pod_is_released_only_where_that_is_asked_for() {
        let stays = of_pod(&held(), false);
        assert_eq!(stays.found, [Trace::Gate(false), Trace::Nomination("n1".into())]);
        assert_eq!(stays.patch, Value::Null, "gate and annotations stay");
        let goes = of_pod(&held(), true);
        let annotation = "scheduling.giveway.dev/preemption-policy";
        assert_eq!(
            goes.patch,
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7", "annotations": {annotation: null}},
                "spec": {"schedulingGates": [{"name": "example.com/other"}]}
            })
        );
        assert_eq!(goes.status, json!({"status": {"nominatedNodeName": null}}));
    }

    #[test]
    fn what_kube_scheduler_nominated_and_what_is_no_business_of_giveway_stays() {
        let pod = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {}, "status": {"nominatedNodeName": "n1"}});
        assert_eq!(of_pod(&pod, true), Cleaning::default());
        let mut never = pod.clone();
        never["spec"]["preemptionPolicy"] = json!("Never");
        assert_eq!(of_pod(&never, false).found, [Trace::Nomination("n1".into())]);
        let mut bound = never.clone();
        bound["spec"]["nodeName"] = json!("n1");
        assert_eq!(of_pod(&bound, false), Cleaning::default(), "where it is, it is");
        never["spec"]["schedulingGroup"] = json!({"podGroupName": "theirs"});
        assert_eq!(of_pod(&never, false), Cleaning::default(), "Kubernetes' own groups");
    }

    #[test]
    fn a_group_keeps_the_finalizers_of_others() {
        let group =
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["x/y", FINALIZER_PROTECTION]}});
        let cleaning = of_group(&group);
        let metadata = json!({"finalizers": ["x/y"], "uid": "u", "resourceVersion": "7"});
        assert_eq!(cleaning.patch, json!({"metadata": metadata}));
        assert_eq!(of_group(&json!({"metadata": {"finalizers": ["x/y"]}})), Cleaning::default());
    }
}
