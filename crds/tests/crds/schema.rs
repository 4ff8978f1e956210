//! The schemas of the kinds: every value has a bound, no field is nullable, and no field of a status is a closed enum.

use serde_json::Value;

/// Calls `visit` with the path and the schema of every field.
fn each(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        each(&format!("{path}.{name}"), field, visit);
    }
    for (key, step) in [("items", "[]"), ("additionalProperties", ".*")] {
        if schema[key].is_object() {
            each(&format!("{path}{step}"), &schema[key], visit);
        }
    }
}

/// Returns the path of each field for which `is_wrong` returns true. The API server validates the metadata.
fn wrong(is_wrong: fn(&str, &Value) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for crd in giveway_crds::all_crds() {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema = serde_json::to_value(schema.unwrap()).unwrap();
            for part in ["spec", "status"] {
                each(part, &schema["properties"][part], &mut |path, field| {
                    if is_wrong(path, field) {
                        found.push(format!("{}: {path}", crd.spec.names.kind));
                    }
                });
            }
        }
    }
    found
}

#[test]
fn every_string_list_and_map_has_a_bound() {
    let unbounded = wrong(|_, field| match field["type"].as_str() {
        Some("string") => field["maxLength"].is_null() && field["enum"].is_null() && field["format"].is_null(),
        Some("array") => field["maxItems"].is_null(),
        Some("object") => field["additionalProperties"].is_object() && field["maxProperties"].is_null(),
        _ => false,
    });
    assert_eq!(unbounded, Vec::<String>::new());
}

#[test]
fn every_list_has_a_type_and_no_field_is_nullable() {
    assert_eq!(wrong(|_, field| field["type"] == "array" && field["x-kubernetes-list-type"].is_null()), [""; 0]);
    assert_eq!(wrong(|_, field| !field["nullable"].is_null()), [""; 0]);
}

#[test]
fn a_status_has_no_closed_enum_but_the_status_of_a_condition() {
    let closed = wrong(|path, field| path.starts_with("status") && field["enum"].is_array());
    assert_eq!(closed, ["PodGroup: status.conditions[].status", "Workload: status.conditions[].status"]);
}
