//! Copies the fields of an object that are kept from its text. The copy is decoded into the type of the object by the code that also
//! decodes the API server's answers to other requests, so each type has this code once. Nothing here depends on the type.

use super::fields::{Name, Trimmed};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Returns the JSON text of an object with only those fields that `trimmed` keeps.
///
/// # Errors
/// The text is not JSON.
pub(super) fn kept_text(text: &str, trimmed: Trimmed<'_>) -> Result<String, serde_json::Error> {
    let mut copy = String::new();
    let mut decoder = serde_json::Deserializer::from_str(text);
    Copier { trimmed, copy: &mut copy }.deserialize(&mut decoder)?;
    decoder.end()?;
    Ok(copy)
}

/// Appends the kept fields of a JSON value to a copy of the text.
struct Copier<'c> {
    trimmed: Trimmed<'c>,
    copy: &'c mut String,
}

impl Copier<'_> {
    /// Appends a JSON value that is neither a list nor an object to the copy. It never fails.
    fn scalar<E>(self, value: impl Into<Value>) -> Result<(), E> {
        self.copy.push_str(&value.into().to_string());
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Copier<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.trimmed.is_whole() {
            self.copy.push_str(<&RawValue>::deserialize(deserializer)?.get());
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Copier<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.scalar(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { trimmed, copy } = self;
        copy.push('[');
        loop {
            let end = copy.len();
            if !copy.ends_with('[') {
                copy.push(',');
            }
            let start = copy.len();
            let is_item = items.next_element_seed(Copier { trimmed, copy: &mut *copy })?.is_some();
            if !(is_item && trimmed.keeps_item(|| type_of(copy.get(start..).unwrap_or_default()))) {
                copy.truncate(end);
            }
            if !is_item {
                copy.push(']');
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { trimmed, copy } = self;
        copy.push('{');
        while let Some(kept) = map.next_key_seed(Name(trimmed))? {
            let Some(trimmed) = kept else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if !copy.ends_with('{') {
                copy.push(',');
            }
            // Names of the table contain nothing that JSON escapes.
            copy.extend(["\"", trimmed.name(), "\":"]);
            map.next_value_seed(Copier { trimmed, copy: &mut *copy })?;
        }
        copy.push('}');
        Ok(())
    }
}

/// Returns the field `type` of a list item, given as JSON, such as that of a condition; `None` if the item has none.
fn type_of(text: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Typed<'t> {
        #[serde(rename = "type", borrow)]
        type_: Cow<'t, str>,
    }
    serde_json::from_str::<Typed<'_>>(text).ok().map(|typed| typed.type_)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::fields::Field;
    use serde_json::json;

    #[test]
    fn the_text_has_the_fields_that_a_trimmed_value_has() {
        let object = json!({
            "a": {"x": 1, "y": [1, {"x": 2}]}, "b": "{dropped", "e": null, "f": -1.5, "g": {"z": {"deep": [{}]}},
            "c": [{"x": 1, "y": 2}, {"y": 3}, "te\"xt[", 7, [], [{"x": [5]}]], "h": [true, "[", {"x": "{"}], "i": [],
            "conditions": [{"type": "B"}, {"x": 1, "type": "A"}, {"type": "\u{e9}", "x": 2, "y": 3}, {"x": 4}, 5, {"type": 6}],
        });
        for notation in [
            "a(x) c(x z) d e f(g)",
            "a(x(y)) g(z) i(x)",
            "conditions[A,\u{e9}](type x) c(y)",
            "conditions[none](type) h(x)",
            "none",
            "e(x) b(x) f(x) h",
        ] {
            let field = Field::parse(notation);
            for text in [object.to_string(), format!("{object:#}")] {
                let kept: Value = serde_json::from_str(&kept_text(&text, field.for_daemons()).unwrap()).unwrap();
                assert_eq!(kept, field.for_daemons().deserialize(object.clone()).unwrap(), "{notation}");
            }
        }
    }

    #[test]
    fn what_is_no_json_is_an_error_also_in_fields_that_are_dropped() {
        let field = Field::parse("a(x)");
        for text in ["", "{", r#"{"a": {"x": 1}} x"#, r#"{"b": [}"#, r#"{"a": {"x": tru}}"#, r#"{"a": 1"#] {
            assert!(kept_text(text, field.for_daemons()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_dropped_field_may_have_any_depth() {
        let deep = format!("{{\"a\": {}1{}, \"b\": 2}}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(kept_text(&deep, Field::parse("b").for_daemons()).unwrap(), r#"{"b":2}"#);
    }
}
