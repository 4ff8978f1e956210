//! The list of all findings: `findings.txt`, to be read in one sitting.
//!
//! `make wording` writes it again after a sentence was changed.

#[path = "../../../../crds/tests/crds/catalogue.rs"]
mod catalogue;
#[path = "../../../../crds/tests/crds/golden.rs"]
mod golden;

use super::super::facts::{Autoscaler, ClassSummary, GuardedPod, Renewer};
use super::super::finding::Status;
use super::certificate::CertificateHolder;
use super::pre::{Opening, ReviewAddress, TriedPods};
use super::{admission, certificate, classes, cluster, operator, pre};
use crate::check::finding::Finding;
use catalogue::Entry;
use giveway_crds::mode::Mode;
use k8s_openapi::jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns a finding as text: result, name of the check and sentence, and in a second line what to do.
fn shown(finding: &Finding) -> String {
    let status = match finding.status {
        Status::Ok => "OK",
        Status::Warn => "WARN",
        Status::Fail => "FAIL",
    };
    let remedy = if finding.remedy.is_empty() { String::new() } else { format!("\n        {}", finding.remedy) };
    format!("{status} {}: {}{remedy}", finding.check, finding.message)
}

fn findings<const N: usize>(name: &'static str, findings: [Finding; N]) -> Entry {
    (name, findings.iter().map(shown).collect())
}

/// Returns the entry of a function that returns a part of a finding.
fn parts<const N: usize>(name: &'static str, texts: [String; N]) -> Entry {
    (name, texts.into())
}

fn time() -> Timestamp {
    "2026-12-31T12:00:00Z".parse().unwrap()
}

fn of_admission() -> Vec<Entry> {
    let kind = "MutatingWebhookConfiguration";
    vec![
        findings("admission::kinds_unknown", [admission::kinds_unknown("ERROR")]),
        findings("admission::kinds_served", [admission::kinds_served()]),
        findings(
            "admission::kinds_missing",
            [admission::kinds_missing(&["podgroups"]), admission::kinds_missing(&["podgroups", "workloads"])],
        ),
        findings("admission::no_configuration", [admission::no_configuration(kind)]),
        findings("admission::configuration_unknown", [admission::configuration_unknown(kind, "ERROR")]),
        findings("admission::admission_answers", [admission::admission_answers()]),
        findings("admission::admission_is_silent", [admission::admission_is_silent()]),
        findings("admission::admission_fails", [admission::admission_fails("giveway-system", "ERROR")]),
        findings(
            "admission::admission_is_not_reached",
            [admission::admission_is_not_reached("giveway-system", 9443, "ERROR")],
        ),
        findings("admission::admission_unknown", [admission::admission_unknown("ERROR")]),
        parts("admission::probe_exists", [admission::probe_exists("PriorityClass", "giveway-check-probe")]),
        findings("admission::policies_unknown", [admission::policies_unknown("ERROR")]),
        findings("admission::policies_in_force", [admission::policies_in_force()]),
        findings(
            "admission::policies_missing",
            [
                admission::policies_missing(&["giveway-pods"]),
                admission::policies_missing(&["giveway-operator", "giveway-pods"]),
            ],
        ),
        findings("admission::guarded", [admission::guarded()]),
        findings("admission::not_guarded", [admission::not_guarded()]),
        findings("admission::guard_unknown", [admission::guard_unknown("ERROR")]),
    ]
}

fn of_certificates() -> Vec<Entry> {
    let holder = |is_bundle: bool, renewer: Renewer| {
        let secret = if is_bundle { "giveway-webhook-ca" } else { "giveway-webhook-tls" };
        CertificateHolder { is_bundle, namespace: "giveway-system", secret, renewer }
    };
    let (bundle, secret) = (holder(true, Renewer::Operator), holder(false, Renewer::CertManager));
    let own = holder(false, Renewer::Other);
    let (name, until) = ("CN=giveway.test", time());
    vec![
        findings("certificate::not_made", [certificate::not_made("giveway-system", "giveway-webhook-tls")]),
        findings("certificate::elsewhere", [certificate::elsewhere("giveway-system", "giveway-webhook-tls")]),
        findings("certificate::certificate_unknown", [certificate::certificate_unknown("ERROR")]),
        findings(
            "certificate::unusable",
            [
                certificate::unusable(&bundle, certificate::NO_CERTIFICATE),
                certificate::unusable(&secret, &certificate::no_pem("ERROR")),
                certificate::unusable(&own, &certificate::unreadable("ERROR")),
            ],
        ),
        parts("certificate::NO_CERTIFICATE", [certificate::NO_CERTIFICATE.to_owned()]),
        parts("certificate::no_pem", [certificate::no_pem("ERROR")]),
        parts("certificate::unreadable", [certificate::unreadable("ERROR")]),
        findings("certificate::expired", [certificate::expired(&secret, name, until)]),
        findings("certificate::not_valid_yet", [certificate::not_valid_yet(&bundle, name, until)]),
        findings(
            "certificate::expires",
            [
                certificate::expires(&bundle, name, (0, until), 1, true),
                certificate::expires(&secret, name, (1, until), 1, true),
                certificate::expires(&own, name, (2, until), 1, true),
                certificate::expires(&bundle, name, (39, until), 2, false),
            ],
        ),
    ]
}

