//! What an installation needs from a cluster: `check --pre`.

use super::unknown;
use crate::check::finding::Finding;
use giveway_crds::wording::agree;

/// Warning: the version of the API server could not be read or understood. `why` is the error.
pub(in crate::check) fn kubernetes_unknown(why: &str) -> Finding {
    unknown("kubernetes", "The version of Kubernetes", why)
}

/// Error of [`kubernetes_unknown`]: the text is no version of Kubernetes 1.
pub(in crate::check) fn no_version_of_kubernetes(version: &str) -> String {
    format!("the API server reports version \"{version}\", which is not a version of Kubernetes 1")
}

/// Failed: the version of Kubernetes is below `oldest`, the oldest minor version that the chart supports.
pub(in crate::check) fn kubernetes_too_old(version: &str, oldest: u32) -> Finding {
    let message = format!("Kubernetes {version} is older than 1.{oldest}, which the chart needs.");
    Finding::fail("kubernetes", message, "Upgrade the cluster.")
}

/// Warning: the version of Kubernetes is above the newest minor version that was tested. Tested are the minor versions from `oldest` to
/// `newest`.
pub(in crate::check) fn kubernetes_not_tested(version: &str, (oldest, newest): (u32, u32)) -> Finding {
    let message = format!("Kubernetes {version} was not tested: 1.{oldest} to 1.{newest} were.");
    Finding::warn("kubernetes", message, "Try Giveway in a test cluster first.")
}

/// Passed: the chart supports this version of Kubernetes and was tested with it.
pub(in crate::check) fn kubernetes_supported(version: &str) -> Finding {
    Finding::ok("kubernetes", format!("Kubernetes {version} is supported."))
}

/// Warning: it could not be read which APIs the API server serves. `why` is the error.
pub(in crate::check) fn apis_unknown(why: &str) -> Finding {
    unknown("apis", "Which APIs are served", why)
}

/// Passed: all APIs are served that the chart needs.
pub(in crate::check) fn apis_served() -> Finding {
    Finding::ok("apis", "The API server serves all APIs that the chart needs.")
}

/// Failed: the API server does not serve these APIs, which the chart needs.
pub(in crate::check) fn apis_missing(apis: &[String]) -> Finding {
    let this = |one, more| agree(apis.len(), one, more);
    let remedy = format!(
        "Install what serves {}, or enable {} (--runtime-config of the API server), or change the values that need {}.",
        this("this API", "these APIs"),
        this("it", "them"),
        this("it", "them")
    );
    Finding::fail("apis", format!("The API server does not serve {}.", apis.join(", ")), remedy)
}

/// Warning: the platform is AKS, and its admissions enforcer is not disabled.
pub(in crate::check) fn aks_enforcer() -> Finding {
    Finding::warn(
        "platform",
        "This is AKS: its admissions enforcer changes namespaceSelector of webhooks, and the next helm upgrade conflicts with that.",
        "Install with -f values-aks.yaml, which sets webhook.configurationAnnotations.",
    )
}

/// Warning: the platform is EKS without its own network plugin, and the webhook is in the network of the pods.
pub(in crate::check) fn eks_overlay() -> Finding {
    Finding::warn(
        "platform",
        "This is EKS without the DaemonSet kube-system/aws-node of Amazon VPC CNI: API servers do not reach pods whose network \
         plugin has an overlay.",
        "With such a plugin install with -f values-eks.yaml, which sets webhook.hostNetwork. In EKS Auto Mode there is nothing to do.",
    )
}

/// Warning: the platform is OpenShift, and the chart's values set the UID of the containers' user.
pub(in crate::check) fn openshift_user() -> Finding {
    Finding::warn(
        "platform",
        "This is OpenShift: the SCC restricted-v2 rejects security.runAsUser if it is not in the range of the namespace.",
        "Install with -f values-openshift.yaml, which leaves the user to the SCC.",
    )
}

/// Warning: the platform is OpenShift, and the chart's values put the webhook into the network of its node.
pub(in crate::check) fn openshift_host_network() -> Finding {
    Finding::warn(
        "platform",
        "This is OpenShift: the SCC restricted-v2 rejects pods with the network of their node.",
        "Set webhook.hostNetwork to false: API servers of OpenShift reach pods.",
    )
}

/// Passed: the cluster runs on this platform, and the chart's values have what it needs.
pub(in crate::check) fn platform_fits(platform: &str) -> Finding {
    Finding::ok("platform", format!("This is {platform}, and the chart's values fit it."))
}

