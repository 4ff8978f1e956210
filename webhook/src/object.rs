//! Reading and changing objects as JSON.
//!
//! Rules read only the fields they need, and change the JSON itself: fields that this version of the webhook does not
//! know survive. A field of the wrong type is refused with its path; nothing here can panic.

use crate::verdict::Refusal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The part of `metadata` that rules read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name of the object; absent while the API server has still to generate it.
    #[serde(default)]
    pub name: Option<String>,
    /// Labels.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Set when the object is being deleted.
    #[serde(default)]
    pub deletion_timestamp: Option<String>,
}

impl Metadata {
    /// The label under this key.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// The annotation under this key.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Reads an object, or refuses it with the path of the field that cannot be read.
pub fn read<T: DeserializeOwned>(kind: &str, object: &Value) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        Refusal::unprocessable(match path.as_str() {
            "." => format!("the {kind} cannot be read: {cause}"),
            _ => format!("{path}: Invalid value: {cause}: the {kind} cannot be read, correct this field"),
        })
    })
}

/// The path of an annotation, as errors name it.
pub fn annotation_path(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// The path of a label, as errors name it.
pub fn label_path(key: &str) -> String {
    format!("metadata.labels[{key}]")
}

/// Sets the field `path`, and creates the objects on the way. Does nothing where something else than an object is in
/// the way; such objects are refused when they are read.
pub fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    if let Some((last, parents)) = path.split_last()
        && let Some(map) = descend(object, parents)
    {
        map.insert((*last).to_owned(), value.into());
    }
}

/// Removes the field `path`.
pub fn remove(object: &mut Value, path: &[&str]) {
    if let Some((last, parents)) = path.split_last() {
        let parent = parents.iter().try_fold(object, |at, key| at.get_mut(*key));
        if let Some(map) = parent.and_then(Value::as_object_mut) {
            map.remove(*last);
        }
    }
}

fn descend<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut map = object.as_object_mut()?;
    for key in path {
        let next = map.entry((*key).to_owned()).or_insert(Value::Null);
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        map = next.as_object_mut()?;
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn setting_a_field_creates_what_is_missing_and_replaces_nulls() {
        let mut object = json!({"metadata": {"annotations": null}});
        set(&mut object, &["metadata", "annotations", "a/b"], "c");
        set(&mut object, &["spec", "x"], 1);
        assert_eq!(object, json!({"metadata": {"annotations": {"a/b": "c"}}, "spec": {"x": 1}}));
    }

    #[test]
    fn a_field_in_the_way_is_left_alone() {
        let mut object = json!({"metadata": 5});
        set(&mut object, &["metadata", "labels", "a"], "b");
        remove(&mut object, &["metadata", "labels"]);
        assert_eq!(object, json!({"metadata": 5}));
    }

    #[test]
    fn an_unreadable_field_is_named_with_its_path() {
        #[derive(Debug, Deserialize)]
        struct Object {
            #[serde(rename = "metadata")]
            _metadata: Metadata,
        }
        let error = read::<Object>("Pod", &json!({"metadata": {"labels": {"a": 5}}})).unwrap_err();
        assert_eq!(error.code, 422);
        assert_eq!(
            error.message,
            "metadata.labels.a: Invalid value: invalid type: integer `5`, expected a string: the Pod cannot be read, correct this field"
        );
        let whole = read::<Object>("Pod", &json!([])).unwrap_err();
        assert!(whole.message.starts_with("the Pod cannot be read: "), "{}", whole.message);
    }
}
