//! Decodes an object while only [some of its fields](Trimmed) reach the type that it is decoded into. In contrast to a trimmed `Value`, the
//! object is not stored twice.

use super::fields::{Name, Trimmed};
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use std::fmt;

/// A decoder that skips all fields of a value that are not kept.
pub(super) struct Filtered<'f, D> {
    inner: D,
    trimmed: Trimmed<'f>,
}

impl<'f, D> Filtered<'f, D> {
    /// Creates a decoder of a value of which these fields are kept.
    pub(super) fn new(inner: D, trimmed: Trimmed<'f>) -> Self {
        Self { inner, trimmed }
    }
}

/// Forwards methods of a decoder, with a visitor that sees only the fields that are kept.
macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method($($name,)* Within { inner: visitor, trimmed: self.trimmed })
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Filtered<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A visitor or seed of a value of which only some fields are kept.
struct Within<'f, T> {
    inner: T,
    trimmed: Trimmed<'f>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Within<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        if self.trimmed.is_whole() {
            self.inner.deserialize(deserializer)
        } else {
            self.inner.deserialize(Filtered::new(deserializer, self.trimmed))
        }
    }
}

/// Forwards methods of a visitor that get a value without fields.
macro_rules! forward_values {
    ($($method:ident: $type:ty;)*) => {
        $(fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Within<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    forward_values! {
        visit_bool: bool;
        visit_i8: i8;
        visit_i16: i16;
        visit_i32: i32;
        visit_i64: i64;
        visit_i128: i128;
        visit_u8: u8;
        visit_u16: u16;
        visit_u32: u32;
        visit_u64: u64;
        visit_u128: u128;
        visit_f32: f32;
        visit_f64: f64;
        visit_char: char;
        visit_str: &str;
        visit_borrowed_str: &'de str;
        visit_string: String;
        visit_bytes: &[u8];
        visit_borrowed_bytes: &'de [u8];
        visit_byte_buf: Vec<u8>;
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Filtered::new(deserializer, self.trimmed))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Filtered::new(deserializer, self.trimmed))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Items { inner: items, trimmed: self.trimmed })
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Fields { inner: fields, trimmed: self.trimmed, kept: None })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(variant)
    }
}

/// The items of a list that are kept.
struct Items<'f, A> {
    inner: A,
    trimmed: Trimmed<'f>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        if self.trimmed.keeps_every_item() {
            return self.inner.next_element_seed(Within { inner: seed, trimmed: self.trimmed });
        }
        // The type of an item is known only after its other fields.
        while let Some(item) = self.inner.next_element_seed(self.trimmed)? {
            if self.trimmed.keeps_item(&item) {
                return seed.deserialize(item).map(Some).map_err(A::Error::custom);
            }
        }
        Ok(None)
    }
}

/// The fields of an object that are kept.
struct Fields<'f, A> {
    inner: A,
    trimmed: Trimmed<'f>,
    /// What is kept of the value whose name was read last.
    kept: Option<Trimmed<'f>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(kept) = self.inner.next_key_seed(Name(self.trimmed))? {
            let Some(kept) = kept else {
                self.inner.next_value::<IgnoredAny>()?;
                continue;
            };
            self.kept = Some(kept);
            let name: StrDeserializer<'_, A::Error> = kept.name().into_deserializer();
            return seed.deserialize(name).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.kept.take() {
            Some(trimmed) => self.inner.next_value_seed(Within { inner: seed, trimmed }),
            None => self.inner.next_value_seed(seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::fields::Field;
    use k8s_openapi::api::core::v1::Pod;
    use serde::Deserialize;
    use serde_json::{Value, json};

    fn filtered<T: for<'de> Deserialize<'de>>(notation: &'static str, text: &str) -> Result<T, serde_json::Error> {
        let field = Field::parse(notation);
        let mut decoder = serde_json::Deserializer::from_str(text);
        let decoded = T::deserialize(Filtered::new(&mut decoder, field.for_daemons()))?;
        decoder.end()?;
        Ok(decoded)
    }

    #[test]
    fn a_type_sees_the_fields_that_a_trimmed_value_has() {
        let object = json!({
            "a": {"x": 1, "y": [1, {"x": 2}]}, "b": "dropped", "e": null, "f": -1.5, "g": {"z": {"deep": [{}]}},
            "c": [{"x": 1, "y": 2}, {"y": 3}, "text", 7],
            "conditions": [{"type": "A", "x": 1}, {"type": "B"}, {"type": "C", "x": 2, "y": 3}, {"x": 4}, 5],
        });
        for notation in ["a(x) c(x z) d e f(g)", "a(x(y)) g(z)", "conditions[A,C](type x) c(y)", "none", "e(x) b(x)"] {
            let field = Field::parse(notation);
            let trimmed = field.for_daemons().deserialize(object.clone()).unwrap();
            assert_eq!(filtered::<Value>(notation, &object.to_string()).unwrap(), trimmed, "{notation}");
        }
    }

    #[test]
    fn a_pod_is_decoded_without_its_other_fields_whatever_they_contain() {
        let text = r#"{"metadata": {"name": "p", "annotations": {"kept": "1", "other": "2"}, "managedFields": "no list"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "env": 5, "resources": {"requests": {"cpu": "1"}}}]}}"#;
        let notation = "metadata(name annotations(kept)) spec(nodeName containers(name resources(requests)))";
        let pod: Pod = filtered(notation, text).unwrap();
        assert_eq!(pod.metadata.annotations.map(|kept| kept.len()), Some(1));
        let spec = pod.spec.unwrap();
        assert_eq!((spec.node_name.as_deref(), spec.containers[0].name.as_str()), (Some("n"), "c"));
        assert!(spec.containers[0].resources.as_ref().unwrap().requests.is_some() && spec.containers[0].env.is_none());
        for wrong in [r#"{"metadata": {"name": 5}}"#, r#"{"metadata": {"name": "p"}} x"#, r#"{"metadata": {"#] {
            assert!(filtered::<Pod>(notation, wrong).is_err(), "{wrong}");
        }
    }
}
