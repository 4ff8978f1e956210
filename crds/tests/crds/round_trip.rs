//! Objects of each kind, with every field of the schema and with none of the optional fields, are written as they were read.

use giveway_crds::{PodGroup, Preemption, Workload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Returns a value of which every field is set, and every list and map has one entry.
fn with_all_fields(name: &str, schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") if schema["additionalProperties"].is_object() => {
            json!({ "key": with_all_fields("", &schema["additionalProperties"]) })
        }
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields.map(|(name, field)| (name.clone(), with_all_fields(name, field))).collect::<Map<_, _>>().into()
        }
        Some("array") => json!([with_all_fields("", &schema["items"])]),
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        _ if schema["format"] == "date-time" => json!("2026-01-02T03:04:05Z"),
        // A state that this version does not know is read as another one.
        _ if name == "state" => json!("Evicting"),
        _ => json!("text"),
    }
}

/// Reads an object of this type, and writes it.
fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
}

/// Converts an object of this version to the stored version and back. `v1alpha1` is the only version, so it is read and written. A new version
/// is added here with its conversion: an object with all of its fields must be unchanged.
fn converted_and_back(kind: &str, version: &str, object: &Value) -> Value {
    match (kind, version) {
        ("PodGroup", "v1alpha1") => through::<PodGroup>(object),
        ("Preemption", "v1alpha1") => through::<Preemption>(object),
        ("Workload", "v1alpha1") => through::<Workload>(object),
        _ => panic!("{kind} {version} has no test of its conversion"),
    }
}

#[test]
fn an_object_with_every_field_of_its_schema_is_unchanged_in_every_version() {
    for crd in giveway_crds::all_crds() {
        let kind = &crd.spec.names.kind;
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema = serde_json::to_value(schema.unwrap()).unwrap();
            let part = |part: &str| with_all_fields("", &schema["properties"][part]);
            let object = json!({
                "apiVersion": format!("{}/{}", crd.spec.group, version.name), "kind": kind,
                "metadata": {"name": "x"}, "spec": part("spec"), "status": part("status")
            });
            assert_eq!(converted_and_back(kind, &version.name, &object), object, "{kind} {}", version.name);
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

#[test]
fn an_absent_field_is_not_written_as_null() {
    let object = |kind: &str, spec: Value| {
        let version = "scheduling.giveway.dev/v1alpha1";
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec, "status": {}})
    };
    let template = json!({"name": "t", "schedulingPolicy": {"basic": {}}});
    let written = [
        through::<PodGroup>(&object("PodGroup", json!({"schedulingPolicy": {"gang": {"minCount": 1}}}))),
        through::<Workload>(&object("Workload", json!({"podGroupTemplates": [template]}))),
        through::<Preemption>(&object("Preemption", json!({}))),
    ];
    for object in written {
        assert!(!has_null(&object), "{object}");
    }
}
