//! The JSON merge patch (RFC 7386) between two values: only what differs, and `null` for what is no longer there.

use serde_json::{Map, Value};

/// The patch that turns `from` into `to`.
pub fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for key in from.keys().filter(|k| !to.contains_key(*k)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in to {
        match from.get(key) {
            Some(old) if old == value => {}
            Some(old) => drop(patch.insert(key.clone(), merge_patch(old, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_differences_are_in_the_patch_and_what_vanished_is_null() {
        let patch = merge_patch(
            &json!({"a": 1, "b": {"x": 1, "y": 2}, "c": [1]}),
            &json!({"a": 1, "b": {"x": 3}, "c": [1, 2]}),
        );
        assert_eq!(patch, json!({"b": {"x": 3, "y": null}, "c": [1, 2]}));
    }

    #[test]
    fn equal_values_need_an_empty_patch() {
        assert_eq!(merge_patch(&json!({"a": {"b": 1}}), &json!({"a": {"b": 1}})), json!({}));
    }
}
