//! Checks that fields of a manifest are maps or lists before a conversion, as the API server requires.

use super::{COSCHEDULING, coscheduling};
use crate::error::CliError;
use crate::world::name_of;
use giveway_crds::native::GROUP as NATIVE;
use serde_json::Value;

/// Rejects an object with a wrong type in a field that a conversion reads or writes.
pub(super) fn check(object: &Value, file: &str) -> Result<(), CliError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    shape(object, kind).map_err(|(field, problem)| CliError::Object {
        file: file.to_owned(),
        kind: kind.to_owned(),
        object: name_of(object),
        field,
        problem,
    })
}

/// Path of a field, and why its value is wrong.
type Wrong = (String, String);

/// Checks the types of the fields that a conversion reads.
fn shape(object: &Value, kind: &str) -> Result<(), Wrong> {
    metadata(object, "")?;
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let converted = [NATIVE, COSCHEDULING, coscheduling::EARLIER];
    if matches!(kind, "PodGroup" | "Workload") && version.split_once('/').is_some_and(|(of, _)| converted.contains(&of))
    {
        map(&object["spec"], "spec")?;
        group(&object["spec"], "spec")?;
        let templates = &object["spec"]["podGroupTemplates"];
        for (index, template) in list(templates, "spec.podGroupTemplates")?.iter().enumerate() {
            let path = format!("spec.podGroupTemplates[{index}]");
            map(template, &path)?;
            if !template["name"].is_string() {
                return Err(wrong(&template["name"], &format!("{path}.name"), "string"));
            }
            group(template, &path)?;
        }
    }
    pods(object, "")
}

/// Checks the types of the fields that PodGroups and templates of a Workload share.
fn group(value: &Value, path: &str) -> Result<(), Wrong> {
    map(&value["schedulingPolicy"], &format!("{path}.schedulingPolicy"))?;
    map(&value["schedulingConstraints"], &format!("{path}.schedulingConstraints"))
}

/// Checks pods and pod templates anywhere in the object.
fn pods(value: &Value, path: &str) -> Result<(), Wrong> {
    if value.pointer("/spec/containers").is_some_and(Value::is_array) {
        metadata(value, path)?;
        let group = &value["spec"]["schedulingGroup"];
        map(group, &below(path, "spec.schedulingGroup"))?;
        let name = &group["podGroupName"];
        let named = name.is_string() || name.is_null();
        return if named {
            Ok(())
        } else {
            Err(wrong(name, &below(path, "spec.schedulingGroup.podGroupName"), "string"))
        };
    }
    match value {
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| pods(item, &format!("{path}[{index}]")))
        }
        Value::Object(fields) => fields.iter().try_for_each(|(key, inner)| pods(inner, &below(path, key))),
        _ => Ok(()),
    }
}

/// Checks that an object's metadata, labels and annotations are maps. `path` is that of the object; the error has the path of the field.
fn metadata(value: &Value, path: &str) -> Result<(), Wrong> {
    map(&value["metadata"], &below(path, "metadata"))?;
    for field in ["labels", "annotations"] {
        map(&value["metadata"][field], &below(path, &format!("metadata.{field}")))?;
    }
    Ok(())
}

/// Returns the path of a field of the object at `path`, such as `spec.schedulingPolicy`; the empty path is the whole document.
fn below(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Rejects a value that is neither an object nor absent.
fn map(value: &Value, path: &str) -> Result<(), Wrong> {
    if value.is_object() || value.is_null() { Ok(()) } else { Err(wrong(value, path, "object")) }
}

/// Returns the items of a list; none if the field is not set.
pub(super) fn list<'a>(value: &'a Value, path: &str) -> Result<&'a [Value], Wrong> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(&[]),
        other => Err(wrong(other, path, "array")),
    }
}

/// Returns the error that the value at `path` does not have the type `type_`.
fn wrong(value: &Value, path: &str, type_: &str) -> Wrong {
    (path.to_owned(), format!("Invalid value: {value}: must be of type {type_}"))
}