fn of_operator() -> Vec<Entry> {
    let (namespace, lease) = ("giveway-system", "giveway-operator");
    let modes = [Mode::Enforce, Mode::Observe, Mode::Off];
    let preemptors =
        |count: usize| (0..count).map(|n| operator::breaker_of_preemptor(&format!("pod/ml/p-{n}"), 3, time()));
    let namespaces =
        |count: usize| (0..count).map(|n| operator::breaker_of_namespace(&format!("team-{n}"), 5, Some(time())));
    vec![
        findings("operator::leader_unknown", [operator::leader_unknown("ERROR")]),
        findings("operator::no_lease", [operator::no_lease(namespace)]),
        findings("operator::no_holder", [operator::no_holder(namespace, lease)]),
        findings("operator::lease_expired", [operator::lease_expired(namespace, lease, "operator-1", 60, 15)]),
        findings("operator::leads", [operator::leads(namespace, lease, "operator-1", 3)]),
        findings("operator::gated", [0, 1, 2].map(operator::gated)),
        findings("operator::mode_unknown", [operator::mode_unknown("ERROR")]),
        findings("operator::mode_of_flag", [operator::mode_of_flag(namespace)]),
        findings("operator::mode_invalid", [operator::mode_invalid(namespace, "data.mode: ERROR")]),
        findings("operator::mode_switched", modes.map(|mode| operator::mode_switched(namespace, mode))),
        findings("operator::mode_of_chart", modes.map(operator::mode_of_chart)),
        findings("operator::breakers_unknown", [operator::breakers_unknown("ERROR")]),
        findings(
            "operator::breaker_of_cluster",
            [
                operator::breaker_of_cluster(0, Some(time())),
                operator::breaker_of_cluster(1, Some(time())),
                operator::breaker_of_cluster(2, None),
            ],
        ),
        findings("operator::breakers_of_namespaces", [1, 2].map(|n| operator::breakers_of_namespaces(namespaces(n)))),
        parts(
            "operator::breaker_of_namespace",
            [0, 1, 2].map(|preemptors| operator::breaker_of_namespace("team", preemptors, None)),
        ),
        findings("operator::breakers_of_preemptors", [1, 7].map(|n| operator::breakers_of_preemptors(preemptors(n)))),
        parts(
            "operator::breaker_of_preemptor",
            [0, 1, 2].map(|plans| operator::breaker_of_preemptor("podgroup/ml/train", plans, time())),
        ),
        findings(
            "operator::same_version",
            [operator::same_version(None, "0.1.0"), operator::same_version(Some("giveway-webhook"), "v0.1.0")],
        ),
        findings(
            "operator::other_version",
            [
                operator::other_version(None, "0.1.0", "0.2.0"),
                operator::other_version(Some("giveway-webhook"), "v0.1.0", "0.2.0"),
            ],
        ),
        findings("operator::chart_version_unknown", [operator::chart_version_unknown("ERROR")]),
        findings("operator::versions_unknown", [operator::versions_unknown("ERROR")]),
        findings("operator::no_deployments", [operator::no_deployments(namespace)]),
        findings("operator::no_version", [operator::no_version("giveway-webhook")]),
    ]
}

