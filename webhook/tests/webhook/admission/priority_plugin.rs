//! What the API server's own tests expect of pod groups with priority classes, as data (`tests/cases/units.yaml`).

use super::fixtures::*;
use giveway_crds::priority::Class;
use serde_json::{Value, json};

#[test]
fn groups_get_the_class_and_priority_that_the_in_tree_plugin_gives_them() {
    let all: Vec<Value> = serde_yaml_ng::from_str(include_str!("../../../../tests/cases/units.yaml")).unwrap();
    let mut compared = 0;
    for case in all.iter().filter(|case| case["kind"] == "podgroup_admission") {
        let mut view = empty();
        for data in case["priorityClasses"].as_array().unwrap() {
            let value = i32::try_from(data["value"].as_i64().unwrap()).unwrap();
            let global_default = data["globalDefault"] == true;
            view.classes.upsert(Class { global_default, ..class(data["name"].as_str().unwrap(), value) });
        }
        let given = &case["podGroup"];
        let mut spec = json!({"schedulingPolicy": {"basic": {}}, "priorityClassName": given["priorityClassName"]});
        if !given["priority"].is_null() {
            spec["priority"] = given["priority"].clone();
        }
        let object = group_object("test-podgroup", spec);
        let (source, expect) = (&case["source"], &case["expect"]);
        let wanted_name = expect["priorityClassName"].as_str().unwrap_or_default();
        match (&case["operation"], &expect["unchanged"], &expect["forbidden"]) {
            // The gate that the case turns off does not exist here.
            (Value::String(create), Value::Bool(true), _) if create == "CREATE" => continue,
            (_, Value::Bool(true), _) => {
                assert_eq!(mutated(&update("podgroups", object.clone(), object.clone()), &view), object, "{source}");
            }
            (_, _, Value::Bool(true)) => {
                let verdict = mutate(&create("podgroups", object), &view);
                let message = refusal(verdict).message;
                let wanted = if given["priority"].is_null() {
                    "no PriorityClass with name non-existent was found"
                } else {
                    "the integer value of priority (9999) must not be provided"
                };
                assert!(message.contains(wanted), "{source}: {message}");
            }
            _ => {
                let spec = &mutated(&create("podgroups", object), &view)["spec"];
                assert_eq!(spec["priorityClassName"].as_str().unwrap_or_default(), wanted_name, "{source}");
                assert_eq!(spec["priority"], expect["priority"], "{source}");
            }
        }
        compared += 1;
    }
    assert_eq!(compared, 7);
}
