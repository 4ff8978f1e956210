//! Workload: each template is filled and checked under its own path.

use super::fixtures::*;
use serde_json::{Value, json};

fn template(name: &str, fields: Value) -> Value {
    let mut template = json!({"name": name, "schedulingPolicy": gang()});
    template.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    template
}

#[test]
fn every_template_is_filled_by_its_own_class() {
    let templates = json!([
        template("a", json!({"priorityClassName": "managed"})),
        template("b", json!({})),
        template("c", json!({"priorityClassName": "managed-never", "priority": 30})),
    ]);
    let object = mutated(&create("workloads", workload_object("w", templates)), &cluster_with_default());
    let filled: Vec<(&str, i64)> = object["spec"]["podGroupTemplates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["priorityClassName"].as_str().unwrap(), t["priority"].as_i64().unwrap()))
        .collect();
    assert_eq!(filled, [("managed", 20), ("plain", 10), ("managed-never", 30)]);
    assert!(object["spec"]["podGroupTemplates"][0].get("preemptionPolicy").is_none(), "templates have no such field");
    assert_untouched(&validate(&create("workloads", object), &cluster_with_default()));
}

#[test]
fn a_workload_with_too_many_templates_is_not_filled() {
    let templates = |count: usize| -> Value {
        (0..count).map(|n| template(&format!("t{n}"), json!({"priorityClassName": "managed"}))).collect()
    };
    let filled = mutated(&create("workloads", workload_object("w", templates(8))), &cluster());
    assert_eq!(filled["spec"]["podGroupTemplates"][7]["priority"], json!(20));
    let nine = create("workloads", workload_object("w", templates(9)));
    assert_untouched(&mutate(&nine, &cluster()));
    let message = "spec.podGroupTemplates: Too many: must have at most 8 items: split it into several Workloads";
    assert_refused(validate(&nine, &cluster()), 422, message);
}

#[test]
fn refusals_name_the_template() {
    for (bad, code, message) in [
        (
            json!({"priorityClassName": "nope"}),
            403,
            "spec.podGroupTemplates[1].priorityClassName: no PriorityClass with name nope was found",
        ),
        (
            json!({"priorityClassName": "managed", "priority": 3}),
            403,
            "spec.podGroupTemplates[1].priority: the integer value of priority (3) must not be provided in the spec of a PodGroup template; its priority by PriorityClass managed is 20: leave the field out",
        ),
        (
            json!({"priority": []}),
            422,
            "spec.podGroupTemplates[1].priority: Invalid value: invalid type: sequence, expected i64: the Workload cannot be read, correct this field",
        ),
    ] {
        let templates = json!([template("a", json!({})), template("b", bad)]);
        assert_refused(mutate(&create("workloads", workload_object("w", templates)), &cluster()), code, message);
    }
}

#[test]
fn one_warning_for_a_class_that_is_not_managed() {
    let templates = json!([
        template("a", json!({"priorityClassName": "plain"})),
        template("b", json!({"priorityClassName": "plain"})),
    ]);
    let verdict = mutate(&create("workloads", workload_object("w", templates)), &cluster());
    assert_eq!(verdict.notes.warnings.len(), 1);
    assert!(verdict.notes.warnings[0].contains("priority class plain is not managed"));
}

#[test]
fn names_from_which_no_valid_group_name_can_be_made_are_rejected() {
    let long = "w".repeat(60);
    let verdict =
        validate(&create("workloads", workload_object(&long, json!([template("tttt", json!({}))]))), &cluster());
    assert_refused(
        verdict,
        422,
        &format!(
            "spec.podGroupTemplates[0].name: Invalid value: \"tttt\": the name of its pod groups, {long}-tttt, must be no more than 63 characters, it has 65: use a shorter name for the workload or the template"
        ),
    );
}

#[test]
fn on_an_update_only_new_and_unfilled_templates_are_resolved() {
    let stored = workload_object(
        "w",
        json!([
            template("kept", json!({"priorityClassName": "deleted-since", "priority": 77})),
            template("bare", json!({"priorityClassName": "managed"})),
        ]),
    );
    let mut changed = stored.clone();
    changed["spec"]["podGroupTemplates"]
        .as_array_mut()
        .unwrap()
        .insert(0, template("new", json!({"priorityClassName": "polite"})));
    let object = mutated(&update("workloads", changed, stored.clone()), &cluster());
    let priorities: Vec<&Value> =
        object["spec"]["podGroupTemplates"].as_array().unwrap().iter().map(|t| &t["priority"]).collect();
    assert_eq!(priorities, [&json!(15), &json!(77), &json!(20)]);
    assert_untouched(&validate(&update("workloads", object, stored), &cluster()));
}

#[test]
fn a_manifest_that_leaves_out_what_was_filled_can_be_applied_again() {
    let manifest = || {
        workload_object("w", json!([template("a", json!({"priorityClassName": "managed"})), template("b", json!({}))]))
    };
    let stored = mutated(&create("workloads", manifest()), &cluster_with_default());
    let object = mutated(&update("workloads", manifest(), stored.clone()), &cluster_with_default());
    assert_eq!(object, stored);
}

#[test]
fn a_workload_that_is_being_deleted_is_untouched() {
    let mut dying = workload_object("w", json!([template("a", json!({"priorityClassName": "nope"}))]));
    dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let request = update("workloads", dying.clone(), dying);
    assert_untouched(&mutate(&request, &cluster()));
    assert_untouched(&validate(&request, &cluster()));
}
