//! The parts of the schemas that the derive macros cannot express: the limits of conditions, and optional fields that are not nullable.

use crate::brief::MOST_OF_MESSAGE;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the schema of a list of conditions, with the limits of `metav1.Condition`.
pub fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut item = Condition::json_schema(generator);
    let limits = [
        ("message", json!({"maxLength": MOST_OF_MESSAGE})),
        ("observedGeneration", json!({"minimum": 0})),
        ("reason", json!({"minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"})),
        ("status", json!({"enum": ["True", "False", "Unknown"]})),
        ("type", json!({"minLength": 1, "maxLength": 316})),
    ];
    for (field, limits) in limits {
        let schema = item.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut);
        if let (Some(schema), Value::Object(limits)) = (schema, limits) {
            schema.extend(limits);
        }
    }
    json_schema!({
        "type": "array",
        "items": item,
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]
    })
}

/// Returns the CustomResourceDefinition without `nullable` in any field: an optional field is absent, never null. The API server drops a
/// null that a client sends.
pub fn without_null(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()).for_each(remove_nullable);
    crd
}

/// Removes `nullable` from a schema and from all schemas below it.
fn remove_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.properties.iter_mut().flat_map(BTreeMap::values_mut).for_each(remove_nullable);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        remove_nullable(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        remove_nullable(values);
    }
}
