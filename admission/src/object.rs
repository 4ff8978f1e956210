//! Parses objects of a request, without copying them.
//!
//! Rules parse only the fields they need, as borrowed parts of the request's body: an object of any size needs no
//! memory in addition to the body. A field of the wrong type is rejected with its path; nothing here can panic.

use crate::verdict::Denial;
use crate::wording::requests;
pub use giveway_crds::json::{Text, first_items};
use giveway_crds::keys::PREFIX;
use giveway_crds::kinds;
use giveway_crds::kinds::spark::LABEL_ROLE;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// Annotation of a mirror pod, the API's copy of a static pod: the kubelet owns it, and admission must not change it.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Any string; nothing is stored.
struct AnyText;

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyTextVisitor;

        impl Visitor<'_> for AnyTextVisitor {
            type Value = AnyText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<AnyText, E> {
                Ok(AnyText)
            }
        }

        deserializer.deserialize_str(AnyTextVisitor)
    }
}

/// Labels or annotations: every value must be a string, and only those that rules read are kept: Giveway's keys,
/// [`MIRROR`], the [role](LABEL_ROLE) of Spark's pods, and the labels by which pods [identify their owner](kinds).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys<'a>(Vec<(Text<'a>, Text<'a>)>);

impl Keys<'_> {
    /// Returns the value of this label or annotation; of a duplicate key, the last value. `None` if the key is missing, or is
    /// not one of those that the rules read: only these are kept.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(each, _)| &**each == key).map(|(_, value)| &**value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Keys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeysVisitor;

        impl<'de> Visitor<'de> for KeysVisitor {
            type Value = Keys<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut kept = Vec::new();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    if key.starts_with(PREFIX) || [MIRROR, LABEL_ROLE].contains(&&*key) || kinds::reads_label(&key) {
                        kept.push((key, map.next_value()?));
                    } else {
                        map.next_value::<AnyText>()?;
                    }
                }
                Ok(Keys(kept))
            }
        }

        deserializer.deserialize_map(KeysVisitor)
    }
}

/// Parses `T` from a JSON object only: structs with serde's derived implementation would also accept a list of their
/// fields. If the object is missing, this is the default of `T`.
#[derive(Clone, Debug, Default)]
pub struct Map<T> {
    value: T,
    is_there: bool,
}

impl<T> Map<T> {
    /// Returns true if the field was present in the JSON text and not null, so that the parsed value is not only the default.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Returns the parsed value of the field; the default value if the field was missing or null.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Map<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        let value = deserializer.deserialize_map(ObjectVisitor(PhantomData))?;
        Ok(Self { value, is_there: true })
    }
}

/// The part of `metadata` that rules read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    /// Name of the object; absent if the API server has not generated it yet.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// UID of the object; absent if the API server has not generated it yet.
    #[serde(borrow, default)]
    pub uid: Option<Text<'a>>,
    /// Labels.
    #[serde(borrow, default)]
    pub labels: Option<Keys<'a>>,
    /// Annotations.
    #[serde(borrow, default)]
    pub annotations: Option<Keys<'a>>,
    /// Set if the object is being deleted.
    #[serde(borrow, default)]
    pub deletion_timestamp: Option<Text<'a>>,
    /// Owners of the object.
    #[serde(borrow, default)]
    pub owner_references: Option<Vec<Map<OwnerReference<'a>>>>,
}

/// The part of an owner reference that rules read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference<'a> {
    /// `apiVersion` of the owner.
    #[serde(borrow, default)]
    pub api_version: Text<'a>,
    /// Its kind.
    #[serde(borrow, default)]
    pub kind: Text<'a>,
    /// Its name.
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// Its UID.
    #[serde(borrow, default)]
    pub uid: Text<'a>,
    /// True for the controller.
    #[serde(default)]
    pub controller: Option<bool>,
}

impl Metadata<'_> {
    /// Returns the value of the label with this key; `None` if there is none, or the key is not one of those that the rules read.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key)
    }

    /// Returns the owner reference with `controller: true`; `None` if there is none.
    pub fn controller(&self) -> Option<&OwnerReference<'_>> {
        self.owner_references.iter().flatten().map(|owner| &**owner).find(|owner| owner.controller == Some(true))
    }

    /// Returns the value of the annotation with this key; `None` if there is none, or the key is not one of those that the
    /// rules read.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key)
    }
}

