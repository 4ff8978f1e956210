//! Pods of groups at creation: label, gate and class.

use crate::fixtures::*;
use giveway_crds::keys::*;
use giveway_webhook::verdict::Reference;
use giveway_webhook::view::View;
use serde_json::{Value, json};

fn member(group: &str) -> Value {
    pod(json!({LABEL_POD_GROUP: group}), json!({}))
}

fn templated(template: &str, replica: Option<&str>) -> Value {
    let mut labels = json!({LABEL_WORKLOAD: "work", LABEL_TEMPLATE: template});
    if let Some(replica) = replica {
        labels[LABEL_REPLICA] = json!(replica);
    }
    pod(labels, json!({}))
}

fn gates(object: &Value) -> Vec<&str> {
    let gates = object["spec"]["schedulingGates"].as_array();
    gates.into_iter().flatten().map(|gate| gate["name"].as_str().unwrap()).collect()
}

/// What the Priority plugin makes of a pod when it runs again.
fn rerun(mut pod: Value, view: &View) -> Value {
    let class = view.classes.get(pod["spec"]["priorityClassName"].as_str().unwrap_or_default()).cloned();
    let (value, policy) = class.map_or((0, "PreemptLowerPriority"), |c| (c.value, c.scheduler_policy.as_str()));
    for (field, computed) in [("priority", json!(value)), ("preemptionPolicy", json!(policy))] {
        match pod["spec"].get(field) {
            Some(given) => assert_eq!(given, &computed, "the Priority plugin would refuse {field}"),
            None => pod["spec"][field] = computed,
        }
    }
    pod
}

#[test]
fn only_members_of_gangs_and_of_unknown_groups_are_held() {
    let view = cluster();
    for (name, pod, group, held) in [
        ("a gang", member("gang"), "gang", true),
        ("a basic group", member("basic"), "basic", false),
        ("a group that does not exist", member("nobody"), "nobody", true),
        ("a gang template", templated("gang", None), "work-gang", true),
        ("a gang template, by replica", templated("gang", Some("3")), "work-gang-3", true),
        ("a basic template", templated("basic", None), "work-basic", false),
        ("a template that does not exist", templated("other", None), "work-other", true),
    ] {
        let object = mutated(&create("pods", pod), &view);
        assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], json!(group), "{name}");
        assert_eq!(gates(&object), if held { vec![GATE] } else { vec![] }, "{name}");
    }
}

#[test]
fn an_unknown_group_and_its_workload_are_looked_up() {
    let mut pod = templated("gang", None);
    pod["metadata"]["labels"][LABEL_WORKLOAD] = json!("other");
    let missing = mutate(&create("pods", pod), &cluster()).notes.missing;
    let (namespace, name) = ("team".to_owned(), "other".to_owned());
    assert!(missing.contains(&Reference::PodGroup { namespace: namespace.clone(), name: "other-gang".into() }));
    assert!(missing.contains(&Reference::Workload { namespace, name }));
}

#[test]
fn a_group_of_the_same_name_in_another_namespace_does_not_count() {
    let mut request = create("pods", member("basic"));
    request.namespace = Some("elsewhere".into());
    assert_eq!(gates(&mutated(&request, &cluster())), [GATE]);
}

#[test]
fn other_gates_stay_and_ours_is_added_once() {
    let mut pod = member("gang");
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}, {"name": GATE}]);
    assert_eq!(gates(&mutated(&create("pods", pod.clone()), &cluster())), ["example.com/other", GATE]);
    pod["metadata"]["labels"][LABEL_POD_GROUP] = json!("basic");
    assert_eq!(gates(&mutated(&create("pods", pod), &cluster())), ["example.com/other"]);
    let mut only_ours = member("basic");
    only_ours["spec"]["schedulingGates"] = json!([{"name": GATE}]);
    assert!(mutated(&create("pods", only_ours), &cluster())["spec"].get("schedulingGates").is_none());
}

#[test]
fn a_pod_that_is_created_bound_is_not_held_but_joins_its_group() {
    let mut pod = templated("gang", None);
    pod["spec"]["nodeName"] = json!("node-1");
    let object = mutated(&create("pods", pod), &cluster());
    assert_eq!(gates(&object), Vec::<&str>::new());
    assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], json!("work-gang"));
    assert_eq!(object["spec"]["priorityClassName"], json!("managed"));
}

