//! Finds fields in objects of kinds that are known only from a table, without copying them.

use crate::object::{Text, first_items};
use serde::Deserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of fields that are read in one object; real objects have far fewer pod templates.
pub const MOST: usize = 256;

/// A field that a pattern names.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The keys from the root of the object to the field.
    pub path: Vec<String>,
    /// The value; `None` if the field is missing or null. Its parent exists.
    pub value: Option<&'a RawValue>,
}

impl Place<'_> {
    /// Returns the path as errors name it.
    pub fn named(&self) -> String {
        let mut named = String::new();
        for part in &self.path {
            match part.parse::<usize>() {
                Ok(index) => named.push_str(&format!("[{index}]")),
                Err(_) if named.is_empty() => named.push_str(part),
                Err(_) => named.push_str(&format!(".{part}")),
            }
        }
        named
    }
}

/// Returns the fields of `object` that a pattern names: keys with dots between them, `*` for every item of a list or
/// map. Returns at most one more than [`MOST`].
pub fn places<'a>(object: &'a RawValue, pattern: &str) -> Vec<Place<'a>> {
    let mut found = vec![Place { path: Vec::new(), value: Some(object) }];
    for field in pattern.split('.') {
        let holders = found.into_iter().filter_map(|place| Some((place.path, place.value?)));
        found = holders.flat_map(|(path, value)| below(&path, value, field)).take(MOST + 1).collect();
    }
    found
}

/// Returns the fields directly below a value. Only the returned ones are kept in memory: at most one more than
/// [`MOST`].
fn below<'a>(path: &[String], value: &'a RawValue, field: &str) -> Vec<Place<'a>> {
    let found = serde_json::Deserializer::from_str(value.get()).deserialize_any(Below(field)).unwrap_or_default();
    let place = |(key, value): (String, Option<&'a RawValue>)| {
        let value = value.filter(|value| value.get() != "null");
        Place { path: path.iter().cloned().chain([key]).collect(), value }
    };
    found.into_iter().map(place).collect()
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

/// Returns the string at a path without `*`; `None` if there is none.
pub fn text(object: &RawValue, path: &str) -> Option<String> {
    let [place] = places(object, path).try_into().ok()?;
    serde_json::from_str(place.value?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str, pattern: &str) -> Vec<(String, Option<String>)> {
        let object = RawValue::from_string(json.to_owned()).unwrap();
        let told = |place: &Place<'_>| (place.named(), place.value.map(|value| value.get().to_owned()));
        places(&object, pattern).iter().map(told).collect()
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
        let [list] = places(&object, "a").try_into().unwrap();
        assert_eq!(below(&[], list.value.unwrap(), "*").len(), MOST + 1, "the others are not even collected");
        let fields: Vec<String> = (0..10_000).map(|n| format!("\"f{n}\":{{}}")).collect();
        let object = RawValue::from_string(format!("{{{}}}", fields.join(","))).unwrap();
        assert_eq!(below(&[], &object, "*").len(), MOST + 1);
        assert_eq!(below(&[], &object, "f9999").len(), 1);
    }

    #[test]
    fn of_a_field_that_comes_twice_the_last_value_counts() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found(r#"{"a":1,"b":0,"a":2}"#, "a"), [("a".to_owned(), some("2"))]);
        assert_eq!(found(r#"{"a":1,"a":2}"#, "*"), [("a".to_owned(), some("2"))]);
        assert_eq!(found(r#"{"a":[{"b":1}]}"#, "a.b"), [], "a list has no fields");
    }

    #[test]
    fn a_text_is_read_and_nothing_else() {
        let object = RawValue::from_string(r#"{"spec":{"p":"Parallel","n":3}}"#.to_owned()).unwrap();
        assert_eq!(text(&object, "spec.p").as_deref(), Some("Parallel"));
        assert_eq!((text(&object, "spec.n"), text(&object, "spec.x"), text(&object, "x.y")), (None, None, None));
    }
}
