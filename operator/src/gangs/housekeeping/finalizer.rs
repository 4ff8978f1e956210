//! The finalizer that keeps a PodGroup until its last member has terminated.

use super::Housekeeping;
use crate::messages::command::Command;
use crate::model::{GroupRecord, Model};
use giveway_planner::model::ObjectKey;
use std::time::Instant;

impl Housekeeping {
    /// Returns the call that adds the finalizer to a PodGroup with members that have not finished, or removes it from one without such
    /// members. `None` if the PodGroup is as wanted, if it is being deleted and has no finalizer, or if a call is in flight.
    pub(super) fn protect(
        &mut self,
        model: &Model,
        key: &ObjectKey,
        record: &GroupRecord,
        now: Instant,
    ) -> Option<Command> {
        let live = model.cluster.members(key).any(|p| !p.ended() && model.keeps(record, p));
        let wanted = live != record.protected && !(live && record.deleting);
        if !wanted {
            return None;
        }
        // The PodGroup is examined again until the watch shows the effect of the call, or the call is repeated.
        self.again.insert(key.clone());
        self.calls.start(Command::Protect { group: key.clone(), uid: record.uid.clone(), protect: live }, now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pass;
    use super::*;
    use crate::testing::{TestPod, World};

    #[test]
    fn a_group_has_the_finalizer_until_its_last_pod_is_deleted() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod").pod(TestPod::new("p", 0).of("g").on("n1"));
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(matches!(commands[..], [Command::Protect { protect: true, .. }]), "{commands:?}");
        world.model.groups.values_mut().for_each(|g| g.protected = true);
        world.remove_pod("p");
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(matches!(commands[..], [Command::Protect { protect: false, .. }]), "{commands:?}");
    }

    #[test]
    fn a_group_that_is_deleted_with_its_owner_does_not_stay_for_pods_of_the_next_owner() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        let of_job = |name: &str, uid: &str| {
            let pod = TestPod::new(name, 10).of("train").of_job("train").owner_uid(uid);
            pod.labelled(giveway_crds::keys::LABEL_GANG, "true")
        };
        world.made_for("train", "old", 1).pod(of_job("a", "old")).pod(of_job("b", "new"));
        let record = world.model.groups.values_mut().next().unwrap();
        (record.protected, record.deleting, record.deleted) = (true, true, Some(100));
        assert!(pass(&mut housekeeping, &mut world, now).is_empty(), "a pod of its own is there");
        world.remove_pod("a");
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(matches!(commands[..], [Command::Protect { protect: false, .. }]), "{commands:?}");
    }
}
