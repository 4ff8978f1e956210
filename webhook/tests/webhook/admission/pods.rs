//! Pods at creation, apart from groups: annotations of classes, and pods that are never touched.

use super::fixtures::*;
use giveway_admission::verdict::Reference;
use giveway_crds::keys::*;
use serde_json::{Value, json};

#[test]
fn the_annotations_of_a_class_are_copied() {
    let view = cluster();
    for (class, policy, threshold) in [
        ("managed", json!("PreemptLowerPriority"), Value::Null),
        ("managed-never", json!("Never"), Value::Null),
        ("guarded", Value::Null, json!("1000")),
        ("plain", Value::Null, Value::Null),
    ] {
        let request = create("pods", pod_of(&view, class, json!({}), json!({})));
        let object = mutated(&request, &view);
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations[ANNOTATION_PREEMPTION_POLICY], policy, "{class}");
        assert_eq!(annotations[ANNOTATION_THRESHOLD], threshold, "{class}");
        assert_eq!(object["spec"], request.object["spec"], "{class}: nothing else changes");
    }
}

#[test]
fn a_pod_without_annotations_gets_the_map_too() {
    let view = cluster();
    let mut pod = pod_of(&view, "managed", json!({}), json!({}));
    pod["metadata"].as_object_mut().unwrap().remove("annotations");
    let object = mutated(&create("pods", pod), &view);
    assert_eq!(object["metadata"]["annotations"], json!({ANNOTATION_PREEMPTION_POLICY: "PreemptLowerPriority"}));
}

