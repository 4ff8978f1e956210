//! Giveway's kinds, webhook, policies and guard.

use super::unknown;
use crate::check::finding::Finding;
use giveway_crds::wording::agree;

/// Warning: it could not be read which of Giveway's kinds are served. `why` is the error.
pub(in crate::check) fn kinds_unknown(why: &str) -> Finding {
    unknown("crds", "Whether PodGroup, Preemption and Workload are served", why)
}

/// Passed: the API server serves all of Giveway's CustomResourceDefinitions.
pub(in crate::check) fn kinds_served() -> Finding {
    Finding::ok("crds", "PodGroup, Preemption and Workload are served in scheduling.giveway.dev/v1alpha1.")
}

/// Failed: the API server does not serve these resources of Giveway's API group.
pub(in crate::check) fn kinds_missing(resources: &[&str]) -> Finding {
    let message = format!("scheduling.giveway.dev/v1alpha1 does not serve {}.", resources.join(", "));
    Finding::fail("crds", message, "helm upgrade with crds.enabled=true, or kubectl apply -f crds/")
}

/// Failed: there is no webhook configuration `giveway` of this kind, `MutatingWebhookConfiguration` or
/// `ValidatingWebhookConfiguration`.
pub(in crate::check) fn no_configuration(kind: &str) -> Finding {
    let message = format!("There is no {kind} giveway, so the API server does not call Giveway's webhook.");
    Finding::fail("webhook", message, "Install the chart.")
}

/// Warning: the webhook configuration `giveway` of this kind could not be read. `why` is the error.
pub(in crate::check) fn configuration_unknown(kind: &str, why: &str) -> Finding {
    unknown("webhook", &format!("Whether {kind} giveway exists"), why)
}

/// Passed: the webhook filled in a managed class that was created in a dry run.
pub(in crate::check) fn admission_answers() -> Finding {
    Finding::ok("webhook", "Giveway's webhook answers: it filled in the fields of a managed PriorityClass (dry run).")
}

/// Failed: the class of the dry run was accepted as it was sent, so no webhook was called.
pub(in crate::check) fn admission_is_silent() -> Finding {
    let message =
        "Giveway's webhook was not called: the API server accepted a managed PriorityClass unchanged (dry run).";
    Finding::fail("webhook", message, "Install the chart.")
}

/// Failed: the class of the dry run was rejected, because the webhook failed. `said` is the API server's message.
pub(in crate::check) fn admission_fails(namespace: &str, said: &str) -> Finding {
    Finding::fail("webhook", api_server_says(said), webhook_pods(namespace))
}

/// Failed: the class of the dry run was rejected, because the API server could not connect to the webhook at `port`: no replica is
/// ready, or its packets are dropped. `said` is the API server's message.
pub(in crate::check) fn admission_is_not_reached(namespace: &str, port: u16, said: &str) -> Finding {
    let remedy = format!(
        "Allow the API servers to reach TCP port {port} of the webhook's pods (docs/platforms.md). Are these pods ready? {}",
        webhook_pods(namespace)
    );
    Finding::fail("webhook", api_server_says(said), remedy)
}

/// Returns the sentence that the webhook does not work, with the words of the API server.
fn api_server_says(said: &str) -> String {
    format!("Giveway's webhook does not work; the API server says: {said}")
}

/// Returns the command that shows the webhook's pods and the addresses of its Service.
fn webhook_pods(namespace: &str) -> String {
    format!("kubectl -n {namespace} get pods,endpointslices -l app.kubernetes.io/component=webhook")
}

/// Warning: no PriorityClass could be created in a dry run, so it is not known whether the webhook answers. `why` is the error.
pub(in crate::check) fn admission_unknown(why: &str) -> Finding {
    unknown("webhook", "Whether admission works", why)
}

/// Error of [`admission_unknown`]: the object of the dry run, a class or a pod with this name, exists already.
pub(in crate::check) fn probe_exists(kind: &str, name: &str) -> String {
    format!("a {kind} {name} exists: delete it")
}

/// Warning: the chart's ValidatingAdmissionPolicies could not be read. `why` is the error.
pub(in crate::check) fn policies_unknown(why: &str) -> Finding {
    unknown("policies", "Whether the chart's policies are in force", why)
}

/// Passed: all policies of the chart are in force.
pub(in crate::check) fn policies_in_force() -> Finding {
    let message = "The chart's policies protect Giveway's labels, annotations and scheduling gates on pods and groups.";
    Finding::ok("policies", message)
}

/// Failed: these policies of the chart are missing or not bound.
pub(in crate::check) fn policies_missing(names: &[&str]) -> Finding {
    let count = names.len();
    let message = format!(
        "{}: {}. Without {}, Giveway's labels, annotations and objects are not protected against other users (docs/security.md).",
        agree(
            count,
            "This ValidatingAdmissionPolicy does not exist, or has no binding that puts it into force",
            "These ValidatingAdmissionPolicies do not exist, or have no binding that puts them into force"
        ),
        names.join(", "),
        agree(count, "it", "them")
    );
    Finding::fail("policies", message, "Install the chart.")
}

/// Passed: the API server calls the webhook before kube-scheduler preempts a pod.
pub(in crate::check) fn guarded() -> Finding {
    Finding::ok("guard", "The API server asks Giveway's webhook before kube-scheduler preempts a pod.")
}

/// Warning: the API server does not call the webhook before kube-scheduler preempts a pod: the guard is disabled, or the chart is not
/// installed.
pub(in crate::check) fn not_guarded() -> Finding {
    let message = "No webhook checks the preemptions by kube-scheduler, so these may violate guaranteed budgets.";
    let remedy = "Set the chart's value guard.enabled to true, or run kubectl giveway adopt CLASS for each PriorityClass that preempts.";
    Finding::warn("guard", message, remedy)
}

/// Warning: the webhook configuration with the guard could not be read. `why` is the error.
pub(in crate::check) fn guard_unknown(why: &str) -> Finding {
    unknown("guard", "Whether a webhook checks the preemptions by kube-scheduler", why)
}
