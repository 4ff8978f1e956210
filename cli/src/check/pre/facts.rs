//! What is read from a cluster before an installation: plain values, collected by [`super::gather`] and evaluated by
//! [`super::judge`].

use crate::check::facts::{Autoscaler, Lease, ReadResult};
use k8s_openapi::jiff::Timestamp;

/// Everything that the checks before an installation read.
#[derive(Clone, Debug)]
pub(super) struct ClusterState {
    /// Current time.
    pub(super) now: Timestamp,
    /// Version of the API server, such as `v1.33.4-gke.1134000`.
    pub(super) version: ReadResult<String>,
    /// The platform, if it is one with a values file.
    pub(super) platform: Option<Platform>,
    /// APIs that the chart needs and that are not served.
    pub(super) missing: ReadResult<Vec<String>>,
    /// The result of creating a pod of each priority class of the chart in a dry run.
    pub(super) pods: Vec<ProbePod>,
    /// kube-scheduler's Lease.
    pub(super) lease: ReadResult<Option<Lease>>,
    /// Addresses of the API servers in the EndpointSlices of Service `default/kubernetes`.
    pub(super) servers: ReadResult<Vec<String>>,
    /// True if pods of a konnectivity agent run in `kube-system`: API servers can reach pods through them.
    pub(super) agents: ReadResult<bool>,
    /// True if the DaemonSet of Amazon VPC CNI exists.
    pub(super) vpc_cni: ReadResult<bool>,
    /// Versions of the in-tree API that serve PodGroups.
    pub(super) in_tree: ReadResult<Vec<String>>,
    /// The cluster autoscalers whose APIs are served.
    pub(super) autoscalers: ReadResult<Vec<Autoscaler>>,
}

/// A platform with a values file in the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Platform {
    /// Azure Kubernetes Service.
    Aks,
    /// Amazon Elastic Kubernetes Service.
    Eks,
    /// Google Kubernetes Engine.
    Gke,
    /// OpenShift.
    OpenShift,
}

impl Platform {
    /// Returns the name of the platform as sentences have it: `AKS`, `EKS`, `GKE` or `OpenShift`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Aks => "AKS",
            Self::Eks => "EKS",
            Self::Gke => "GKE",
            Self::OpenShift => "OpenShift",
        }
    }
}

/// A pod that was created in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbePod {
    /// Its priority class; empty for none.
    pub(super) class: String,
    /// Its namespace: that of the installation, or `default` if that does not exist.
    pub(super) namespace: String,
    /// True if it is the namespace of the installation.
    pub(super) is_own: bool,
    /// The result.
    pub(super) outcome: DryRunResult,
}

/// Result of creating a pod in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DryRunResult {
    /// It was accepted, without these fields, which the API server dropped.
    Accepted(Vec<&'static str>),
    /// Its class needs a ResourceQuota, says the API server.
    NeedsQuota(String),
    /// It was rejected, with this message.
    Rejected(String),
    /// The user may not create pods; the error.
    Unknown(String),
}
