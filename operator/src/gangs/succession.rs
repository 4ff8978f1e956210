//! Successors of gangs: when the controller of an owner deletes it and creates another one, the capacity that the pods of the first free
//! stays reserved for the second for a minute.
//!
//! Predecessor and successor are PodGroups whose owners have the same controller, such as two Jobs of a CronJob, or one PodGroup whose pods
//! are replaced. Only pods that are deleted while they run count, and only if they were not disrupted: the capacity of a victim is for its
//! preemptor. The reservation holds against gangs of the same or a lower priority, which Giveway starts. kube-scheduler does not know it:
//! pods without a gate may be bound to these nodes.

use crate::model::Model;
use crate::model::index::Index;
use crate::model::pod_deletions::PodDeletion;
use giveway_planner::model::{ObjectKey, Pod, ResourceId, Resources};
use giveway_planner::{Placement, SmolStr, Victim};
use std::collections::{BTreeMap, BTreeSet};

/// For how many seconds after a pod has terminated its capacity is reserved.
const RESERVED: i64 = 60;
/// For how many seconds it is reserved before that at the longest, whatever the grace period is.
const LONGEST_TERMINATION: i64 = 60;
/// Within how many seconds after a pod has terminated its owner creates a replacement, if it creates one: a suspended Job creates none.
const REPLACED: i64 = 10;
/// The number of deleted pods that are remembered. The capacity of others is not reserved.
const MOST: usize = 10_000;

/// The controllers of the owners of PodGroups: of an owner without a controller, the owner itself.
#[derive(Debug, Default)]
pub struct Controllers {
    of_group: BTreeMap<ObjectKey, ControllerKey>,
    groups: Index<ControllerKey, ObjectKey>,
}

/// A controller, by namespace of its objects and UID: an owner reference may name any UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ControllerKey {
    namespace: SmolStr,
    uid: SmolStr,
}

impl Controllers {
    /// Records the UID of the controller of the owner of a PodGroup; the owner's own if it has none.
    pub fn note(&mut self, group: &ObjectKey, uid: &str) {
        let controller = ControllerKey { namespace: group.namespace.clone(), uid: uid.into() };
        if self.of_group.get(group) != Some(&controller) {
            self.forget(group);
            self.of_group.insert(group.clone(), controller.clone());
            self.groups.insert(controller, group.clone());
        }
    }

    /// Removes the entry of a PodGroup that does not exist any more.
    pub fn forget(&mut self, group: &ObjectKey) {
        if let Some(controller) = self.of_group.remove(group) {
            self.groups.remove(&controller, group);
        }
    }

    /// Returns the controller of the owner of this PodGroup; `None` if it has not been recorded.
    fn of(&self, group: &ObjectKey) -> Option<&ControllerKey> {
        self.of_group.get(group)
    }

    /// Returns the other PodGroups whose owners have the same controller, such as two Jobs of one CronJob.
    pub fn siblings<'a>(&'a self, group: &'a ObjectKey) -> impl Iterator<Item = &'a ObjectKey> {
        let controller = self.of(group);
        controller.into_iter().flat_map(|controller| self.groups.of(controller)).filter(move |other| *other != group)
    }
}

/// The capacity of a pod that was deleted.
#[derive(Debug)]
struct ReservedCapacity {
    group: ObjectKey,
    controller: ControllerKey,
    /// True if the owner of the pods has a controller.
    is_above_owner: bool,
    node: SmolStr,
    priority: i32,
    requests: Resources,
    /// Until when it is reserved, in seconds since the epoch.
    until: i64,
}

/// The capacity that is reserved for successors, by UID of the deleted pod.
#[derive(Debug, Default)]
pub struct Succession {
    pods: BTreeMap<SmolStr, ReservedCapacity>,
    by_node: Index<SmolStr, SmolStr>,
}

