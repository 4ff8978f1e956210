//! What the tests of the API server's Priority plugin expect, as data (`tests/cases/units.yaml`): a class name resolves
//! to the same priority here.
//!
//! Left to the plugin itself, which runs before and after our webhook: pods whose own `priority` or `preemptionPolicy`
//! differs from their class's, and a second default class (`priorityclass_admission`).

use giveway_crds::priority::{Class, Classes, PriorityError};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

fn cases(kind: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_yaml_ng::from_str(include_str!("../../../tests/cases/units.yaml")).unwrap();
    all.into_iter().filter(|case| case["kind"] == kind).collect()
}

fn class(data: &Value) -> Class {
    let mut object = data.clone();
    object["metadata"] = json!({"name": data["name"]});
    Class::from_object(&serde_json::from_value::<PriorityClass>(object).unwrap())
}

fn add(all: &mut Classes, list: &Value) {
    for data in list.as_array().into_iter().flatten() {
        all.upsert(class(data));
    }
}

#[test]
fn the_default_class_follows_every_change_of_the_classes() {
    let cases = cases("default_priority");
    assert_eq!(cases.len(), 5);
    let default = |all: &Classes| {
        let resolved = all.resolve(None).unwrap();
        json!({"name": resolved.class_name, "value": resolved.priority})
    };
    for case in cases {
        let mut all = Classes::default();
        add(&mut all, &case["classesBefore"]);
        assert_eq!(default(&all), case["expect"]["before"], "{}", case["source"]);
        for data in case["classesBefore"].as_array().unwrap() {
            assert!(all.remove(data["name"].as_str().unwrap()));
        }
        add(&mut all, &case["classesAfter"]);
        assert_eq!(default(&all), case["expect"]["after"], "{}", case["source"]);
    }
}

#[test]
fn a_pods_class_resolves_to_the_priority_that_the_plugin_gives_it() {
    let mut compared = 0;
    for case in cases("pod_admission") {
        let mut all = Classes::default();
        let built_in = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
        built_in.iter().for_each(|(name, value)| _ = all.upsert(class(&json!({"name": name, "value": value}))));
        add(&mut all, &case["priorityClasses"]);
        let name = case["pod"]["priorityClassName"].as_str();
        let resolved = all.resolve(name);
        if let Some(priority) = case["expect"]["priority"].as_i64() {
            assert_eq!(i64::from(resolved.unwrap().priority), priority, "{}", case["source"]);
        } else if case["pod"]["preemptionPolicy"].is_null() {
            assert_eq!(resolved, Err(PriorityError::NotFound(name.unwrap().to_owned())), "{}", case["source"]);
        } else {
            continue;
        }
        compared += 1;
    }
    assert_eq!(compared, 18);
}
