//! What Giveway added to objects that it does not own, and the patches that remove it.

use giveway_cluster::objects::fields::keep_only;
use giveway_crds::keys::{
    FINALIZER_PROTECTION, GATE, GROUP, LABEL_PLACEHOLDER, LABEL_POD_GROUP, LABEL_PROVISIONING, PREFIX,
};
use serde_json::{Map, Value, json};

/// Something that Giveway added to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    /// The pod's scheduling gate; true if it is removed.
    Gate(bool),
    /// A nomination of the pod for this node.
    Nomination(String),
    /// An annotation that the admission webhook added.
    Annotation(String),
    /// The finalizer that keeps a PodGroup until it has no members.
    Finalizer,
    /// The object only reserves or requests capacity for Giveway, so it is deleted.
    ReservesCapacity,
}

/// What Giveway left on one object, and the changes that remove it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cleaning {
    /// Everything that was found, including what is not removed.
    pub(super) found: Vec<Leftover>,
    /// A merge patch of the object, or null.
    pub(super) patch: Value,
    /// A merge patch of its status, or null.
    pub(super) status: Value,
    /// True if the object is deleted.
    pub(super) delete: bool,
}

/// The fields that cleaning reads, and those that it needs to write the object.
const PART: &str = "metadata(name namespace uid resourceVersion deletionTimestamp labels annotations finalizers ownerReferences) \
                    spec(schedulingGates preemptionPolicy schedulingGroup nodeName) status(nominatedNodeName)";

/// Returns an object with only the fields that cleaning reads and writes, and without labels and annotations of other components, which
/// can be large.
pub(super) fn part_of(mut object: Value) -> Value {
    keep_only(&mut object, PART);
    for map in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(map) = object.pointer_mut(map).and_then(Value::as_object_mut) {
            map.retain(|key, _| key.starts_with(PREFIX));
        }
    }
    object
}

/// Returns true if the object was created for a PodGroup of Giveway: it has this label, and a PodGroup owns it.
fn is_made_for_a_group(object: &Value, label: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_group = |owner: &Value| {
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        owner["kind"] == "PodGroup" && version.split_once('/').is_some_and(|(group, _)| group == GROUP)
    };
    !object["metadata"]["labels"][label].is_null() && owners.into_iter().any(is_group)
}

/// Returns what is changed for an object that exists only for Giveway, to reserve or request capacity: it is deleted.
fn deletion() -> Cleaning {
    Cleaning { found: vec![Leftover::ReservesCapacity], delete: true, ..Cleaning::default() }
}

/// Returns what is removed of a ProvisioningRequest: the object is deleted if the operator created it for a PodGroup, and otherwise not
/// changed.
pub(super) fn of_request(request: &Value) -> Cleaning {
    if is_made_for_a_group(request, LABEL_PROVISIONING) { deletion() } else { Cleaning::default() }
}

/// Returns what is removed from a pod: nomination, annotations, and with `ungate` the scheduling gate; a placeholder pod is deleted.
/// Labels are not removed: they come from the pod's owner and have no effect without Giveway.
pub(super) fn of_pod(pod: &Value, ungate: bool) -> Cleaning {
    if is_made_for_a_group(pod, LABEL_PLACEHOLDER) {
        return deletion();
    }
    let (mut found, mut patch, mut status) = (Vec::new(), json!({}), Value::Null);
    let gates = pod["spec"]["schedulingGates"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has_gate = gates.iter().any(|gate| gate["name"] == GATE);
    if has_gate {
        found.push(Leftover::Gate(ungate));
        if ungate {
            let others: Vec<&Value> = gates.iter().filter(|gate| gate["name"] != GATE).collect();
            patch["spec"]["schedulingGates"] = if others.is_empty() { Value::Null } else { json!(others) };
        }
    }
    // kube-scheduler nominates no gated pod, and no pod with preemption policy `Never` except members of its own
    // PodGroups.
    let never = pod["spec"]["preemptionPolicy"] == "Never" && pod["spec"]["schedulingGroup"].is_null();
    let unbound = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    if let Some(node) = pod["status"]["nominatedNodeName"].as_str().filter(|node| !node.is_empty())
        && unbound
        && (has_gate || never)
    {
        found.push(Leftover::Nomination(node.to_owned()));
        status = json!({"status": {"nominatedNodeName": null}});
    }
    let mut annotations = Map::new();
    for key in pod["metadata"]["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        // A pod that stays gated keeps its annotations, so that a new installation of Giveway finds it unchanged.
        if key.starts_with(PREFIX) && (ungate || !has_gate) {
            found.push(Leftover::Annotation(key.clone()));
            annotations.insert(key.clone(), Value::Null);
        }
    }
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(annotations);
    }
    Cleaning { found, patch: only_if_same(patch, pod), status, delete: false }
}

/// Returns what is removed from a PodGroup: Giveway's finalizer, if it has it.
pub(super) fn of_group(group: &Value) -> Cleaning {
    let finalizers = group["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !finalizers.iter().any(|name| name == FINALIZER_PROTECTION) {
        return Cleaning::default();
    }
    let others: Vec<&Value> = finalizers.iter().filter(|name| *name != FINALIZER_PROTECTION).collect();
    let patch = only_if_same(json!({"metadata": {"finalizers": others}}), group);
    Cleaning { found: vec![Leftover::Finalizer], patch, ..Cleaning::default() }
}

