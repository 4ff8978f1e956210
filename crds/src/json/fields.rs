//! Finds fields in objects of kinds that are known only from a table: in the text of a request, without copying it, and
//! in a parsed object.

use super::{Text, first_items};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of fields that are read in one object; real objects have far fewer pod templates.
pub const MOST: usize = 256;

/// A JSON value whose fields can be found by their paths.
pub trait Json<'a>: Copy {
    /// Returns the field of this name directly below the value, or for `*` the items of a list or map, at most one more than
    /// [`MOST`]: each with its key or index, and its value. A missing field of a map is returned without a value; the result is
    /// empty for a value that is no map (for `*`: and no list).
    fn below(self, field: &str) -> Vec<(String, Option<Self>)>;

    /// Returns true if the value is JSON's null, which counts like a missing field.
    fn is_null(self) -> bool;

    /// Parses the value as `T`; `None` if it has another type.
    fn read<T: Deserialize<'a>>(self) -> Option<T>;
}

impl<'a> Json<'a> for &'a RawValue {
    fn below(self, field: &str) -> Vec<(String, Option<Self>)> {
        serde_json::Deserializer::from_str(self.get()).deserialize_any(Below(field)).unwrap_or_default()
    }

    fn is_null(self) -> bool {
        self.get() == "null"
    }

    fn read<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.get()).ok()
    }
}

impl<'a> Json<'a> for &'a Value {
    fn below(self, field: &str) -> Vec<(String, Option<Self>)> {
        match self {
            Value::Array(items) if field == "*" => {
                let items = items.iter().take(MOST + 1).enumerate();
                items.map(|(index, item)| (index.to_string(), Some(item))).collect()
            }
            Value::Object(map) if field == "*" => {
                map.iter().take(MOST + 1).map(|(key, item)| (key.clone(), Some(item))).collect()
            }
            Value::Object(map) => vec![(field.to_owned(), map.get(field))],
            _ => Vec::new(),
        }
    }

    fn is_null(self) -> bool {
        Value::is_null(self)
    }

    fn read<T: Deserialize<'a>>(self) -> Option<T> {
        T::deserialize(self).ok()
    }
}

/// A field that a pattern names.
#[derive(Clone, Debug)]
pub struct FieldPlace<J> {
    /// The keys from the root of the object to the field.
    pub path: Vec<String>,
    /// The value; `None` if the field is missing or null. Its parent exists.
    pub value: Option<J>,
}

impl<'a, J: Json<'a>> FieldPlace<J> {
    /// Returns the path as API errors name it, such as `spec.template.containers[0]`.
    pub fn named(&self) -> String {
        named(&self.path)
    }

    /// Returns the value below this field at the path of these keys, which may contain dots; `None` if it is missing or null.
    pub fn at(&self, keys: &[&str]) -> Option<J> {
        keys.iter().try_fold(self.value?, |value, key| {
            let found = value.below(key).into_iter().next()?.1;
            found.filter(|value| !value.is_null())
        })
    }
}

/// Returns a path, given as keys and indexes, as API errors name it, such as `spec.template.containers[0]`.
pub fn named(path: &[String]) -> String {
    let mut named = String::new();
    for part in path {
        match part.parse::<usize>() {
            Ok(index) => named.push_str(&format!("[{index}]")),
            Err(_) if named.is_empty() => named.push_str(part),
            Err(_) => named.push_str(&format!(".{part}")),
        }
    }
    named
}

/// Returns the fields of `object` whose path matches `pattern`: keys with dots between them, `*` for every item of a list or
/// map. A missing field is returned without a value if its parent exists. Returns at most one more than [`MOST`].
pub fn places<'a, J: Json<'a>>(object: J, pattern: &str) -> Vec<FieldPlace<J>> {
    let mut found = vec![FieldPlace { path: Vec::new(), value: Some(object) }];
    for field in pattern.split('.') {
        let holders = found.into_iter().filter_map(|place| Some((place.path, place.value?)));
        found = holders.flat_map(|(path, value)| places_below(&path, value, field)).take(MOST + 1).collect();
    }
    found
}

/// Returns the field `field` directly below `value`, which is at `path`, or for `*` its items: at most one more than
/// [`MOST`], and only these use memory.
fn places_below<'a, J: Json<'a>>(path: &[String], value: J, field: &str) -> Vec<FieldPlace<J>> {
    let place = |(key, value): (String, Option<J>)| {
        let value = value.filter(|value| !value.is_null());
        FieldPlace { path: path.iter().cloned().chain([key]).collect(), value }
    };
    value.below(field).into_iter().map(place).collect()
}

/// Finds the field of this name, or with `*` every item of a list or map.
struct Below<'p>(&'p str);

