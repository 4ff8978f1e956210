//! Reads fields from the JSON of requests and responses.

use serde_json::Value;
use std::collections::BTreeMap;

/// Returns the string at a JSON pointer; empty if it is missing.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the integer at a JSON pointer.
pub(super) fn number(value: &Value, pointer: &str) -> Option<i32> {
    value.pointer(pointer).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok())
}

/// Returns the map of strings at a JSON pointer; empty if it is missing.
pub(super) fn map(value: &Value, pointer: &str) -> BTreeMap<String, String> {
    let object = value.pointer(pointer).and_then(Value::as_object);
    object.map_or_else(BTreeMap::new, |object| {
        object.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    })
}

/// Returns the list at a JSON pointer; empty if it is missing.
pub(super) fn list(value: &Value, pointer: &str) -> Vec<Value> {
    value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns true if the object has this kind.
pub(super) fn is(value: &Value, kind: &str) -> bool {
    value.get("kind").and_then(Value::as_str) == Some(kind)
}
