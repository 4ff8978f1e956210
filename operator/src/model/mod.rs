//! The state of the cluster in memory: the planner's cluster, and the objects that only the controllers need ([stored plans](plans),
//! statuses, workloads). [`Input`](crate::messages::input::Input)s update it and the arbiter reads it; it makes no call and no decision.

mod apply;
pub mod changed;
#[cfg(test)]
#[path = "tests/devices.rs"]
mod devices_tests;
#[cfg(test)]
mod fields_tests;
pub mod index;
mod marks;
pub mod pending;
pub mod plans;
pub mod pod_deletions;
pub mod preempted_by_scheduler;
mod records;
pub mod scheduler;
mod standby;
mod template_hash;
mod unknown_groups;

pub use records::{GroupRecord, InvalidObject, PodRecord, RequestRecord, SchedulerReport};

use crate::limits::bans::BanSubject;
use crate::limits::switch::ModeConfig;
use crate::model::changed::ChangedObjects;
use crate::model::index::Index;
use crate::model::marks::Marks;
use crate::model::pending::Pending;
use crate::model::plans::Plans;
use crate::model::pod_deletions::PodDeletion;
use crate::model::preempted_by_scheduler::PreemptedByScheduler;
use crate::model::unknown_groups::PodsOfUnknownGroups;
use crate::views::correction::{Correction, Since};
use crate::views::origin::GangPod;
use giveway_crds::Workload;
use giveway_crds::ban::BannedController;
use giveway_crds::pod_group::PreemptedPod;
use giveway_crds::wording::conditions::disruption;
use giveway_crds::workload::ControllerRef;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};

/// Number of watched kinds.
const KINDS: usize = 19;
/// The kind that only a leader watches.
const STORED_PLANS: &str = "Preemption";

/// The state of the cluster in memory.
#[derive(Debug, Default)]
pub struct Model {
    /// The planner's state.
    pub cluster: Cluster,
    /// PodGroups.
    pub groups: BTreeMap<ObjectKey, GroupRecord>,
    /// Workloads.
    pub workloads: BTreeMap<ObjectKey, Workload>,
    /// The PodGroups that were created from the templates of each Workload.
    templated: Index<ObjectKey, ObjectKey>,
    /// Pods with fields that the planner does not need.
    pub pods: BTreeMap<ObjectKey, PodRecord>,
    /// UIDs of terminating pods, and the end of their grace period, in seconds since the epoch.
    pub deadlines: BTreeMap<ObjectKey, (SmolStr, i64)>,
    /// UIDs of nodes, by name.
    pub nodes: BTreeMap<SmolStr, SmolStr>,
    /// Number of observed decisions of kube-scheduler: bindings, and new reports about pending pods.
    pub scheduler_decisions: u64,
    /// Number of observed bindings.
    pub scheduler_bindings: u64,
    /// Stored plans.
    pub plans: Plans,
    /// The ProvisioningRequests for cluster-autoscaler.
    pub requests: BTreeMap<ObjectKey, RequestRecord>,
    /// UIDs of placeholder pods, by PodGroup and pod. They make a cluster autoscaler add nodes for a gang.
    placeholders: BTreeMap<ObjectKey, BTreeMap<ObjectKey, SmolStr>>,
    /// The content of the ConfigMap with Giveway's mode.
    pub said: ModeConfig,
    /// Objects that cannot be used, with the reason.
    pub problems: BTreeMap<InvalidObject, String>,
    /// Problems that have not been logged yet.
    pub new_problems: Vec<(InvalidObject, String)>,
    /// PodGroups that changed since the last pass.
    pub touched: BTreeSet<ObjectKey>,
    /// Workloads that changed since the last pass.
    pub touched_workloads: BTreeSet<ObjectKey>,
    /// Pods that have other annotations than their class gives, or lack them: admission did not see them as they are stored.
    pub corrections: BTreeMap<ObjectKey, Correction>,
    /// Nodes with an outage, and since when they are not ready, in seconds since the epoch.
    outages: BTreeMap<SmolStr, i64>,
    /// Pods that kube-scheduler preempted since the last pass, by UID.
    pub preempted_by_scheduler: BTreeMap<SmolStr, PreemptedByScheduler>,
    /// Marks of preempted pods in the status of PodGroups.
    marks: Marks,
    /// Changes of deleted pods of gangs since the last pass.
    pub pod_deletions: Vec<PodDeletion>,
    /// UIDs of existing pods whose preemption by kube-scheduler has been recorded: each is recorded once.
    terminating_for_scheduler: BTreeSet<SmolStr>,
    /// PodGroups that were deleted, or replaced by one of the same name.
    pub namesakes: Vec<ObjectKey>,
    /// Increases when there may be a new preemptor: a PodGroup changed, or a pending pod.
    pub arrivals: u64,
    /// Increases with every change that may affect a decision.
    pub version: u64,
    /// The changes since the last pass on which a plan in flight may depend.
    pub changes: ChangedObjects,
    /// The live pods without a node.
    pub pending: Pending,
    overdue: BTreeSet<SmolStr>,
    unknown_groups: PodsOfUnknownGroups,
    classes: BTreeMap<SmolStr, Since>,
    /// The kinds of which a list is in progress, with the objects that are known and have not been in it yet: they may not be up to date.
    listing: BTreeMap<&'static str, BTreeSet<ObjectKey>>,
    synced: BTreeSet<&'static str>,
    namespaces: BTreeSet<SmolStr>,
}

