//! A mutating admission webhook of another project in the test process, which runs after Giveway's: the API server calls mutating webhooks
//! in the order of the names of their configurations.
//!
//! It does with a new pod what the annotation [`WRITES`] of the pod says. So one registration serves all attacks of a test.

use crate::control_plane::kubeconfig;
use crate::control_plane::pki::Pki;
use crate::https::Server;
use crate::wait::wait_for;
use anyhow::{Context as _, Result};
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::Duration;

/// Annotation with the merge patch that the webhook applies to the pod.
pub const WRITES: &str = "later.example/writes";
/// Name of the configuration: it sorts after Giveway's.
const NAME: &str = "later";
/// Deadline for the API server to observe the configuration.
const NOTICED: Duration = Duration::from_secs(60);

/// The webhook, which ends when the value is dropped.
pub struct LaterPlugin {
    _server: Server,
}

impl LaterPlugin {
    /// Starts the webhook with a certificate of this authority, and waits until the API server calls it.
    ///
    /// # Errors
    /// If no port is free, or the API server rejects the configuration.
    ///
    /// # Panics
    /// If the API server does not call the webhook.
    pub async fn start(pki: &Pki, client: Client) -> Result<Self> {
        let server = Server::start(pki, answer).await?;
        let at = json!({"url": server.url(), "caBundle": kubeconfig::base64(pki.ca().as_bytes())});
        let configuration: MutatingWebhookConfiguration = serde_json::from_value(configuration(&at))?;
        Api::all(client.clone()).create(&PostParams::default(), &configuration).await?;
        let pods: Api<Pod> = Api::namespaced(client, "default");
        let probe = probe()?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        wait_for("the webhook of the other project changes pods", NOTICED, async || {
            let labels = pods.create(&dry_run, &probe).await.map_err(|error| error.to_string())?.metadata.labels;
            let changed = labels.as_ref().is_some_and(|labels| labels.contains_key(SEEN));
            if changed { Ok(()) } else { Err(format!("{labels:?}")) }
        })
        .await;
        Ok(Self { _server: server })
    }
}

/// Label that the webhook adds to the probe.
const SEEN: &str = "later.example/seen";

fn probe() -> Result<Pod, serde_json::Error> {
    let writes = json!({"metadata": {"labels": {SEEN: "true"}}}).to_string();
    serde_json::from_value(json!({
        "metadata": {"name": "later-plugin-probe", "annotations": {WRITES: writes}},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "registry.example/fake:1"}]
        }
    }))
}

fn configuration(client_config: &Value) -> Value {
    json!({
        "metadata": {"name": NAME},
        "webhooks": [{
            "name": "later.example.com", "clientConfig": client_config,
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "matchConditions": [{"name": "asks", "expression": format!("object.metadata.?annotations[?'{WRITES}'].hasValue()")}],
            "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded", "sideEffects": "None", "admissionReviewVersions": ["v1"]
        }]
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).context("an AdmissionReview")?;
    let verdict = changed(&review["request"]).to_string();
    Ok(Response::builder().header(header::CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(verdict)))?)
}

/// Returns the review that changes the pod of a request as its annotation says.
fn changed(request: &Value) -> Value {
    let before = &request["object"];
    let writes = before["metadata"]["annotations"][WRITES].as_str().unwrap_or_default();
    let mut after = before.clone();
    json_patch::merge(&mut after, &serde_json::from_str(writes).unwrap_or_else(|_| json!({})));
    let patch = json!(json_patch::diff(before, &after)).to_string();
    let response = json!({
        "uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": kubeconfig::base64(patch.as_bytes())
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    #[test]
    fn a_pod_is_changed_as_its_annotation_says() {
        let writes = json!({"metadata": {"labels": {"a/b": "c"}}, "spec": {"schedulingGates": null}}).to_string();
        let mut pod = json!({
            "metadata": {"annotations": {WRITES: writes}}, "spec": {"schedulingGates": [{"name": "g"}], "priority": 0}
        });
        let review = changed(&json!({"uid": "1", "object": pod}));
        assert_eq!((&review["response"]["uid"], &review["response"]["allowed"]), (&json!("1"), &json!(true)));
        let patch: ByteString = serde_json::from_value(review["response"]["patch"].clone()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
        json_patch::patch(&mut pod, &patch).unwrap();
        assert_eq!(pod["metadata"]["labels"], json!({"a/b": "c"}));
        assert_eq!(pod["spec"], json!({"priority": 0}));
    }

    #[test]
    fn its_configuration_sorts_after_that_of_giveway() {
        let configuration = configuration(&json!({}));
        assert!(configuration["metadata"]["name"].as_str() > Some("giveway"));
    }
}
