//! The operator's requests, as dry runs, and what the client library makes of their answers.

use super::table::{Answer, Cause};
use giveway_crds::keys::GATE;
use http::Method;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::{Value, json};

/// A request of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// An eviction of the victim.
    Evict,
    /// A deletion of the victim.
    Delete,
    /// The removal of the member's scheduling gate.
    Ungate,
    /// A nomination of the member.
    Nominate,
    /// The creation of a pod.
    Create,
}

impl Request {
    /// Requests about an existing pod.
    pub const ABOUT_A_POD: [Self; 4] = [Self::Evict, Self::Delete, Self::Ungate, Self::Nominate];

    /// Returns its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Delete => "delete",
            Self::Ungate => "ungate",
            Self::Nominate => "nominate",
            Self::Create => "create",
        }
    }
}

/// The pods that the requests are about, and the preconditions.
#[derive(Clone, Debug)]
pub struct Aim {
    /// Their namespace.
    pub namespace: String,
    /// The pod that is evicted or deleted.
    pub victim: String,
    /// The pod that is nominated, or from which the scheduling gate is removed.
    pub member: String,
    /// The UID in the requests.
    pub uid: Option<String>,
    /// The resource version in the removal of the gate.
    pub version: Option<String>,
    /// The change of the member's scheduling gates.
    pub gates: Value,
}

impl Default for Aim {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            victim: "web-0".to_owned(),
            member: MEMBER.to_owned(),
            uid: None,
            version: None,
            gates: json!([{"$patch": "delete", "name": GATE}]),
        }
    }
}

/// A pod with a scheduling gate.
pub const MEMBER: &str = "train-0";

impl Aim {
    /// Sends a request as a dry run and returns the answer.
    ///
    /// # Panics
    /// If the API server does not answer.
    pub async fn send(&self, request: Request, client: &Client) -> Answer {
        let (method, path, content, body) = self.parts(request);
        let call = http::Request::builder()
            .method(method)
            .uri(format!("/api/v1/namespaces/{}/pods{path}?dryRun=All", self.namespace))
            .header(CONTENT_TYPE, content)
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap();
        let response = client.send(call).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if code < 400 {
            return Answer { code, ..Answer::default() };
        }
        match serde_json::from_slice::<Status>(&body) {
            Ok(status) => answer(status),
            // As the client library does.
            Err(_) => Answer {
                code,
                reason: "Failed to parse error data".to_owned(),
                message: String::from_utf8_lossy(&body).trim().to_owned(),
                ..Answer::default()
            },
        }
    }

    fn parts(&self, request: Request) -> (Method, String, &'static str, Value) {
        let Self { namespace, victim, member, uid, version, gates } = self;
        let preconditions = json!({"uid": uid});
        let json = "application/json";
        match request {
            Request::Evict => {
                let eviction = json!({
                    "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim, "namespace": namespace},
                    "deleteOptions": {"preconditions": preconditions}
                });
                (Method::POST, format!("/{victim}/eviction"), json, eviction)
            }
            Request::Delete => {
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], "preconditions": preconditions
                });
                (Method::DELETE, format!("/{victim}"), json, options)
            }
            Request::Ungate => {
                let patch = json!({
                    "metadata": {"uid": uid, "resourceVersion": version}, "spec": {"schedulingGates": gates}
                });
                (Method::PATCH, format!("/{member}"), "application/strategic-merge-patch+json", without_nulls(patch))
            }
            Request::Nominate => {
                let patch = json!({"metadata": {"uid": uid}, "status": {"nominatedNodeName": "node-000"}});
                (Method::PATCH, format!("/{member}/status"), "application/merge-patch+json", without_nulls(patch))
            }
            Request::Create => {
                let pod = json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"},
                    "spec": {"containers": [{"name": "main", "image": "registry.example/fake:1"}]}
                });
                (Method::POST, String::new(), json, pod)
            }
        }
    }
}

/// Removes preconditions that are not set: in a patch, `null` removes a field.
fn without_nulls(mut patch: Value) -> Value {
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.retain(|_, value| !value.is_null());
    }
    patch
}

fn answer(status: Status) -> Answer {
    let details = status.details;
    let causes = details.iter().flat_map(|details| &details.causes).map(|cause| Cause {
        reason: cause.reason.clone(),
        message: cause.message.clone(),
        field: cause.field.clone(),
    });
    Answer {
        code: status.code,
        reason: status.reason,
        message: status.message,
        causes: causes.collect(),
        retry_after_seconds: details.as_ref().map_or(0, |details| details.retry_after_seconds),
    }
}
