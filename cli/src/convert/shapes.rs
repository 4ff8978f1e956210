//! Used by both directions: moves fields from one object into another, and names the fields without a counterpart.

use giveway_crds::keys;
use serde_json::{Map, Value, json};

/// The fields of a value that is converted, and the converted value. Fields are removed one by one; those that remain at the end have
/// no counterpart.
pub(super) struct ObjectFields {
    path: String,
    left: Map<String, Value>,
    /// The converted object.
    pub(super) made: Map<String, Value>,
}

impl ObjectFields {
    /// Takes the fields of `value` that are to be converted; none if it is no map. `path` is the field path of `value` in its object,
    /// for notes.
    pub(super) fn of(value: &Value, path: &str) -> Self {
        let left = value.as_object().cloned().unwrap_or_default();
        Self { path: path.to_owned(), left, made: Map::new() }
    }

    /// Returns the path of a field of this value in its object, for notes.
    pub(super) fn path(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    /// Removes a field of the original value and returns it; `None` if it is not set or empty.
    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        self.left.remove(field).filter(|value| !is_empty(value))
    }

    /// Moves a field of the original value to the converted one, where it has the same name and meaning.
    pub(super) fn same(&mut self, field: &str) {
        if let Some(value) = self.take(field) {
            self.made.insert(field.to_owned(), value);
        }
    }

    /// Removes a field of the original value if it is `nothing`, a value that means the same as no field.
    pub(super) fn drop_if(&mut self, field: &str, nothing: &Value) {
        if self.left.get(field) == Some(nothing) {
            self.left.remove(field);
        }
    }

    /// Sets a field of the converted value.
    pub(super) fn set(&mut self, field: &str, value: Value) {
        self.made.insert(field.to_owned(), value);
    }

    /// Returns the converted value, and adds a note for every field of the original one that has no counterpart.
    pub(super) fn done(self, notes: &mut Vec<String>) -> Value {
        for (field, value) in self.left.iter().filter(|(_, value)| !is_empty(value)) {
            notes.push(format!("{}.{field}: has no counterpart: {value} is left out", self.path));
        }
        Value::Object(self.made)
    }
}

/// Returns true if a value counts as not set. An empty object has a meaning: `basic: {}`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns name, namespace, labels and annotations of an object, without those that the API server and Giveway wrote.
pub(super) fn metadata(object: &Value) -> Value {
    let from = &object["metadata"];
    let mut made = Map::new();
    for field in ["name", "namespace"] {
        if let Some(value) = from.get(field).filter(|value| !is_empty(value)) {
            made.insert(field.to_owned(), value.clone());
        }
    }
    for field in ["labels", "annotations"] {
        let mut map = from[field].as_object().cloned().unwrap_or_default();
        map.retain(|key, _| {
            !key.starts_with(keys::PREFIX) && key != "kubectl.kubernetes.io/last-applied-configuration"
        });
        if !map.is_empty() {
            made.insert(field.to_owned(), Value::Object(map));
        }
    }
    Value::Object(made)
}

/// Returns an object of this kind with this spec, whose name, labels and annotations are those of `from`.
pub(super) fn object(api_version: &str, kind: &str, from: &Value, spec: Value) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata(from), "spec": spec })
}

/// Returns the note that pods belong to this converted PodGroup by Giveway's label, which they must have when they are created.
pub(super) fn label(group: &Value) -> String {
    let name = group["metadata"]["name"].as_str().unwrap_or_default();
    format!("pods belong to it by the label {}: {name} when they are created", keys::LABEL_POD_GROUP)
}

/// Adds a note if the name of this PodGroup is too long for the label in which pods name their group.
pub(super) fn long_name(group: &Value, notes: &mut Vec<String>) {
    let name = group["metadata"]["name"].as_str().unwrap_or_default();
    if name.len() > keys::MAX_GROUP_NAME {
        notes.push(format!(
            "metadata.name: must be no more than {} characters, it has {}: use a shorter name",
            keys::MAX_GROUP_NAME,
            name.len()
        ));
    }
}