/// Returns what is removed from a PodGroup: Giveway's finalizer, if the PodGroup is being deleted; otherwise nothing.
pub(super) fn of_deleted_group(group: &Value) -> Cleaning {
    match group["metadata"]["deletionTimestamp"].is_string() {
        true => of_group(group),
        false => Cleaning::default(),
    }
}

/// Returns the name of the PodGroup whose finalizer stays because of this pod; `None` if the pod has succeeded or failed, or has no
/// PodGroup.
pub(super) fn group_kept_by(pod: &Value) -> Option<&str> {
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    pod["metadata"]["labels"][LABEL_POD_GROUP].as_str().filter(|_| !has_ended)
}

/// Adds the UID and resource version of `object` to its patch, so that it fails if the object has changed. Returns null for a patch
/// that changes nothing.
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

    fn gated_pod() -> Value {
        json!({
            "metadata": {"uid": "u", "resourceVersion": "7", "labels": {"scheduling.giveway.dev/pod-group": "g"},
                "annotations": {"scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority", "other": "kept"}},
            "spec": {"schedulingGates": [{"name": GATE}, {"name": "example.com/other"}]},
            "status": {"nominatedNodeName": "n1"}
        })
    }

    #[test]
    fn a_pod_is_ungated_only_on_request() {
        let stays = of_pod(&gated_pod(), false);
        assert_eq!(stays.found, [Leftover::Gate(false), Leftover::Nomination("n1".into())]);
        assert_eq!(stays.patch, Value::Null, "gate and annotations stay");
        let ungated = of_pod(&gated_pod(), true);
        let annotation = "scheduling.giveway.dev/preemption-policy";
        assert_eq!(
            ungated.patch,
            json!({
                "metadata": {"uid": "u", "resourceVersion": "7", "annotations": {annotation: null}},
                "spec": {"schedulingGates": [{"name": "example.com/other"}]}
            })
        );
        assert_eq!(ungated.status, json!({"status": {"nominatedNodeName": null}}));
    }

    #[test]
    fn what_kube_scheduler_nominated_and_what_is_no_business_of_giveway_stays() {
        let pod = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {}, "status": {"nominatedNodeName": "n1"}});
        assert_eq!(of_pod(&pod, true), Cleaning::default());
        let mut never = pod.clone();
        never["spec"]["preemptionPolicy"] = json!("Never");
        assert_eq!(of_pod(&never, false).found, [Leftover::Nomination("n1".into())]);
        let mut bound = never.clone();
        bound["spec"]["nodeName"] = json!("n1");
        assert_eq!(of_pod(&bound, false), Cleaning::default(), "where it is, it is");
        never["spec"]["schedulingGroup"] = json!({"podGroupName": "theirs"});
        assert_eq!(of_pod(&never, false), Cleaning::default(), "Kubernetes' own groups");
    }

    #[test]
    fn placeholders_of_a_gang_are_deleted_and_similar_pods_are_kept() {
        let owner =
            json!([{"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "name": "g", "uid": "u"}]);
        let made = |label: &str| json!({"metadata": {"labels": {label: "g"}, "ownerReferences": owner}});
        assert_eq!(
            (of_pod(&made(LABEL_PLACEHOLDER), false), of_request(&made(LABEL_PROVISIONING))),
            (deletion(), deletion())
        );
        let mut other = made(LABEL_PLACEHOLDER);
        other["metadata"]["ownerReferences"][0]["apiVersion"] = json!("scheduling.k8s.io/v1beta1");
        assert_eq!(of_pod(&other, false), Cleaning::default());
        other["metadata"]["ownerReferences"] = Value::Null;
        assert_eq!((of_pod(&other, false), of_request(&json!({}))), (Cleaning::default(), Cleaning::default()));
    }

    #[test]
    fn the_part_that_is_kept_of_an_object_is_cleaned_like_the_whole() {
        let mut pod = gated_pod();
        pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
        for release in [true, false] {
            assert_eq!(of_pod(&part_of(pod.clone()), release), of_pod(&pod, release));
        }
        assert!(part_of(pod)["spec"]["containers"].is_null());
        let never = json!({"spec": {"preemptionPolicy": "Never"}, "status": {"nominatedNodeName": "n1"}});
        assert_eq!(of_pod(&part_of(never.clone()), false), of_pod(&never, false));
        let group = json!({"metadata": {"uid": "u", "finalizers": [FINALIZER_PROTECTION]}, "spec": {"priority": 1}});
        assert_eq!(of_group(&part_of(group.clone())), of_group(&group));
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
    #[test]
    fn only_a_group_that_is_being_deleted_and_has_no_pod_left_loses_its_finalizer() {
        let mut group = json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": [FINALIZER_PROTECTION]}});
        assert_eq!(of_deleted_group(&group), Cleaning::default(), "pods of it may be running");
        group["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(of_deleted_group(&part_of(group.clone())).found, [Leftover::Finalizer]);
        let pod = |phase: &str| json!({"metadata": {"labels": {LABEL_POD_GROUP: "g"}}, "status": {"phase": phase}});
        for (phase, keeps) in [("Pending", true), ("Running", true), ("Succeeded", false), ("Failed", false)] {
            assert_eq!(group_kept_by(&pod(phase)).is_some(), keeps, "{phase}");
        }
        assert_eq!(group_kept_by(&json!({"metadata": {}, "status": {"phase": "Running"}})), None);
    }
}
