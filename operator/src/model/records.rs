//! The fields of objects that the planner does not need.

use crate::views::origin::{GangPod, controller};
use giveway_crds::autoscaling::{Progress, ProvisioningRequest};
use giveway_crds::{PodGroupStatus, keys};
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::Pod as PodObject;
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
    /// True if Giveway created it because of the gang label and it has no owner any more: that was deleted without its pods.
    pub orphaned: bool,
    /// `minCount`: number of pods that start together.
    pub min_count: Option<i32>,
    /// Time of its deletion, in seconds since the epoch.
    pub deleted: Option<i64>,
}

/// The fields of a pod that the planner does not need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRecord {
    /// UID of the pod.
    pub uid: SmolStr,
    /// What kube-scheduler last reported about the pod, while it is pending.
    pub report: Option<SchedulerReport>,
    /// Hash of the template that it was made from, while it is pending.
    pub template: Option<SmolStr>,
    /// When kube-scheduler announced the preemption of the pod, in seconds since the epoch.
    pub preempted: Option<i64>,
    /// Its fields about the gang and its owner, if it has the gang label.
    pub gang: Option<Box<GangPod>>,
}

/// What kube-scheduler wrote into the condition `PodScheduled=False` of a pending pod, or of one that it could not bind. It writes the
/// condition only when reason or message change, and keeps `lastTransitionTime` while the pod is pending: another attempt with the same
/// result leaves no trace. While a pod has a scheduling gate, the API server has set the condition, which is not a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerReport {
    /// Its message.
    pub message: String,
    /// True if its reason is `SchedulerError`: the pod had a feasible node, and could not be bound to it.
    pub is_error: bool,
    /// [`Model::scheduler_decisions`](super::Model::scheduler_decisions) when the report was observed; 0 if it existed before.
    pub decision: u64,
}

impl SchedulerReport {
    /// Reads from a pod what kube-scheduler last reported about it; `None` if the pod is bound, has a scheduling gate, or was not reported.
    pub(super) fn of(pod: &PodObject) -> Option<Self> {
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            return None;
        }
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
        let reason = scheduled.reason.as_deref();
        (reason != Some("SchedulingGated")).then(|| Self {
            message: scheduled.message.clone().unwrap_or_default(),
            is_error: reason == Some("SchedulerError"),
            decision: 0,
        })
    }

    /// Returns true if two reports have the same message and both or neither are errors, whenever they were made.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        (&self.message, self.is_error) == (&other.message, other.is_error)
    }
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
pub struct InvalidObject {
    /// Kind of the object.
    pub kind: &'static str,
    /// Its name.
    pub key: ObjectKey,
}

/// Returns the owner reference to the PodGroup of Giveway that controls an object; `None` if its controller is none.
pub(super) fn owning_group(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owner = controller(metadata.owner_references.as_deref().unwrap_or_default())?;
    let ours = owner.kind == "PodGroup" && owner.api_version.starts_with(&format!("{}/", keys::GROUP));
    ours.then_some(owner)
}
