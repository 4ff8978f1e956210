//! Pods of gangs that are deleted while they run, for another reason than a disruption: their controllers may create replacements.

use super::Model;
use super::preempted_by_scheduler::disruption_target;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Resources};
use k8s_openapi::api::core::v1::Pod;

/// A change of a pod of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodDeletion {
    /// The pod is terminating.
    Terminates {
        /// UID of the pod.
        uid: SmolStr,
        /// Its PodGroup.
        group: ObjectKey,
        /// UID of its owner.
        owner: SmolStr,
        /// Its node.
        node: SmolStr,
        /// Its effective priority.
        priority: i32,
        /// Its requests.
        requests: Resources,
        /// The end of its grace period, in seconds since the epoch.
        deadline: i64,
    },
    /// The pod with this UID no longer exists.
    Terminated(SmolStr),
}

/// Maximum number of events between two passes. Before every kind is listed no pass handles them, and further events are ignored.
const MOST: usize = 10_000;

impl Model {
    /// Records for the next pass that a pod is terminating, if it is a bound pod of a labelled gang and not the victim of a disruption.
    /// `object` is its new state, which the model already has; `deadline` is the end of its grace period, in seconds since the epoch.
    pub(super) fn note_terminating(&mut self, key: &ObjectKey, object: &Pod, deadline: i64) {
        let Some(pod) = self.cluster.pod(key).filter(|pod| pod.terminating && !pod.ended()) else { return };
        let owner = self.gang_of(pod).and_then(|gang| gang.origin.uid.as_deref());
        if let (Some(group), Some(owner), Some(node), false) =
            (pod.group_key(), owner, &pod.node, disruption_target(object).is_some())
        {
            let (uid, priority) = (pod.uid.clone(), self.cluster.effective_priority(pod));
            let (owner, node, requests) = (owner.into(), node.clone(), pod.requests.clone());
            self.note_pod_deletion(PodDeletion::Terminates { uid, group, owner, node, priority, requests, deadline });
        }
    }

    /// Records a change of a deleted pod for the next pass. It is ignored if [`MOST`] are recorded already.
    pub(super) fn note_pod_deletion(&mut self, event: PodDeletion) {
        if self.pod_deletions.len() < MOST {
            self.pod_deletions.push(event);
        }
    }
}