#[test]
fn a_member_without_a_class_takes_its_groups_and_the_priority_plugin_accepts_it() {
    for (view, pod) in [
        (cluster(), member("gang")),
        (cluster(), member("basic")),
        (cluster(), templated("gang", None)),
        (cluster_with_default(), pod_of(&cluster_with_default(), "plain", json!({LABEL_POD_GROUP: "gang"}), json!({}))),
    ] {
        let object = mutated(&create("pods", pod), &view);
        assert_eq!(object["spec"]["priorityClassName"], json!("managed"));
        assert!(object["spec"].get("priority").is_none(), "the Priority plugin computes it again");
        assert!(object["spec"].get("preemptionPolicy").is_none(), "the classes differ in it");
        assert_eq!(object["metadata"]["annotations"][ANNOTATION_PREEMPTION_POLICY], json!("PreemptLowerPriority"));
        let again = rerun(object, &view);
        assert_eq!(mutated(&create("pods", again.clone()), &view), again, "the second call changes nothing");
    }
}

#[test]
fn a_preemption_policy_that_both_classes_share_is_kept() {
    let object = mutated(&create("pods", member("plain-gang")), &cluster());
    assert_eq!(object["spec"]["priorityClassName"], json!("plain"));
    assert_eq!(object["spec"]["preemptionPolicy"], json!("PreemptLowerPriority"));
    rerun(object, &cluster());
}

#[test]
fn a_member_keeps_the_class_that_it_names_and_a_difference_is_warned_about() {
    let view = cluster();
    let request = create("pods", pod_of(&view, "guarded", json!({LABEL_POD_GROUP: "gang"}), json!({})));
    let object = mutated(&request, &view);
    assert_eq!(object["spec"]["priorityClassName"], json!("guarded"));
    assert_eq!(object["spec"]["priority"], json!(40));
    assert_eq!(
        mutate(&request, &view).notes.warnings,
        ["priority class guarded (40) differs from the pod group's, managed (20): the group's counts for preemption"]
    );
}

#[test]
fn a_member_of_a_group_without_a_class_keeps_its_own() {
    let view = cluster_with_default();
    let object =
        mutated(&create("pods", pod_of(&view, "plain", json!({LABEL_POD_GROUP: "classless"}), json!({}))), &view);
    assert_eq!(object["spec"]["priorityClassName"], json!("plain"));
    assert_eq!(object["spec"]["priority"], json!(10));
}

#[test]
fn a_groups_class_that_is_gone_does_not_make_its_pods_fail() {
    let mut view = cluster();
    view.classes.remove("managed");
    let request = create("pods", member("gang"));
    assert!(mutate(&request, &view).notes.missing.contains(&Reference::Class("managed".into())));
    let object = mutated(&request, &view);
    assert!(object["spec"].get("priorityClassName").is_none());
    assert_eq!(gates(&object), [GATE]);
}

#[test]
fn labels_that_name_no_valid_group_are_refused() {
    let long = "w".repeat(60);
    for (labels, message) in [
        (
            json!({LABEL_POD_GROUP: ""}),
            "metadata.labels[scheduling.giveway.dev/pod-group]: Invalid value: \"\": must be the name of a PodGroup, or be removed",
        ),
        (
            json!({LABEL_WORKLOAD: "w"}),
            "metadata.labels[scheduling.giveway.dev/pod-group-template]: Required value: must be set together with scheduling.giveway.dev/workload",
        ),
        (
            json!({LABEL_TEMPLATE: "t"}),
            "metadata.labels[scheduling.giveway.dev/workload]: Required value: must be set together with scheduling.giveway.dev/pod-group-template",
        ),
        (
            json!({LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "t", LABEL_POD_GROUP: "other"}),
            "metadata.labels[scheduling.giveway.dev/pod-group]: Invalid value: \"other\": the template labels name the pod group \"w-t\": remove this label or make it the same",
        ),
    ] {
        assert_refused(mutate(&create("pods", pod(labels, json!({}))), &cluster()), 422, message);
    }
    let too_long = pod(json!({LABEL_WORKLOAD: long, LABEL_TEMPLATE: "tttt"}), json!({}));
    let refusal = refusal(mutate(&create("pods", too_long), &cluster()));
    assert_eq!(refusal.code, 422);
    assert!(
        refusal.message.contains("must be no more than 63 characters, it has 65: use shorter names"),
        "{}",
        refusal.message
    );
}

#[test]
fn our_gate_on_a_pod_without_a_group_is_refused() {
    let mut pod = pod(json!({}), json!({}));
    pod["spec"]["schedulingGates"] = json!([{"name": GATE}]);
    assert_refused(
        mutate(&create("pods", pod), &cluster()),
        422,
        "spec.schedulingGates: Invalid value: \"scheduling.giveway.dev/pod-group\": only Giveway holds pods by this gate, and only members of gangs: remove the gate, or name the pod's group in the label scheduling.giveway.dev/pod-group",
    );
}
