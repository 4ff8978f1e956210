//! Successors of gangs: when the controllers of a gang delete it and create its successor, the nodes that it freed stay reserved for the
//! successor for a minute.
//!
//! Predecessor and successor have the same top controller, such as the CronJob of two Jobs, or are one PodGroup whose pods are replaced.
//! Only pods that are deleted while they run count, and only if they were not disrupted: the nodes of a victim are for its preemptor. The
//! reservation holds against gangs of the same or a lower priority, which Giveway starts. kube-scheduler does not know it: pods without a
//! gate may be bound to these nodes.

use crate::index::Index;
use crate::model::Model;
use crate::model::freed::Freed;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::collections::BTreeMap;

/// For how many seconds after its pods have terminated the nodes of a gang are reserved.
const RESERVED: i64 = 60;
/// The number of freed pods that are remembered. The nodes of others are not reserved.
const MOST: usize = 10_000;

/// The top controllers of gangs, by UID.
#[derive(Debug, Default)]
pub struct Controllers {
    of_group: BTreeMap<ObjectKey, SmolStr>,
    groups: Index<SmolStr, ObjectKey>,
}

impl Controllers {
    /// Notes the top controller of a PodGroup. Returns true if it was not known.
    pub fn note(&mut self, group: &ObjectKey, controller: &str) -> bool {
        let is_new = self.of_group.get(group).is_none_or(|known| known != controller);
        if is_new {
            self.forget(group);
            self.of_group.insert(group.clone(), controller.into());
            self.groups.insert(controller.into(), group.clone());
        }
        is_new
    }

    /// Forgets a PodGroup.
    pub fn forget(&mut self, group: &ObjectKey) {
        if let Some(controller) = self.of_group.remove(group) {
            self.groups.remove(&controller, group);
        }
    }

    fn of(&self, group: &ObjectKey) -> Option<&SmolStr> {
        self.of_group.get(group)
    }

    /// The other PodGroups with the same top controller.
    pub fn siblings<'a>(&'a self, group: &'a ObjectKey) -> impl Iterator<Item = &'a ObjectKey> {
        let controller = self.of(group);
        controller.into_iter().flat_map(|controller| self.groups.of(controller)).filter(move |other| *other != group)
    }
}

/// The capacity of a pod that was deleted.
#[derive(Debug)]
struct Reserved {
    group: ObjectKey,
    /// The top controller of the PodGroup.
    controller: SmolStr,
    /// True if it is not the owner of the pods itself, but a controller above it.
    is_above_owner: bool,
    node: SmolStr,
    priority: i32,
    /// Until when it is reserved, in seconds since the epoch.
    until: i64,
}

/// The reservations for successors, by UID of the deleted pod.
#[derive(Debug, Default)]
pub struct Succession {
    pods: BTreeMap<SmolStr, Reserved>,
    by_node: Index<SmolStr, SmolStr>,
}

impl Succession {
    /// Notes which pods of gangs were deleted. Returns true if reservations ended: others may use the capacity.
    pub fn observe(&mut self, freed: Vec<Freed>, controllers: &Controllers, model: &Model, second: i64) -> bool {
        for event in freed {
            match event {
                Freed::Terminates { uid, group, owner, node, priority, deadline } => {
                    if let Some(controller) = controllers.of(&group).filter(|_| self.pods.len() < MOST) {
                        let (controller, until) = (controller.clone(), deadline.saturating_add(RESERVED));
                        let is_above_owner = owner != controller;
                        self.by_node.insert(node.clone(), uid.clone());
                        let reserved = Reserved { group, controller, is_above_owner, node, priority, until };
                        self.pods.insert(uid, reserved);
                    }
                }
                Freed::Terminated(uid) => {
                    if let Some(reserved) = self.pods.get_mut(&uid) {
                        reserved.until = reserved.until.min(second.saturating_add(RESERVED));
                    }
                }
            }
        }
        self.end(|reserved| reserved.until <= second || !reserved.has_successor(model))
    }

    /// Ends the reservations for a PodGroup that has a plan: its placements are reserved now. Returns true if there were any.
    pub fn succeeded(&mut self, group: &ObjectKey, controllers: &Controllers) -> bool {
        let Some(controller) = controllers.of(group) else { return false };
        self.end(|reserved| reserved.controller == *controller)
    }

    fn end(&mut self, ends: impl Fn(&Reserved) -> bool) -> bool {
        let before = self.pods.len();
        let by_node = &mut self.by_node;
        self.pods.retain(|uid, reserved| {
            let stays = !ends(reserved);
            if !stays {
                by_node.remove(&reserved.node, uid);
            }
            stays
        });
        self.pods.len() < before
    }

    /// Why a PodGroup cannot be placed on one of these nodes: it is reserved for the successor of a gang of the same or a higher priority.
    pub fn is_reserved<'a>(
        &self,
        mut nodes: impl Iterator<Item = &'a SmolStr>,
        group: &ObjectKey,
        priority: i32,
        controllers: &Controllers,
    ) -> Option<Reservation> {
        if self.pods.is_empty() {
            return None;
        }
        let own = controllers.of(group);
        nodes.find_map(|node| {
            let reserved = self.by_node.of(node).filter_map(|uid| self.pods.get(uid));
            let mut others =
                reserved.filter(|reserved| reserved.priority >= priority && own != Some(&reserved.controller));
            let Reserved { group, until, .. } = others.next()?;
            Some(Reservation { node: node.clone(), predecessor: group.clone(), until: *until })
        })
    }
}

/// A node that is reserved for the successor of a gang.
#[derive(Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The node.
    pub node: SmolStr,
    /// The PodGroup whose pods were deleted.
    pub predecessor: ObjectKey,
    /// Until when, in seconds since the epoch.
    pub until: i64,
}

