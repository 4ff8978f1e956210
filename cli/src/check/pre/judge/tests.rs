//! Tests: what each platform needs is found, unless the values have it already.

use super::super::values::read;
use super::super::values::tests::{of_platform, with_critical_addons};
use super::*;
use crate::check::facts::Lease;
use crate::check::finding::Status;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

const CLASS: &str = "system-cluster-critical";
const QUOTA: &str = "pods \"giveway-check-probe\" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [system-node-critical system-cluster-critical]}]";

fn pod_with(outcome: DryRunResult, is_own: bool) -> ProbePod {
    let namespace = if is_own { "giveway-system" } else { "default" };
    ProbePod { class: CLASS.to_owned(), namespace: namespace.to_owned(), is_own, outcome }
}

/// Returns a cluster that needs nothing.
fn plain() -> ClusterState {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    ClusterState {
        now,
        version: Ok("v1.33.4".into()),
        platform: None,
        missing: Ok(Vec::new()),
        pods: vec![pod_with(DryRunResult::Accepted(Vec::new()), true)],
        lease: Ok(Some(Lease {
            name: "kube-scheduler".into(),
            holder: "s-1".into(),
            renewed: Some(now - SignedDuration::from_secs(2)),
            seconds: 15,
        })),
        servers: Ok(vec!["10.0.0.2".into()]),
        agents: Ok(false),
        vpc_cni: Ok(false),
        in_tree: Ok(Vec::new()),
        autoscalers: Ok(Vec::new()),
    }
}

/// Returns the values of a platform's file, or the defaults for an empty name.
fn values(platform: &str) -> Values {
    if platform.is_empty() { read(&[]).unwrap() } else { of_platform(platform) }
}

/// Returns the only finding of a check.
fn finding(facts: &ClusterState, values: &Values, check: &str) -> Finding {
    let mut found = all(facts, values).into_iter().filter(|one| one.check == check);
    let first = found.next().unwrap_or_else(|| panic!("no finding {check}"));
    assert_eq!(found.next(), None, "{check}");
    first
}

#[test]
fn a_plain_cluster_needs_an_open_port_only() {
    let found = all(&plain(), &values(""));
    let lines: Vec<(Status, &str)> = found.iter().map(|one| (one.status, one.message.as_str())).collect();
    // The Lease of kube-scheduler is read only for critical add-ons, which are off.
    let expected = [
        (Status::Ok, "Kubernetes v1.33.4 is supported."),
        (Status::Ok, "The API server serves all APIs that the chart needs."),
        (Status::Ok, "Namespace giveway-system accepts pods of priority class system-cluster-critical (dry run)."),
        (
            Status::Warn,
            "The API servers must reach TCP port 9443 of the webhook's pods from 10.0.0.2 (EndpointSlice default/kubernetes). \
             Only an installed webhook shows whether they do.",
        ),
        (Status::Ok, "The in-tree PodGroup API is not served, so the scheduler's gate GenericWorkload has no effect."),
    ];
    assert_eq!(lines, expected);
    let lease = finding(&plain(), &with_critical_addons(), "scheduler");
    assert_eq!(lease.status, Status::Ok);
    assert_eq!(
        lease.message,
        "Lease kube-system/kube-scheduler of kube-scheduler can be read; it was renewed 2 s ago."
    );
}