impl Model {
    /// Creates an empty model. `protected` are the namespaces in which no pod is evicted; `served` selects the namespaces in which groups
    /// are scheduled by Giveway, all if it is `None`.
    pub fn of(protected: BTreeSet<String>, served: Option<&LabelSelector>) -> Self {
        let mut model = Self::default();
        model.cluster.protect_namespaces(protected);
        model.cluster.serve_groups_in(served);
        model
    }

    /// Returns true if every watched kind has been listed once, the stored plans included. Nothing is decided before.
    pub fn synced(&self) -> bool {
        self.synced.len() == KINDS
    }

    /// Returns true if every kind that a standby watches has been listed once: all but the stored plans.
    pub fn knows_cluster(&self) -> bool {
        self.synced.iter().filter(|kind| **kind != STORED_PLANS).count() == KINDS - 1
    }

    /// Returns true while the watch of a kind lists its objects: the model has only a part of the list, and may have objects that do not
    /// exist any more. Nothing is decided before the list is complete.
    pub fn is_listing(&self) -> bool {
        !self.listing.is_empty()
    }

    /// Returns the UID of a preemptor, a PodGroup or a single pod; `None` if it does not exist.
    pub fn uid_of(&self, preemptor: &Preemptor) -> Option<&SmolStr> {
        match preemptor {
            Preemptor::Group(key) => self.groups.get(key).map(|group| &group.uid),
            Preemptor::Pod(key) => self.cluster.pod(key).map(|pod| &pod.uid),
        }
    }

    /// Returns the priority with which a preemptor preempts, a PodGroup or a single pod; `None` if it does not exist.
    pub fn priority_of(&self, preemptor: &Preemptor) -> Option<i32> {
        match preemptor {
            Preemptor::Group(key) => self.cluster.group(key).map(|group| group.priority),
            Preemptor::Pod(key) => self.cluster.pod(key).map(|pod| self.cluster.effective_priority(pod)),
        }
    }

    /// Returns the priority from which on a preemptor may violate the PodDisruptionBudgets of a pod; `None` if no priority suffices. It is
    /// the one that the pod's annotation has after a correction that is due.
    pub fn threshold(&self, pod: &Pod) -> Option<i32> {
        match self.corrections.get(&pod.key) {
            Some(correction) => correction.threshold(pod.threshold),
            None => pod.threshold,
        }
    }

