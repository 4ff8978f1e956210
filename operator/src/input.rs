//! What the arbiter hears: changes of objects, and what came of its calls.

use crate::devices::DeviceClass;
use crate::report::Report;
use giveway_crds::autoscaling::ProvisioningRequest;
use giveway_crds::native::{MemberPod, NativeGroup};
use giveway_crds::{PodGroup, Preemption, Workload};
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;

/// What happened to the objects of one kind.
#[derive(Debug)]
pub enum Update<K> {
    /// The complete list: whatever is not in it does not exist.
    Replaced(Vec<Update<K>>),
    /// An object was added or modified.
    Applied(Box<K>),
    /// An object is gone.
    Deleted(ObjectKey),
    /// An object exists, but cannot be decoded.
    Invalid(ObjectKey, String),
}

/// Everything the arbiter hears.
#[derive(Debug)]
pub enum Input {
    /// Namespaces: pods may name them by their labels.
    Namespace(Update<Namespace>),
    /// Nodes.
    Node(Update<Node>),
    /// Pods.
    Pod(Update<MemberPod>),
    /// Pod groups.
    Group(Update<PodGroup>),
    /// Pod groups of Kubernetes itself.
    NativeGroup(Update<NativeGroup>),
    /// Workloads.
    Workload(Update<Workload>),
    /// Priority classes.
    Class(Update<PriorityClass>),
    /// Budgets.
    Budget(Update<PodDisruptionBudget>),
    /// Volumes: they pin pods to nodes.
    Volume(Update<PersistentVolume>),
    /// Claims of volumes.
    Claim(Update<PersistentVolumeClaim>),
    /// Classes of volumes.
    StorageClass(Update<StorageClass>),
    /// Classes of devices.
    DeviceClass(Update<DeviceClass>),
    /// What cluster-autoscaler was asked; none where it is not asked.
    Request(Update<ProvisioningRequest>),
    /// The ConfigMap that switches Giveway.
    Switch(Update<ConfigMap>),
    /// Stored plans.
    Preemption(Update<Preemption>),
    /// The result of an API call of our own.
    Report(Report),
}

/// Namespace and name of an object; cluster-scoped objects have an empty namespace.
pub fn key_of<K: ResourceExt>(object: &K) -> ObjectKey {
    ObjectKey::new(object.namespace().unwrap_or_default(), object.name_any())
}