fn of_classes() -> Vec<Entry> {
    let class = |name: &str, managed: bool| ClassSummary { name: name.to_owned(), value: 100, managed, preempts: true };
    let pods = |count: usize| -> Vec<GuardedPod> {
        let pod = |n: usize| GuardedPod {
            namespace: "shop".to_owned(),
            name: format!("web-{n}"),
            priority: 10,
            threshold: 5000,
            budgets: vec!["web".to_owned(), "shop".to_owned()],
        };
        (0..count).map(pod).collect()
    };
    let (named, nameless) = (class("batch", false), class("", false));
    vec![
        findings("classes::classes_unknown", [classes::classes_unknown("ERROR")]),
        findings(
            "classes::system_classes",
            [
                classes::system_classes(&["system-cluster-critical"]),
                classes::system_classes(&["system-cluster-critical", "system-node-critical"]),
            ],
        ),
        findings("classes::no_pod_exposed", [0, 1, 2].map(classes::no_pod_exposed)),
        findings(
            "classes::class_preempts",
            [classes::class_preempts(&named), classes::class_preempts(&class("batch", true))],
        ),
        findings(
            "classes::class_exposes",
            [
                classes::class_exposes(&named, &pods(1), true),
                classes::class_exposes(&nameless, &pods(2), false),
                classes::class_exposes(&named, &pods(7), true),
                classes::class_exposes(&class("batch", true), &pods(1), false),
            ],
        ),
        findings("classes::tolerations_unknown", [classes::tolerations_unknown("ERROR")]),
        findings("classes::toleration_with_threshold", [classes::toleration_with_threshold("low", "10000", None)]),
        findings(
            "classes::toleration_without_threshold",
            [classes::toleration_without_threshold("low", "10000", Some("3600"))],
        ),
        findings(
            "classes::toleration_beyond_thresholds",
            [classes::toleration_beyond_thresholds("low", "2000000001", None)],
        ),
        findings("classes::toleration_without_minimum", [classes::toleration_without_minimum("low", Some("3600"))]),
        findings("classes::changes_unknown", [classes::changes_unknown("ERROR")]),
        findings("classes::change_interrupted", [classes::change_interrupted("adopt", "high")]),
    ]
}

fn of_cluster() -> Vec<Entry> {
    let autoscalers = [Autoscaler::ProvisioningRequests, Autoscaler::Karpenter];
    let pods = [("giveway-check-gang-0".to_owned(), true), ("giveway-check-gang-1".to_owned(), false)];
    let [first, _] = &pods;
    vec![
        findings("cluster::in_tree_unknown", [cluster::in_tree_unknown("ERROR")]),
        findings("cluster::in_tree_not_served", [cluster::in_tree_not_served()]),
        findings("cluster::in_tree_served", [cluster::in_tree_served(&["scheduling.k8s.io/v1beta1".to_owned()])]),
        findings("cluster::autoscalers_unknown", [cluster::autoscalers_unknown("ERROR")]),
        findings(
            "cluster::capacity_requested",
            autoscalers.map(|autoscaler| cluster::capacity_requested(autoscaler, "Placeholder")),
        ),
        findings("cluster::no_capacity_requested", autoscalers.map(cluster::no_capacity_requested)),
        findings("cluster::no_gang_tried", [cluster::no_gang_tried("team")]),
        findings("cluster::gang_started", [cluster::gang_started(Duration::from_millis(2500))]),
        findings("cluster::gang_failed", [cluster::gang_failed("team", "ERROR")]),
        parts("cluster::first_pod_not_gated", [cluster::first_pod_not_gated()]),
        parts(
            "cluster::gang_is_late",
            [cluster::gang_is_late(90, std::slice::from_ref(first)), cluster::gang_is_late(90, &pods)],
        ),
    ]
}

