//! The fields of an object that are decoded. All others are skipped in the text: no memory is allocated for them, however large they are.
//!
//! The fields are written as `name name(name name(name)) name`. A field without fields of its own is kept completely; fields in brackets
//! apply to every item of a list. A name may have:
//! * a `-` before it: only the daemons read the field, and it is not part of a [snapshot](Field::for_snapshots);
//! * `[A,B]` after it: of a list, only the items are kept whose field `type` is `A` or `B`;
//! * `@mark`, `=` or `~` after it: how the field is written to an anonymized snapshot (see [`Mark`]).

use super::mark::Mark;
use super::scalars::scalars;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// A field that is kept, with the fields that are kept of its value.
#[derive(Debug, Default)]
pub struct Field {
    /// Its name; empty for a whole object.
    pub name: &'static str,
    /// True if it is part of a snapshot.
    pub in_snapshots: bool,
    /// How it is written to an anonymized snapshot.
    pub mark: Option<Mark>,
    /// Values of the field `type` of the items that are kept; all items if it is empty.
    types: Vec<&'static str>,
    /// The fields that are kept of its value; the complete value if there are none.
    pub fields: Vec<Field>,
}

impl Field {
    /// Parses the [notation](self) of the table of kinds. Returns a field without a name that stands for the whole object, with the parsed
    /// fields in its `fields`.
    pub fn parse(notation: &'static str) -> Self {
        let mut open = vec![Self::default()];
        let mut from = 0;
        for (at, byte) in notation.bytes().chain([b' ']).enumerate() {
            if !matches!(byte, b' ' | b'(' | b')') {
                continue;
            }
            let word = notation.get(from..at).unwrap_or_default();
            from = at + 1;
            if byte == b'(' {
                open.push(Self::read(word));
                continue;
            }
            if let Some(parent) = open.last_mut().filter(|_| !word.is_empty()) {
                parent.fields.push(Self::read(word));
            }
            if byte == b')'
                && open.len() > 1
                && let Some(done) = open.pop()
                && let Some(parent) = open.last_mut()
            {
                parent.fields.push(done);
            }
        }
        open.into_iter().next().unwrap_or_default()
    }

    /// Parses one word of the [notation](self): the name of a field with the signs before and after it, and without the fields of its
    /// value.
    pub(super) fn read(word: &'static str) -> Self {
        let (in_snapshots, word) = word.strip_prefix('-').map_or((true, word), |word| (false, word));
        let (word, mark) = match (word.split_once('@'), word.strip_suffix('='), word.strip_suffix('~')) {
            (Some((word, mark)), _, _) => (word, Mark::parse(mark)),
            (_, Some(word), _) => (word, Some(Mark::Verbatim)),
            (_, _, Some(word)) => (word, Some(Mark::Word)),
            _ => (word, None),
        };
        let typed = word.strip_suffix(']').and_then(|word| word.split_once('['));
        let (name, types) = typed.map_or((word, Vec::new()), |(name, types)| (name, types.split(',').collect()));
        Self { name, in_snapshots, mark, types, fields: Vec::new() }
    }

    /// Returns the kept field `name` directly below this field; `None` if that is not in the table of kinds.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns a decoder that keeps every field below this one in the table of kinds: what the operator and the webhook read.
    pub fn for_daemons(&self) -> Trimmed<'_> {
        Trimmed { field: self, is_snapshot: false }
    }

    /// Returns a decoder that keeps only the fields below this one that snapshots contain: what the command line reads.
    pub fn for_snapshots(&self) -> Trimmed<'_> {
        Trimmed { field: self, is_snapshot: true }
    }
}

/// Removes all fields of an object except those that `notation` lists, in the [notation](self) of the table of kinds.
pub fn keep_only(object: &mut Value, notation: &'static str) {
    // Decoding a value cannot fail.
    *object = Field::parse(notation).for_daemons().deserialize(object.take()).unwrap_or_default();
}

/// Decodes a JSON value, and keeps only those fields of it that the table of kinds lists.
#[derive(Clone, Copy, Debug)]
pub struct Trimmed<'f> {
    field: &'f Field,
    is_snapshot: bool,
}

impl<'f> Trimmed<'f> {
    /// Returns the decoder for the value of the field `name` of the value that this one decodes; `None` if that field is dropped.
    pub(super) fn kept(self, name: &str) -> Option<Self> {
        let field = self.field.field(name).filter(|field| field.in_snapshots || !self.is_snapshot)?;
        Some(Self { field, ..self })
    }

