//! Evaluates the state of a cluster before an installation. Pure functions.

use super::facts::{ClusterState, DryRunResult, Platform, ProbePod};
use super::values::Values;
use crate::check::finding::Finding;
use crate::check::judge::{SLACK, autoscalers, in_tree};
use crate::check::wording::pre::{self as wording, Opening, ReviewAddress, TriedPods};

/// The oldest minor version of Kubernetes 1 that the chart can be installed on, and the newest one that was tested.
const MINORS: (u32, u32) = (33, 37);
/// Seconds for which a Lease of kube-scheduler is valid by default. It is renewed every 2 s then, and the operator takes a scheduler for
/// down that does not renew it for 6 s.
const LEASE_SECONDS: i32 = 15;
/// The ports on which the control plane of a private cluster of GKE reaches nodes and pods.
const GKE_PORTS: [i64; 2] = [443, 10_250];

/// Returns the findings of all checks before the installation, for the cluster and the chart's values.
pub(super) fn all(facts: &ClusterState, values: &Values) -> Vec<Finding> {
    let mut found = vec![kubernetes(facts), apis(facts)];
    found.extend(platform(facts, values));
    found.extend(facts.pods.iter().map(|pod| self::pod(pod, values)));
    found.extend(scheduler(facts, values));
    found.push(network(facts, values));
    found.push(in_tree(&facts.in_tree));
    found.extend(autoscalers(&facts.autoscalers, values.provisioning()));
    found
}

/// Returns the minor version in a version of Kubernetes, such as 33 for `v1.33.4-gke.1134000`; `None` if the text does not begin with
/// `v1.` and a number.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}

/// Checks that the chart supports the version of Kubernetes.
fn kubernetes(facts: &ClusterState) -> Finding {
    let (oldest, newest) = MINORS;
    let version = match &facts.version {
        Ok(version) => version,
        Err(why) => return wording::kubernetes_unknown(why),
    };
    match minor(version) {
        None => wording::kubernetes_unknown(&wording::no_version_of_kubernetes(version)),
        Some(minor) if minor < oldest => wording::kubernetes_too_old(version, oldest),
        Some(minor) if minor > newest => wording::kubernetes_not_tested(version, MINORS),
        Some(_) => wording::kubernetes_supported(version),
    }
}

/// Checks that the API server serves the APIs that the chart needs.
fn apis(facts: &ClusterState) -> Finding {
    match &facts.missing {
        Ok(missing) if missing.is_empty() => wording::apis_served(),
        Ok(missing) => wording::apis_missing(missing),
        Err(why) => wording::apis_unknown(why),
    }
}

/// Returns the finding about what the platform of the cluster needs and no other check covers, such as AKS or OpenShift; `None` if the
/// platform is unknown.
fn platform(facts: &ClusterState, values: &Values) -> Option<Finding> {
    let platform = facts.platform?;
    Some(match platform {
        Platform::Aks if !values.enforcer_disabled() => wording::aks_enforcer(),
        Platform::Eks if facts.vpc_cni == Ok(false) && !values.host_network() && values.url().is_empty() => {
            wording::eks_overlay()
        }
        Platform::OpenShift if values.user().is_some() => wording::openshift_user(),
        Platform::OpenShift if values.host_network() => wording::openshift_host_network(),
        _ => wording::platform_fits(platform.name()),
    })
}

/// Returns the finding about the result of creating a pod of the chart in a dry run.
fn pod(pod: &ProbePod, values: &Values) -> Finding {
    let tried = TriedPods { class: &pod.class, namespace: &pod.namespace, is_own: pod.is_own };
    match &pod.outcome {
        DryRunResult::Accepted(dropped) if dropped.is_empty() => wording::pods_accepted(&tried),
        DryRunResult::Accepted(dropped) => wording::fields_dropped(dropped),
        DryRunResult::NeedsQuota(_) if values.quota() => wording::quota_created(&tried),
        DryRunResult::NeedsQuota(said) => wording::no_quota(&tried, said),
        DryRunResult::Rejected(said) => wording::pods_rejected(&tried, said),
        DryRunResult::Unknown(why) => wording::pods_unknown(&tried, why),
    }
}

/// Returns the finding about kube-scheduler's Lease, such as that it was not renewed in time; `None` if the operator does not read the
/// Lease with these values.
fn scheduler(facts: &ClusterState, values: &Values) -> Option<Finding> {
    let name = values.scheduler_lease()?;
    let lease = match &facts.lease {
        Ok(Some(lease)) => lease,
        Ok(None) => return Some(wording::no_scheduler_lease(name)),
        Err(why) => return Some(wording::scheduler_unknown(name, why)),
    };
    if lease.seconds > LEASE_SECONDS {
        return Some(wording::long_scheduler_lease(name, lease.seconds, LEASE_SECONDS));
    }
    let age = lease.renewed.map(|renewed| facts.now.as_second() - renewed.as_second());
    Some(match age.filter(|age| *age <= i64::from(lease.seconds) + SLACK) {
        Some(age) => wording::scheduler_lease_renewed(name, age.max(0)),
        None => wording::scheduler_lease_expired(name),
    })
}

/// Returns a finding that says which port API servers have to reach, and at which addresses. This cannot be tested before the webhook
/// runs.
fn network(facts: &ClusterState, values: &Values) -> Finding {
    let port = values.port();
    let webhook = match (values.url(), values.host_network()) {
        ("", false) => ReviewAddress::Pods(port),
        ("", true) => ReviewAddress::Nodes(port),
        (url, _) => ReviewAddress::Url(url),
    };
    let opening = match facts.platform {
        Some(Platform::Gke) if !GKE_PORTS.contains(&port) => Opening::GkeFirewall(port),
        Some(Platform::Eks) => Opening::EksSecurityGroup(port),
        _ => Opening::Anything,
    };
    wording::network(webhook, &facts.servers, facts.agents == Ok(true), opening)
}

#[cfg(test)]
mod tests;
