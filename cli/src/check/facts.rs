//! Observed state of an installation: plain values, collected by [`super::gather`] and evaluated by [`super::judge`].

use giveway_crds::breaker::OpenBreakers;
use giveway_crds::mode::Mode;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A value that was read from the API server, or the error why it could not be read.
pub(super) type ReadResult<T> = Result<T, String>;

/// Everything that the checks read.
#[derive(Clone, Debug)]
pub(super) struct Installation {
    /// Version of this program.
    pub(super) version: String,
    /// Namespace of the installation.
    pub(super) namespace: String,
    /// Current time.
    pub(super) now: Timestamp,
    /// Resources that are served in Giveway's API group.
    pub(super) resources: ReadResult<BTreeSet<String>>,
    /// Result of creating a managed PriorityClass in a dry run.
    pub(super) admission: AdmissionState,
    /// The mutating webhook configuration.
    pub(super) mutating: ReadResult<Option<WebhookConfiguration>>,
    /// The validating webhook configuration.
    pub(super) validating: ReadResult<Option<WebhookConfiguration>>,
    /// The chart's ValidatingAdmissionPolicies, each with the actions of its bindings.
    pub(super) policies: ReadResult<BTreeMap<String, BTreeSet<String>>>,
    /// The component that renews the webhook's certificate.
    pub(super) renewer: Renewer,
    /// Name of the Secret with the webhook's certificate.
    pub(super) secret: String,
    /// The certificate (PEM) in that Secret.
    pub(super) serving: ReadResult<Option<Vec<u8>>>,
    /// The chart's Deployments.
    pub(super) deployments: ReadResult<Vec<Deployment>>,
    /// The operator's Lease.
    pub(super) lease: ReadResult<Option<Lease>>,
    /// The mode in ConfigMap `giveway-mode`.
    pub(super) switched: ReadResult<Switched>,
    /// The mode in the operator's Deployment, or `None` if there is no such Deployment.
    pub(super) chart_mode: Option<Mode>,
    /// The port of the webhook's pods, or `None` if there is no such Deployment.
    pub(super) port: Option<u16>,
    /// Versions of the in-tree API that serve PodGroups.
    pub(super) in_tree: ReadResult<Vec<String>>,
    /// The cluster autoscalers whose APIs are served.
    pub(super) autoscalers: ReadResult<Vec<Autoscaler>>,
    /// How the operator requests capacity from them, according to its Deployment; `None` if it does not or if that is
    /// unknown.
    pub(super) provisioning: Option<String>,
    /// PriorityClasses that carry annotations of the plugin PreemptionToleration (scheduler-plugins).
    pub(super) tolerations: ReadResult<Vec<DisruptionToleration>>,
    /// Unfinished changes of PriorityClasses.
    pub(super) interrupted: ReadResult<Vec<Interrupted>>,
    /// Number of pods with Giveway's scheduling gate.
    pub(super) gated: ReadResult<usize>,
    /// PriorityClasses, and pods with a threshold and a budget.
    pub(super) exposure: ReadResult<Exposure>,
    /// The open circuit breakers.
    pub(super) breakers: ReadResult<OpenBreakers>,
}

/// A cluster autoscaler, detected by its API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Autoscaler {
    /// cluster-autoscaler, or another one that reads ProvisioningRequests.
    ProvisioningRequests,
    /// Karpenter.
    Karpenter,
}

/// The content of ConfigMap `giveway-mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Switched {
    /// The ConfigMap does not exist.
    No,
    /// A valid mode.
    To(Mode),
    /// An invalid value, with the error.
    Wrong(String),
}

/// Result of creating a managed PriorityClass in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AdmissionState {
    /// The webhook filled in the class.
    Answers,
    /// The class was accepted unchanged: no webhook answered.
    Silent,
    /// The class was rejected, with this message.
    Fails(String),
    /// The user may not create PriorityClasses; the error.
    Unknown(String),
}

/// The component that renews the webhook's certificate and writes the CA bundle that API servers trust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Renewer {
    /// The operator.
    Operator,
    /// cert-manager.
    CertManager,
    /// A person, or an unknown component.
    #[default]
    Other,
}

/// A webhook configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct WebhookConfiguration {
    /// The chart's version.
    pub(super) version: Option<String>,
    /// The certificates (PEM) that the API server trusts: the distinct CA bundles of the webhooks.
    pub(super) bundles: BTreeSet<Vec<u8>>,
    /// True if one of its webhooks is called for deletions of pods.
    pub(super) guard: bool,
    /// The component that writes the CA bundles.
    pub(super) renewer: Renewer,
}

/// A Deployment of the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deployment {
    /// Its name.
    pub(super) name: String,
    /// The tag of its image, or else the version in its label.
    pub(super) version: Option<String>,
}

/// The operator's Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    /// Its name.
    pub(super) name: String,
    /// The holder; empty if no replica holds it.
    pub(super) holder: String,
    /// Time of the last renewal.
    pub(super) renewed: Option<Timestamp>,
    /// Seconds of validity after the last renewal.
    pub(super) seconds: i32,
}

/// An unfinished change of a PriorityClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interrupted {
    /// `adopt` or `release`.
    pub(super) change: String,
    /// The class.
    pub(super) class: String,
}

/// PriorityClasses that may preempt, and pods that other schedulers could preempt against their budget.
#[derive(Clone, Debug, Default)]
pub(super) struct Exposure {
    /// All PriorityClasses.
    pub(super) classes: Vec<ClassSummary>,
    /// The pods with a threshold that a budget selects.
    pub(super) guarded: Vec<GuardedPod>,
}

/// A priority class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassSummary {
    /// Its name; empty for pods without a class.
    pub(super) name: String,
    /// Its value.
    pub(super) value: i32,
    /// True if it is annotated as managed.
    pub(super) managed: bool,
    /// True if kube-scheduler preempts for its pods.
    pub(super) preempts: bool,
}

/// A pod with a threshold, on a node, that a budget selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GuardedPod {
    /// Its namespace.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
    /// Its priority.
    pub(super) priority: i32,
    /// Priority from which on a preemptor may violate its budgets.
    pub(super) threshold: i32,
    /// The names of the budgets that select it.
    pub(super) budgets: Vec<String>,
}

/// Annotations of a PriorityClass for the plugin PreemptionToleration (scheduler-plugins).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DisruptionToleration {
    /// Name of the class.
    pub(super) class: String,
    /// Minimum preemptor priority, as written; `None` if not set.
    pub(super) minimum: Option<String>,
    /// Seconds after scheduling during which the toleration holds, as written.
    pub(super) seconds: Option<String>,
    /// Giveway's threshold of the class, as written.
    pub(super) threshold: Option<String>,
}
