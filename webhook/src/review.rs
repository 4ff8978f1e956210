//! The admission protocol (`admission.k8s.io/v1`): bytes to a request, a verdict to bytes.
//!
//! Decoding is done by hand, so that whatever arrives gets a well-formed answer that carries the request's uid where
//! there is one.

use crate::verdict::{Outcome, Refusal, Verdict};
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

/// The only version of the protocol that is spoken.
pub const API_VERSION: &str = "admission.k8s.io/v1";

/// What a user wants to do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection to an object, such as `exec`.
    Connect,
}

impl Operation {
    /// The name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A group and a resource in it, such as `pods` of the core group.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct GroupResource {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural, lower-case name.
    #[serde(default)]
    pub resource: String,
}

/// Who asks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct UserInfo {
    /// Name of the user, such as `system:serviceaccount:NAMESPACE:NAME`.
    #[serde(default)]
    pub username: Option<String>,
}

/// An admission request, as far as the rules read it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identity of the request; the answer carries it back.
    pub uid: String,
    /// What kind of object it is about.
    pub resource: GroupResource,
    /// The subresource, such as `status`; empty for the object itself.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// Name of the object; empty while the API server has still to generate it.
    #[serde(default)]
    pub name: Option<String>,
    /// Namespace of the object; empty for kinds without.
    #[serde(default)]
    pub namespace: Option<String>,
    /// What is to be done.
    pub operation: Operation,
    /// Who asks.
    #[serde(default)]
    pub user_info: UserInfo,
    /// Whether nothing is to be stored, and nothing else may change either.
    #[serde(default)]
    pub dry_run: bool,
    /// The object as it is to be stored; null on deletion.
    #[serde(default)]
    pub object: Value,
    /// The object as it is stored; null on creation.
    #[serde(default)]
    pub old_object: Value,
}

impl Request {
    /// The namespace, or the empty string.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The subresource, or the empty string.
    pub fn sub_resource(&self) -> &str {
        self.sub_resource.as_deref().unwrap_or_default()
    }

    /// The name of the user who asks.
    pub fn user(&self) -> &str {
        self.user_info.username.as_deref().unwrap_or_default()
    }
}

/// A request that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// The uid of the request, as far as one could be found.
    pub uid: String,
    /// Why it cannot be decoded.
    pub refusal: Refusal,
}

/// Decodes the body of a request.
pub fn decode(body: &[u8]) -> Result<Request, Undecodable> {
    let mut review: Value = serde_json::from_slice(body).map_err(|error| {
        let message = match body.is_empty() {
            true => "the body is empty: send an AdmissionReview".to_owned(),
            false => format!("the body is not JSON: {error}"),
        };
        Undecodable { uid: String::new(), refusal: Refusal::bad_request(message) }
    })?;
    let uid = review.pointer("/request/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
    let refuse = |message: String| Undecodable { uid: uid.clone(), refusal: Refusal::bad_request(message) };
    let text = |key: &str| review.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if (version, kind) != (API_VERSION, "AdmissionReview") {
        return Err(refuse(format!(
            "apiVersion and kind are {version:?} and {kind:?}: must be {API_VERSION:?} and \"AdmissionReview\""
        )));
    }
    let request = review.get_mut("request").map(Value::take).unwrap_or_default();
    if request.is_null() {
        return Err(refuse("request: Required value: the AdmissionReview holds no request".to_owned()));
    }
    serde_path_to_error::deserialize(request).map_err(|error| match error.path().to_string().as_str() {
        "." => refuse(format!("request: {}", error.inner())),
        path => refuse(format!("request.{path}: {}", error.inner())),
    })
}

/// Puts a verdict on a request into an AdmissionReview.
pub fn encode(request: &Request, verdict: &Verdict) -> Value {
    let mut response = match &verdict.outcome {
        Outcome::Allowed => json!({"uid": request.uid, "allowed": true}),
        Outcome::Refused(refusal) => refused(&request.uid, refusal),
        Outcome::Changed(object) => {
            let patch = json_patch::diff(&request.object, object);
            match serde_json::to_vec(&patch) {
                Ok(_) if patch.is_empty() => json!({"uid": request.uid, "allowed": true}),
                Ok(bytes) => json!({
                    "uid": request.uid, "allowed": true, "patchType": "JSONPatch", "patch": ByteString(bytes),
                }),
                Err(error) => {
                    refused(&request.uid, &Refusal::internal(format!("the patch cannot be encoded: {error}")))
                }
            }
        }
    };
    if !verdict.notes.warnings.is_empty() {
        response["warnings"] = json!(verdict.notes.warnings);
    }
    wrap(response)
}

/// An AdmissionReview that allows the object as it is.
pub fn encode_allowed(uid: &str) -> Value {
    wrap(json!({"uid": uid, "allowed": true}))
}

/// An AdmissionReview that refuses.
pub fn encode_refusal(uid: &str, refusal: &Refusal) -> Value {
    wrap(refused(uid, refusal))
}

fn refused(uid: &str, refusal: &Refusal) -> Value {
    json!({
        "uid": uid,
        "allowed": false,
        "status": {
            "status": "Failure", "code": refusal.code, "reason": refusal.reason(), "message": refusal.message,
        },
    })
}

fn wrap(response: Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
}