#[test]
fn each_fault_is_one_line_with_its_weight() {
    use Status::{Fail, Warn};
    let lease = |seconds, age| {
        let renewed = Some(plain().now - SignedDuration::from_secs(age));
        Ok(Some(Lease { name: "kube-scheduler".into(), holder: "s-1".into(), renewed, seconds }))
    };
    let pods = |outcome, is_own| vec![pod_with(outcome, is_own)];
    let rejected = || DryRunResult::Rejected("pods is forbidden: violates PodSecurity".into());
    let rows: Vec<(ClusterState, Status, &str, &str)> = vec![
        (
            ClusterState { version: Ok("v1.32.9-eks-1".into()), ..plain() },
            Fail,
            "kubernetes",
            "v1.32.9-eks-1 is older than 1.33",
        ),
        (
            ClusterState { version: Ok("v1.38.0".into()), ..plain() },
            Warn,
            "kubernetes",
            "was not tested: 1.33 to 1.37 were.",
        ),
        (
            ClusterState { version: Ok(String::new()), ..plain() },
            Warn,
            "kubernetes",
            "is not known: the API server reports version \"\"",
        ),
        (
            ClusterState { missing: Ok(vec!["certificates (cert-manager.io/v1)".into()]), ..plain() },
            Fail,
            "apis",
            "does not serve certificates (cert-manager.io/v1).",
        ),
        (
            ClusterState { pods: pods(DryRunResult::NeedsQuota(QUOTA.into()), true), ..plain() },
            Fail,
            "pods",
            "without a ResourceQuota",
        ),
        (
            ClusterState { pods: pods(DryRunResult::Accepted(vec!["spec.schedulingGates"]), true), ..plain() },
            Fail,
            "pods",
            "drops fields of pods that Giveway needs: spec.schedulingGates.",
        ),
        (ClusterState { pods: pods(rejected(), true), ..plain() }, Fail, "pods", "violates PodSecurity"),
        (
            ClusterState { pods: pods(rejected(), false), ..plain() },
            Warn,
            "pods",
            "the namespace of Giveway does not exist yet",
        ),
        (
            ClusterState { pods: pods(DryRunResult::Unknown("forbidden".into()), true), ..plain() },
            Warn,
            "pods",
            "Whether namespace giveway-system accepts pods of priority class system-cluster-critical is not known",
        ),
        (
            ClusterState { lease: Ok(None), ..plain() },
            Warn,
            "scheduler",
            "There is no Lease kube-system/kube-scheduler",
        ),
        (ClusterState { lease: Err("forbidden".into()), ..plain() }, Warn, "scheduler", "is not known: forbidden"),
        (ClusterState { lease: lease(137, 3), ..plain() }, Warn, "scheduler", "is valid for 137 s, not for 15 s"),
        (ClusterState { lease: lease(15, 60), ..plain() }, Warn, "scheduler", "is not renewed"),
        (
            ClusterState { agents: Ok(true), ..plain() },
            Warn,
            "network",
            "or from the konnectivity-agent pods in kube-system, which pass their requests on.",
        ),
        (
            ClusterState { servers: Err("forbidden".into()), ..plain() },
            Warn,
            "network",
            "addresses are not known: forbidden",
        ),
    ];
    for (facts, status, check, text) in rows {
        let found = finding(&facts, &with_critical_addons(), check);
        assert!(found.message.contains(text), "{text} is not in {found:#?}");
        assert_eq!(found.status, status, "{found:#?}");
        assert!(!found.remedy.is_empty(), "{found:#?}");
    }
}

#[test]
fn the_values_of_a_platform_are_asked_for_and_then_accepted() {
    let on = |platform| ClusterState { platform: Some(platform), ..plain() };
    let gke = ClusterState { pods: vec![pod_with(DryRunResult::NeedsQuota(QUOTA.into()), false)], ..on(Platform::Gke) };
    for (facts, check, file) in
        [(gke, "pods", "gke"), (on(Platform::Eks), "platform", "eks"), (on(Platform::Aks), "platform", "aks")]
    {
        let before = finding(&facts, &values(""), check);
        assert_ne!(before.status, Status::Ok, "{before:#?}");
        assert!(before.remedy.contains(&format!("-f values-{file}.yaml")), "{before:#?}");
        let after = all(&facts, &values(file));
        let left: Vec<&Finding> = after.iter().filter(|one| one.status != Status::Ok).collect();
        assert_eq!(left.iter().map(|one| one.check).collect::<Vec<_>>(), ["network"], "{left:#?}");
    }
    let vpc_cni = ClusterState { vpc_cni: Ok(true), ..on(Platform::Eks) };
    assert_eq!(finding(&vpc_cni, &values(""), "platform").status, Status::Ok);
    let openshift = on(Platform::OpenShift);
    for (file, status) in [("", Status::Ok), ("openshift", Status::Ok), ("eks", Status::Warn)] {
        assert_eq!(finding(&openshift, &values(file), "platform").status, status, "{file}");
    }
}

#[test]
fn the_port_and_its_source_are_those_of_the_values_and_the_platform() {
    let gke = ClusterState { platform: Some(Platform::Gke), ..plain() };
    let closed = finding(&gke, &values(""), "network");
    assert!(closed.message.contains("TCP port 9443 of the webhook's pods from 10.0.0.2 "), "{closed:#?}");
    assert!(closed.remedy.contains("a firewall rule for port 9443 from the control plane to the nodes"), "{closed:#?}");
    let open = finding(&gke, &values("gke"), "network");
    assert!(open.message.contains("TCP port 10250 of the webhook's pods "), "{open:#?}");
    assert!(!open.remedy.contains("private cluster"), "{open:#?}");
    let eks = ClusterState { platform: Some(Platform::Eks), ..plain() };
    let node = finding(&eks, &values("eks"), "network");
    assert!(node.message.contains("TCP port 9443 of the nodes on which the webhook runs "), "{node:#?}");
    assert!(node.remedy.contains("port 9443 from the cluster security group"), "{node:#?}");
}