impl Succession {
    /// Reserves the capacity of gang pods that terminate, for pods that replace them, and ends reservations that are too old at `second`,
    /// the time since the epoch, or that no replacement needs. Returns true if reservations ended, so that other pods may use the capacity.
    pub fn observe(
        &mut self,
        deletions: Vec<PodDeletion>,
        controllers: &Controllers,
        model: &Model,
        second: i64,
    ) -> bool {
        for deletion in deletions {
            match deletion {
                PodDeletion::Terminates { uid, group, owner, node, priority, requests, deadline } => {
                    if let Some(controller) = controllers.of(&group).filter(|_| self.pods.len() < MOST) {
                        let until = deadline.min(second.saturating_add(LONGEST_TERMINATION)).saturating_add(RESERVED);
                        let (controller, is_above_owner) = (controller.clone(), owner != controller.uid);
                        self.by_node.insert(node.clone(), uid.clone());
                        let reserved =
                            ReservedCapacity { group, controller, is_above_owner, node, priority, requests, until };
                        self.pods.insert(uid, reserved);
                    }
                }
                PodDeletion::Terminated(uid) => {
                    if let Some(reserved) = self.pods.get_mut(&uid) {
                        reserved.until = reserved.until.min(second.saturating_add(RESERVED));
                    }
                }
            }
        }
        // Whether a PodGroup lacks pods is counted once for all its pods.
        let mut wants: BTreeMap<ObjectKey, Wants> = BTreeMap::new();
        self.end_where(|reserved| {
            let is_late = second >= reserved.until - RESERVED + REPLACED;
            let group = &reserved.group;
            let has_successor = match wants.entry(group.clone()).or_insert_with(|| Wants::of(model, group)) {
                Wants::Replacements { pending } => *pending || !is_late,
                Wants::Nothing => false,
                Wants::Deleted => reserved.is_above_owner,
            };
            reserved.until <= second || !has_successor
        })
    }

    /// Ends the reservations for the PodGroup `group`, and those for PodGroups whose owners have the same controller, because a plan
    /// reserves its placements now. Returns true if there were any.
    pub fn end_for(&mut self, group: &ObjectKey, controllers: &Controllers) -> bool {
        if self.pods.is_empty() {
            return false;
        }
        let controller = controllers.of(group);
        self.end_where(|reserved| reserved.group == *group || controller == Some(&reserved.controller))
    }

    /// Ends the reservations for which `ends` returns true. Returns true if there were any.
    fn end_where(&mut self, mut ends: impl FnMut(&ReservedCapacity) -> bool) -> bool {
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

    /// Returns the first node on which `placements`, the planned ones of the PodGroup `group`, do not fit beside the capacity that is
    /// reserved for replacements of other gangs of the same or a higher priority; `None` if they fit. `victims` are the pods that the plan
    /// evicts, whose capacity is free.
    pub fn conflict(
        &self,
        model: &Model,
        controllers: &Controllers,
        group: &ObjectKey,
        placements: &[Placement],
        victims: &[Victim],
    ) -> Option<Conflict> {
        if self.pods.is_empty() {
            return None;
        }
        let victims: BTreeSet<&SmolStr> = victims.iter().flat_map(|unit| &unit.pods).map(|pod| &pod.uid).collect();
        let priority = model.priority_of(&giveway_planner::Preemptor::Group(group.clone())).unwrap_or(0);
        let own = controllers.of(group);
        let nodes: BTreeSet<&SmolStr> = placements.iter().map(|placed| &placed.node).collect();
        nodes.into_iter().find_map(|node| {
            let reserved = self.by_node.of(node).filter_map(|uid| self.pods.get(uid));
            let of_others =
                |r: &&ReservedCapacity| r.priority >= priority && r.group != *group && own != Some(&r.controller);
            let of_others: Vec<&ReservedCapacity> = reserved.filter(of_others).collect();
            let first = of_others.first()?;
            let placed = placements.iter().filter(|placed| placed.node == *node);
            let placed: Vec<&Pod> = placed.filter_map(|placed| model.cluster.pod(&placed.pod)).collect();
            let stays = |pod: &&Pod| pod.live() && !victims.contains(&pod.uid);
            let requests = model.cluster.pods_on(node).filter(stays).map(|pod| &pod.requests);
            let requests = requests.chain(of_others.iter().map(|r| &r.requests));
            let mut needed: BTreeMap<ResourceId, i128> = BTreeMap::new();
            for (id, amount) in requests.chain(placed.iter().map(|pod| &pod.requests)).flat_map(Resources::iter) {
                *needed.entry(id).or_default() += amount;
            }
            let known = model.cluster.node(node)?;
            let asked = |id: ResourceId| placed.iter().any(|pod| pod.requests.get(id) > 0);
            let is_short = needed.iter().any(|(id, amount)| asked(*id) && *amount > known.allocatable(*id));
            is_short.then(|| Conflict { node: node.clone(), predecessor: first.group.clone(), until: first.until })
        })
    }
}

/// Placements that need capacity which is reserved for the successor of a gang.
#[derive(Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The node.
    pub node: SmolStr,
    /// The PodGroup whose pods were deleted.
    pub predecessor: ObjectKey,
    /// Until when the capacity is reserved, in seconds since the epoch.
    pub until: i64,
}

