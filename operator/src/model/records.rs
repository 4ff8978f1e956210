//! The fields of objects that the planner does not need.

use crate::views::origin::{GangPod, controller};
use giveway_crds::autoscaling::{Progress, ProvisioningRequest};
use giveway_crds::{PodGroupStatus, Workload, keys};
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;

/// The fields of a PodGroup that the planner does not need.
#[derive(Clone, Debug, Default)]
pub struct GroupRecord {
    /// UID of the object.
    pub uid: SmolStr,
    /// `metadata.resourceVersion`.
    pub resource_version: SmolStr,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The last seen status, or the last written one if that is newer.
    pub status: PodGroupStatus,
    /// True if it has Giveway's finalizer.
    pub protected: bool,
    /// True if it is being deleted.
    pub deleting: bool,
    /// The template that it was created from: name of the Workload and of the template.
    pub template: Option<(String, String)>,
    /// True if Giveway created it.
    pub managed: bool,
    /// UID of the owner that it was created for because of the gang label.
    pub made_for: Option<String>,
    /// True if it belongs to a replica of that owner. The owner stays when the replica is deleted.
    pub of_replica: bool,
    /// `minCount`: number of pods that start together.
    pub min_count: Option<i32>,
    /// Time of its deletion, in seconds since the epoch.
    pub deleted: Option<i64>,
}

/// A Workload.
#[derive(Clone, Debug)]
pub struct WorkloadRecord {
    /// The last seen object.
    pub object: Workload,
}

/// The fields of a pod that the planner does not need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRecord {
    /// UID of the pod.
    pub uid: SmolStr,
    /// kube-scheduler's last message about the pod, while it is pending.
    pub scheduler_message: Option<String>,
    /// When kube-scheduler announced the preemption of the pod, in seconds since the epoch.
    pub preempted: Option<i64>,
    /// Its fields about the gang and its owner, if it has the gang label.
    pub gang: Option<Box<GangPod>>,
}

/// A ProvisioningRequest.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// Its UID.
    pub uid: SmolStr,
    /// The PodGroup that it was created for.
    pub group: ObjectKey,
    /// UID of that PodGroup.
    pub group_uid: String,
    /// True if it is being deleted.
    pub deleting: bool,
    /// Its progress.
    pub progress: Progress,
}

impl RequestRecord {
    /// Reads a ProvisioningRequest; `None` if it was not created for a PodGroup.
    pub(super) fn of(request: &ProvisioningRequest) -> Option<Self> {
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let group = request.labels().get(keys::LABEL_PROVISIONING)?;
        Some(Self {
            uid: request.uid().unwrap_or_default().into(),
            group: ObjectKey::new(namespace, group),
            group_uid: owning_group(&request.metadata)?.uid.clone(),
            deleting: request.metadata.deletion_timestamp.is_some(),
            progress: request.progress(),
        })
    }
}

/// An object that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Kind of the object.
    pub kind: &'static str,
    /// Its name.
    pub key: ObjectKey,
}

/// Returns the owner reference to the PodGroup of Giveway that controls an object.
pub(super) fn owning_group(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owner = controller(metadata.owner_references.as_deref().unwrap_or_default())?;
    let ours = owner.kind == "PodGroup" && owner.api_version.starts_with(&format!("{}/", keys::GROUP));
    ours.then_some(owner)
}
