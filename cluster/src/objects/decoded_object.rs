//! Decodes the fields of an object that are kept, even if it contains a time out of range: the API server stores times up to the end of the year
//! 9999, and the time library's range ends a day earlier. An object that is invalid in another way is reported by name,
//! and does not affect other objects.

use super::kept_text::kept_text;
use super::kinds::{KindFields, ReadObject, TrimmedObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use serde_json::{Error, Value};

/// The latest time, in seconds, that is valid with every UTC offset.
const LATEST: &str = "9999-12-30T00:00:00Z";

/// The result of decoding an object of the API server: the object, or for an invalid one its namespace, name, UID, resource version and
/// the error, so that a list or watch continues after it.
#[derive(Clone, Debug)]
pub struct DecodedObject<K>(pub Result<K, InvalidObject>);

impl<K: TrimmedObject + Resource> DecodedObject<K> {
    /// Decodes an object from JSON; [times that are out of range](self) are replaced by the latest valid time. For an object that cannot be
    /// decoded for another reason, the result has an [`InvalidObject`] with the reason and the object's name.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn decode(text: &str) -> Result<Self, Error> {
        let kept = kept_text(text, K::row().object().for_daemons())?;
        let error = match K::decode(&kept) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => message_of(&error),
        };
        let mut object = serde_json::from_str(&kept)?;
        bound_times(&mut object);
        let with_bounded_times = K::decode(&object.to_string());
        Ok(Self(with_bounded_times.map_err(|_| InvalidObject { error, metadata: name_of(&object) })))
    }

    /// Returns the metadata of the object; for an invalid one only namespace, name, UID and resource version.
    pub fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }
}

impl<K: TrimmedObject + Resource> ReadObject for DecodedObject<K> {
    fn decode(_: &KindFields, text: &str) -> Result<Self, Error> {
        Self::decode(text)
    }

    fn version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }
}

/// Returns the message of a JSON error without line and column: they count in the text of the kept fields, which users do not see.
fn message_of(error: &Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned()
}

/// Replaces every string in a JSON value that looks like a time and cannot be parsed as one, because it is out of range, with the latest
/// valid time ([`LATEST`]).
fn bound_times(value: &mut Value) {
    // The recursion is as deep as the text, whose depth the parser bounds.
    match value {
        Value::String(text) if looks_like_a_time(text) && text.parse::<Timestamp>().is_err() => {
            *text = LATEST.to_owned()
        }
        Value::Array(values) => values.iter_mut().for_each(bound_times),
        Value::Object(fields) => fields.values_mut().for_each(bound_times),
        _ => {}
    }
}

/// Returns true if a text begins as a time in RFC 3339 does: `2026-01-31T12:00:00`.
fn looks_like_a_time(text: &str) -> bool {
    let digit_or = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    text.len() > 19 && text.bytes().take(19).enumerate().all(digit_or)
}

/// Returns the metadata of an object that cannot be decoded as its type: only namespace, name, UID and resource version, each `None` if it
/// is missing or no string.
fn name_of(object: &Value) -> ObjectMeta {
    let field = |name: &str| object.get("metadata")?.get(name)?.as_str().map(str::to_owned);
    ObjectMeta {
        namespace: field("namespace"),
        name: field("name"),
        uid: field("uid"),
        resource_version: field("resourceVersion"),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn read(objects: &Value) -> Vec<DecodedObject<Pod>> {
        let objects = objects.as_array().unwrap().iter();
        objects.map(|object| DecodedObject::decode(&object.to_string()).unwrap()).collect()
    }

    #[test]
    fn an_out_of_range_time_hides_no_pod() {
        let late = "9999-12-31T23:59:59Z";
        let pods = read(&json!([
            {"metadata": {"name": "late", "namespace": "team", "creationTimestamp": late},
             "spec": {"containers": [], "nodeName": "n1"},
             "status": {"startTime": "9999-12-31T23:59:59.999999+00:00", "nominatedNodeName": "2026 or later"}},
            {"metadata": {"name": "good", "creationTimestamp": "2026-01-02T03:04:05Z"}},
        ]));
        let late = pods[0].0.as_ref().unwrap();
        assert_eq!(late.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
        let status = late.status.as_ref().unwrap();
        assert_eq!(status.start_time.as_ref().unwrap().0.to_string(), LATEST);
        assert_eq!(status.nominated_node_name.as_deref(), Some("2026 or later"));
        assert_eq!(
            pods[1].0.as_ref().unwrap().metadata.creation_timestamp.as_ref().unwrap().0.to_string(),
            "2026-01-02T03:04:05Z"
        );
    }

    #[test]
    fn an_object_that_cannot_be_parsed_is_identified_by_its_name() {
        let pods = read(&json!([
            {"metadata": {"name": "bad", "namespace": "team", "uid": "u", "resourceVersion": "7", "creationTimestamp": "soon", "labels": 5},
             "spec": {"containers": "none"}},
            {"metadata": 5},
        ]));
        let invalid = pods[0].0.as_ref().unwrap_err();
        assert!(invalid.error.starts_with("failed to parse four digit integer as year"), "{}", invalid.error);
        assert!(!invalid.error.contains("column"), "{}", invalid.error);
        let name = (invalid.metadata.namespace.as_deref(), invalid.metadata.name.as_deref());
        assert_eq!(name, (Some("team"), Some("bad")));
        assert_eq!((pods[0].meta().uid.as_deref(), pods[0].meta().resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(pods[1].meta().name, None);
    }
}
