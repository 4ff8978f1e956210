//! `examples/monitoring/kube-state-metrics.yaml`: each field that it reads exists in the CRDs.

use giveway_crds::plan::PlanState;
use giveway_tests::paths;
use serde_json::{Value, json};
use std::fs;

fn yaml(path: &str) -> Value {
    serde_yaml_ng::from_str(&fs::read_to_string(paths::repository().join(path)).unwrap()).unwrap()
}

/// Returns the schema of the field at this path, or `None` if there is no such field. Steps into the items of a list.
fn field<'a>(schema: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let schema = if schema["type"] == "array" { &schema["items"] } else { schema };
    match path {
        [] => Some(schema),
        [name, rest @ ..] => schema["properties"].get(name).and_then(|schema| field(schema, rest)),
    }
}

/// Returns a path of the configuration.
fn path(value: &Value) -> Vec<&str> {
    value.as_array().map_or_else(Vec::new, |path| path.iter().map(|name| name.as_str().unwrap()).collect())
}

/// Returns the paths of a map of labels.
fn labels(value: &Value) -> Vec<Vec<&str>> {
    value.as_object().map_or_else(Vec::new, |labels| labels.values().map(path).collect())
}

#[test]
fn every_field_that_kube_state_metrics_reads_exists() {
    let configuration = yaml("examples/monitoring/kube-state-metrics.yaml");
    let mut read = 0;
    for resource in configuration["spec"]["resources"].as_array().unwrap() {
        let kind = resource["groupVersionKind"]["kind"].as_str().unwrap();
        let crd = yaml(&format!("crds/{}s.yaml", kind.to_lowercase()));
        assert_eq!(crd["spec"]["group"], resource["groupVersionKind"]["group"]);
        assert_eq!(crd["spec"]["versions"][0]["name"], resource["groupVersionKind"]["version"]);
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut expect = |from: &[&str], path: Vec<&str>| {
            let whole = [from, &path[..]].concat();
            let known = whole[0] == "metadata" || field(schema, &whole).is_some();
            assert!(known, "{kind} has no field {}", whole.join("."));
            read += 1;
        };
        labels(&resource["labelsFromPath"]).into_iter().for_each(|path| expect(&[], path));
        for metric in resource["metrics"].as_array().unwrap() {
            let each = ["gauge", "info", "stateSet"].map(|name| &metric["each"][name]);
            let each = each.into_iter().find(|each| each.is_object()).unwrap();
            let from = path(&each["path"]);
            for label in labels(&each["labelsFromPath"]) {
                expect(&from, label);
            }
            if !from.is_empty() {
                expect(&from, path(&each["valueFrom"]));
            }
        }
    }
    assert!(read > 20, "only {read} fields were found");
}

#[test]
fn the_state_set_has_every_state_of_a_preemption() {
    let configuration = yaml("examples/monitoring/kube-state-metrics.yaml");
    let metrics = configuration["spec"]["resources"][1]["metrics"].as_array().unwrap();
    let state = metrics.iter().find(|metric| metric["name"] == "state").unwrap();
    let states = PlanState::ALL.map(PlanState::as_str);
    assert_eq!(state["each"]["stateSet"]["list"], json!(states));
}