    /// Returns which of these pods would, if they were evicted one after the other, leave a PodDisruptionBudget with fewer healthy pods
    /// than it wants: their UIDs, each with the reason as a sentence. Healthy pods are counted in the model, because the status of a
    /// budget, which the Eviction API uses, lags behind deletions. `claimed` is the number of healthy pods of each budget that plans of
    /// higher priority evict.
    pub fn budget_violations<'p>(
        &self,
        pods: impl Iterator<Item = &'p Pod>,
        claimed: &BTreeMap<ObjectKey, usize>,
    ) -> BTreeMap<SmolStr, String> {
        let mut left: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        let mut breaches = BTreeMap::new();
        for pod in pods.filter(|pod| pod.ready) {
            for budget in self.cluster.budgets_of(pod).into_iter().filter(|budget| budget.counts(pod)) {
                let healthy = left.entry(&budget.key).or_insert_with(|| self.cluster.healthy_under(budget).count());
                let (name, wanted, has) = (&budget.key.name, budget.desired_healthy, *healthy);
                *healthy = has.saturating_sub(1);
                let claimed = claimed.get(&budget.key).copied().unwrap_or(0);
                if i64::try_from(has.saturating_sub(claimed)).unwrap_or(i64::MAX) <= i64::from(wanted) {
                    let why = disruption::budget_violated(name, wanted, has, claimed);
                    breaches.insert(pod.uid.clone(), why);
                }
            }
        }
        breaches
    }

    /// Returns what a pod with the gang label says about its gang and its owner; `None` for other pods.
    pub fn gang_of(&self, pod: &Pod) -> Option<&GangPod> {
        self.pods.get(&pod.key).filter(|record| record.uid == pod.uid)?.gang.as_deref()
    }

    /// Returns true if the finalizer must keep the PodGroup until its member `pod` has terminated. A PodGroup that is deleted with its
    /// owner is not kept for pods of the next owner of that name: they get a PodGroup of their own as soon as this one has been removed.
    pub fn keeps(&self, group: &GroupRecord, pod: &Pod) -> bool {
        let (Some(owner), Some(deleted), Some(gang)) = (&group.made_for, group.deleted, self.gang_of(pod)) else {
            return true;
        };
        match &gang.origin.uid {
            Some(uid) => uid == owner,
            None => pod.existed_at(deleted),
        }
    }

    /// Returns true if a PodGroup was created because of the gang label, and has live members of another owner than the one it was created
    /// for. Then it is deleted with that owner, and these members get their own PodGroup when the last pod of the earlier owner has
    /// terminated.
    pub fn has_members_of_another_owner(&self, key: &ObjectKey) -> bool {
        let Some(group) = self.groups.get(key) else { return false };
        let Some(owner) = &group.made_for else { return false };
        let is_its_own = |pod: &Pod| {
            let of_owner = self.gang_of(pod).is_none_or(|gang| gang.is_of(owner));
            of_owner && (!group.deleting || self.keeps(group, pod))
        };
        self.cluster.members(key).any(|pod| pod.live() && !is_its_own(pod))
    }

    /// Returns the hash of the pod template that this pending pod was made from; `None` for a bound pod.
    pub fn template_hash_of(&self, pod: &Pod) -> Option<&SmolStr> {
        self.pods.get(&pod.key).filter(|record| record.uid == pod.uid)?.template.as_ref()
    }

    /// Returns the pods to which a ban applies that this pending pod causes: all that its controller makes from the same template, or the
    /// pod alone if it has no controller.
    pub fn ban_subject_of(&self, pod: &Pod) -> BanSubject {
        let namespace = pod.key.namespace.clone();
        match &pod.owner {
            Some(owner) => {
                let ControllerRef { kind, name, .. } = ControllerRef::from(owner);
                let hash = self.template_hash_of(pod).map(ToString::to_string);
                let controller = BannedController { kind, name, template_hash: hash.unwrap_or_default() };
                BanSubject::Template { namespace, controller }
            }
            None => BanSubject::Pod { namespace, uid: pod.uid.clone() },
        }
    }

    /// Returns the live placeholder pods that reserve capacity for this gang. The planner ignores them when it places the gang's own
    /// members. Only the operator can have created them (policy `giveway-placeholders`).
    pub fn placeholders<'m>(&'m self, group: &ObjectKey) -> impl Iterator<Item = &'m Pod> + use<'m> {
        let uid = self.groups.get(group).map(|record| record.uid.as_str());
        let pods = self.placeholders.get(group).into_iter().flatten();
        let pods = pods.filter_map(|(key, uid)| self.cluster.pod(key).filter(|pod| pod.uid == *uid));
        pods.filter(move |pod| pod.live() && pod.owner.as_ref().map(|owner| owner.uid.as_str()) == uid)
    }

    /// Returns the PodGroups with placeholder pods, including PodGroups that no longer exist.
    pub fn groups_with_placeholders(&self) -> impl Iterator<Item = &ObjectKey> {
        self.placeholders.keys()
    }

    /// Returns the placeholder pods that were created for this PodGroup or for an earlier one of its name, without those that are
    /// terminating.
    pub fn all_placeholders<'m>(&'m self, group: &ObjectKey) -> impl Iterator<Item = &'m Pod> + use<'m> {
        let pods = self.placeholders.get(group).into_iter().flatten();
        pods.filter_map(|(key, uid)| self.cluster.pod(key).filter(|pod| pod.uid == *uid && !pod.terminating))
    }

    /// Returns the PodGroups that were created from the templates of a Workload, each with its record.
    pub fn groups_of_workload(&self, workload: &ObjectKey) -> impl Iterator<Item = (&ObjectKey, &GroupRecord)> {
        self.templated.of(workload).filter_map(|key| Some((key, self.groups.get(key)?)))
    }

    /// Returns the UIDs of terminating pods whose removal a critical add-on does not wait for at `second`, the time since the epoch: their
    /// grace period ends in more than 20 s, or ended more than 30 s ago.
    pub fn lingering(&self, second: i64) -> BTreeSet<SmolStr> {
        let long = second.saturating_add(20);
        self.uids_due(|at| at > long).chain(self.overdue.iter().cloned()).collect()
    }

    /// Updates what changes with the time alone: which grace periods have ended, and which pods are excluded as victims. `second` is the
    /// time since the epoch.
    pub fn note_time(&mut self, second: i64) {
        // Plans no longer wait for terminating pods whose grace period ended more than 30 s ago.
        let grace_is_over = second.saturating_sub(30);
        let overdue: BTreeSet<SmolStr> = self.uids_due(|at| at < grace_is_over).collect();
        if overdue != self.overdue {
            for (key, (uid, _)) in &self.deadlines {
                if overdue.contains(uid) != self.overdue.contains(uid)
                    && let Some(node) = self.cluster.pod(key).and_then(|pod| pod.node.as_deref())
                {
                    self.changes.note_node(node);
                }
            }
            self.overdue = overdue;
            self.version += 1;
        }
        if self.unknown_groups.renew(&self.cluster, &self.namespaces, second) {
            self.version += 1;
        }
    }

    /// Closes the marks of preempted pods that were not deleted within a minute; `second` is the time since the epoch. The caller makes
    /// sure that the model is up to date: in a stale one a deleted pod still exists.
    pub fn close_outdated_marks(&mut self, second: i64) {
        self.touched.extend(self.marks.close_outdated(&self.cluster, second));
    }

    /// Returns the marks of preempted pods that must stay in the status of a PodGroup, by UID of the pod, because their preemptions have
    /// not been handled.
    pub fn open_marks(&self, group: &ObjectKey) -> BTreeMap<String, PreemptedPod> {
        let Some(record) = self.groups.get(group) else { return BTreeMap::new() };
        let marks = record.status.preempted_pods.iter();
        marks.filter(|(uid, _)| self.marks.is_open(group, uid)).map(|(uid, pod)| (uid.clone(), pod.clone())).collect()
    }

    /// Returns the UIDs of pods that must not be victims now, because the PodGroup that they name, or their namespace, may not be known
    /// yet.
    pub fn pods_of_unknown_groups(&self) -> &BTreeSet<SmolStr> {
        &self.unknown_groups.excluded
    }

    /// Returns true if a pod with a priority lower than `priority` must not be a victim now, because its PodGroup may not be known yet
    /// ([`Self::pods_of_unknown_groups`]).
    pub fn excludes_victims_below(&self, priority: i32) -> bool {
        self.unknown_groups.lowest.is_some_and(|lowest| lowest < priority)
    }

    /// Returns the pods that kube-scheduler preempted since the last call, by UID: those whose preemption was observed, and those that the
    /// webhook marked and that no longer exist. Pods whose PodGroup may become known soon are returned by a later call.
    pub fn take_preempted_by_scheduler(&mut self) -> BTreeMap<SmolStr, PreemptedByScheduler> {
        let marked = self.marks.take_preempted(&self.cluster, &self.terminating_for_scheduler);
        let all = marked.into_iter().chain(std::mem::take(&mut self.preempted_by_scheduler));
        let (later, now) =
            all.partition(|(_, preempted)| self.unknown_groups.may_become_known(&self.cluster, preempted));
        self.preempted_by_scheduler = later;
        now
    }

    /// Returns the nodes whose outage began less than `grace` seconds before `second`, the time since the epoch.
    pub fn recovering(&self, second: i64, grace: i64) -> BTreeSet<SmolStr> {
        let recent = self.outages.iter().filter(|(_, since)| second.saturating_sub(**since) < grace);
        recent.map(|(node, _)| node.clone()).collect()
    }

    /// Returns the UIDs of terminating pods whose grace period ended more than 30 s ago, as of the last [`Self::note_time`].
    pub fn overdue(&self) -> &BTreeSet<SmolStr> {
        &self.overdue
    }

    /// Returns the UIDs of the terminating pods for which `when` returns true; it gets the end of the grace period, in seconds since the
    /// epoch.
    fn uids_due(&self, when: impl Fn(i64) -> bool) -> impl Iterator<Item = SmolStr> {
        self.deadlines.values().filter(move |(_, at)| when(*at)).map(|(uid, _)| uid.clone())
    }

    /// Returns kube-scheduler's last message on the condition `PodScheduled` of the pod; `None` if it has none.
    pub fn scheduler_message(&self, pod: &ObjectKey) -> Option<&str> {
        self.scheduler_report(pod).map(|report| report.message.as_str())
    }

    /// Returns what kube-scheduler last reported about a pending pod; `None` if it has reported nothing, or the pod is bound.
    pub fn scheduler_report(&self, pod: &ObjectKey) -> Option<&SchedulerReport> {
        self.pods.get(pod).and_then(|record| record.report.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use crate::messages::input::{Input, Update};
    use crate::testing::{TestPod, World};
    use giveway_crds::keys::LABEL_GANG;
    use giveway_planner::model::ObjectKey;

    #[test]
    fn members_of_a_later_owner_are_distinguished_from_those_of_the_groups_owner() {
        let of = |name: &str, uid: &str| {
            TestPod::new(name, 10).of("train").of_job("train").owner_uid(uid).labelled(LABEL_GANG, "true")
        };
        let mut world = World::new();
        let key = world.key("train");
        let asked = |world: &World, key: &ObjectKey| world.model.has_members_of_another_owner(key);
        world.node("n1", 4).made_for("train", "u1", 2).pod(of("a", "u1").on("n1").terminating());
        world.pod(TestPod::new("mine", 10).of("train").gated());
        assert!(!asked(&world, &key), "its own, and one that a user made");
        world.pod(of("b", "u2").gated());
        assert!(asked(&world, &key));
        world.pod(of("b", "u2").gated().terminating());
        assert!(!asked(&world, &key), "it is disrupted as well");
        world.pod(of("c", "u1").gated());
        assert!(!asked(&world, &key));
        world.group("other", 2, 10, "Pod").pod(of("d", "u2").of("other").gated());
        assert!(!asked(&world, &world.key("other")), "no label asks for that one");
    }

    #[test]
    fn a_new_group_is_distinguished_from_one_of_its_name_that_was_deleted_unobserved() {
        let mut world = World::new();
        let key = world.key("train");
        let group = |uid: &str| {
            let object = serde_json::json!({"metadata": {"name": "train", "namespace": "default", "uid": uid},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 10}});
            Update::Applied(Box::new(serde_json::from_value(object).unwrap()))
        };
        world.model.apply(Input::Group(group("u1")));
        world.model.apply(Input::Group(group("u1")));
        assert!(world.model.namesakes.is_empty());
        world.model.apply(Input::Group(Update::Replaced(vec![group("u2")])));
        assert_eq!(std::mem::take(&mut world.model.namesakes), std::slice::from_ref(&key));
        world.model.apply(Input::Group(Update::Deleted(key.clone())));
        world.model.apply(Input::Group(group("u3")));
        assert_eq!(world.model.namesakes, std::slice::from_ref(&key), "also when both came at once");
    }

    #[test]
    fn a_workload_that_says_the_same_again_changes_no_decision() {
        let mut world = World::new();
        world.workload("train", "workers");
        let version = world.model.version;
        world.workload("train", "workers");
        assert_eq!(world.model.version, version);
        world.workload("train", "others");
        assert_eq!(world.model.version, version + 1);
    }
}