/// Parses the object of a request as `T`; `kind` names it in errors.
///
/// # Errors
/// The object cannot be parsed (422): the rejection has the path of the invalid field.
pub fn read<'a, T: Deserialize<'a>>(kind: &str, object: &'a RawValue) -> Result<T, Denial> {
    let read = serde_json::from_str::<Map<T>>(object.get()).map(Map::into_inner);
    read.map_err(|error| match unreadable::<Map<T>>(object) {
        Some((path, cause)) if path != "." => requests::unreadable_field(kind, &path, &cause),
        Some((_, cause)) => requests::unreadable(kind, cause),
        None => requests::unreadable(kind, error),
    })
}

/// Returns why the JSON text cannot be parsed as `T`: the path of the field, `.` for the whole object, and the cause.
/// `None` if it can be. This parses the text again, more slowly.
pub fn unreadable<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<(String, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(json.get());
    let error = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err()?;
    let path = error.path().to_string();
    let cause = error.into_inner();
    // A position inside of the request does not help the user.
    let position = format!(" at line {} column {}", cause.line(), cause.column());
    let text = cause.to_string();
    Some((path, text.strip_suffix(&position).unwrap_or(&text).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_crds::keys::LABEL_POD_GROUP;

    #[derive(Debug, Deserialize)]
    struct Object<'a> {
        #[serde(borrow, default)]
        metadata: Map<Metadata<'a>>,
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn rules_read_borrowed_text_without_escapes() {
        let json = raw(&format!(
            r#"{{"metadata":{{"name":"p\u0061","labels":{{"{LABEL_POD_GROUP}":"g","a":"\"x\"","scheduling.giveway.dev\/workload":"\u00e9"}}}}}}"#
        ));
        let object: Object = read("Pod", &json).unwrap();
        let metadata = object.metadata;
        assert_eq!(metadata.name.as_deref(), Some("pa"));
        let group = metadata.label(LABEL_POD_GROUP).unwrap();
        assert!(json.get().as_bytes().as_ptr_range().contains(&group.as_ptr()), "not a copy");
        assert_eq!(metadata.label("scheduling.giveway.dev/workload"), Some("é"), "an escaped key is the same key");
        assert_eq!((metadata.label("a"), metadata.annotation("a")), (None, None), "other keys are not kept");
        assert!(metadata.is_there() && !read::<Object>("Pod", &raw("{}")).unwrap().metadata.is_there());
    }

    #[test]
    fn the_last_value_of_a_repeated_key_counts() {
        let json = raw(&format!(r#"{{"metadata":{{"labels":{{"{LABEL_POD_GROUP}":"a","{LABEL_POD_GROUP}":"b"}}}}}}"#));
        assert_eq!(read::<Object>("Pod", &json).unwrap().metadata.label(LABEL_POD_GROUP), Some("b"));
        let twice = read::<Object>("Pod", &raw(r#"{"metadata":{},"metadata":{}}"#)).unwrap_err();
        assert_eq!(twice.message, "the Pod cannot be read: duplicate field `metadata`");
    }

    #[test]
    fn an_unreadable_field_is_named_with_its_path() {
        let error = read::<Object>("Pod", &raw(r#"{"metadata": {"labels": {"a": 5}}}"#)).unwrap_err();
        assert_eq!(error.code, 422);
        assert_eq!(
            error.message,
            "metadata.labels.a: Invalid value: invalid type: integer `5`, expected a string: the Pod cannot be read, correct this field"
        );
        for (json, message) in [
            ("[]", "the Pod cannot be read: invalid type: sequence, expected a map"),
            ("7", "the Pod cannot be read: invalid type: integer `7`, expected a map"),
            (
                r#"{"metadata": ["name"]}"#,
                "metadata: Invalid value: invalid type: sequence, expected a map: the Pod cannot be read, correct this field",
            ),
        ] {
            assert_eq!(read::<Object>("Pod", &raw(json)).unwrap_err().message, message);
        }
    }
}
