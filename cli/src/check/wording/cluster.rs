//! What else the cluster runs: in-tree PodGroups and autoscalers; and the gang that `check --gang` starts.

use super::unknown;
use crate::check::facts::Autoscaler;
use crate::check::finding::Finding;
use giveway_crds::wording::conditions::pending::not_served;
use std::time::Duration;

/// Warning: it could not be read whether Kubernetes serves PodGroups of its own. `why` is the error.
pub(in crate::check) fn in_tree_unknown(why: &str) -> Finding {
    unknown("in-tree", "Whether the in-tree PodGroup API is served", why)
}

/// Passed: Kubernetes serves no PodGroups of its own (`scheduling.k8s.io`).
pub(in crate::check) fn in_tree_not_served() -> Finding {
    let message = "The in-tree PodGroup API is not served, so the scheduler's gate GenericWorkload has no effect.";
    Finding::ok("in-tree", message)
}

/// Warning: Kubernetes serves PodGroups of its own, in these API versions.
pub(in crate::check) fn in_tree_served(versions: &[String]) -> Finding {
    let message = format!(
        "The in-tree PodGroup API is served ({}): the gate GenericWorkload may be on, and kube-scheduler then \
         preempts for in-tree PodGroups by itself. Whether it is on cannot be seen from here.",
        versions.join(", ")
    );
    Finding::warn("in-tree", message, "Use only PodGroups of scheduling.giveway.dev, and no in-tree ones.")
}

/// Warning: it could not be read which APIs of cluster autoscalers are served. `why` is the error.
pub(in crate::check) fn autoscalers_unknown(why: &str) -> Finding {
    unknown("autoscaler", "Whether a cluster autoscaler runs", why)
}

/// Passed: this cluster autoscaler may run, and the operator requests capacity by `method`, such as `Placeholder`.
pub(in crate::check) fn capacity_requested(autoscaler: Autoscaler, method: &str) -> Finding {
    let served = served(autoscaler);
    Finding::ok(
        "autoscaler",
        format!("{served}; Giveway requests capacity for pending gangs (provisioning.method={method})."),
    )
}

/// Warning: this cluster autoscaler may run, and the operator requests no capacity.
pub(in crate::check) fn no_capacity_requested(autoscaler: Autoscaler) -> Finding {
    let method = match autoscaler {
        Autoscaler::ProvisioningRequests => "ProvisioningRequest",
        Autoscaler::Karpenter => "Placeholder",
    };
    let message = format!(
        "{}: a cluster autoscaler may run, and it does not see pending gangs, because their pods are gated.",
        served(autoscaler)
    );
    let remedy =
        format!("Set the chart value provisioning.method={method}; docs/advanced/autoscalers.md says what it does.");
    Finding::warn("autoscaler", message, remedy)
}

/// Returns which API of the autoscaler is served, as the beginning of a sentence.
fn served(autoscaler: Autoscaler) -> &'static str {
    match autoscaler {
        Autoscaler::ProvisioningRequests => "ProvisioningRequests are served",
        Autoscaler::Karpenter => "NodePools of Karpenter are served",
    }
}

/// Warning: Giveway serves no groups in the namespace, so no test gang was started.
pub(in crate::check) fn no_gang_tried(namespace: &str) -> Finding {
    Finding::warn(
        "gang",
        format!("No gang was tried. {}", not_served(namespace)),
        "Try one where groups are served: kubectl giveway check --gang IMAGE -n NAMESPACE.",
    )
}

/// Passed: both pods of the test gang had a node after `waited`.
pub(in crate::check) fn gang_started(waited: Duration) -> Finding {
    let message = format!(
        "A gang of two pods stayed gated until both existed, and both got a node after {:.1} s.",
        waited.as_secs_f32()
    );
    Finding::ok("gang", message)
}

/// Failed: the test gang did not start. `why` is the error of a call, or the text of [`first_pod_not_gated`] or [`gang_is_late`].
pub(in crate::check) fn gang_failed(namespace: &str, why: &str) -> Finding {
    let message = format!("A gang of two pods in namespace {namespace} did not start: {why}");
    let remedy =
        format!("kubectl describe podgroups.scheduling.giveway.dev -n {namespace}, and the other lines of this check");
    Finding::fail("gang", message, remedy)
}

/// Error of [`gang_failed`]: the first pod was stored without Giveway's scheduling gate.
pub(in crate::check) fn first_pod_not_gated() -> String {
    "its first pod is not gated: the API server did not call Giveway's webhook, or the webhook has not observed the PodGroup yet"
        .to_owned()
}

/// Error of [`gang_failed`]: these pods have no node after this number of seconds. Each is its name, and true if it is gated.
pub(in crate::check) fn gang_is_late(seconds: u64, pods: &[(String, bool)]) -> String {
    let pods: Vec<String> = pods
        .iter()
        .map(|(name, is_gated)| format!("{name} {}", if *is_gated { "is gated" } else { "has no node" }))
        .collect();
    format!("after {seconds} s {}", pods.join(" and "))
}
