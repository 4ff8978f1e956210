//! The operator: leader, mode, circuit breakers, gated pods and versions.

use super::{first, unknown};
use crate::check::finding::Finding;
use giveway_crds::keys::GATE;
use giveway_crds::mode::{CONFIG_MAP, Mode};
use giveway_crds::wording::{agree, counted};
use k8s_openapi::jiff::Timestamp;

/// What to do about an open breaker.
const CLOSE_BREAKER: &str = "The MESSAGE column of `kubectl get preemptions -o wide` says how the plans ended. When the \
                             cause is repaired, delete the Preemptions of the failed plans: then Giveway evicts pods for \
                             these preemptors again.";

/// Warning: the Lease of the operator could not be read. `why` is the error.
pub(in crate::check) fn leader_unknown(why: &str) -> Finding {
    unknown("operator", "Whether an operator is the leader", why)
}

/// Failed: the Lease of the operator does not exist.
pub(in crate::check) fn no_lease(namespace: &str) -> Finding {
    let message = format!("No operator has ever been the leader: there is no Lease in namespace {namespace}.");
    Finding::fail("operator", message, logs(namespace))
}

/// Failed: the Lease of the operator has no holder.
pub(in crate::check) fn no_holder(namespace: &str, lease: &str) -> Finding {
    let message = format!("No operator is the leader: the Lease {namespace}/{lease} has no holder.");
    Finding::fail("operator", message, logs(namespace))
}

/// Failed: the Lease of the operator has expired: its holder renewed it `age` seconds ago, and it is valid for `seconds` after that.
pub(in crate::check) fn lease_expired(namespace: &str, lease: &str, holder: &str, age: i64, seconds: i32) -> Finding {
    let message = format!(
        "No operator is the leader: {holder} has not renewed the Lease {namespace}/{lease} for {age} s, by the clock of this \
         machine; it is valid for {seconds} s."
    );
    Finding::fail("operator", message, logs(namespace))
}

/// Passed: `holder` is the leading operator, and renewed its Lease in time, `age` seconds ago.
pub(in crate::check) fn leads(namespace: &str, lease: &str, holder: &str, age: i64) -> Finding {
    let message = format!("{holder} is the leader; it renewed the Lease {namespace}/{lease} {age} s ago.");
    Finding::ok("operator", message)
}

/// Returns the command that shows the operator's log.
fn logs(namespace: &str) -> String {
    format!("kubectl -n {namespace} logs deployment/giveway-operator")
}

/// Failed: no operator leads that would remove Giveway's scheduling gate from this number of pods.
pub(in crate::check) fn gated(pods: usize) -> Finding {
    let pods = counted(pods, "pod has", "pods have");
    let message = format!("{pods} the scheduling gate {GATE}, and no operator runs that would remove it.");
    let remedy = format!(
        "Start the operator. A user who may update podgroups/breakglass can remove the gate of a pod: kubectl \
         -n NAMESPACE patch pod NAME -p \
         '{{\"spec\":{{\"schedulingGates\":[{{\"$patch\":\"delete\",\"name\":\"{GATE}\"}}]}}}}'"
    );
    Finding::fail("gated", message, remedy)
}

/// Warning: the ConfigMap with the mode could not be read. `why` is the error.
pub(in crate::check) fn mode_unknown(why: &str) -> Finding {
    unknown("mode", "Whether the mode was switched", why)
}

/// Passed: there is neither the ConfigMap with the mode nor a Deployment of the operator.
pub(in crate::check) fn mode_of_flag(namespace: &str) -> Finding {
    let message =
        format!("There is no {}, so the mode was not switched: the operator's flag --mode counts.", map(namespace));
    Finding::ok("mode", message)
}

/// Failed: the ConfigMap has no valid mode. `why` is the sentence of the operator's event about it
/// ([`mode_invalid`](giveway_crds::wording::events::mode_invalid), [`mode_missing`](giveway_crds::wording::events::mode_missing)).
pub(in crate::check) fn mode_invalid(namespace: &str, why: &str) -> Finding {
    let message = format!("{}: {why}. The previous mode stays in force.", map(namespace));
    Finding::fail("mode", message, "kubectl giveway mode MODE, with enforce, observe, off or chart as MODE")
}

/// The operator runs in this mode because the ConfigMap with the mode says so. Passed for `enforce`, otherwise a warning.
pub(in crate::check) fn mode_switched(namespace: &str, mode: Mode) -> Finding {
    in_mode(mode, &map(namespace), "kubectl giveway mode chart")
}

/// The operator runs in the mode that the chart's value `mode` sets. Passed for `enforce`, otherwise a warning.
pub(in crate::check) fn mode_of_chart(mode: Mode) -> Finding {
    let remedy = "helm upgrade with mode=enforce, when Giveway is to preempt again.";
    in_mode(mode, "the chart's value `mode`", remedy)
}

/// Returns the finding about a mode: passed for `enforce`, otherwise a warning with `remedy`, which says what the user can do. `by`
/// says what sets the mode.
fn in_mode(mode: Mode, by: &str, remedy: &str) -> Finding {
    let message = format!("{} (set by {by}).", mode.restraint());
    match mode {
        Mode::Enforce => Finding::ok("mode", message),
        Mode::Observe | Mode::Off => Finding::warn("mode", message, remedy),
    }
}