/// What the PodGroup of deleted pods wants.
enum Wants {
    /// Other pods, as fewer are bound than it needs. `pending` if there are some.
    Replacements { pending: bool },
    /// No other pods.
    Nothing,
    /// It was deleted: another PodGroup is the successor, if there is one.
    Deleted,
}

impl Wants {
    /// Returns whether the PodGroup `key` needs replacements for its deleted pods.
    fn of(model: &Model, key: &ObjectKey) -> Self {
        if model.groups.get(key).is_none_or(|record| record.deleting) {
            return Self::Deleted;
        }
        let Some(group) = model.cluster.group(key) else { return Self::Deleted };
        let (mut bound, mut pending) = (0, false);
        for pod in model.cluster.members(key).filter(|pod| pod.live()) {
            bound += usize::from(pod.bound());
            pending |= !pod.bound();
        }
        match group.min_count.is_some_and(|min| bound + model.cluster.finished(group) < min) {
            true => Self::Replacements { pending },
            false => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::input::{Input, Update};
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
                controllers.note(&world.key(job), controller);
            }
            world.pod(member("first-0", "first")).pod(member("other-0", "other").on("n2"));
            Self { world, succession: Succession::default(), controllers }
        }

        /// Notes what happened until this second. Returns true if reservations ended.
        fn observe(&mut self, second: i64) -> bool {
            let deletions = std::mem::take(&mut self.world.model.pod_deletions);
            self.succession.observe(deletions, &self.controllers, &self.world.model, AT + second)
        }

        fn terminate(&mut self, pod: TestPod) {
            self.world.pod(pod.deleted(AT + 30));
        }