/// The pods that were created in a dry run.
#[derive(Clone, Copy, Debug)]
pub(in crate::check) struct TriedPods<'a> {
    /// Their priority class; empty for none.
    pub(in crate::check) class: &'a str,
    /// Their namespace: that of the installation, or `default` if that does not exist.
    pub(in crate::check) namespace: &'a str,
    /// True if it is the namespace of the installation.
    pub(in crate::check) is_own: bool,
}

impl TriedPods<'_> {
    /// Returns which pods were created in the dry run, as the object of a sentence.
    fn what(&self) -> String {
        match self.class {
            "" => "pods without a priority class".to_owned(),
            class => format!("pods of priority class {class}"),
        }
    }

    /// Returns in brackets how the pods were tried: in a dry run, and why in another namespace than that of the installation.
    fn how(&self) -> &'static str {
        match self.is_own {
            true => "(dry run)",
            false => "(dry run there, because the namespace of Giveway does not exist yet)",
        }
    }
}

/// Warning: it is not known whether the namespace accepts these pods, because none could be created in a dry run. `why` is the error.
pub(in crate::check) fn pods_unknown(pods: &TriedPods<'_>, why: &str) -> Finding {
    unknown("pods", &format!("Whether namespace {} accepts {}", pods.namespace, pods.what()), why)
}

/// Error of [`pods_unknown`]: neither the namespace of Giveway nor `default` exists.
pub(in crate::check) fn no_default_namespace() -> String {
    "there is no namespace default".to_owned()
}

/// Passed: the namespace accepts the pods of Giveway, as a dry run has shown.
pub(in crate::check) fn pods_accepted(pods: &TriedPods<'_>) -> Finding {
    Finding::ok("pods", format!("Namespace {} accepts {} {}.", pods.namespace, pods.what(), pods.how()))
}

/// Failed: the API server accepted the pod of the dry run without these fields, which it does not know.
pub(in crate::check) fn fields_dropped(fields: &[&str]) -> Finding {
    let message = format!("The API server drops fields of pods that Giveway needs: {}.", fields.join(", "));
    let these = agree(fields.len(), "this feature gate", "these feature gates");
    Finding::fail("pods", message, format!("Enable {these} in the API server."))
}

/// Passed: the priority class of these pods needs a ResourceQuota in the namespace, and the chart creates it.
pub(in crate::check) fn quota_created(pods: &TriedPods<'_>) -> Finding {
    let why = if pods.is_own { "" } else { ", because the namespace of Giveway does not exist yet" };
    let message = format!(
        "A ResourceQuota is needed for {} (dry run in namespace {}{why}). The chart creates it (priorityClassQuota.enabled).",
        pods.what(),
        pods.namespace
    );
    Finding::ok("pods", message)
}

/// Failed: the priority class of these pods needs a ResourceQuota in the namespace, and the chart does not create it. `said` is the API
/// server's message.
pub(in crate::check) fn no_quota(pods: &TriedPods<'_>, said: &str) -> Finding {
    let (namespace, what) = (pods.namespace, pods.what());
    let message = format!("Namespace {namespace} accepts no {what} without a ResourceQuota for that class: {said}");
    Finding::fail("pods", message, "Install with priorityClassQuota.enabled=true, as -f values-gke.yaml does.")
}

/// Failed, or a warning for another namespace than that of the installation, which may have other rules: the pods were rejected in a
/// dry run. `said` is the API server's message.
pub(in crate::check) fn pods_rejected(pods: &TriedPods<'_>, said: &str) -> Finding {
    let message = format!("Namespace {} rejects {} {}: {said}", pods.namespace, pods.what(), pods.how());
    let remedy = "Change the values or the rule that is named here: docs/platforms.md has the values for platforms.";
    if pods.is_own { Finding::fail("pods", message, remedy) } else { Finding::warn("pods", message, remedy) }
}

/// What to do if kube-scheduler's Lease does not show that it runs.
const WITHOUT_LEASE: &str = "Set criticalAddons.schedulerLease to a Lease that does not exist, such as kube-system/none: then the \
                             decisions of kube-scheduler show that it runs.";

/// Warning: the Lease of kube-scheduler, `NAMESPACE/NAME`, could not be read. `why` is the error.
pub(in crate::check) fn scheduler_unknown(lease: &str, why: &str) -> Finding {
    unknown("scheduler", &format!("Whether Lease {lease} is renewed"), why)
}

