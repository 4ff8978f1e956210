//! PodGroup: class, priority and policy are filled, refused or kept.

use super::fixtures::*;
use giveway_admission::verdict::Reference;
use serde_json::{Value, json};

fn group(fields: Value) -> Value {
    let mut spec = json!({"schedulingPolicy": gang()});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    group_object("g", spec)
}

fn filled(object: &Value) -> (Value, Value, Value) {
    let spec = &object["spec"];
    (spec["priorityClassName"].clone(), spec["priority"].clone(), spec["preemptionPolicy"].clone())
}

#[test]
fn class_priority_and_policy_are_filled() {
    let (plain, default) = (cluster(), cluster_with_default());
    let preempts = "PreemptLowerPriority";
    for (name, view, given, expected) in [
        ("no class, no default", &plain, json!({}), (Value::Null, json!(0), json!(preempts))),
        ("no class, a default", &default, json!({}), (json!("plain"), json!(10), json!(preempts))),
        ("the empty name", &default, json!({"priorityClassName": ""}), (json!("plain"), json!(10), json!(preempts))),
        (
            "an ordinary class",
            &plain,
            json!({"priorityClassName": "plain"}),
            (json!("plain"), json!(10), json!(preempts)),
        ),
        (
            "a class that never preempts",
            &plain,
            json!({"priorityClassName": "polite"}),
            (json!("polite"), json!(15), json!("Never")),
        ),
        (
            "a managed class",
            &plain,
            json!({"priorityClassName": "managed"}),
            (json!("managed"), json!(20), json!(preempts)),
        ),
        (
            "a managed class that asked for Never",
            &plain,
            json!({"priorityClassName": "managed-never"}),
            (json!("managed-never"), json!(30), json!("Never")),
        ),
        (
            "a system class",
            &plain,
            json!({"priorityClassName": "system-cluster-critical"}),
            (json!("system-cluster-critical"), json!(2_000_000_000), json!(preempts)),
        ),
        (
            "the same values given",
            &plain,
            json!({"priorityClassName": "managed", "priority": 20, "preemptionPolicy": preempts}),
            (json!("managed"), json!(20), json!(preempts)),
        ),
    ] {
        let object = mutated(&create("podgroups", group(given)), view);
        assert_eq!(filled(&object), expected, "{name}");
        assert_untouched(&validate(&create("podgroups", object), view));
    }
}

#[test]
fn an_unknown_class_is_refused_with_the_field_and_looked_up_first() {
    let verdict = mutate(&create("podgroups", group(json!({"priorityClassName": "nope"}))), &cluster());
    assert!(verdict.notes.missing.contains(&Reference::Class("nope".into())));
    assert_refused(verdict, 403, "spec.priorityClassName: no PriorityClass with name nope was found");
}

#[test]
fn a_priority_or_policy_that_differs_from_the_class_is_refused_with_what_the_class_gives() {
    let tail = "leave the field out";
    for (given, message) in [
        (
            json!({"priorityClassName": "managed", "priority": 5}),
            format!(
                "spec.priority: the integer value of priority (5) must not be provided in the spec of a PodGroup; its priority by PriorityClass managed is 20: {tail}"
            ),
        ),
        (
            json!({"priority": 7}),
            format!(
                "spec.priority: the integer value of priority (7) must not be provided in the spec of a PodGroup; its priority without a PriorityClass is 0: {tail}"
            ),
        ),
        (
            json!({"priorityClassName": "managed", "priority": 99_999_999_999_u64}),
            format!(
                "spec.priority: the integer value of priority (99999999999) must not be provided in the spec of a PodGroup; its priority by PriorityClass managed is 20: {tail}"
            ),
        ),
        (
            json!({"priorityClassName": "managed", "preemptionPolicy": "Never"}),
            format!(
                "spec.preemptionPolicy: the string value of PreemptionPolicy (Never) must not be provided in the spec of a PodGroup; its policy by PriorityClass managed is PreemptLowerPriority: {tail}"
            ),
        ),
        (
            json!({"priorityClassName": "managed", "preemptionPolicy": "Sometimes"}),
            format!(
                "spec.preemptionPolicy: the string value of PreemptionPolicy (Sometimes) must not be provided in the spec of a PodGroup; its policy by PriorityClass managed is PreemptLowerPriority: {tail}"
            ),
        ),
    ] {
        assert_refused(mutate(&create("podgroups", group(given)), &cluster()), 403, &message);
    }
}

