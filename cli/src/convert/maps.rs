//! Checks that fields of a manifest are maps or lists before a conversion, as the API server requires.

use super::{COSCHEDULING, coscheduling};
use crate::error::CliError;
use crate::world::name_of;
use giveway_crds::native::GROUP as NATIVE;
use serde_json::Value;

/// Returns an error if a field of the object that a conversion reads or writes has the wrong type. `file` is the name of its file for
/// the error.
pub(super) fn check(object: &Value, file: &str) -> Result<(), CliError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    check_types(object, kind).map_err(|(field, problem)| CliError::Object {
        file: file.to_owned(),
        kind: kind.to_owned(),
        object: name_of(object),
        field,
        problem,
    })
}

/// Path of a field whose value has the wrong type, and a sentence about that.
type TypeProblem = (String, String);

/// Checks the types of the fields that the conversion of an object of this kind reads.
fn check_types(object: &Value, kind: &str) -> Result<(), TypeProblem> {
    check_metadata(object, "")?;
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let converted = [NATIVE, COSCHEDULING, coscheduling::EARLIER];
    if matches!(kind, "PodGroup" | "Workload") && version.split_once('/').is_some_and(|(of, _)| converted.contains(&of))
    {
        check_map(&object["spec"], "spec")?;
        check_group(&object["spec"], "spec")?;
        let templates = &object["spec"]["podGroupTemplates"];
        for (index, template) in list(templates, "spec.podGroupTemplates")?.iter().enumerate() {
            let path = format!("spec.podGroupTemplates[{index}]");
            check_map(template, &path)?;
            if !template["name"].is_string() {
                return Err(type_problem(&template["name"], &format!("{path}.name"), "string"));
            }
            check_group(template, &path)?;
        }
    }
    check_pods(object, "")
}

/// Checks the types of the fields that a PodGroup and a template of a Workload share. `path` is the field path of `value` in its
/// object.
fn check_group(value: &Value, path: &str) -> Result<(), TypeProblem> {
    check_map(&value["schedulingPolicy"], &format!("{path}.schedulingPolicy"))?;
    check_map(&value["schedulingConstraints"], &format!("{path}.schedulingConstraints"))
}

/// Checks the types of the fields that a conversion reads of the pods and pod templates at or below `value`. `path` is the field path
/// of `value` in its object.
fn check_pods(value: &Value, path: &str) -> Result<(), TypeProblem> {
    if value.pointer("/spec/containers").is_some_and(Value::is_array) {
        check_metadata(value, path)?;
        let group = &value["spec"]["schedulingGroup"];
        check_map(group, &field_path(path, "spec.schedulingGroup"))?;
        let name = &group["podGroupName"];
        let named = name.is_string() || name.is_null();
        return if named {
            Ok(())
        } else {
            Err(type_problem(name, &field_path(path, "spec.schedulingGroup.podGroupName"), "string"))
        };
    }
    match value {
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| check_pods(item, &format!("{path}[{index}]")))
        }
        Value::Object(fields) => fields.iter().try_for_each(|(key, inner)| check_pods(inner, &field_path(path, key))),
        _ => Ok(()),
    }
}

/// Checks that `metadata` of `value`, and the labels and annotations in it, are maps. `path` is the field path of `value`; the error
/// has the path of the wrong field.
fn check_metadata(value: &Value, path: &str) -> Result<(), TypeProblem> {
    check_map(&value["metadata"], &field_path(path, "metadata"))?;
    for field in ["labels", "annotations"] {
        check_map(&value["metadata"][field], &field_path(path, &format!("metadata.{field}")))?;
    }
    Ok(())
}

/// Returns the path of a field of the value at `path`, such as `spec.schedulingPolicy`; the empty path is the whole document.
fn field_path(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Returns an error if the value is neither a map nor absent. `path` is its field path for the error.
fn check_map(value: &Value, path: &str) -> Result<(), TypeProblem> {
    if value.is_object() || value.is_null() { Ok(()) } else { Err(type_problem(value, path, "object")) }
}

/// Returns the items of a list; none if the field is not set, and an error for any other value. `path` is the field path of `value` for
/// the error.
pub(super) fn list<'a>(value: &'a Value, path: &str) -> Result<&'a [Value], TypeProblem> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(&[]),
        other => Err(type_problem(other, path, "array")),
    }
}

/// Returns the error that the value at `path` does not have the JSON type `type_`.
fn type_problem(value: &Value, path: &str, type_: &str) -> TypeProblem {
    (path.to_owned(), format!("Invalid value: {value}: must be of type {type_}"))
}