fn of_pre() -> Vec<Entry> {
    let own = TriedPods { class: "system-cluster-critical", namespace: "giveway-system", is_own: true };
    let other = TriedPods { class: "", namespace: "default", is_own: false };
    let critical = TriedPods { class: "system-cluster-critical", ..other };
    let apis = ["certificates (cert-manager.io/v1)", "podmonitors (monitoring.coreos.com/v1)"].map(str::to_owned);
    let fields = ["spec.schedulingGates (feature gate A)", "lifecycle.preStop.sleep (feature gate B)"];
    let servers = Ok(vec!["10.0.0.2".to_owned(), "10.0.0.3".to_owned()]);
    let lease = "kube-system/kube-scheduler";
    vec![
        findings(
            "pre::kubernetes_unknown",
            [pre::kubernetes_unknown("ERROR"), pre::kubernetes_unknown(&pre::no_version_of_kubernetes("v2"))],
        ),
        parts("pre::no_version_of_kubernetes", [pre::no_version_of_kubernetes("v2")]),
        findings("pre::kubernetes_too_old", [pre::kubernetes_too_old("v1.32.9", 33)]),
        findings("pre::kubernetes_not_tested", [pre::kubernetes_not_tested("v1.38.0", (33, 37))]),
        findings("pre::kubernetes_supported", [pre::kubernetes_supported("v1.33.4")]),
        findings("pre::apis_unknown", [pre::apis_unknown("ERROR")]),
        findings("pre::apis_served", [pre::apis_served()]),
        findings("pre::apis_missing", [1, 2].map(|count| pre::apis_missing(&apis[..count]))),
        findings("pre::aks_enforcer", [pre::aks_enforcer()]),
        findings("pre::eks_overlay", [pre::eks_overlay()]),
        findings("pre::openshift_user", [pre::openshift_user()]),
        findings("pre::openshift_host_network", [pre::openshift_host_network()]),
        findings("pre::platform_fits", [pre::platform_fits("AKS")]),
        findings("pre::pods_unknown", [pre::pods_unknown(&own, "ERROR"), pre::pods_unknown(&other, "ERROR")]),
        parts("pre::no_default_namespace", [pre::no_default_namespace()]),
        findings("pre::pods_accepted", [pre::pods_accepted(&own), pre::pods_accepted(&other)]),
        findings("pre::fields_dropped", [1, 2].map(|count| pre::fields_dropped(&fields[..count]))),
        findings("pre::quota_created", [pre::quota_created(&own), pre::quota_created(&critical)]),
        findings("pre::no_quota", [pre::no_quota(&own, "ERROR")]),
        findings("pre::pods_rejected", [pre::pods_rejected(&own, "ERROR"), pre::pods_rejected(&other, "ERROR")]),
        findings("pre::scheduler_unknown", [pre::scheduler_unknown(lease, "ERROR")]),
        findings("pre::no_scheduler_lease", [pre::no_scheduler_lease(lease)]),
        findings("pre::long_scheduler_lease", [pre::long_scheduler_lease(lease, 137, 15)]),
        findings("pre::scheduler_lease_renewed", [pre::scheduler_lease_renewed(lease, 2)]),
        findings("pre::scheduler_lease_expired", [pre::scheduler_lease_expired(lease)]),
        findings(
            "pre::network",
            [
                pre::network(ReviewAddress::Pods(9443), &servers, false, Opening::Anything),
                pre::network(ReviewAddress::Nodes(9443), &Ok(Vec::new()), false, Opening::EksSecurityGroup(9443)),
                pre::network(ReviewAddress::Pods(9443), &servers, true, Opening::GkeFirewall(9443)),
                pre::network(
                    ReviewAddress::Url("https://giveway.example"),
                    &Err("ERROR".to_owned()),
                    false,
                    Opening::Anything,
                ),
            ],
        ),
    ]
}

/// Returns the whole list.
fn list() -> String {
    let head = "\
# Every finding of `kubectl giveway check`: the function of cli/src/check/wording, and below it what it returns, with what the user can do
# in a second line. `make wording` writes this file.
";
    let all = [of_admission(), of_certificates(), of_operator(), of_classes(), of_cluster(), of_pre()];
    catalogue::list(head, all.concat())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check")
}

#[test]
fn the_list_has_what_the_functions_return() {
    golden::is_generated(&folder().join("wording/findings.txt"), &list(), "make wording");
}

#[test]
fn the_list_has_every_function_of_the_catalogue() {
    let missing = catalogue::missing(&list(), &folder().join("wording"), "pub(in crate::check) ");
    assert_eq!(missing, [""; 0], "add them to wording/tests.rs");
}

#[test]
fn judges_have_no_sentences_of_their_own() {
    let is_catalogue = |file: &Path| file.starts_with(folder().join("wording")) || file.ends_with("finding.rs");
    let mut judges = catalogue::sources(&folder());
    judges.retain(|file| !is_catalogue(file));
    assert!(judges.len() > 10, "{judges:?}");
    catalogue::have_no_sentences(&judges, &["Finding::ok", "Finding::warn", "Finding::fail"]);
}

#[test]
fn a_forbidden_read_names_the_missing_right_and_other_errors_do_not() {
    let said = "leases is forbidden: User \"ann\" cannot list resource \"leases\" in API group \"coordination.k8s.io\"";
    let found = operator::leader_unknown(said);
    assert_eq!(found.message, format!("Whether an operator is the leader is not known: {said}"));
    assert_eq!(found.remedy, "Run the command as an administrator, or give user ann the right that is named here.");
    let taken = admission::admission_unknown("a PriorityClass giveway-check-probe exists: delete it");
    assert_eq!(taken.remedy, "Fix the cause that is named here, and run the command again.");
}