#[test]
fn the_final_priority_is_checked_again_after_other_webhooks() {
    let changed = group(json!({"priorityClassName": "managed", "priority": 1000}));
    let refusal = refusal(validate(&create("podgroups", changed), &cluster()));
    assert!(refusal.message.contains("priority (1000) must not be provided"), "{}", refusal.message);
}

#[test]
fn a_class_that_is_not_managed_is_warned_about() {
    let warnings = |class: &str| {
        mutate(&create("podgroups", group(json!({"priorityClassName": class}))), &cluster()).notes.warnings
    };
    assert_eq!(
        warnings("plain"),
        [
            "priority class plain is not managed by Giveway: kube-scheduler may preempt for single pods of this group; `kubectl giveway adopt plain` makes the class managed"
        ]
    );
    for silent in ["managed", "managed-never", "polite"] {
        assert_eq!(warnings(silent), Vec::<String>::new(), "{silent}");
    }
}

#[test]
fn fields_of_the_wrong_type_are_named() {
    for (given, message) in [
        (
            json!({"priority": "high"}),
            "spec.priority: Invalid value: invalid type: string \"high\", expected i64: the PodGroup cannot be read, correct this field",
        ),
        (
            json!({"priorityClassName": {}}),
            "spec.priorityClassName: Invalid value: invalid type: map, expected a string: the PodGroup cannot be read, correct this field",
        ),
    ] {
        assert_refused(mutate(&create("podgroups", group(given)), &cluster()), 422, message);
    }
    let nothing =
        validate(&create("podgroups", json!({"spec": {"schedulingPolicy": 5}, "metadata": {"name": "g"}})), &cluster());
    let message = refusal(nothing).message;
    assert!(message.starts_with("spec.schedulingPolicy: Invalid value: invalid type: integer `5`"), "{message}");
}

