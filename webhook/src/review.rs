//! The admission protocol (`admission.k8s.io/v1`): decodes requests and encodes responses.
//!
//! A body is parsed once, and the request borrows from it: the objects in it remain text, of which rules parse what
//! they need. Every body gets a well-formed response with the request's uid, if there is one. An invalid body is parsed
//! a second time, more slowly, to find the cause.

use giveway_admission::object::{Map, Text, unreadable};
use giveway_admission::request::Request;
use giveway_admission::verdict::{Denial, Verdict, VerdictOutcome};
use giveway_admission::wording::requests;
use json_patch::Patch;
use k8s_openapi::ByteString;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// The only supported version of the protocol.
pub const API_VERSION: &str = "admission.k8s.io/v1";

/// The only supported kind.
const KIND: &str = "AdmissionReview";

/// A request that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// The uid of the request; empty if none was found.
    pub uid: String,
    /// Why it cannot be decoded.
    pub refusal: Denial,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    request: Map<Request<'a>>,
}

/// Decodes the AdmissionReview in the body of an HTTP request, and returns the admission request in it. If that fails, the error has the
/// rejection (400) to answer with.
pub fn decode(body: &[u8]) -> Result<Request<'_>, Undecodable> {
    let review = std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str::<Map<Review>>(text).ok());
    match review.map(Map::into_inner) {
        Some(review) if (&*review.api_version, &*review.kind) == (API_VERSION, KIND) => Ok(review.request.into_inner()),
        _ => Err(explain(body)),
    }
}

/// The parts of a review that can be found in an invalid one.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remains<'a> {
    #[serde(borrow, default)]
    api_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uid: Option<&'a RawValue>,
}

/// Returns the rejection (400) of a body that [`decode`] cannot decode: its message says what is wrong.
fn explain(body: &[u8]) -> Undecodable {
    let anonymous = |refusal: Denial| Undecodable { uid: String::new(), refusal };
    if body.is_empty() {
        return anonymous(requests::empty_body());
    }
    if let Err(error) = serde_json::from_slice::<Syntax>(body) {
        return anonymous(requests::not_json(error));
    }
    let review: Remains = serde_json::from_slice(body).unwrap_or_default();
    let text = |json: Option<&RawValue>| -> String {
        json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
    };
    let uid = review.request.and_then(|request| serde_json::from_str::<Remains>(request.get()).ok()?.uid);
    let refuse = |refusal: Denial| Undecodable { uid: text(uid), refusal };
    let (version, kind) = (text(review.api_version), text(review.kind));
    if (version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        return refuse(requests::other_review((version.as_str(), kind.as_str()), (API_VERSION, KIND)));
    }
    let Some(request) = review.request else {
        return refuse(requests::no_request());
    };
    match unreadable::<Map<Request>>(request) {
        Some((path, cause)) => refuse(requests::unreadable_request(&path, &cause)),
        None => refuse(requests::unreadable_review()),
    }
}

/// Any JSON; nothing is stored. Unlike skipped values, it is validated completely, and its depth is bounded.
struct Syntax;

impl<'de> Deserialize<'de> for Syntax {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SyntaxVisitor;

        impl<'de> Visitor<'de> for SyntaxVisitor {
            type Value = Syntax;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON")
            }

            fn visit_unit<E>(self) -> Result<Syntax, E> {
                Ok(Syntax)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Syntax, E> {
                Ok(Syntax)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Syntax, E> {
                Ok(Syntax)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Syntax, E> {
                Ok(Syntax)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Syntax, E> {
                Ok(Syntax)
            }

            fn visit_str<E>(self, _: &str) -> Result<Syntax, E> {
                Ok(Syntax)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Syntax, A::Error> {
                while seq.next_element::<Syntax>()?.is_some() {}
                Ok(Syntax)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Syntax, A::Error> {
                while map.next_entry::<Syntax, Syntax>()?.is_some() {}
                Ok(Syntax)
            }
        }

        deserializer.deserialize_any(SyntaxVisitor)
    }
}

/// The bytes of an `AdmissionReview` with a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewResponse(Vec<u8>);

impl ReviewResponse {
    /// Returns the AdmissionReview as JSON text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    status: &'static str,
    code: u16,
    reason: &'static str,
    message: &'a str,
}

/// Encodes the verdict on the admission request with this UID as an AdmissionReview, with its patch, its warnings or its rejection.
pub fn encode(uid: &str, verdict: &Verdict) -> ReviewResponse {
    let warnings = &verdict.notes.warnings;
    match &verdict.outcome {
        VerdictOutcome::Allowed => encode_response(&Response { warnings, ..allowed(uid) }),
        VerdictOutcome::Refused(refusal) => encode_response(&Response { warnings, ..refused(uid, refusal) }),
        VerdictOutcome::Changed(Patch(operations)) => match serde_json::to_vec(operations) {
            Ok(bytes) => {
                let (patch_type, patch) = (Some("JSONPatch"), Some(ByteString(bytes)));
                encode_response(&Response { warnings, patch_type, patch, ..allowed(uid) })
            }
            Err(error) => encode_refusal(uid, &requests::patch_not_encoded(error)),
        },
    }
}

/// Returns an AdmissionReview that allows the request with this UID, without a patch.
pub fn encode_allowed(uid: &str) -> ReviewResponse {
    encode_response(&allowed(uid))
}

/// Returns an AdmissionReview that rejects the request with this UID, with the refusal's code and message.
pub fn encode_refusal(uid: &str, refusal: &Denial) -> ReviewResponse {
    encode_response(&refused(uid, refusal))
}

/// Returns the `response` of an AdmissionReview that allows the request with this UID, without a patch or warnings.
fn allowed(uid: &str) -> Response<'_> {
    Response { uid, allowed: true, status: None, patch_type: None, patch: None, warnings: &[] }
}

/// Returns the `response` of an AdmissionReview that rejects the request with this UID.
fn refused<'a>(uid: &'a str, refusal: &'a Denial) -> Response<'a> {
    let (code, reason, message) = (refusal.code, refusal.reason(), refusal.message.as_str());
    let status = Some(Status { status: "Failure", code, reason, message });
    Response { allowed: false, status, ..allowed(uid) }
}

/// Encodes an AdmissionReview with this `response` as JSON.
fn encode_response(response: &Response<'_>) -> ReviewResponse {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Answered<'a> {
        api_version: &'static str,
        kind: &'static str,
        response: &'a Response<'a>,
    }

    let answered = Answered { api_version: API_VERSION, kind: KIND, response };
    // Strings and numbers can always be written as JSON.
    ReviewResponse(serde_json::to_vec(&answered).unwrap_or_default())
}
