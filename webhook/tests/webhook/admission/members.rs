//! Pods of groups at creation: label, gate and class.

use super::fixtures::*;
use giveway_admission::verdict::{Reference, VerdictOutcome};
use giveway_crds::keys::*;
use giveway_crds::priority::Class;
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
fn only_members_of_gangs_and_of_unknown_groups_are_gated() {
    let view = cluster();
    for (name, pod, group, gated) in [
        ("a gang", member("gang"), "gang", true),
        ("a basic group", member("basic"), "basic", false),
        ("a group that does not exist", member("missing"), "missing", true),
        ("a gang template", templated("gang", None), "work-gang", true),
        ("a gang template, by replica", templated("gang", Some("3")), "work-gang-3", true),
        ("a basic template", templated("basic", None), "work-basic", false),
        ("a template that does not exist", templated("other", None), "work-other", true),
    ] {
        let object = mutated(&create("pods", pod), &view);
        assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], json!(group), "{name}");
        assert_eq!(gates(&object), if gated { vec![GATE] } else { vec![] }, "{name}");
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
fn a_pod_that_is_created_bound_is_not_gated_but_joins_its_group() {
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
fn a_member_keeps_a_class_above_its_groups_and_is_warned_that_the_groups_counts() {
    let view = cluster();
    let request = create("pods", pod_of(&view, "guarded", json!({LABEL_POD_GROUP: "gang"}), json!({})));
    let object = mutated(&request, &view);
    assert_eq!(object["spec"]["priorityClassName"], json!("guarded"));
    assert_eq!(object["spec"]["priority"], json!(40));
    assert_eq!(
        mutate(&request, &view).notes.warnings,
        [
            "priority class guarded (40) is above the priority of pod group gang, 20: the priority of the group counts for preemption"
        ]
    );
}

#[test]
fn a_member_of_a_lower_class_than_its_group_is_rejected_with_a_remedy() {
    let view = cluster();
    for (labels, group) in [
        (json!({LABEL_POD_GROUP: "gang"}), "gang"),
        (json!({LABEL_POD_GROUP: "basic"}), "basic"),
        (json!({LABEL_WORKLOAD: "work", LABEL_TEMPLATE: "gang"}), "work-gang"),
        (json!({LABEL_WORKLOAD: "work", LABEL_TEMPLATE: "gang", LABEL_REPLICA: "3"}), "work-gang-3"),
    ] {
        for (class, value) in [("plain", 10), ("polite", 15)] {
            let message = format!(
                "spec.priorityClassName: Invalid value: \"{class}\": priority class {class} gives the pod {value}, below the priority of pod group {group}, 20, and a group does not raise the priority of its pods: name class managed, or no class, and it gets managed from its group"
            );
            let pod = pod_of(&view, class, labels.clone(), json!({}));
            assert_refused(mutate(&create("pods", pod), &view), 422, &message);
        }
    }
}

#[test]
fn a_pod_that_is_created_bound_below_its_group_is_rejected_too() {
    let view = cluster();
    let mut pod = pod_of(&view, "plain", json!({LABEL_POD_GROUP: "gang"}), json!({}));
    pod["spec"]["nodeName"] = json!("node-1");
    assert_eq!(refusal(mutate(&create("pods", pod), &view)).code, 422);
}

#[test]
fn a_member_may_have_another_class_of_the_groups_priority() {
    let mut view = cluster();
    view.classes.upsert(class("twin", 20));
    let request = create("pods", pod_of(&view, "twin", json!({LABEL_POD_GROUP: "basic"}), json!({})));
    assert_eq!(mutated(&request, &view)["spec"]["priorityClassName"], json!("twin"));
    assert_eq!(mutate(&request, &view).notes.warnings, Vec::<String>::new());
}

#[test]
fn a_group_without_a_class_has_priority_zero_and_a_negative_class_is_below_it() {
    let mut view = cluster();
    view.classes.upsert(class("scavenger", -10));
    let pod = pod_of(&view, "scavenger", json!({LABEL_POD_GROUP: "classless"}), json!({}));
    let message = "spec.priorityClassName: Invalid value: \"scavenger\": priority class scavenger gives the pod -10, below the priority of pod group classless, 0, and a group does not raise the priority of its pods: name a class of 0 or more, or delete the pod group with its pods, and create both again with a class";
    assert_refused(mutate(&create("pods", pod), &view), 422, message);
    view.classes.upsert(Class { global_default: true, ..class("plain", 10) });
    let pod = pod_of(&view, "polite", json!({LABEL_POD_GROUP: "classless"}), json!({}));
    assert!(
        !matches!(mutate(&create("pods", pod), &view).outcome, VerdictOutcome::Refused(_)),
        "10 or more, by the default"
    );
}

/// The cluster, with a group `old` that kept the priority which its class `managed` had.
fn with_old_group(priority: i32) -> View {
    let mut view = cluster();
    let spec = json!({"schedulingPolicy": gang(), "priorityClassName": "managed", "priority": priority});
    view.put_group(&serde_json::from_value(group_object("old", spec)).unwrap());
    view
}

#[test]
fn the_stored_priority_of_a_group_counts_after_its_class_was_recreated_with_a_lower_one() {
    let view = with_old_group(1000);
    for pod in [member("old"), pod_of(&view, "managed", json!({LABEL_POD_GROUP: "old"}), json!({}))] {
        let own = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
        let message = format!(
            "spec.priorityClassName: Invalid value: \"{own}\": priority class managed gives the pod 20, below the priority of pod group old, 1000, and a group does not raise the priority of its pods: delete the pod group with its pods, and create both again: the value of its class managed is 20 now"
        );
        assert_refused(mutate(&create("pods", pod), &view), 422, &message);
    }
    let warned = mutate(&create("pods", member("old")), &with_old_group(5)).notes.warnings;
    let warning = "priority class managed (20) is above the priority of pod group old, 5: the priority of the group counts for \
                   preemption";
    assert_eq!(warned, [warning]);
}

#[test]
fn the_stored_priority_of_a_group_counts_after_its_class_was_deleted() {
    let mut view = with_old_group(1000);
    view.classes.remove("managed");
    let verdict = mutate(&create("pods", member("old")), &view);
    assert!(verdict.notes.missing.contains(&Reference::Class("managed".into())), "looked up before it is refused");
    let message = "spec.priorityClassName: Invalid value: \"\": no priority class gives the pod 0, below the priority of pod group old, 1000, and a group does not raise the priority of its pods: delete the pod group with its pods, and create both again: its class managed no longer exists";
    assert_refused(verdict, 422, message);
}

#[test]
fn the_priority_that_the_plugin_wrote_counts_not_the_class_of_the_watch() {
    let view = cluster();
    let mut stale = pod_of(&view, "guarded", json!({LABEL_POD_GROUP: "gang"}), json!({}));
    stale["spec"]["priority"] = json!(19);
    assert_eq!(refusal(mutate(&create("pods", stale), &view)).code, 422);
    let mut fresh = pod_of(&view, "plain", json!({LABEL_POD_GROUP: "gang"}), json!({}));
    fresh["spec"]["priority"] = json!(20);
    mutated(&create("pods", fresh), &view);
}

#[test]
fn a_member_of_a_missing_group_is_gated_with_any_class() {
    let view = cluster();
    let object = mutated(&create("pods", pod_of(&view, "plain", json!({LABEL_POD_GROUP: "later"}), json!({}))), &view);
    assert_eq!(gates(&object), [GATE], "the operator compares the priorities when the group comes");
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
fn pods_of_a_group_are_admitted_after_its_class_was_deleted() {
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
fn two_templates_that_give_the_same_name_are_distinguished() {
    let made_from = |workload: &str, template: &str| {
        let reference = json!({"workload": {"workloadName": workload, "podGroupTemplateName": template}});
        let spec = json!({"schedulingPolicy": gang(), "podGroupTemplateRef": reference});
        let mut view = cluster();
        view.put_group(&serde_json::from_value(group_object("a-b-c", spec)).unwrap());
        view
    };
    let of = |workload: &str, template: &str| {
        create("pods", pod(json!({LABEL_WORKLOAD: workload, LABEL_TEMPLATE: template}), json!({})))
    };
    let replica = json!({LABEL_WORKLOAD: "a", LABEL_TEMPLATE: "b", LABEL_REPLICA: "c"});
    // The other template is not named: a client that reaches the port can forge the pod of any namespace.
    let refused = |ours: &str| {
        format!(
            "metadata.labels[scheduling.giveway.dev/pod-group]: Invalid value: \"a-b-c\": the PodGroup of this name was created from another template (its spec.podGroupTemplateRef), and the pod's labels name {ours}: rename one of the workloads or templates"
        )
    };
    let (first, second) = ("template \"c\" of Workload \"a-b\"", "template \"b-c\" of Workload \"a\"");
    assert_refused(mutate(&of("a", "b-c"), &made_from("a-b", "c")), 422, &refused(second));
    assert_refused(mutate(&of("a-b", "c"), &made_from("a", "b-c")), 422, &refused(first));
    let third = "template \"b\" of Workload \"a\"";
    assert_refused(
        mutate(&create("pods", pod(replica.clone(), json!({}))), &made_from("a", "b-c")),
        422,
        &refused(third),
    );
    for (request, view) in [
        (of("a-b", "c"), made_from("a-b", "c")),
        (create("pods", pod(replica, json!({}))), made_from("a", "b")),
        (create("pods", member("a-b-c")), made_from("a", "b-c")),
    ] {
        assert_eq!(gates(&mutated(&request, &view)), [GATE]);
    }
}

#[test]
fn our_gate_on_a_pod_without_a_group_is_refused() {
    let mut pod = pod(json!({}), json!({}));
    pod["spec"]["schedulingGates"] = json!([{"name": GATE}]);
    assert_refused(
        mutate(&create("pods", pod), &cluster()),
        422,
        "spec.schedulingGates: Invalid value: \"scheduling.giveway.dev/pod-group\": only Giveway adds this gate, and only to members of gangs: remove the gate, or name the pod's group in the label scheduling.giveway.dev/pod-group",
    );
}

#[test]
fn the_driver_of_a_spark_application_in_a_gang_is_warned_about() {
    let view = cluster();
    let warnings = |group: &str, role: &str| {
        let labels = json!({LABEL_POD_GROUP: group, "spark-role": role});
        mutate(&create("pods", pod_of(&view, "managed", labels, json!({}))), &view).notes.warnings
    };
    let words = "metadata.labels[spark-role]: \"driver\": the driver creates its executors after it has started: if minCount of pod \
                 group gang counts them, none of its pods starts: give the executors a pod group of their own";
    assert_eq!(warnings("gang", "driver"), [words]);
    assert_eq!(warnings("gang", "executor"), Vec::<String>::new());
    assert_eq!(warnings("basic", "driver"), Vec::<String>::new(), "its pods start one by one");
}
