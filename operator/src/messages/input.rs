//! The input of the arbiter: changes of objects, and results of API calls.

use crate::messages::report::Report;
use giveway_crds::autoscaling::ProvisioningRequest;
use giveway_crds::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use giveway_crds::native::{MemberPod, NativeGroup};
use giveway_crds::{PodGroup, Preemption, Workload};
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use kube::ResourceExt;

/// A change of the objects of one kind.
#[derive(Debug)]
pub enum Update<K> {
    /// A list begins. Its objects follow one by one.
    Started,
    /// The list is complete: an object that was not in it does not exist.
    Complete,
    /// A list at once, from its beginning to its end.
    Replaced(Vec<Update<K>>),
    /// An object was added or modified.
    Applied(Box<K>),
    /// An object was deleted.
    Deleted(ObjectKey),
    /// An object exists, but cannot be decoded.
    Invalid(ObjectKey, String),
}

/// One input of the arbiter.
#[derive(Debug)]
pub enum Input {
    /// Namespaces, whose labels pods may select.
    Namespace(Update<Namespace>),
    /// Nodes.
    Node(Update<Node>),
    /// Pods.
    Pod(Update<MemberPod>),
    /// Pod groups.
    Group(Update<PodGroup>),
    /// Kubernetes' own PodGroups (scheduling.k8s.io).
    NativeGroup(Update<NativeGroup>),
    /// Workloads.
    Workload(Update<Workload>),
    /// Priority classes.
    Class(Update<PriorityClass>),
    /// PodDisruptionBudgets.
    Budget(Update<PodDisruptionBudget>),
    /// PersistentVolumes, which can restrict pods to nodes.
    Volume(Update<PersistentVolume>),
    /// PersistentVolumeClaims.
    Claim(Update<PersistentVolumeClaim>),
    /// StorageClasses.
    StorageClass(Update<StorageClass>),
    /// CSIDrivers, which say whether the capacity of storage is limited.
    CsiDriver(Update<CSIDriver>),
    /// CSINodes, which say how many volumes a node can attach.
    CsiNode(Update<CSINode>),
    /// DeviceClasses.
    DeviceClass(Update<DeviceClass>),
    /// ResourceSlices, which say how many devices a node has.
    ResourceSlice(Update<ResourceSlice>),
    /// ResourceClaims, which ask for devices or have some.
    ResourceClaim(Update<ResourceClaim>),
    /// ProvisioningRequests; an empty list if they are not used.
    Request(Update<ProvisioningRequest>),
    /// The ConfigMap that sets Giveway's mode.
    Switch(Update<ConfigMap>),
    /// Stored plans.
    Preemption(Update<Preemption>),
    /// The result of one of the operator's API calls.
    Report(Report),
    /// A request to write the state of the operator to its log.
    Dump,
}

impl Input {
    /// Returns the kind of the objects in an update of a watch; `None` for the other inputs.
    pub fn kind(&self) -> Option<&'static str> {
        Some(match self {
            Self::Namespace(_) => "Namespace",
            Self::Node(_) => "Node",
            Self::Pod(_) => "Pod",
            Self::Group(_) => "PodGroup",
            Self::NativeGroup(_) => "PodGroup.scheduling.k8s.io",
            Self::Workload(_) => "Workload",
            Self::Class(_) => "PriorityClass",
            Self::Budget(_) => "PodDisruptionBudget",
            Self::Volume(_) => "PersistentVolume",
            Self::Claim(_) => "PersistentVolumeClaim",
            Self::StorageClass(_) => "StorageClass",
            Self::CsiDriver(_) => "CSIDriver",
            Self::CsiNode(_) => "CSINode",
            Self::DeviceClass(_) => "DeviceClass",
            Self::ResourceSlice(_) => "ResourceSlice",
            Self::ResourceClaim(_) => "ResourceClaim",
            Self::Request(_) => "ProvisioningRequest",
            Self::Switch(_) => "ConfigMap",
            Self::Preemption(_) => "Preemption",
            Self::Report(_) | Self::Dump => return None,
        })
    }
}

/// Returns namespace and name of an object; the namespace of a cluster-scoped object is empty.
pub fn key_of<K: ResourceExt>(object: &K) -> ObjectKey {
    ObjectKey::new(object.namespace().unwrap_or_default(), object.name_any())
}