/// Returns the ConfigMap that sets the mode, as sentences name it.
fn map(namespace: &str) -> String {
    format!("ConfigMap {namespace}/{CONFIG_MAP}")
}

/// Warning: the stored plans, from which the state of circuit breakers is computed, could not be read. `why` is the error.
pub(in crate::check) fn breakers_unknown(why: &str) -> Finding {
    unknown("breakers", "Whether circuit breakers are open", why)
}

/// Failed: the circuit breaker of the cluster is open, because plans for this number of preemptors failed in a row. No pod is evicted
/// until `until`; `None` if one plan with evictions at a time is permitted again.
pub(in crate::check) fn breaker_of_cluster(preemptors: usize, until: Option<Timestamp>) -> Finding {
    let effect = match until {
        Some(until) => format!("no pod is evicted for any preemptor until {until}"),
        None => "one plan with evictions is made at a time until one completes".to_owned(),
    };
    let count = counted(preemptors, "preemptor", "preemptors");
    let message = format!("Plans for {count} in a row evicted pods, and none of these preemptors was bound: {effect}.");
    Finding::fail("breakers", message, CLOSE_BREAKER)
}

/// Warning: the circuit breakers of these namespaces, each a text of [`breaker_of_namespace`], are open.
pub(in crate::check) fn breakers_of_namespaces(namespaces: impl ExactSizeIterator<Item = String>) -> Finding {
    let count = counted(namespaces.len(), "namespace", "namespaces");
    let each = agree(namespaces.len(), "the namespace", "each namespace");
    let message = format!(
        "No pod is evicted for preemptors of {count}, because several plans in a row evicted pods for different preemptors of {each}, \
         and none of these preemptors was bound: {}.",
        first(namespaces)
    );
    Finding::warn("breakers", message, CLOSE_BREAKER)
}

/// Returns a namespace with the number of preemptors and the end of its breaker; `until` as in [`breaker_of_cluster`].
pub(in crate::check) fn breaker_of_namespace(namespace: &str, preemptors: usize, until: Option<Timestamp>) -> String {
    let end = match until {
        Some(until) => format!("until {until}"),
        None => "until a plan completes, except for one plan at a time".to_owned(),
    };
    format!("{namespace} ({}) {end}", counted(preemptors, "preemptor", "preemptors"))
}

/// Warning: the circuit breakers of these preemptors, each a text of [`breaker_of_preemptor`], are open.
pub(in crate::check) fn breakers_of_preemptors(preemptors: impl ExactSizeIterator<Item = String>) -> Finding {
    let count = counted(preemptors.len(), "preemptor", "preemptors");
    let effect = agree(preemptors.len(), "it, and it was not bound", "each of them, and none of them was bound");
    let message = format!(
        "No pod is evicted for {count}, because several plans in a row evicted pods for {effect}: {}.",
        first(preemptors)
    );
    Finding::warn("breakers", message, CLOSE_BREAKER)
}

/// Returns a preemptor, `KIND/NAMESPACE/NAME`, with the number of its failed plans and the end of its circuit breaker.
pub(in crate::check) fn breaker_of_preemptor(preemptor: &str, plans: usize, until: Timestamp) -> String {
    format!("{preemptor} ({}) until {until}", counted(plans, "plan", "plans"))
}

/// Passed: the version of a Deployment (`None`: of the chart) is that of this program.
pub(in crate::check) fn same_version(deployment: Option<&str>, version: &str) -> Finding {
    Finding::ok("version", format!("{} has version {version}, like this program.", component(deployment)))
}

/// Warning: the version of a Deployment (`None`: of the chart) is not `own`, that of this program.
pub(in crate::check) fn other_version(deployment: Option<&str>, version: &str, own: &str) -> Finding {
    Finding::warn(
        "version",
        format!("{} has version {version}, and this program {own}.", component(deployment)),
        "Use the same version everywhere: what this program predicts may differ from what the operator decides.",
    )
}

/// Returns the subject of a sentence about a version: the Deployment, or the chart for `None`.
fn component(deployment: Option<&str>) -> String {
    deployment.map_or_else(|| "The chart".to_owned(), |name| format!("Deployment {name}"))
}

/// Warning: the webhook configuration with the chart's version could not be read. `why` is the error.
pub(in crate::check) fn chart_version_unknown(why: &str) -> Finding {
    unknown("version", "The chart's version", why)
}

/// Warning: the Deployments of operator and webhook, which have their versions, could not be read. `why` is the error.
pub(in crate::check) fn versions_unknown(why: &str) -> Finding {
    unknown("version", "Which versions operator and webhook have", why)
}

/// Warning: the namespace has no Deployment of the operator or the webhook, so their versions are not known.
pub(in crate::check) fn no_deployments(namespace: &str) -> Finding {
    let message = format!(
        "The versions of operator and webhook are not known: namespace {namespace} has no Deployment of either, so they \
         run outside the cluster."
    );
    Finding::warn("version", message, "Run giveway-operator --version and giveway-webhook --version where they run.")
}

/// Warning: a Deployment has neither an image tag nor a label with its version.
pub(in crate::check) fn no_version(deployment: &str) -> Finding {
    let message = format!("Deployment {deployment} has neither an image tag nor a version label.");
    Finding::warn("version", message, "Give its image a tag.")
}