impl<'de> Visitor<'de> for Below<'_> {
    type Value = Vec<(String, Option<&'de RawValue>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map or a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let items = first_items(list, if self.0 == "*" { MOST + 1 } else { 0 })?;
        Ok(items.into_iter().enumerate().map(|(index, item)| (index.to_string(), Some(item))).collect())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut named = None;
        // Of a duplicate key the last value counts.
        let mut items = BTreeMap::new();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let value: &'de RawValue = map.next_value()?;
            if self.0 != "*" {
                named = (*key == *self.0).then_some(value).or(named);
            } else if items.len() <= MOST || items.contains_key(&key) {
                items.insert(key, Some(value));
            }
        }
        if self.0 == "*" {
            return Ok(items.into_iter().map(|(key, item)| (key.to_string(), item)).collect());
        }
        Ok(vec![(self.0.to_owned(), named)])
    }
}

/// Returns the value of `object` at a path (keys with dots between them, no `*`); `None` if it is missing or not of the type `T`.
pub fn value<'a, T: Deserialize<'a>>(object: impl Json<'a>, path: &str) -> Option<T> {
    let [place] = places(object, path).try_into().ok()?;
    place.value?.read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the fields that are found; the same in the text and in the parsed object.
    fn found(json: &str, pattern: &str) -> Vec<(String, Option<String>)> {
        let object = RawValue::from_string(json.to_owned()).unwrap();
        let shown = |place: &FieldPlace<&RawValue>| (place.named(), place.value.map(|value| value.get().to_owned()));
        let text: Vec<_> = places(&*object, pattern).iter().map(shown).collect();
        let object: Value = serde_json::from_str(json).unwrap();
        let shown = |place: &FieldPlace<&Value>| (place.named(), place.value.map(Value::to_string));
        assert_eq!(places(&object, pattern).iter().map(shown).collect::<Vec<_>>(), text);
        text
    }

    #[test]
    fn a_pattern_finds_fields_items_of_lists_and_items_of_maps_and_the_last_one_may_be_missing() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found(r#"{"a":{"b":1}}"#, "a.b"), [("a.b".to_owned(), some("1"))]);
        assert_eq!(found(r#"{"a":{}}"#, "a.b"), [("a.b".to_owned(), None)]);
        assert_eq!(found(r#"{"a":null}"#, "a.b"), []);
        assert_eq!(found(r#"{"a":7}"#, "a.b"), []);
        let list = found(r#"{"a":[{"b":{}},{"c":0}]}"#, "a.*.b");
        assert_eq!(list, [("a[0].b".to_owned(), some("{}")), ("a[1].b".to_owned(), None)]);
        assert_eq!(found(r#"{"a":{"x":{"b":"t"}}}"#, "a.*.b"), [("a.x.b".to_owned(), some("\"t\""))]);
    }

    #[test]
    fn no_more_places_are_looked_at_than_objects_have() {
        let many = format!("{{\"a\":[{}]}}", vec!["{}"; 10_000].join(","));
        assert_eq!(found(&many, "a.*.b").len(), MOST + 1);
        let object = RawValue::from_string(many).unwrap();
        let [list] = places(&*object, "a").try_into().unwrap();
        assert_eq!(list.value.unwrap().below("*").len(), MOST + 1, "the others are not even collected");
        let fields: Vec<String> = (0..10_000).map(|n| format!("\"f{n}\":{{}}")).collect();
        let object = RawValue::from_string(format!("{{{}}}", fields.join(","))).unwrap();
        assert_eq!(object.below("*").len(), MOST + 1);
        assert_eq!(object.below("f9999").len(), 1);
    }

    #[test]
    fn the_last_value_of_a_repeated_field_counts() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found(r#"{"a":1,"b":0,"a":2}"#, "a"), [("a".to_owned(), some("2"))]);
        assert_eq!(found(r#"{"a":1,"a":2}"#, "*"), [("a".to_owned(), some("2"))]);
        assert_eq!(found(r#"{"a":[{"b":1}]}"#, "a.b"), [], "a list has no fields");
    }

    #[test]
    fn a_value_is_read_if_it_has_the_type_and_keys_may_contain_dots() {
        let object = json!({"spec": {"p": "Parallel", "n": 3, "labels": {"a.b/c": "x", "d": null}}});
        let text = RawValue::from_string(object.to_string()).unwrap();
        assert_eq!(value::<Text<'_>>(&*text, "spec.p").as_deref(), Some("Parallel"));
        assert_eq!(value::<Text<'_>>(&object, "spec.p").as_deref(), Some("Parallel"));
        assert_eq!((value::<i64>(&object, "spec.n"), value::<i64>(&*text, "spec.n")), (Some(3), Some(3)));
        for path in ["spec.n", "spec.x", "x.y"] {
            assert_eq!((value::<Text<'_>>(&object, path), value::<Text<'_>>(&*text, path)), (None, None), "{path}");
        }
        let [spec] = places(&object, "spec").try_into().unwrap();
        assert_eq!(spec.at(&["labels", "a.b/c"]), Some(&json!("x")));
        assert_eq!((spec.at(&["labels", "d"]), spec.at(&["p", "d"])), (None, None));
    }
}