    /// Returns the name of the field whose value this decoder decodes; empty for a whole object.
    pub(super) fn name(self) -> &'static str {
        self.field.name
    }

    /// Returns true if this decoder keeps the complete value, not only some of its fields.
    pub(super) fn is_whole(self) -> bool {
        self.field.fields.is_empty()
    }

    /// Returns true if this decoder of a list keeps an item; `of_item` returns the item's field `type`, or `None` if it has none. Without
    /// types in the table of kinds every item is kept.
    pub(super) fn keeps_item<'t>(self, of_item: impl FnOnce() -> Option<Cow<'t, str>>) -> bool {
        let types = &self.field.types;
        types.is_empty() || of_item().is_some_and(|of_item| types.contains(&of_item.as_ref()))
    }
}

impl<'de> DeserializeSeed<'de> for Trimmed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.is_whole() { Value::deserialize(deserializer) } else { deserializer.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for Trimmed<'_> {
    type Value = Value;

    scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            if self.keeps_item(|| item["type"].as_str().map(Cow::Borrowed)) {
                kept.push(item);
            }
        }
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(trimmed) = map.next_key_seed(Name(self))? {
            match trimmed {
                Some(trimmed) => {
                    let value = map.next_value_seed(trimmed)?;
                    kept.insert(trimmed.name().to_owned(), value);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(kept))
    }
}

/// Decodes the name of a field, and returns the decoder of its value; `None` if the field is dropped.
pub(super) struct Name<'f>(pub(super) Trimmed<'f>);

impl<'de, 'f> DeserializeSeed<'de> for Name<'f> {
    type Value = Option<Trimmed<'f>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'f> Visitor<'_> for Name<'f> {
    type Value = Option<Trimmed<'f>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.kept(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn trimmed(notation: &'static str, object: &Value) -> Value {
        let field = Field::parse(notation);
        let text = object.to_string();
        let of_text = field.for_daemons().deserialize(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert_eq!(field.for_daemons().deserialize(object.clone()).unwrap(), of_text);
        of_text
    }

    #[test]
    fn only_the_named_fields_are_kept_also_of_the_items_of_lists() {
        let object = json!({
            "a": {"x": 1, "y": [1, {"x": 2}]}, "b": "dropped", "e": null, "f": -1.5,
            "c": [{"x": 1, "y": 2}, {"y": 3}, "text", 7],
            "d": {"kept": {"as": ["it", "is"]}},
        });
        let kept = json!({
            "a": {"x": 1}, "c": [{"x": 1}, {}, "text", 7], "d": {"kept": {"as": ["it", "is"]}}, "e": null, "f": -1.5,
        });
        assert_eq!(trimmed("a(x) c(x z) d e f(g)", &object), kept);
        assert_eq!(trimmed("a(x(y))", &json!({"a": {"x": true}})), json!({"a": {"x": true}}), "no object, as it is");
        assert_eq!(trimmed("a(none)", &json!({"a": {"x": 1}})), json!({"a": {}}), "only that it exists");
    }

    #[test]
    fn other_fields_of_an_object_are_removed() {
        let mut object =
            json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"taints": [{"key": "k"}]}, "status": 1});
        keep_only(&mut object, "metadata(name) spec(taints)");
        assert_eq!(object, json!({"metadata": {"name": "a"}, "spec": {"taints": [{"key": "k"}]}}));
    }

    #[test]
    fn items_are_kept_by_their_type() {
        let object =
            json!({"conditions": [{"type": "A", "x": 1}, {"type": "B"}, {"type": "C", "x": 2, "y": 3}, {"x": 4}, 5]});
        let kept = json!({"conditions": [{"type": "A", "x": 1}, {"type": "C", "x": 2}]});
        assert_eq!(trimmed("conditions[A,C](type x)", &object), kept);
    }

    #[test]
    fn fields_of_daemons_are_not_in_snapshots_and_marks_are_read() {
        let field = Field::parse("a@node -b(c) d=(e~) f@nonsense");
        let object = json!({"a": "x", "b": {"c": 1}, "d": {"e": "y"}});
        assert_eq!(field.for_daemons().deserialize(object.clone()).unwrap(), object);
        assert_eq!(field.for_snapshots().deserialize(object).unwrap(), json!({"a": "x", "d": {"e": "y"}}));
        let mark = |name: &str| field.field(name).unwrap().mark;
        assert_eq!((mark("a"), mark("b"), mark("d"), mark("f")), (Some(Mark::Node), None, Some(Mark::Verbatim), None));
        assert_eq!(field.field("d").unwrap().field("e").unwrap().mark, Some(Mark::Word));
    }

    #[test]
    fn a_dropped_field_may_have_any_depth() {
        let deep = format!("{{\"a\": {}1{}, \"b\": 2}}", "[".repeat(5000), "]".repeat(5000));
        let field = Field::parse("b");
        let kept = field.for_daemons().deserialize(&mut serde_json::Deserializer::from_str(&deep)).unwrap();
        assert_eq!(kept, json!({"b": 2}));
    }
}
