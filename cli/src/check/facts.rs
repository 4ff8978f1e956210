//! What is known of an installation: plain values, gathered by [`super::gather`] and judged by [`super::judge`].

use giveway_crds::mode::Mode;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Something, or why it is not known.
pub(super) type Known<T> = Result<T, String>;

/// Everything that is looked at.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Version of this program.
    pub(super) version: String,
    /// Namespace of the installation.
    pub(super) namespace: String,
    /// Now.
    pub(super) now: Timestamp,
    /// Resources that are served in Giveway's API group.
    pub(super) resources: Known<BTreeSet<String>>,
    /// What became of a managed class that was tried out.
    pub(super) admission: Admission,
    /// The mutating webhook configuration.
    pub(super) mutating: Known<Option<Configuration>>,
    /// The validating webhook configuration.
    pub(super) validating: Known<Option<Configuration>>,
    /// The chart's ValidatingAdmissionPolicies, and what their bindings do.
    pub(super) policies: Known<BTreeMap<String, BTreeSet<String>>>,
    /// Who renews the webhook's certificate.
    pub(super) renewer: Renewer,
    /// Name of the Secret with the webhook's certificate.
    pub(super) secret: String,
    /// The certificate (PEM) in it.
    pub(super) serving: Known<Option<Vec<u8>>>,
    /// The chart's Deployments.
    pub(super) deployments: Known<Vec<Deployment>>,
    /// The operator's Lease.
    pub(super) lease: Known<Option<Lease>>,
    /// What the ConfigMap that switches Giveway says.
    pub(super) switched: Known<Switched>,
    /// The mode that the operator's Deployment says; `None` where there is none.
    pub(super) chart_mode: Option<Mode>,
    /// Versions of the in-tree API in which PodGroups are served.
    pub(super) in_tree: Known<Vec<String>>,
    /// The autoscalers that can be asked here.
    pub(super) autoscalers: Known<Vec<Autoscaler>>,
    /// How they are asked, by the operator's Deployment; nothing where they are not, or it is not known.
    pub(super) provisioning: Option<String>,
    /// Classes that say by whom their pods cannot be preempted, to a plugin of scheduler-plugins.
    pub(super) tolerations: Known<Vec<Toleration>>,
    /// Changes of classes that were begun and not finished.
    pub(super) interrupted: Known<Vec<Interrupted>>,
    /// How many pods Giveway's gate holds.
    pub(super) held: Known<usize>,
    /// Priority classes and guarded pods.
    pub(super) exposure: Known<Exposure>,
}

/// An autoscaler, by the kinds that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Autoscaler {
    /// cluster-autoscaler, or another one that reads ProvisioningRequests.
    ProvisioningRequests,
    /// Karpenter.
    Karpenter,
}

/// What the ConfigMap that switches Giveway says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Switched {
    /// There is none.
    No,
    /// A mode.
    To(Mode),
    /// Something else; what is wrong with it.
    Wrong(String),
}

/// What became of a managed class that was tried out in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It was filled in.
    Answers,
    /// It was accepted as it was.
    Silent,
    /// It was refused, in these words.
    Fails(String),
    /// This user may not try it.
    Unknown(String),
}

/// Who renews the webhook's certificate and tells API servers whom to trust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Renewer {
    /// The operator.
    Operator,
    /// cert-manager.
    CertManager,
    /// A person, or something that is not known here.
    #[default]
    Somebody,
}

/// A webhook configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Configuration {
    /// The chart's version.
    pub(super) version: Option<String>,
    /// The certificates (PEM) that the API server trusts; one each of the webhooks' bundles that differ.
    pub(super) bundles: BTreeSet<Vec<u8>>,
    /// Whether one of its webhooks is asked about deletions of pods.
    pub(super) guard: bool,
    /// Who writes the bundles.
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
    /// Who holds it; empty for nobody.
    pub(super) holder: String,
    /// When it was renewed.
    pub(super) renewed: Option<Timestamp>,
    /// For how many seconds it is valid after that.
    pub(super) seconds: i32,
}

/// A change of a class that was begun and not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interrupted {
    /// `adopt` or `release`.
    pub(super) change: String,
    /// The class.
    pub(super) class: String,
}

/// Who may preempt, and who may be preempted wrongly.
#[derive(Clone, Debug, Default)]
pub(super) struct Exposure {
    /// All classes.
    pub(super) classes: Vec<Class>,
    /// The pods with a threshold that a budget selects.
    pub(super) guarded: Vec<GuardedPod>,
}

/// A priority class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// Its name; empty for pods without a class.
    pub(super) name: String,
    /// Its value.
    pub(super) value: i32,
    /// Whether it is annotated as a managed one.
    pub(super) managed: bool,
    /// Whether kube-scheduler preempts for it.
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
    /// From which priority on its budgets may be violated.
    pub(super) threshold: i32,
    /// The names of the budgets that select it.
    pub(super) budgets: Vec<String>,
}

/// What a PriorityClass says to the plugin PreemptionToleration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Toleration {
    /// Name of the class.
    pub(super) class: String,
    /// From which priority on its pods may be preempted, as it is written; `None` where it does not say.
    pub(super) minimum: Option<String>,
    /// For how many seconds after they were scheduled that holds, as it is written.
    pub(super) seconds: Option<String>,
    /// Giveway's threshold of the class, as it is written.
    pub(super) threshold: Option<String>,
}