        /// Places pods of a gang with 1 CPU each on a node of 4 CPUs. Returns the predecessor that the capacity is reserved for, and until
        /// how many seconds after [`AT`].
        fn conflict(&mut self, node: &str, group: &str, pods: usize) -> Option<(String, i64)> {
            let names: Vec<String> = (0..pods).map(|n| format!("{group}-new-{n}")).collect();
            for name in &names {
                self.world.pod(TestPod::new(name, 10).of(group).gated());
            }
            let place = |name: &String| Placement {
                pod: self.world.key(name),
                uid: format!("uid-{name}").into(),
                node: node.into(),
            };
            let placements: Vec<Placement> = names.iter().map(place).collect();
            let (model, group) = (&self.world.model, self.world.key(group));
            let found = self.succession.conflict(model, &self.controllers, &group, &placements, &[]);
            for name in &names {
                self.world.remove_pod(name);
            }
            found.map(|found| (found.predecessor.name.to_string(), found.until - AT))
        }
    }

    /// A running pod with priority 10 of the gang of a Job.
    fn member(name: &str, job: &str) -> TestPod {
        let pod = TestPod::new(name, 10).of(job).of_job(job).owner_uid(&format!("uid-{job}"));
        pod.labelled(giveway_crds::keys::LABEL_GANG, "true").on("n1")
    }

    #[test]
    fn the_capacity_of_a_deleted_pod_is_reserved_for_a_minute_for_groups_of_the_same_controller_or_a_higher_priority() {
        let mut case = Case::new();
        case.terminate(member("first-0", "first"));
        assert!(!case.observe(0));
        let reserved = Some(("first".to_owned(), 90));
        assert_eq!(case.conflict("n1", "other", 4), reserved, "while it terminates, and a minute longer");
        assert_eq!(case.conflict("n1", "other", 3), None, "beside the reserved capacity");
        assert_eq!(case.conflict("n1", "second", 4), None, "the successor");
        assert_eq!(case.conflict("n2", "other", 3), None, "another node");
        case.world.group("higher", 2, 11, "PodGroup");
        assert_eq!(case.conflict("n1", "higher", 4), None, "a higher priority");
        case.world.remove_pod("first-0");
        case.world.model.apply(Input::Group(Update::Deleted(case.world.key("first"))));
        assert!(!case.observe(2));
        assert_eq!(case.conflict("n1", "other", 4), Some(("first".to_owned(), 62)), "it has terminated");
        assert!(!case.observe(61));
        assert!(case.observe(62), "others may use it");
        assert_eq!(case.conflict("n1", "other", 4), None);
    }

    #[test]
    fn a_long_grace_period_does_not_reserve_capacity_for_longer_than_two_minutes() {
        let mut case = Case::new();
        case.world.pod(member("first-0", "first").deleted(AT + 100_000));
        case.observe(0);
        assert_eq!(case.conflict("n1", "other", 4), Some(("first".to_owned(), 120)));
    }

    #[test]
    fn the_reservation_ends_when_the_successor_has_a_plan() {
        let mut case = Case::new();
        case.terminate(member("first-0", "first"));
        case.observe(0);
        assert!(!case.succession.end_for(&case.world.key("other"), &case.controllers));
        assert!(case.conflict("n1", "other", 4).is_some());
        assert!(case.succession.end_for(&case.world.key("second"), &case.controllers));
        assert_eq!(case.conflict("n1", "other", 4), None);
    }

    #[test]
    fn a_gang_that_lacks_pods_is_its_own_successor_while_its_owner_creates_them() {
        let mut case = Case::new();
        case.terminate(member("other-0", "other").on("n2"));
        case.observe(0);
        assert!(case.conflict("n2", "first", 4).is_some(), "the Job replaces the pod");
        assert_eq!(case.conflict("n2", "other", 4), None);
        case.controllers.forget(&case.world.key("other"));
        assert_eq!(case.conflict("n2", "other", 4), None, "also if its owner was not read again");
        case.world.remove_pod("other-0");
        assert!(!case.observe(1) && !case.observe(10));
        assert!(case.observe(11), "no replacement came: the Job is suspended, or has failed");
        assert_eq!(case.conflict("n2", "first", 4), None);
    }

    #[test]
    fn nothing_is_reserved_for_the_pods_of_an_owner_that_is_deleted_and_has_no_controller() {
        let mut case = Case::new();
        case.terminate(member("other-0", "other").on("n2"));
        case.observe(0);
        case.world.model.apply(Input::Group(Update::Deleted(case.world.key("other"))));
        assert!(case.observe(1));
        assert_eq!(case.conflict("n2", "first", 4), None, "the Job was deleted");
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
        assert!(case.conflict("n2", "first", 4).is_some());
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
        assert_eq!((case.conflict("n1", "other", 4), case.conflict("n2", "first", 4)), (None, None));
    }
}
