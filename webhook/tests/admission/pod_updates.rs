//! Pods when they are changed: what only the operator may do.

use crate::fixtures::*;
use giveway_crds::keys::*;
use serde_json::{Value, json};

fn held() -> Value {
    let mut pod = pod(
        json!({LABEL_POD_GROUP: "gang", "app": "a"}),
        json!({ANNOTATION_PREEMPTION_POLICY: "Never", ANNOTATION_THRESHOLD: "5", ANNOTATION_PLAN: "{}"}),
    );
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}, {"name": GATE}]);
    pod
}

fn changed(change: impl FnOnce(&mut Value)) -> Request {
    let mut pod = held();
    change(&mut pod);
    update("pods", pod, held())
}

#[test]
fn our_labels_and_annotations_cannot_be_changed_added_or_removed() {
    let set = |map: &'static str, key: &'static str, value: Value| {
        (map, key, changed(move |pod| pod["metadata"][map][key] = value))
    };
    let remove = |map: &'static str, key: &'static str| {
        (map, key, changed(move |pod| drop(pod["metadata"][map].as_object_mut().unwrap().remove(key))))
    };
    for ((map, key, request), value) in [
        (set("labels", LABEL_POD_GROUP, json!("new")), "new"),
        (remove("labels", LABEL_POD_GROUP), ""),
        (set("labels", LABEL_WORKLOAD, json!("w")), "w"),
        (set("labels", LABEL_TEMPLATE, json!("t")), "t"),
        (set("labels", LABEL_REPLICA, json!("1")), "1"),
        (set("annotations", ANNOTATION_PREEMPTION_POLICY, json!("PreemptLowerPriority")), "PreemptLowerPriority"),
        (set("annotations", ANNOTATION_THRESHOLD, json!("6")), "6"),
        (remove("annotations", ANNOTATION_THRESHOLD), ""),
        (set("annotations", ANNOTATION_PLAN, json!("[]")), "[]"),
    ] {
        let message = format!("metadata.{map}[{key}]: Invalid value: {value:?}: field is immutable");
        assert_refused(validate(&request, &cluster()), 422, &message);
        let by_status = Request { sub_resource: Some("status".into()), ..request.clone() };
        assert_refused(validate(&by_status, &cluster()), 422, &message);
        let mut by_operator = request;
        by_operator.user_info.username = Some(OPERATOR.into());
        assert_untouched(&validate(&by_operator, &cluster()));
    }
}

#[test]
fn a_pod_cannot_join_a_group_later() {
    let request = update("pods", pod(json!({LABEL_POD_GROUP: "gang"}), json!({})), pod(json!({}), json!({})));
    assert_refused(
        validate(&request, &cluster()),
        422,
        "metadata.labels[scheduling.giveway.dev/pod-group]: Invalid value: \"gang\": field is immutable",
    );
}

#[test]
fn only_the_operator_removes_our_gate() {
    let mut request = changed(|pod| pod["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}]));
    assert_refused(
        validate(&request, &cluster()),
        403,
        "spec.schedulingGates: the gate scheduling.giveway.dev/pod-group is removed by Giveway when the whole pod group has a place; `kubectl describe podgroup.scheduling.giveway.dev` says what it waits for",
    );
    request.user_info.username = Some(OPERATOR.into());
    assert_untouched(&validate(&request, &cluster()));
}

#[test]
fn everything_else_may_change() {
    for request in [
        changed(|_| {}),
        changed(|pod| pod["metadata"]["labels"]["app"] = json!("b")),
        changed(|pod| pod["metadata"]["annotations"]["note"] = json!("b")),
        changed(|pod| pod["spec"]["schedulingGates"] = json!([{"name": GATE}])),
    ] {
        assert_untouched(&validate(&request, &cluster()));
        assert_untouched(&mutate(&request, &cluster()));
    }
    let bare = json!({"metadata": {"name": "p"}});
    assert_untouched(&validate(&update("pods", bare.clone(), bare), &cluster()));
}