impl Reserved {
    /// True if there may be a successor: a PodGroup with the same controller, or the PodGroup itself if it lacks pods.
    fn has_successor(&self, model: &Model) -> bool {
        match model.groups.get(&self.group).filter(|record| !record.deleting) {
            Some(_) => model.cluster.group(&self.group).is_some_and(|group| {
                let bound = model.cluster.members(&self.group).filter(|pod| pod.live() && pod.bound()).count();
                group.min_count.is_some_and(|min| bound + model.cluster.finished(group) < min)
            }),
            None => self.is_above_owner,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Input, Update};
    use crate::testing::{TestPod, World};

    /// When the pods begin to terminate.
    const AT: i64 = 1_767_225_600;

    /// Two gangs of Jobs below one CronJob, and one of another Job.
    struct Case {
        world: World,
        succession: Succession,
        controllers: Controllers,
    }

    impl Case {
        fn new() -> Self {
            let mut world = World::new();
            world.node("n1", 4).node("n2", 4);
            let mut controllers = Controllers::default();
            for (job, controller) in [("first", "cron"), ("second", "cron"), ("other", "uid-other")] {
                world.made_for(job, &format!("uid-{job}"), 2);
                assert!(controllers.note(&world.key(job), controller));
            }
            world.pod(member("first-0", "first")).pod(member("other-0", "other").on("n2"));
            Self { world, succession: Succession::default(), controllers }
        }

        /// Notes what happened until this second. Returns true if reservations ended.
        fn observe(&mut self, second: i64) -> bool {
            let freed = std::mem::take(&mut self.world.model.freed);
            self.succession.observe(freed, &self.controllers, &self.world.model, AT + second)
        }

        fn terminate(&mut self, pod: TestPod) {
            self.world.pod(pod.deleted(AT + 30));
        }

        /// For which group node `n1` or `n2` is reserved, and for how many seconds after [`AT`].
        fn reserved(&self, node: &str, group: &str, priority: i32) -> Option<(String, i64)> {
            let (node, group) = (node.into(), self.world.key(group));
            let found = self.succession.is_reserved([&node].into_iter(), &group, priority, &self.controllers)?;
            Some((found.predecessor.name.to_string(), found.until - AT))
        }
    }

    /// A running pod with priority 10 of the gang of a Job.
    fn member(name: &str, job: &str) -> TestPod {
        let pod = TestPod::new(name, 10).of(job).of_job(job).owner_uid(&format!("uid-{job}"));
        pod.labelled(giveway_crds::keys::LABEL_GANG, "true").on("n1")
    }

    #[test]
    fn the_node_of_a_deleted_pod_is_reserved_for_a_minute_for_groups_with_the_same_controller_or_a_higher_priority() {
        let mut case = Case::new();
        case.terminate(member("first-0", "first"));
        assert!(!case.observe(0));
        let reserved = Some(("first".to_owned(), 90));
        assert_eq!(case.reserved("n1", "other", 10), reserved, "while it terminates, and a minute longer");
        assert_eq!(case.reserved("n1", "unknown", 9), reserved);
        assert_eq!(case.reserved("n1", "other", 11), None, "a higher priority");
        assert_eq!(case.reserved("n1", "second", 10), None, "the successor");
        assert_eq!(case.reserved("n2", "other", 10), None, "another node");
        case.world.remove_pod("first-0");
        assert!(!case.observe(2));
        assert_eq!(case.reserved("n1", "other", 10), Some(("first".to_owned(), 62)), "it has terminated");
        assert!(!case.observe(61));
        assert!(case.observe(62), "others may use it");
        assert_eq!(case.reserved("n1", "other", 10), None);
    }

    #[test]
    fn the_reservation_ends_when_the_successor_has_a_plan() {
        let mut case = Case::new();
        case.terminate(member("first-0", "first"));
        case.observe(0);
        assert!(!case.succession.succeeded(&case.world.key("other"), &case.controllers));
        assert!(case.reserved("n1", "other", 10).is_some());
        assert!(case.succession.succeeded(&case.world.key("second"), &case.controllers));
        assert_eq!(case.reserved("n1", "other", 10), None);
    }

    #[test]
    fn nothing_is_reserved_for_the_pods_of_an_owner_that_is_deleted_and_has_no_controller() {
        let mut case = Case::new();
        case.terminate(member("other-0", "other").on("n2"));
        case.observe(0);
        assert!(case.reserved("n2", "first", 10).is_some(), "the Job replaces the pod");
        case.world.model.apply(Input::Group(Update::Deleted(case.world.key("other"))));
        assert!(case.observe(1));
        assert_eq!(case.reserved("n2", "first", 10), None, "the Job was deleted");
    }

    #[test]
    fn nothing_is_reserved_for_a_gang_that_has_as_many_pods_as_it_needs() {
        let mut case = Case::new();
        let other = |name: &str| member(name, "other").on("n2");
        case.world.pod(other("other-1")).pod(other("other-2"));
        case.terminate(other("other-2"));
        assert!(case.observe(0), "it was scaled down");
        case.terminate(other("other-1"));
        assert!(!case.observe(0));
        assert!(case.reserved("n2", "first", 10).is_some());
        case.world.pod(other("other-3"));
        assert!(case.observe(1), "the pod was replaced");
    }

    #[test]
    fn nothing_is_reserved_for_disrupted_and_finished_pods() {
        let mut case = Case::new();
        let words = "default-scheduler: preempting to accommodate a higher priority pod";
        case.terminate(member("first-0", "first").preempted(AT, words));
        case.terminate(member("other-0", "other").on("n2").succeeded());
        case.observe(0);
        assert_eq!((case.reserved("n1", "other", 10), case.reserved("n2", "first", 10)), (None, None));
    }
}
