//! Pods as they are to be stored: members of groups that another admission plugin changed after Giveway's webhook.

use super::fixtures::*;
use giveway_admission::verdict::Reference;
use giveway_crds::keys::*;
use giveway_webhook::view::View;
use serde_json::{Value, json};

/// The end of the message about a change that another plugin undid.
const UNDONE: &str = "Giveway gives it to the pods of this group, and another admission plugin changed the pod afterwards: exclude the pod from that plugin";

fn member(view: &View, class: &str, group: &str) -> Value {
    pod_of(view, class, json!({LABEL_POD_GROUP: group}), json!({}))
}

fn gated(mut pod: Value) -> Value {
    pod["spec"]["schedulingGates"] = json!([{ "name": GATE }]);
    pod
}

#[test]
fn members_pass_as_the_mutating_rule_changed_them() {
    let view = cluster();
    let mut bound = member(&view, "managed", "gang");
    bound["spec"]["nodeName"] = json!("node-1");
    let of_template = json!({LABEL_WORKLOAD: "work", LABEL_TEMPLATE: "gang"});
    for pod in [
        pod(json!({LABEL_POD_GROUP: "gang"}), json!({})),
        pod(json!({LABEL_POD_GROUP: "unknown"}), json!({})),
        pod(of_template, json!({})),
        member(&view, "managed", "gang"),
        member(&view, "managed", "basic"),
        member(&view, "guarded", "gang"),
        bound,
    ] {
        let stored = mutated(&create("pods", pod), &view);
        assert_untouched(&validate(&create("pods", stored), &view));
    }
}

#[test]
fn a_pod_that_got_its_group_from_a_later_plugin_is_not_stored_without_a_gate() {
    let view = cluster();
    let gate = format!("spec.schedulingGates: Required value: {GATE}: {UNDONE}");
    for pod in [
        pod(json!({LABEL_POD_GROUP: "gang"}), json!({})),
        member(&view, "managed", "gang"),
        member(&view, "guarded", "plain-gang"),
        // The group may be created later.
        pod(json!({LABEL_POD_GROUP: "unknown"}), json!({})),
    ] {
        assert_refused(validate(&create("pods", pod), &view), 422, &gate);
    }
}

#[test]
fn a_pod_below_its_group_is_not_stored_whatever_the_group() {
    let view = cluster();
    for group in ["gang", "basic"] {
        let message = format!(
            "spec.priorityClassName: Invalid value: \"plain\": priority class plain gives the pod 10, below the priority of pod group {group}, 20, and a group does not raise the priority of its pods: name class managed, or no class, and it gets managed from its group"
        );
        assert_refused(validate(&create("pods", member(&view, "plain", group)), &view), 422, &message);
        assert_refused(validate(&create("pods", gated(member(&view, "plain", group))), &view), 422, &message);
    }
}

#[test]
fn a_member_without_a_class_is_not_stored_without_that_of_its_group() {
    let view = cluster();
    let class = format!("spec.priorityClassName: Required value: managed: {UNDONE}");
    let mut bound = pod(json!({LABEL_POD_GROUP: "gang"}), json!({}));
    bound["spec"]["nodeName"] = json!("node-1");
    let gated = gated(pod(json!({LABEL_POD_GROUP: "gang"}), json!({})));
    for pod in [bound, gated, pod(json!({LABEL_POD_GROUP: "basic"}), json!({}))] {
        assert_refused(validate(&create("pods", pod), &view), 422, &class);
    }
}

#[test]
fn a_pod_of_a_template_is_not_stored_without_the_label_of_its_group() {
    let labels = json!({LABEL_WORKLOAD: "work", LABEL_TEMPLATE: "gang"});
    let message = format!("metadata.labels[{LABEL_POD_GROUP}]: Required value: work-gang: {UNDONE}");
    assert_refused(validate(&create("pods", pod(labels, json!({}))), &cluster()), 422, &message);
}

#[test]
fn a_pod_without_a_group_is_not_stored_with_the_gate() {
    let refusal = refusal(validate(&create("pods", gated(pod(json!({}), json!({})))), &cluster()));
    assert!(refusal.message.starts_with("spec.schedulingGates: Invalid value"), "{}", refusal.message);
}

#[test]
fn a_gate_that_is_not_needed_and_a_missing_annotation_do_no_harm() {
    let view = cluster();
    let policy = json!({ANNOTATION_PREEMPTION_POLICY: "PreemptLowerPriority"});
    for pod in [
        // The group was created as a basic one between the two calls.
        gated(pod_of(&view, "managed", json!({LABEL_POD_GROUP: "basic"}), policy)),
        gated(member(&view, "managed", "gang")),
    ] {
        assert_untouched(&validate(&create("pods", pod), &view));
    }
}

#[test]
fn unknown_objects_are_looked_up_only_for_a_pod_that_would_be_rejected() {
    let group = Reference::PodGroup { namespace: "team".into(), name: "unknown".into() };
    let pod = pod(json!({LABEL_POD_GROUP: "unknown"}), json!({}));
    let ungated = validate(&create("pods", pod.clone()), &cluster());
    assert!(ungated.notes.missing.contains(&group), "it may be a basic group that was created a moment ago");
    let gated = validate(&create("pods", gated(pod)), &cluster());
    assert_untouched(&gated);
    assert!(gated.notes.missing.is_empty());
}

#[test]
fn warnings_are_given_once() {
    let view = cluster();
    let request = create("pods", member(&view, "guarded", "gang"));
    assert_eq!(mutate(&request, &view).notes.warnings.len(), 1);
    let stored = mutated(&request, &view);
    assert_untouched(&validate(&create("pods", stored), &view));
}

#[test]
fn pods_of_untouchable_namespaces_and_mirror_pods_are_stored_as_they_are() {
    let labels = json!({LABEL_POD_GROUP: "gang"});
    for namespace in ["kube-system", "giveway-system"] {
        let mut request = create("pods", pod(labels.clone(), json!({})));
        request.namespace = Some(namespace.into());
        assert_untouched(&validate(&request, &cluster()));
    }
    let mut mirror = create("pods", pod(labels, json!({"kubernetes.io/config.mirror": "hash"})));
    mirror.user_info.username = Some("system:node:n1".into());
    mirror.user_info.groups = vec!["system:nodes".into()];
    assert_untouched(&validate(&mirror, &cluster()));
}
