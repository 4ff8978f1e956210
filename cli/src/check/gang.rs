//! Starts a real gang of two pods: the first stays gated until the second exists, then both are scheduled together.

use super::finding::Finding;
use super::wording::cluster;
use crate::connect::{Api, RequestError};
use giveway_crds::keys::{ANNOTATION_SERVED, GATE, LABEL_POD_GROUP};
use giveway_planner::model::Cluster;
use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Name of the group, and prefix of its pods' names.
const NAME: &str = "giveway-check-gang";
/// Time limit for scheduling both pods, and the polling interval.
const LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(250);

/// Checks whether a gang of two pods starts: creates it in the namespace with pods of this image, waits, and deletes it again. If
/// Giveway does not serve PodGroups there, no gang is created, and the finding says so.
pub(super) async fn try_gang(api: &Api, namespace: &str, image: &str) -> Finding {
    let gang = TestGang { api, namespace };
    if gang.is_served().await == Some(false) {
        return cluster::no_gang_tried(namespace);
    }
    gang.remove().await;
    let outcome = gang.start(image).await;
    gang.remove().await;
    match outcome {
        Ok(waited) => cluster::gang_started(waited),
        Err(why) => cluster::gang_failed(namespace, &why),
    }
}

/// The gang of two pods in a namespace that `check --gang` starts as a test.
struct TestGang<'a> {
    api: &'a Api,
    namespace: &'a str,
}

impl TestGang<'_> {
    /// Returns true if Giveway serves PodGroups in the namespace of the test, according to the chart's policy; `None` if that cannot be
    /// read.
    async fn is_served(&self) -> Option<bool> {
        let policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/giveway-namespaces";
        let policy: Value = self.api.call(Method::GET, policy, Vec::new()).await.ok()?;
        let Some(selector) = policy["metadata"]["annotations"][ANNOTATION_SERVED].as_str() else { return Some(true) };
        let selector: LabelSelector = serde_json::from_str(selector).ok()?;
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        let namespace: Namespace = self.api.call(Method::GET, &path, Vec::new()).await.ok()?;
        Some(serves(&selector, &namespace))
    }

    /// Creates the PodGroup and the two pods of the test gang. Returns how long it took after the second pod was created until both had
    /// a node, or as an error why they have none.
    async fn start(&self, image: &str) -> Result<Duration, String> {
        let said = |error: RequestError| error.to_string();
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "metadata": {"name": NAME},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}
        });
        self.api.send::<Value>(Method::POST, &self.groups(), &group).await.map_err(said)?;
        let first: Value = self.api.send(Method::POST, &self.pods(), &pod(0, image)).await.map_err(said)?;
        if !is_gated(&first) {
            return Err(cluster::first_pod_not_gated());
        }
        let start = Instant::now();
        self.api.send::<Value>(Method::POST, &self.pods(), &pod(1, image)).await.map_err(said)?;
        loop {
            let mut waiting = Vec::new();
            for index in 0..2 {
                let path = format!("{}/{NAME}-{index}", self.pods());
                let pod: Value = self.api.call(Method::GET, &path, Vec::new()).await.map_err(said)?;
                if pod["spec"]["nodeName"].is_null() {
                    waiting.push((format!("{NAME}-{index}"), is_gated(&pod)));
                }
            }
            if waiting.is_empty() {
                return Ok(start.elapsed());
            }
            if start.elapsed() > LIMIT {
                return Err(cluster::gang_is_late(LIMIT.as_secs(), &waiting));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Deletes the pods of the test gang, and then its PodGroup, which a finalizer keeps while pods exist. Failed calls are ignored:
    /// the objects then remain in the namespace.
    async fn remove(&self) {
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        for index in 0..2 {
            let path = format!("{}/{NAME}-{index}", self.pods());
            self.api.send::<Value>(Method::DELETE, &path, &now).await.ok();
        }
        self.api.send::<Value>(Method::DELETE, &format!("{}/{NAME}", self.groups()), &now).await.ok();
    }

    /// Returns the API path of the pods in the namespace of the test.
    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Returns the API path of the PodGroups in the namespace of the test.
    fn groups(&self) -> String {
        format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{}/podgroups", self.namespace)
    }
}

/// Returns true if the chart's selector of namespaces selects this namespace, so that Giveway serves PodGroups in it.
fn serves(selector: &LabelSelector, namespace: &Namespace) -> bool {
    let mut cluster = Cluster::default();
    cluster.upsert_namespace(namespace);
    cluster.serve_groups_in(Some(selector));
    cluster.serves_groups_in(namespace.metadata.name.as_deref().unwrap_or_default())
}

/// Returns pod number `index` of the test gang. It has minimal requests, ends at once, and is accepted by the Pod Security level
/// `restricted` and by OpenShift's `restricted-v2`, which chooses the user: without one it is that of the image.
fn pod(index: usize, image: &str) -> Value {
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let requests = json!({"cpu": "1m", "memory": "1Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{NAME}-{index}"), "labels": {LABEL_POD_GROUP: NAME}},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "member", "image": image, "command": ["kubectl-giveway", "--version"],
                "resources": {"requests": requests}, "securityContext": security}]
        }
    })
}

/// Returns true if a pod has Giveway's scheduling gate.
fn is_gated(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| gates.iter().any(|gate| gate["name"] == GATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_may_choose_the_user_of_a_member() {
        let member = pod(0, "image");
        let expected = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        assert_eq!(member["spec"]["securityContext"], expected);
    }

    #[test]
    fn a_namespace_is_served_when_the_selector_matches_its_name_and_labels() {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "giveway-test", "labels": {"team": "ml"}}})).unwrap();
        let by_name = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        let among = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]});
        for (selector, served) in [
            (json!({"matchLabels": {"team": "ml"}}), true),
            (json!({"matchLabels": {"team": "web"}}), false),
            (by_name("giveway-test"), true),
            (by_name("billing"), false),
            (among, false),
        ] {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            assert_eq!(serves(&selector, &namespace), served, "{selector:?}");
        }
    }
}
