//! An object of a file, or a list of them: of each object, the fields in the table of its kind are decoded as they come.

use super::kinds::{self, KindFields, OTHER};
use super::scalars::scalars;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A document of a file: an object, or a list whose `items` are objects. Fields that the command line does not read are left out.
#[derive(Debug, Default)]
pub struct Document(pub Value);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Decoder { has_items: true }.deserialize(deserializer).map(Self)
    }
}

/// Decodes the JSON text of one item of a list: of it only the fields that the command line reads from objects of its kind.
///
/// # Errors
/// The text is not JSON.
pub fn decode(text: &[u8]) -> Result<Value, serde_json::Error> {
    let mut decoder = serde_json::Deserializer::from_slice(text);
    let object = Decoder { has_items: false }.deserialize(&mut decoder)?;
    decoder.end()?;
    Ok(object)
}

/// Decodes an object of any kind. `has_items`: it may be a list, whose items are then objects too.
#[derive(Clone, Copy)]
struct Decoder {
    has_items: bool,
}

impl<'de> DeserializeSeed<'de> for Decoder {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Decoder {
    type Value = Value;

    scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = items.next_element_seed(Self { has_items: false })? {
            objects.push(object);
        }
        Ok(Value::Array(objects))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (mut object, mut items) = (Map::new(), None);
        // Fields before version and kind, which come first in what kubectl prints.
        let mut is_whole = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == "items" && self.has_items {
                items = Some(map.next_value_seed(self)?);
                continue;
            }
            if matches!(name.as_str(), "apiVersion" | "kind") {
                object.insert(name, map.next_value()?);
                continue;
            }
            match row_of(&object) {
                None => {
                    is_whole = true;
                    object.insert(name, map.next_value()?);
                }
                Some(row) => match row.object().for_snapshots().kept(&name) {
                    Some(trimmed) => drop(object.insert(name, map.next_value_seed(trimmed)?)),
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        let mut object = Value::Object(object);
        if is_whole {
            let row = object.as_object().and_then(row_of).unwrap_or(&OTHER);
            object = row.object().for_snapshots().deserialize(object).map_err(A::Error::custom)?;
        }
        if let (Some(items), Some(object)) = (items, object.as_object_mut()) {
            object.insert("items".to_owned(), items);
        }
        Ok(object)
    }
}

/// Returns the row in the table of kinds for an object with these fields, by its `apiVersion` and `kind`; for a kind that is not in
/// snapshots it is [`OTHER`]. `None` if one of both fields is missing.
fn row_of(object: &Map<String, Value>) -> Option<&'static KindFields> {
    let (version, kind) = (object.get("apiVersion")?, object.get("kind")?);
    let row = kinds::in_snapshots(version.as_str().unwrap_or_default(), kind.as_str().unwrap_or_default());
    Some(row.unwrap_or(&OTHER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Value {
        serde_json::from_str::<Document>(text).unwrap().0
    }

    #[test]
    fn an_object_is_trimmed_at_any_position_of_its_kind() {
        let kept = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}});
        for text in [
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "resourceVersion": "7"}, "spec": {"nodeName": "n", "containers2": [{}]}}"#,
            r#"{"metadata": {"name": "p", "annotations2": {"x": "y"}}, "kind": "Pod", "spec": {"nodeName": "n", "x": 1}, "apiVersion": "v1"}"#,
        ] {
            assert_eq!(read(text), kept);
            assert_eq!(decode(text.as_bytes()).unwrap(), kept);
        }
    }

    #[test]
    fn of_other_objects_only_the_name_is_kept_and_the_items_of_lists_are_objects() {
        let list = r#"{"items": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "b"}},
            {"metadata": {"name": "x"}, "spec": 1, "items": [1]}, 7], "kind": "List", "apiVersion": "v1", "metadata": {"x": 1}}"#;
        let kept = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, {"metadata": {"name": "x"}}, 7]});
        assert_eq!(read(list), kept);
        for text in ["[]", "\"hello\"", "5", "null"] {
            assert_eq!(read(text), serde_json::from_str::<Value>(text).unwrap());
        }
    }
}
