//! PodGroups whose owner was deleted without its pods (`kubectl delete --cascade=orphan`): the garbage collector takes the owner from the
//! PodGroup as well. When another object of that name adopts the pods, as a StatefulSet does, it becomes the owner of the PodGroup, which
//! then follows its size and is deleted with it.

use super::LabelledGangs;
use crate::messages::command::Command;
use crate::model::{GroupRecord, Model};
use giveway_planner::model::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::time::Instant;

impl LabelledGangs {
    /// Adds to `commands` the call that makes `owner` the owner of the orphaned PodGroup `key`. If a live member belongs to another owner,
    /// there is no call. Returns true if the PodGroup need not be handled before it changes.
    pub(super) fn adopt(
        &mut self,
        model: &Model,
        key: &ObjectKey,
        record: &GroupRecord,
        owner: OwnerReference,
        now: Instant,
        commands: &mut Vec<Command>,
    ) -> bool {
        let mut live = model.cluster.members(key).filter(|pod| pod.live());
        if !live.all(|pod| model.gang_of(pod).is_none_or(|gang| gang.is_of(&owner.uid))) {
            return true;
        }
        let (group, uid, version) = (key.clone(), record.uid.clone(), record.resource_version.clone());
        commands.extend(self.calls.start(Command::AdoptGroup { group, uid, version, owner: Box::new(owner) }, now));
        // The PodGroup stays in `pending` until the watch shows its owner.
        false
    }
}
