//! The JSON merge patch (RFC 7386) between two values: only what differs, and `null` for what is no longer there.

use serde_json::{Map, Value};

/// Everything that is in one of two values; of single values the second one.
pub fn union(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            for (key, value) in other {
                let both = match one.remove(&key) {
                    Some(known) => union(known, value),
                    None => value,
                };
                one.insert(key, both);
            }
            Value::Object(one)
        }
        (_, other) => other,
    }
}

/// The patch that turns every value into `to` that has no other fields than `from` or `to`.
pub fn overwriting_patch(from: &Value, to: &Value) -> Value {
    patch(from, to, true)
}

/// The patch that turns `from` into `to`.
pub fn merge_patch(from: &Value, to: &Value) -> Value {
    patch(from, to, false)
}

/// `equal`: whether what is equal in both is written too.
fn patch(from: &Value, to: &Value, equal: bool) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let mut fields = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        fields.insert(key.clone(), Value::Null);
    }
    for (key, value) in to.iter().filter(|(key, value)| equal || from.get(*key) != Some(*value)) {
        let written = from.get(key).map_or_else(|| value.clone(), |old| patch(old, value, equal));
        fields.insert(key.clone(), written);
    }
    Value::Object(fields)
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
    fn what_may_be_there_is_written_over_whatever_it_is() {
        let doubt = union(json!({"a": 1, "b": {"x": 1}}), json!({"a": 2, "b": {"y": 2}, "c": [1]}));
        assert_eq!(doubt, json!({"a": 2, "b": {"x": 1, "y": 2}, "c": [1]}));
        let patch = overwriting_patch(&doubt, &json!({"a": 1, "b": {"x": 1}, "d": 4}));
        assert_eq!(patch, json!({"a": 1, "b": {"x": 1, "y": null}, "c": null, "d": 4}));
    }

    #[test]
    fn equal_values_need_an_empty_patch() {
        assert_eq!(merge_patch(&json!({"a": {"b": 1}}), &json!({"a": {"b": 1}})), json!({}));
    }
}