/// Warning: the Lease of kube-scheduler, `NAMESPACE/NAME`, does not exist.
pub(in crate::check) fn no_scheduler_lease(lease: &str) -> Finding {
    Finding::warn(
        "scheduler",
        format!(
            "There is no Lease {lease}: the operator concludes from decisions of kube-scheduler that kube-scheduler runs."
        ),
        "If your scheduler has another Lease (kubectl get leases -A), name it in criticalAddons.schedulerLease; otherwise there is nothing to do.",
    )
}

/// Warning: the Lease of kube-scheduler, `NAMESPACE/NAME`, is valid for `seconds`, longer than `default`.
pub(in crate::check) fn long_scheduler_lease(lease: &str, seconds: i32, default: i32) -> Finding {
    let message = format!(
        "Lease {lease} is valid for {seconds} s, not for {default} s: kube-scheduler may renew it so rarely that the operator \
         considers kube-scheduler down between two renewals (after 6 s)."
    );
    Finding::warn("scheduler", message, WITHOUT_LEASE)
}

/// Passed: the Lease of kube-scheduler, `NAMESPACE/NAME`, was renewed in time, `age` seconds ago.
pub(in crate::check) fn scheduler_lease_renewed(lease: &str, age: i64) -> Finding {
    let message = format!("Lease {lease} of kube-scheduler can be read; it was renewed {age} s ago.");
    Finding::ok("scheduler", message)
}

/// Warning: the Lease of kube-scheduler, `NAMESPACE/NAME`, was not renewed in time.
pub(in crate::check) fn scheduler_lease_expired(lease: &str) -> Finding {
    let message = format!("Lease {lease} is not renewed: no kube-scheduler holds it.");
    Finding::warn("scheduler", message, WITHOUT_LEASE)
}

/// Where API servers reach the webhook.
#[derive(Clone, Copy, Debug)]
pub(in crate::check) enum ReviewAddress<'a> {
    /// A port of its pods.
    Pods(i64),
    /// A port of the nodes on which it runs.
    Nodes(i64),
    /// A URL.
    Url(&'a str),
}

/// What has to be opened for the requests of API servers.
#[derive(Clone, Copy, Debug)]
pub(in crate::check) enum Opening {
    /// This port in a firewall rule of a private cluster of GKE.
    GkeFirewall(i64),
    /// This port in the security group of the nodes of EKS.
    EksSecurityGroup(i64),
    /// The address, wherever it is closed.
    Anything,
}

/// Warning: which port has to be open, and for which addresses; that cannot be tested before the webhook runs. `servers` are the
/// addresses of the API servers, none if they are in no EndpointSlice, or the error. `agents` is true if konnectivity agents forward
/// their requests. `opening` is what has to be opened.
pub(in crate::check) fn network(
    webhook: ReviewAddress<'_>,
    servers: &Result<Vec<String>, String>,
    agents: bool,
    opening: Opening,
) -> Finding {
    let target = match webhook {
        ReviewAddress::Pods(port) => format!("TCP port {port} of the webhook's pods"),
        ReviewAddress::Nodes(port) => format!("TCP port {port} of the nodes on which the webhook runs"),
        ReviewAddress::Url(url) => url.to_owned(),
    };
    let servers = match servers {
        Ok(addresses) if !addresses.is_empty() => {
            format!("from {} (EndpointSlice default/kubernetes)", addresses.join(", "))
        }
        Ok(_) => "from the control plane, whose addresses are not in an EndpointSlice".to_owned(),
        Err(why) => format!("from the control plane, whose addresses are not known: {why}"),
    };
    let agents = match agents {
        true => ", or from the konnectivity-agent pods in kube-system, which pass their requests on",
        false => "",
    };
    let message = format!(
        "The API servers must reach {target} {servers}{agents}. Only an installed webhook shows whether they do."
    );
    let remedy = match opening {
        Opening::GkeFirewall(port) => format!(
            "In a private cluster install with -f values-gke.yaml, whose port is open, or create a firewall rule for port {port} from \
             the control plane to the nodes."
        ),
        Opening::EksSecurityGroup(port) => {
            format!("Allow port {port} from the cluster security group in the security group of the nodes.")
        }
        Opening::Anything => "Allow these connections in firewalls, security groups and network policies.".to_owned(),
    };
    Finding::warn("network", message, format!("{remedy} Afterwards: kubectl giveway check"))
}
