//! Reading what the oracle needs from the JSON of requests and answers.

use serde_json::Value;
use std::collections::BTreeMap;

/// Namespaces whose names begin so are none, but say which namespace is at rest.
pub(super) const REST: &str = "rest-of-";

/// A string at a JSON pointer; empty when it is not there.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// An integer at a JSON pointer.
pub(super) fn number(value: &Value, pointer: &str) -> Option<i32> {
    value.pointer(pointer).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok())
}

/// A map of strings at a JSON pointer.
pub(super) fn map(value: &Value, pointer: &str) -> BTreeMap<String, String> {
    let object = value.pointer(pointer).and_then(Value::as_object);
    object.map_or_else(BTreeMap::new, |object| {
        object.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    })
}

/// A list at a JSON pointer; empty when it is not there.
pub(super) fn list(value: &Value, pointer: &str) -> Vec<Value> {
    value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Whether an answer is an object of this kind.
pub(super) fn is(value: &Value, kind: &str) -> bool {
    value.get("kind").and_then(Value::as_str) == Some(kind)
}
