//! Evaluates the state of a cluster before an installation. Pure functions.

use super::facts::{ClusterState, DryRunResult, Platform, ProbePod};
use super::values::Values;
use crate::check::finding::Finding;
use crate::check::judge::{SLACK, autoscalers, in_tree};

/// The oldest minor version of Kubernetes 1 that the chart can be installed on, and the newest one that was tested.
const MINORS: (u32, u32) = (33, 37);
/// Seconds for which a Lease of kube-scheduler is valid by default. It is renewed every 2 s then, and the operator takes a scheduler for
/// down that does not renew it for 6 s.
const LEASE_SECONDS: i32 = 15;
/// The ports on which the control plane of a private cluster of GKE reaches nodes and pods.
const GKE_PORTS: [i64; 2] = [443, 10_250];

/// Returns all findings.
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

/// Returns the minor version in `v1.33.4-gke.1134000`.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}

/// Returns the finding about the version of Kubernetes.
fn kubernetes(facts: &ClusterState) -> Finding {
    let (oldest, newest) = MINORS;
    let version = match &facts.version {
        Ok(version) => version,
        Err(why) => return Finding::unknown("kubernetes", "The version of Kubernetes", why),
    };
    match minor(version) {
        None => Finding::unknown("kubernetes", "The version of Kubernetes", &format!("it says \"{version}\"")),
        Some(minor) if minor < oldest => Finding::fail(
            "kubernetes",
            format!("Kubernetes {version} is older than 1.{oldest}, which the chart needs."),
            "Upgrade the cluster.",
        ),
        Some(minor) if minor > newest => Finding::warn(
            "kubernetes",
            format!("Kubernetes {version} was not tested: 1.{oldest} to 1.{newest} were."),
            "Try Giveway in a test cluster first.",
        ),
        Some(_) => Finding::ok("kubernetes", format!("Kubernetes {version} is supported.")),
    }
}

/// Returns the finding about the APIs that the chart needs.
fn apis(facts: &ClusterState) -> Finding {
    match &facts.missing {
        Ok(missing) if missing.is_empty() => {
            Finding::ok("apis", "The API server serves all APIs that the chart needs.")
        }
        Ok(missing) => Finding::fail(
            "apis",
            format!("The API server does not serve {}.", missing.join(", ")),
            "Install what serves these APIs, or enable them (--runtime-config of the API server), or change the values that need them.",
        ),
        Err(why) => Finding::unknown("apis", "Which APIs are served", why),
    }
}

/// Returns what a platform needs that no other finding is about.
fn platform(facts: &ClusterState, values: &Values) -> Option<Finding> {
    let platform = facts.platform?;
    let warn = |message: String, remedy: &str| Some(Finding::warn("platform", message, remedy));
    match platform {
        Platform::Aks if !values.enforcer_disabled() => warn(
            "This is AKS: its admissions enforcer changes namespaceSelector of webhooks, and the next helm upgrade conflicts with that."
                .to_owned(),
            "Install with -f values-aks.yaml, which sets webhook.configurationAnnotations.",
        ),
        Platform::Eks if facts.vpc_cni == Ok(false) && !values.host_network() && values.url().is_empty() => warn(
            "This is EKS without the DaemonSet kube-system/aws-node of Amazon VPC CNI: API servers do not reach pods whose network \
             plugin has an overlay."
                .to_owned(),
            "With such a plugin install with -f values-eks.yaml, which sets webhook.hostNetwork. In EKS Auto Mode there is nothing to do.",
        ),
        Platform::OpenShift if values.user().is_some() => warn(
            "This is OpenShift: the SCC restricted-v2 rejects security.runAsUser if it is not in the range of the namespace.".to_owned(),
            "Install with -f values-openshift.yaml, which leaves the user to the SCC.",
        ),
        Platform::OpenShift if values.host_network() => warn(
            "This is OpenShift: the SCC restricted-v2 rejects pods with the network of their node.".to_owned(),
            "Set webhook.hostNetwork to false: API servers of OpenShift reach pods.",
        ),
        _ => Some(Finding::ok("platform", format!("This is {}, and the values fit it.", platform.name()))),
    }
}