#[test]
fn an_annotation_set_to_what_the_class_gives_is_accepted() {
    let view = cluster();
    for (class, key, value) in
        [("managed", ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority"), ("guarded", ANNOTATION_THRESHOLD, "1000")]
    {
        assert_untouched(&mutate(&create("pods", pod_of(&view, class, json!({}), json!({key: value}))), &view));
    }
}

#[test]
fn an_annotation_set_to_another_value_than_the_class_gives_is_refused() {
    let view = cluster();
    let (policy, threshold) = (ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD);
    let other = |class: &str| {
        format!(
            "; it is that of class {class}: if another webhook changes the class of pods, let it run before Giveway's, which run in the order of the names of their configurations"
        )
    };
    for (class, key, given, type_, computed, cause) in [
        ("managed", policy, "Never", "string", "PreemptLowerPriority", other("managed-never")),
        ("plain", policy, "Never", "string", "no value", other("managed-never")),
        ("plain", policy, "Always", "string", "no value", String::new()),
        ("guarded", threshold, "5", "integer", "1000", String::new()),
        ("managed", threshold, "5", "integer", "no value", String::new()),
        ("managed", threshold, "1000", "integer", "no value", other("guarded")),
    ] {
        let pod = pod_of(&view, class, json!({}), json!({key: given}));
        let message = format!(
            "metadata.annotations[{key}]: the {type_} value of {key} ({given}) must not be provided in pod annotations; admission computed {computed} from the given PriorityClass name{cause}"
        );
        assert_refused(mutate(&create("pods", pod), &view), 403, &message);
    }
    let classless = create("pods", pod(json!({}), json!({policy: "Never"})));
    assert!(refusal(mutate(&classless, &view)).message.contains("admission computed no value"));
}

#[test]
fn a_threshold_that_cannot_be_read_is_not_copied() {
    let mut view = cluster();
    for bad in ["high", "2000000001"] {
        view.classes.upsert(giveway_crds::priority::Class { threshold: Some(bad.into()), ..class("odd", 1) });
        assert_untouched(&mutate(&create("pods", pod_of(&view, "odd", json!({}), json!({}))), &view));
    }
}

#[test]
fn a_plan_that_a_user_writes_is_refused() {
    let message = "metadata.annotations[scheduling.giveway.dev/preemption-plan]: Invalid value: \"{}\": Giveway writes here what it decided for this pod: remove the annotation";
    let pod = |plan: &str| create("pods", pod(json!({}), json!({ANNOTATION_PLAN: plan})));
    assert_refused(mutate(&pod("{}"), &cluster()), 422, message);
    let long = refusal(mutate(&pod(&"é".repeat(5000)), &cluster())).message;
    assert!(long.len() < 400, "a long value is shortened: {long}");
}

#[test]
fn a_class_that_the_view_does_not_know_is_looked_up() {
    let mut pod = pod(json!({}), json!({}));
    pod["spec"]["priorityClassName"] = json!("new");
    let verdict = mutate(&create("pods", pod), &cluster());
    assert!(verdict.notes.missing.contains(&Reference::Class("new".into())));
    assert_untouched(&verdict);
}

#[test]
fn pods_of_kube_system_and_of_our_own_namespace_and_mirror_pods_are_never_touched() {
    let labels = json!({LABEL_POD_GROUP: "gang"});
    let stolen = json!({ANNOTATION_PLAN: "x", ANNOTATION_THRESHOLD: "y"});
    for namespace in ["kube-system", "giveway-system"] {
        let mut made = create("pods", pod(labels.clone(), stolen.clone()));
        made.namespace = Some(namespace.into());
        assert_untouched(&mutate(&made, &cluster()));
        let mut changed = update("pods", pod(json!({}), json!({})), pod(labels.clone(), stolen.clone()));
        changed.namespace = Some(namespace.into());
        assert_untouched(&validate(&changed, &cluster()));
    }
    let mirror = pod(labels, json!({"kubernetes.io/config.mirror": "hash", ANNOTATION_PLAN: "x"}));
    assert_untouched(&mutate(&by_node(create("pods", mirror)), &cluster()));
}

/// The same request, from a kubelet.
fn by_node(mut request: Request) -> Request {
    request.user_info.username = Some("system:node:n1".into());
    request.user_info.groups = vec!["system:nodes".into(), "system:authenticated".into()];
    request
}

#[test]
fn a_mirror_pod_that_no_node_creates_is_a_pod_like_any_other() {
    let view = cluster();
    let forged = |annotation: &str, value: &str| {
        let annotations = json!({"kubernetes.io/config.mirror": "hash", annotation: value});
        create("pods", pod(json!({LABEL_POD_GROUP: "gang"}), annotations))
    };
    let plan = "metadata.annotations[scheduling.giveway.dev/preemption-plan]: Invalid value: \"{}\": Giveway writes here what it decided for this pod: remove the annotation";
    let user = |name: &str, groups: &[&str]| UserInfo {
        username: Some(name.into()),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    };
    for other in [
        user("alice", &["system:authenticated"]),
        user("alice", &["system:nodes"]),
        user("system:node:n1", &["system:authenticated"]),
        user("system:nodes", &["system:nodes:"]),
        UserInfo { username: None, groups: vec![] },
    ] {
        let as_other = |request: Request| Request { user_info: other.clone(), ..request };
        assert_refused(mutate(&as_other(forged(ANNOTATION_PLAN, "{}")), &view), 422, plan);
        let message = refusal(mutate(&as_other(forged(ANNOTATION_THRESHOLD, "2000000000")), &view)).message;
        assert!(message.contains("must not be provided in pod annotations"), "{message}");
        let member = mutated(&as_other(forged("note", "x")), &view);
        assert_eq!(member["spec"]["schedulingGates"], json!([{"name": GATE}]), "gated like other members");
    }
}

#[test]
fn our_gate_twice_is_refused() {
    let mut pod = pod(json!({LABEL_POD_GROUP: "basic"}), json!({}));
    pod["spec"]["schedulingGates"] = json!([{"name": GATE}, {"name": "a"}, {"name": GATE}]);
    let message = "spec.schedulingGates[2]: Duplicate value: \"scheduling.giveway.dev/pod-group\": remove one of them";
    assert_refused(mutate(&create("pods", pod), &cluster()), 422, message);
}

#[test]
fn other_operations_subresources_and_kinds_are_untouched() {
    let labelled = pod(json!({LABEL_POD_GROUP: "gang"}), json!({}));
    for sub_resource in ["ephemeralcontainers", "resize", "binding", "eviction", "exec"] {
        let mut request = update("pods", pod(json!({}), json!({})), labelled.clone());
        request.sub_resource = Some(sub_resource.into());
        assert_untouched(&validate(&request, &cluster()));
        assert_untouched(&mutate(&request, &cluster()));
    }
    let mut delete = create("pods", Value::Null);
    delete.operation = giveway_admission::request::Operation::Delete;
    delete.old_object = labelled;
    assert_untouched(&mutate(&delete, &cluster()));
    assert_untouched(&validate(&delete, &cluster()));
    let mut other = create("pods", json!({"spec": 5}));
    other.resource.resource = "deployments".into();
    assert_untouched(&mutate(&other, &cluster()));
}

#[test]
fn a_pod_that_cannot_be_read_is_refused_with_the_field() {
    for (object, message) in [
        (
            json!({"spec": {"nodeName": 5}}),
            "spec.nodeName: Invalid value: invalid type: integer `5`, expected a string",
        ),
        (
            json!({"spec": {"schedulingGates": {}}}),
            "spec.schedulingGates: Invalid value: invalid type: map, expected a sequence",
        ),
        (
            json!({"metadata": {"labels": ["a"]}}),
            "metadata.labels: Invalid value: invalid type: sequence, expected a map",
        ),
        (json!("pod"), "the Pod cannot be read: invalid type: string \"pod\""),
        (Value::Null, "the Pod cannot be read: invalid type: null"),
    ] {
        let refusal = refusal(mutate(&create("pods", object), &cluster()));
        assert_eq!(refusal.code, 422);
        assert!(refusal.message.starts_with(message), "{}", refusal.message);
    }
}

/// A pod of this class and native group.
fn native(class: &str, labels: Value) -> Value {
    let mut object = pod_of(&cluster(), class, labels, json!({}));
    object["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    object
}

#[test]
fn a_member_of_a_native_group_is_not_gated_and_gets_a_warning_if_its_class_is_managed() {
    let view = cluster();
    assert_untouched(&mutate(&create("pods", native("plain", json!({}))), &view));
    let verdict = mutate(&create("pods", native("managed", json!({}))), &view);
    let warning = "priority class managed is managed by Giveway, which does not preempt for pods of native pod groups (train): use a class that is not managed, or a PodGroup of Giveway";
    assert_eq!(verdict.notes.warnings, [warning]);
    let object = mutated(&create("pods", native("managed", json!({}))), &view);
    assert_eq!(object["spec"], native("managed", json!({}))["spec"], "no gate, whatever its class");
}

#[test]
fn a_pod_of_a_native_group_and_of_one_of_ours_is_refused() {
    let view = cluster();
    let why = "the pod belongs to the native pod group \"train\" (spec.schedulingGroup), and a pod belongs to one group: remove the labels of Giveway, or spec.schedulingGroup";
    let labels = json!({LABEL_POD_GROUP: "ours"});
    let message = format!("metadata.labels[{LABEL_POD_GROUP}]: Invalid value: \"ours\": {why}");
    assert_refused(mutate(&create("pods", native("plain", labels)), &view), 422, &message);
    let labels = json!({LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "t"});
    let message = format!("metadata.labels[{LABEL_WORKLOAD}]: Invalid value: \"w\": {why}");
    assert_refused(mutate(&create("pods", native("plain", labels)), &view), 422, &message);
}