#[test]
fn an_update_of_a_group_with_a_priority_is_left_to_cel() {
    let stored = group(json!({"priorityClassName": "deleted-since", "priority": 77, "preemptionPolicy": "Never"}));
    let mut changed = stored.clone();
    changed["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(3);
    let request = update("podgroups", changed, stored);
    assert_untouched(&mutate(&request, &cluster()));
    assert_untouched(&validate(&request, &cluster()));
}

#[test]
fn a_manifest_that_leaves_out_what_was_filled_can_be_applied_again() {
    let stored = mutated(&create("podgroups", group(json!({}))), &cluster_with_default());
    let mut replaced = group(json!({}));
    replaced["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(3);
    let object = mutated(&update("podgroups", replaced, stored.clone()), &cluster_with_default());
    assert_eq!(filled(&object), filled(&stored));
    assert_eq!(object["spec"]["schedulingPolicy"]["gang"]["minCount"], json!(3));
    assert_untouched(&validate(&update("podgroups", object, stored), &cluster_with_default()));
}

#[test]
fn an_update_fills_what_was_stored_while_the_webhook_was_away() {
    let stored = group(json!({"priorityClassName": "managed"}));
    let request = update("podgroups", stored.clone(), stored);
    let object = mutated(&request, &cluster());
    assert_eq!(filled(&object), (json!("managed"), json!(20), json!("PreemptLowerPriority")));
}

#[test]
fn an_update_keeps_working_when_the_stored_class_is_unknown_or_the_stored_policy_wrong() {
    let stored = group(json!({"priorityClassName": "nope"}));
    let request = update("podgroups", stored.clone(), stored);
    let verdict = mutate(&request, &cluster());
    assert_eq!(verdict.notes.warnings, ["spec.priorityClassName: no PriorityClass with name nope was found"]);
    assert_untouched(&validate(&request, &cluster()));

    let odd = group(json!({"priorityClassName": "managed", "preemptionPolicy": "Never"}));
    let object = mutated(&update("podgroups", odd.clone(), odd.clone()), &cluster());
    assert_eq!(filled(&object), (json!("managed"), json!(20), json!("Never")));
    assert_untouched(&validate(&update("podgroups", object, odd), &cluster()));
}

#[test]
fn an_update_that_gives_a_wrong_class_or_priority_for_the_first_time_is_refused() {
    let stored = group(json!({}));
    let class = update("podgroups", group(json!({"priorityClassName": "nope"})), stored.clone());
    assert_refused(
        mutate(&class, &cluster()),
        403,
        "spec.priorityClassName: no PriorityClass with name nope was found",
    );
    let priority = update("podgroups", group(json!({"priority": 9})), stored);
    assert!(refusal(mutate(&priority, &cluster())).message.contains("priority (9) must not be provided"));
}

#[test]
fn a_group_that_is_being_deleted_is_untouched() {
    let mut dying = group(json!({"priorityClassName": "nope"}));
    dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let request = update("podgroups", dying.clone(), dying);
    assert_untouched(&mutate(&request, &cluster()));
    assert_untouched(&validate(&request, &cluster()));
}

#[test]
fn a_reference_to_a_missing_template_causes_a_warning() {
    let reference = |workload: &str, template: &str| {
        let workload = json!({"workloadName": workload, "podGroupTemplateName": template});
        let group = group(json!({"podGroupTemplateRef": {"workload": workload}}));
        validate(&create("podgroups", group), &cluster())
    };
    assert_untouched(&reference("work", "gang"));
    assert_eq!(
        reference("work", "other").notes.warnings,
        [
            "spec.podGroupTemplateRef.workload.podGroupTemplateName: PodGroupTemplate \"other\" not found in Workload \"work\": the group is not counted in the status of the Workload"
        ]
    );
    let unknown = reference("none", "gang");
    assert!(unknown.notes.warnings[0].contains("Workload \"none\" not found"));
    assert!(unknown.notes.missing.contains(&Reference::Workload { namespace: "team".into(), name: "none".into() }));
}

#[test]
fn an_update_that_leaves_out_the_finalizer_keeps_it_for_every_user_but_the_operator() {
    let with = |finalizers: Value| {
        let mut object = group(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}));
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    let ours = "scheduling.giveway.dev/pod-group-protection";
    let stored = with(json!(["example.com/f", ours]));
    for (left, kept) in [
        (json!(null), json!([ours])),
        (json!([]), json!([ours])),
        (json!(["example.com/f"]), json!(["example.com/f", ours])),
        (json!([ours]), json!([ours])),
    ] {
        let object = mutated(&update("podgroups", with(left.clone()), stored.clone()), &cluster());
        assert_eq!(object["metadata"]["finalizers"], kept, "{left}");
    }
    let without = update("podgroups", with(json!(null)), stored.clone());
    let by = |user: &str| {
        let user_info = UserInfo { username: Some(user.to_owned()), groups: Vec::new() };
        mutated(&Request { user_info, ..without.clone() }, &cluster())["metadata"]["finalizers"].clone()
    };
    assert_eq!(by("system:serviceaccount:giveway-system:giveway-operator"), Value::Null);
    for other in ["system:admin", "system:serviceaccount:team:giveway-operator", "giveway-operator"] {
        assert_eq!(by(other), json!([ours]), "{other}");
    }
    // A PodGroup that had no finalizer gets none.
    assert_untouched(&mutate(&update("podgroups", with(json!(null)), with(json!(["example.com/f"]))), &cluster()));
}

#[test]
fn the_finalizer_of_a_group_that_is_being_deleted_is_not_put_back() {
    let mut stored = group(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    stored["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let without = stored.clone();
    stored["metadata"]["finalizers"] = json!(["scheduling.giveway.dev/pod-group-protection"]);
    assert_untouched(&mutate(&update("podgroups", without, stored), &cluster()));
}