/// Returns the finding about a pod that was created in a dry run.
fn pod(pod: &ProbePod, values: &Values) -> Finding {
    let ProbePod { namespace, .. } = pod;
    let what = match pod.class.as_str() {
        "" => "pods without a priority class".to_owned(),
        class => format!("pods of priority class {class}"),
    };
    let other = if pod.is_own { "" } else { ", tried because the namespace of Giveway does not exist yet" };
    match &pod.outcome {
        DryRunResult::Accepted(dropped) if dropped.is_empty() => {
            Finding::ok("pods", format!("Namespace {namespace} accepts {what} (dry run{other})."))
        }
        DryRunResult::Accepted(dropped) => Finding::fail(
            "pods",
            format!("The API server drops fields of pods that Giveway needs: {}.", dropped.join(", ")),
            "Enable these feature gates in the API server.",
        ),
        DryRunResult::NeedsQuota(_) if values.quota() => Finding::ok(
            "pods",
            format!(
                "A ResourceQuota is needed for {what} (dry run{other}), and priorityClassQuota.enabled creates it."
            ),
        ),
        DryRunResult::NeedsQuota(said) => Finding::fail(
            "pods",
            format!("Namespace {namespace} accepts no {what} without a ResourceQuota for that class: {said}"),
            "Install with priorityClassQuota.enabled=true, as -f values-gke.yaml does.",
        ),
        DryRunResult::Rejected(said) => {
            let message = format!("Namespace {namespace} rejects {what} (dry run{other}): {said}");
            let remedy =
                "Change the values or the rule that is named here: docs/platforms.md has the values for platforms.";
            if pod.is_own { Finding::fail("pods", message, remedy) } else { Finding::warn("pods", message, remedy) }
        }
        DryRunResult::Unknown(why) => {
            Finding::unknown("pods", &format!("Whether namespace {namespace} accepts {what}"), why)
        }
    }
}

/// Returns the finding about kube-scheduler's Lease; `None` if the values need none.
fn scheduler(facts: &ClusterState, values: &Values) -> Option<Finding> {
    let name = values.scheduler_lease()?;
    let without = "Set criticalAddons.schedulerLease to a Lease that does not exist, such as kube-system/none: then the decisions of \
                   kube-scheduler show that it runs.";
    let lease = match &facts.lease {
        Ok(Some(lease)) => lease,
        Ok(None) => {
            return Some(Finding::warn(
                "scheduler",
                format!(
                    "There is no Lease {name}: the operator concludes from the decisions of kube-scheduler that it runs."
                ),
                "If your scheduler has another Lease (kubectl get leases -A), name it in criticalAddons.schedulerLease; otherwise there is nothing to do.",
            ));
        }
        Err(why) => return Some(Finding::unknown("scheduler", &format!("Whether Lease {name} is renewed"), why)),
    };
    if lease.seconds > LEASE_SECONDS {
        let message = format!(
            "Lease {name} is valid for {} s, not for {LEASE_SECONDS} s: kube-scheduler may renew it so rarely that the operator takes it \
             for down in between (6 s without a renewal).",
            lease.seconds
        );
        return Some(Finding::warn("scheduler", message, without));
    }
    let age = lease.renewed.map(|renewed| facts.now.as_second() - renewed.as_second());
    Some(match age.filter(|age| *age <= i64::from(lease.seconds) + SLACK) {
        Some(age) => {
            let message = format!("Lease {name} of kube-scheduler can be read; it was renewed {} s ago.", age.max(0));
            Finding::ok("scheduler", message)
        }
        None => {
            Finding::warn("scheduler", format!("Lease {name} is not renewed: no kube-scheduler holds it."), without)
        }
    })
}

/// Returns which port has to be open, and for which addresses. It cannot be tested before the webhook runs.
fn network(facts: &ClusterState, values: &Values) -> Finding {
    let port = values.port();
    let target = match (values.url(), values.host_network()) {
        ("", false) => format!("TCP port {port} of the webhook's pods"),
        ("", true) => format!("TCP port {port} of the nodes on which the webhook runs"),
        (url, _) => url.to_owned(),
    };
    let sources = sources(facts);
    let message =
        format!("The API servers must reach {target} {sources} Only an installed webhook shows whether they do.");
    let remedy = match facts.platform {
        Some(Platform::Gke) if !GKE_PORTS.contains(&port) => format!(
            "In a private cluster install with -f values-gke.yaml, whose port is open, or create a firewall rule for port {port} from \
             the control plane to the nodes. Afterwards: kubectl giveway check"
        ),
        Some(Platform::Eks) => format!(
            "Allow port {port} from the cluster security group in the security group of the nodes. Afterwards: kubectl giveway check"
        ),
        _ => "Open it in firewalls, security groups and network policies. Afterwards: kubectl giveway check".to_owned(),
    };
    Finding::warn("network", message, remedy)
}

/// Returns from where requests of the API servers come, with a full stop at the end.
fn sources(facts: &ClusterState) -> String {
    let servers = match &facts.servers {
        Ok(addresses) if !addresses.is_empty() => {
            format!("from {} (EndpointSlice default/kubernetes)", addresses.join(", "))
        }
        Ok(_) => "from the control plane, whose addresses are not in an EndpointSlice".to_owned(),
        Err(why) => format!("from the control plane, whose addresses are not known: {why}"),
    };
    match facts.agents {
        Ok(true) => {
            format!("{servers}, or from the konnectivity-agent pods in kube-system, which pass their requests on.")
        }
        _ => format!("{servers}."),
    }
}

#[cfg(test)]
mod tests;
