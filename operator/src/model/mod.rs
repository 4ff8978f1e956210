//! The state of the cluster in memory: the planner's cluster, and the objects that only the controllers need ([stored plans](plans),
//! statuses, workloads). [`Input`]s update it and the arbiter reads it; it makes no call and no decision.

pub mod changed;
pub mod index;
mod marks;
pub mod pending;
pub mod plans;
pub mod pod_deletions;
pub mod preempted_by_scheduler;
mod unheard;

use crate::limits::switch::Said;
use crate::messages::input::{Input, Update, key_of};
use crate::model::changed::{ChangedObjects, Footprint};
use crate::model::index::Index;
use crate::model::marks::Marks;
use crate::model::pending::Pending;
use crate::model::plans::Plans;
use crate::model::pod_deletions::PodDeletion;
use crate::model::preempted_by_scheduler::{Members, PreemptedByScheduler};
use crate::model::unheard::Unheard;
use crate::views::missing::{Missing, Since};
use crate::views::origin::GangPod;
use giveway_crds::autoscaling::{Progress, ProvisioningRequest};
use giveway_crds::keys;
use giveway_crds::kinds;
use giveway_crds::native::MemberPod;
use giveway_crds::pod_group::PreemptedPod;
use giveway_crds::{PodGroup, PodGroupStatus, Workload};
use giveway_planner::OUTAGE_TAINTS;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod as PlannerPod};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

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
    fn of(request: &ProvisioningRequest) -> Option<Self> {
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

/// Number of recorded preemptions from which on those are dropped of which no other pod of the PodGroup is left.
const MOST_PREEMPTED: usize = 10_000;
/// Number of watched kinds.
const KINDS: usize = 15;

/// The state of the cluster in memory.
#[derive(Debug, Default)]
pub struct Model {
    /// The planner's state.
    pub cluster: Cluster,
    /// PodGroups.
    pub groups: BTreeMap<ObjectKey, GroupRecord>,
    /// Workloads.
    pub workloads: BTreeMap<ObjectKey, WorkloadRecord>,
    /// The PodGroups that were created from the templates of each Workload.
    templated: Index<ObjectKey, ObjectKey>,
    /// Pods with fields that the planner does not need.
    pub pods: BTreeMap<ObjectKey, PodRecord>,
    /// UIDs of terminating pods, and the end of their grace period, in seconds since the epoch.
    pub deadlines: BTreeMap<ObjectKey, (SmolStr, i64)>,
    /// UIDs of nodes, by name.
    pub nodes: BTreeMap<SmolStr, SmolStr>,
    /// Number of observed decisions of kube-scheduler.
    pub scheduler_decisions: u64,
    /// Stored plans.
    pub plans: Plans,
    /// The ProvisioningRequests for cluster-autoscaler.
    pub requests: BTreeMap<ObjectKey, RequestRecord>,
    /// UIDs of placeholder pods, by PodGroup and pod. They make a cluster autoscaler add nodes for a gang.
    placeholders: BTreeMap<ObjectKey, BTreeMap<ObjectKey, SmolStr>>,
    /// The content of the ConfigMap with Giveway's mode.
    pub said: Said,
    /// Objects that cannot be used, with the reason.
    pub problems: BTreeMap<Problem, String>,
    /// Problems that have not been logged yet.
    pub new_problems: Vec<(Problem, String)>,
    /// PodGroups that changed since the last pass.
    pub touched: BTreeSet<ObjectKey>,
    /// Workloads that changed since the last pass.
    pub touched_workloads: BTreeSet<ObjectKey>,
    /// Pods without the annotations of their class, because admission did not add them.
    pub unfilled: BTreeMap<ObjectKey, Missing>,
    /// Nodes with an [outage], and since when they are not ready, in seconds since the epoch.
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
    unheard: Unheard,
    classes: BTreeMap<SmolStr, Since>,
    /// True while a list is applied object by object: the other objects of its kind may not be up to date.
    is_listing: bool,
    synced: BTreeSet<&'static str>,
    namespaces: BTreeSet<SmolStr>,
}

impl Model {
    /// Creates an empty model with the namespaces in which no pod is evicted, and the selector of the namespaces in which groups are
    /// served.
    pub fn of(protected: BTreeSet<String>, served: Option<&LabelSelector>) -> Self {
        let mut model = Self::default();
        model.cluster.protect_namespaces(protected);
        model.cluster.serve_groups_in(served);
        model
    }

    /// Returns true if every kind has been listed once. Nothing is decided before.
    pub fn synced(&self) -> bool {
        self.synced.len() == KINDS
    }

    /// Returns the UID of a preemptor; `None` if it does not exist.
    pub fn uid_of(&self, preemptor: &Preemptor) -> Option<&SmolStr> {
        match preemptor {
            Preemptor::Group(key) => self.groups.get(key).map(|group| &group.uid),
            Preemptor::Pod(key) => self.cluster.pod(key).map(|pod| &pod.uid),
        }
    }

    /// Returns the priority with which a preemptor preempts; `None` if it does not exist.
    pub fn priority_of(&self, preemptor: &Preemptor) -> Option<i32> {
        match preemptor {
            Preemptor::Group(key) => self.cluster.group(key).map(|group| group.priority),
            Preemptor::Pod(key) => self.cluster.pod(key).map(|pod| self.cluster.effective_priority(pod)),
        }
    }

    /// Applies one input. Reports are handled by the arbiter and are ignored here.
    pub fn apply(&mut self, input: Input) {
        match input {
            Input::Node(update) => self.each(
                "Node",
                update,
                |m| m.cluster.nodes().map(|n| ObjectKey::new("", &n.name)).collect(),
                Self::node,
            ),
            Input::Namespace(update) => self.each(
                "Namespace",
                update,
                |m| m.namespaces.iter().map(|name| ObjectKey::new("", name)).collect(),
                |m, key, namespace| {
                    Ok(match namespace {
                        Some(namespace) => {
                            m.namespaces.insert(key.name.clone());
                            m.cluster.upsert_namespace(&namespace)
                        }
                        None => {
                            m.namespaces.remove(&key.name);
                            m.cluster.remove_namespace(&key.name)
                        }
                    })
                },
            ),
            Input::Pod(update) => {
                self.each("Pod", update, |m| m.cluster.pods().map(|p| p.key.clone()).collect(), Self::pod)
            }
            Input::Group(update) => self.each("PodGroup", update, |m| m.groups.keys().cloned().collect(), Self::group),
            Input::NativeGroup(update) => self.each(
                "PodGroup.scheduling.k8s.io",
                update,
                |m| m.cluster.native_groups().collect(),
                |m, key, group| match group {
                    Some(group) => m.cluster.upsert_native_group(&group).map_err(|e| e.to_string()),
                    None => Ok(m.cluster.remove_native_group(key)),
                },
            ),
            Input::Workload(update) => {
                self.each("Workload", update, |m| m.workloads.keys().cloned().collect(), Self::workload)
            }
            Input::Class(update) => self.each(
                "PriorityClass",
                update,
                |m| m.cluster.classes().iter().map(|c| ObjectKey::new("", &c.name)).collect(),
                Self::class,
            ),
            Input::Budget(update) => self.each(
                "PodDisruptionBudget",
                update,
                |m| m.cluster.budgets().map(|b| b.key.clone()).collect(),
                |m, key, budget| match budget {
                    Some(budget) => m.cluster.upsert_budget(&budget).map_err(|e| e.to_string()),
                    None => Ok(m.cluster.remove_budget(key)),
                },
            ),
            Input::Volume(update) => self.each(
                "PersistentVolume",
                update,
                |m| m.cluster.volumes().map(|name| ObjectKey::new("", name)).collect(),
                |m, key, volume| {
                    Ok(match volume {
                        Some(volume) => m.cluster.upsert_volume(&volume),
                        None => m.cluster.remove_volume(&key.name),
                    })
                },
            ),
            Input::Claim(update) => self.each(
                "PersistentVolumeClaim",
                update,
                |m| m.cluster.claims().cloned().collect(),
                |m, key, claim| {
                    Ok(match claim {
                        Some(claim) => m.cluster.upsert_claim(&claim),
                        None => m.cluster.remove_claim(key),
                    })
                },
            ),
            Input::StorageClass(update) => self.each(
                "StorageClass",
                update,
                |m| m.cluster.storage_classes().map(|name| ObjectKey::new("", name)).collect(),
                |m, key, class| {
                    Ok(match class {
                        Some(class) => m.cluster.upsert_storage_class(&class),
                        None => m.cluster.remove_storage_class(&key.name),
                    })
                },
            ),
            Input::DeviceClass(update) => self.each(
                "DeviceClass",
                update,
                |m| m.cluster.device_classes().map(|name| ObjectKey::new("", name)).collect(),
                |m, key, class| {
                    Ok(match class {
                        Some(class) => {
                            m.cluster.upsert_device_class(&key.name, class.spec.extended_resource_name.as_deref())
                        }
                        None => m.cluster.remove_device_class(&key.name),
                    })
                },
            ),
            Input::Request(update) => self.each(
                "ProvisioningRequest",
                update,
                |m| m.requests.keys().cloned().collect(),
                |m, key, request| {
                    match request.and_then(|request| RequestRecord::of(&request)) {
                        Some(record) => drop(m.requests.insert(key.clone(), record)),
                        None => drop(m.requests.remove(key)),
                    }
                    Ok(false)
                },
            ),
            Input::Switch(update) => self.each(
                "ConfigMap",
                update,
                |m| m.said.key().into_iter().collect(),
                |m, key, map| Ok(m.said.take(key, map.as_deref())),
            ),
            Input::Preemption(update) => {
                self.plans.listed |= matches!(update, Update::Replaced(_));
                self.each(
                    "Preemption",
                    update,
                    |m| m.plans.names(),
                    |m, key, object| Ok(m.plans.take(&key.name, object)),
                )
            }
            Input::Report(_) => {}
        }
    }

    /// Applies an update object by object. `known` returns the keys of the kind that are in the model. `change` adds (`Some`) or removes
    /// (`None`) one object, and returns true if that may affect a decision.
    fn each<K: ResourceExt>(
        &mut self,
        kind: &'static str,
        update: Update<K>,
        known: fn(&Self) -> Vec<ObjectKey>,
        change: impl Fn(&mut Self, &ObjectKey, Option<Box<K>>) -> Result<bool, String>,
    ) {
        let one = |model: &mut Self, key: ObjectKey, object: Option<Box<K>>, unreadable: Option<String>| {
            let problem = Problem { kind, key: key.clone() };
            let outcome = change(model, &key, object);
            let error = unreadable.or_else(|| outcome.as_ref().err().cloned());
            if outcome.unwrap_or(true) {
                model.version += 1;
                model.changes.note(kind, &key);
            }
            match error {
                Some(error) => {
                    if model.problems.insert(problem.clone(), error.clone()).as_ref() != Some(&error) {
                        model.new_problems.push((problem, error));
                    }
                }
                None => drop(model.problems.remove(&problem)),
            }
        };
        self.is_listing = matches!(update, Update::Replaced(_));
        match update {
            Update::Replaced(list) => {
                let mut gone: BTreeSet<ObjectKey> = known(self).into_iter().collect();
                for item in list {
                    match item {
                        Update::Applied(object) => {
                            let key = key_of(&*object);
                            gone.remove(&key);
                            one(self, key, Some(object), None);
                        }
                        Update::Invalid(key, error) => one(self, key, None, Some(error)),
                        Update::Replaced(_) | Update::Deleted(_) => {}
                    }
                }
                for key in gone {
                    one(self, key, None, None);
                }
                self.synced.insert(kind);
            }
            Update::Applied(object) => one(self, key_of(&*object), Some(object), None),
            Update::Deleted(key) => one(self, key, None, None),
            Update::Invalid(key, error) => one(self, key, None, Some(error)),
        }
    }

    fn node(&mut self, key: &ObjectKey, node: Option<Box<Node>>) -> Result<bool, String> {
        match node {
            Some(node) => {
                self.nodes.insert(key.name.clone(), node.uid().unwrap_or_default().into());
                match outage(&node) {
                    Some((false, since)) => drop(self.outages.insert(key.name.clone(), since)),
                    Some((true, since)) => drop(self.outages.entry(key.name.clone()).or_insert(since)),
                    None => drop(self.outages.remove(&key.name)),
                }
                self.cluster.upsert_node(&node).map_err(|e| e.to_string())
            }
            None => {
                self.nodes.remove(&key.name);
                self.outages.remove(&key.name);
                Ok(self.cluster.remove_node(&key.name))
            }
        }
    }

    fn class(&mut self, key: &ObjectKey, class: Option<Box<PriorityClass>>) -> Result<bool, String> {
        let since = class.as_ref().map(|class| Since::of(class));
        let changed = match class {
            Some(class) => self.cluster.upsert_class(&class),
            None => self.cluster.remove_class(&key.name),
        };
        let since_before = match since {
            Some(since) => self.classes.insert(key.name.clone(), since),
            None => self.classes.remove(&key.name),
        };
        if changed {
            self.touched.extend(self.groups.keys().cloned());
        }
        if changed || since_before != since {
            let of_it = self.cluster.pods().filter(|p| p.priority_class_name.as_deref() == Some(&key.name));
            let pods: Vec<ObjectKey> = of_it.map(|p| p.key.clone()).collect();
            pods.iter().for_each(|pod| self.look_for_missing(pod));
        }
        Ok(changed)
    }

    /// Updates which annotations of its class a pod lacks.
    fn look_for_missing(&mut self, key: &ObjectKey) {
        let missing = self.cluster.pod(key).and_then(|pod| {
            let name = pod.priority_class_name.as_deref()?;
            Missing::of(pod, self.cluster.classes().get(name)?, *self.classes.get(name)?)
        });
        match missing {
            Some(missing) => drop(self.unfilled.insert(key.clone(), missing)),
            None => drop(self.unfilled.remove(key)),
        }
    }

    /// Returns the priority from which on a preemptor may violate the budgets of a pod, even if the annotation has not been added to the
    /// pod yet.
    pub fn threshold(&self, pod: &PlannerPod) -> Option<i32> {
        pod.threshold.or_else(|| self.unfilled.get(&pod.key)?.threshold())
    }

    /// Returns the pods whose eviction, one after the other, would leave a budget with fewer healthy pods than it wants: UID and reason.
    /// The pods in the model are counted. The Eviction API uses the status of the budget instead, which lags behind deletions.
    pub fn breaches<'p>(&self, pods: impl Iterator<Item = &'p PlannerPod>) -> BTreeMap<SmolStr, String> {
        let mut left: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        let mut breaches = BTreeMap::new();
        for pod in pods.filter(|pod| pod.ready) {
            for budget in self.cluster.budgets_of(pod).into_iter().filter(|budget| budget.counts(pod)) {
                let healthy = left.entry(&budget.key).or_insert_with(|| self.cluster.healthy_under(budget));
                let (name, wanted, has) = (&budget.key.name, budget.desired_healthy, *healthy);
                *healthy = has.saturating_sub(1);
                if i64::try_from(has).unwrap_or(i64::MAX) <= i64::from(wanted) {
                    let why =
                        format!("The disruption budget {name} needs {wanted} healthy pods and has {has} currently");
                    breaches.insert(pod.uid.clone(), why);
                }
            }
        }
        breaches
    }

    /// Returns a pod's fields about the gang and its owner, if it has the gang label.
    pub fn gang_of(&self, pod: &PlannerPod) -> Option<&GangPod> {
        self.pods.get(&pod.key).filter(|record| record.uid == pod.uid)?.gang.as_deref()
    }

    /// Returns true if the finalizer must keep a PodGroup for this member. A PodGroup that is deleted with its owner is not kept for pods
    /// of the next owner of that name: they get a PodGroup of their own as soon as this one has been removed.
    pub fn keeps(&self, group: &GroupRecord, pod: &PlannerPod) -> bool {
        let (Some(owner), Some(deleted), Some(gang)) = (&group.made_for, group.deleted, self.gang_of(pod)) else {
            return true;
        };
        match &gang.origin.uid {
            Some(uid) => uid == owner,
            None => pod.existed_at(deleted),
        }
    }

    /// Returns true if a PodGroup of the gang label has live members of another owner than the one that it was created for. Then it is
    /// deleted with that owner, and these members get their own PodGroup when the last pod of the earlier owner has terminated.
    pub fn has_members_of_another_owner(&self, key: &ObjectKey) -> bool {
        let Some(group) = self.groups.get(key) else { return false };
        let Some(owner) = &group.made_for else { return false };
        let is_its_own = |pod: &PlannerPod| {
            let of_owner = self.gang_of(pod).is_none_or(|gang| gang.is_of(owner));
            of_owner && (!group.deleting || self.keeps(group, pod))
        };
        self.cluster.members(key).any(|pod| pod.live() && !is_its_own(pod))
    }

    fn touch_group_of(&mut self, key: &ObjectKey) {
        if let Some(group) = self.cluster.pod(key).filter(|p| !p.native()).and_then(|p| p.group.as_ref()) {
            self.touched.insert(ObjectKey::new(&key.namespace, group));
        }
    }

    /// Returns the live placeholder pods that reserve capacity for this gang. The planner ignores them when it places the gang's own
    /// members. Only the operator can have created them (policy `giveway-placeholders`).
    pub fn placeholders<'m>(&'m self, group: &ObjectKey) -> impl Iterator<Item = &'m PlannerPod> + use<'m> {
        let uid = self.groups.get(group).map(|record| record.uid.as_str());
        let pods = self.placeholders.get(group).into_iter().flatten();
        let pods = pods.filter_map(|(key, uid)| self.cluster.pod(key).filter(|pod| pod.uid == *uid));
        pods.filter(move |pod| pod.live() && pod.owner.as_ref().map(|owner| owner.uid.as_str()) == uid)
    }

    /// Returns the PodGroups with placeholder pods, including PodGroups that no longer exist.
    pub fn groups_with_placeholders(&self) -> impl Iterator<Item = &ObjectKey> {
        self.placeholders.keys()
    }

    /// Returns the placeholder pods that were created for this PodGroup or an earlier one of its name, and are not terminating.
    pub fn all_placeholders<'m>(&'m self, group: &ObjectKey) -> impl Iterator<Item = &'m PlannerPod> + use<'m> {
        let pods = self.placeholders.get(group).into_iter().flatten();
        pods.filter_map(|(key, uid)| self.cluster.pod(key).filter(|pod| pod.uid == *uid && !pod.terminating))
    }

    fn note_placeholder(&mut self, key: &ObjectKey, pod: Option<&Pod>) {
        let before = self.cluster.pod(key).and_then(|pod| pod.labels.get(keys::LABEL_PLACEHOLDER)).cloned();
        let group = |name: &String| ObjectKey::new(&key.namespace, name);
        if let Some(group) = before.as_ref().map(group)
            && let Some(pods) = self.placeholders.get_mut(&group)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.placeholders.remove(&group);
            }
        }
        if let Some(pod) = pod
            && let Some(name) = pod.labels().get(keys::LABEL_PLACEHOLDER)
            && owning_group(&pod.metadata).is_some_and(|owner| owner.name == *name)
        {
            let uid = pod.uid().unwrap_or_default().into();
            self.placeholders.entry(group(name)).or_default().insert(key.clone(), uid);
        }
    }

    fn pod(&mut self, key: &ObjectKey, pod: Option<Box<MemberPod>>) -> Result<bool, String> {
        let before = Footprint::of(&self.cluster, key);
        let changed = self.take_pod(key, pod);
        self.pending.note(key, self.cluster.pod(key));
        // The model may have an earlier state of a pod that is invalid now.
        if *changed.as_ref().unwrap_or(&true) {
            self.changes.note_pod(before, Footprint::of(&self.cluster, key));
        }
        changed
    }

    fn take_pod(&mut self, key: &ObjectKey, pod: Option<Box<MemberPod>>) -> Result<bool, String> {
        self.touch_group_of(key);
        self.note_placeholder(key, pod.as_ref().map(|pod| &pod.pod));
        let Some(MemberPod { pod, native_group }) = pod.map(|pod| *pod) else {
            if let Some(record) = self.pods.remove(key)
                && let Some(at) = record.preempted
                && !self.terminating_for_scheduler.remove(&record.uid)
            {
                self.note_preempted_by_scheduler(key, at);
            }
            self.unfilled.remove(key);
            if let Some((uid, _)) = self.deadlines.remove(key) {
                self.note_pod_deletion(PodDeletion::Terminated(uid));
            }
            self.unheard.forget(key);
            return Ok(self.cluster.remove_pod(key));
        };
        let record = PodRecord {
            uid: pod.uid().unwrap_or_default().into(),
            scheduler_message: scheduler_message(&pod),
            preempted: preempted_by_scheduler::preempted_at(&pod),
            gang: GangPod::of(&pod).map(Box::new),
        };
        let deadline = pod.metadata.deletion_timestamp.as_ref().map(|at| (record.uid.clone(), at.0.as_second()));
        let earlier = match deadline.clone() {
            Some(deadline) => self.deadlines.insert(key.clone(), deadline),
            None => self.deadlines.remove(key),
        };
        let (uid, preempted) = (record.uid.clone(), record.preempted);
        self.note_decision(key, &pod, &record);
        let before = if record.scheduler_message.is_some() || preempted.is_some() || record.gang.is_some() {
            self.pods.insert(key.clone(), record)
        } else {
            self.pods.remove(key)
        };
        // Another pod has the name now: the earlier one has been removed, although no event reported that.
        if let Some(other) = before.filter(|before| before.uid != uid)
            && !self.terminating_for_scheduler.remove(&other.uid)
            && let Some(at) = other.preempted
        {
            self.note_preempted_by_scheduler(key, at);
        }
        let changed = self.cluster.upsert_pod_in(&pod, native_group.as_deref()).map_err(|e| e.to_string());
        if changed.as_ref().is_ok_and(|changed| *changed)
            && self.cluster.pod(key).is_some_and(|pod| !pod.bound() && (pod.held || pod.unschedulable))
        {
            self.arrivals += 1;
        }
        self.touch_group_of(key);
        if let Some((_, at)) = deadline.filter(|(uid, _)| earlier.is_none_or(|(earlier, _)| earlier != *uid)) {
            self.note_terminating(key, &pod, at);
        }
        self.look_for_missing(key);
        self.unheard.note(&self.cluster, &self.namespaces, key);
        if let Some(at) = preempted.filter(|_| pod.metadata.deletion_timestamp.is_some())
            && self.terminating_for_scheduler.insert(uid)
        {
            self.note_preempted_by_scheduler(key, at);
        }
        changed
    }

    /// Counts a decision of kube-scheduler: a pending pod was bound, or its message changed.
    fn note_decision(&mut self, key: &ObjectKey, pod: &Pod, record: &PodRecord) {
        let Some(before) = self.cluster.pod(key).filter(|before| before.uid == record.uid && !before.bound()) else {
            return;
        };
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let said =
            self.pods.get(key).filter(|known| known.uid == before.uid).and_then(|r| r.scheduler_message.as_ref());
        if bound || (record.scheduler_message.is_some() && said != record.scheduler_message.as_ref()) {
            self.scheduler_decisions += 1;
        }
    }

    /// Records that kube-scheduler preempted a pod. Native groups are left out: if all their pods are disrupted together, kube-scheduler
    /// evicts the other pods itself.
    fn note_preempted_by_scheduler(&mut self, key: &ObjectKey, at: i64) {
        if let Some(pod) = self.cluster.pod(key).filter(|pod| !pod.native())
            && let Some(group) = pod.group_key()
        {
            let members = if self.is_listing {
                // If the preempted pod is hardly older than its preemption, pods that were created in the same second are no replacements:
                // the members of a gang are created together.
                Members::CreatedBefore(if pod.existed_at(at.saturating_sub(2)) { at } else { at.saturating_add(1) })
            } else {
                let bound = self.cluster.members(&group).filter(|pod| pod.bound());
                Members::Bound(bound.map(|pod| pod.uid.clone()).collect())
            };
            let preempted = PreemptedByScheduler { pod: key.clone(), group, at, members };
            let uid = pod.uid.clone();
            // A standby collects them until it leads: those of which no other pod is left need no departure.
            if self.preempted_by_scheduler.len() >= MOST_PREEMPTED {
                let cluster = &self.cluster;
                self.preempted_by_scheduler
                    .retain(|uid, preempted| preempted.remaining_members(cluster).any(|pod| pod.uid != *uid));
            }
            self.preempted_by_scheduler.insert(uid, preempted);
        }
    }

    fn group(&mut self, key: &ObjectKey, group: Option<Box<PodGroup>>) -> Result<bool, String> {
        self.touched.insert(key.clone());
        let Some(group) = group else {
            // A new PodGroup of this name may be created before the next pass.
            self.namesakes.push(key.clone());
            let before = self.groups.remove(key);
            self.marks.note(key, &BTreeMap::new());
            self.note_workload(key, before.as_ref());
            return Ok(self.cluster.remove_group(key));
        };
        let changed = self.cluster.upsert_group(&group).map_err(|e| e.to_string());
        self.arrivals += u64::from(changed.as_ref().is_ok_and(|changed| *changed));
        let record = GroupRecord {
            uid: group.uid().unwrap_or_default().into(),
            resource_version: group.resource_version().unwrap_or_default().into(),
            generation: group.metadata.generation,
            protected: group.finalizers().iter().any(|f| f == keys::FINALIZER_PROTECTION),
            deleting: group.metadata.deletion_timestamp.is_some(),
            template: group
                .spec
                .pod_group_template_ref
                .as_ref()
                .map(|t| (t.workload.workload_name.clone(), t.workload.pod_group_template_name.clone())),
            managed: group.labels().get(keys::LABEL_MANAGED_BY).is_some_and(|value| value == keys::MANAGED_BY),
            made_for: made_for(&group).map(|owner| owner.uid.clone()),
            of_replica: made_for(&group).is_some_and(has_replicas),
            min_count: group.spec.scheduling_policy.gang.as_ref().map(|gang| gang.min_count),
            deleted: group.metadata.deletion_timestamp.as_ref().map(|at| at.0.as_second()),
            status: group.status.unwrap_or_default(),
        };
        let uid = record.uid.clone();
        self.marks.note(key, &record.status.preempted_pods);
        let before = self.groups.insert(key.clone(), record);
        self.note_workload(key, before.as_ref());
        if before.is_some_and(|earlier| earlier.uid != uid) {
            self.namesakes.push(key.clone());
        }
        changed
    }

    /// Updates the index from Workloads to PodGroups.
    fn note_workload(&mut self, key: &ObjectKey, before: Option<&GroupRecord>) {
        let of = |record: &GroupRecord| record.template.as_ref().map(|(name, _)| ObjectKey::new(&key.namespace, name));
        let (before, now) = (before.and_then(of), self.groups.get(key).and_then(of));
        if before != now
            && let Some(before) = before
        {
            self.templated.remove(&before, key);
            self.touched_workloads.insert(before);
        }
        if let Some(now) = now {
            self.templated.insert(now, key.clone());
        }
    }

    /// Returns the PodGroups that were created from the templates of a Workload.
    pub fn groups_of_workload(&self, workload: &ObjectKey) -> impl Iterator<Item = (&ObjectKey, &GroupRecord)> {
        self.templated.of(workload).filter_map(|key| Some((key, self.groups.get(key)?)))
    }

    fn workload(&mut self, key: &ObjectKey, workload: Option<Box<Workload>>) -> Result<bool, String> {
        self.touched_workloads.insert(key.clone());
        // Its status, labels and annotations do not affect PodGroups: if only they changed, no pod needs to be checked.
        if let (Some(known), Some(object)) = (self.workloads.get_mut(key), &workload)
            && known.object.metadata.uid == object.metadata.uid
            && known.object.metadata.deletion_timestamp == object.metadata.deletion_timestamp
            && known.object.spec == object.spec
        {
            known.object = (**object).clone();
            return Ok(false);
        }
        // Pods may have been created before the Workload that describes their PodGroup.
        let of_it = self.cluster.pods_in(&key.namespace);
        let of_it = of_it.filter(|p| p.template.as_ref().is_some_and(|(workload, _)| *workload == key.name));
        let groups: Vec<ObjectKey> = of_it.filter_map(giveway_planner::model::Pod::group_key).collect();
        self.touched.extend(groups);
        Ok(match workload {
            Some(object) => {
                self.workloads.insert(key.clone(), WorkloadRecord { object: *object });
                true
            }
            None => self.workloads.remove(key).is_some(),
        })
    }

    /// Returns the UIDs of terminating pods for which a critical add-on does not wait at this second: their grace period ends in more than
    /// 20 s, or ended more than 30 s ago.
    pub fn lingering(&self, second: i64) -> BTreeSet<SmolStr> {
        let long = second.saturating_add(20);
        self.uids_due(|at| at > long).chain(self.overdue.iter().cloned()).collect()
    }

    /// Updates what depends on the time alone at this second.
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
        if self.unheard.renew(&self.cluster, &self.namespaces, second) {
            self.version += 1;
        }
    }

    /// Drops the marks of pods that were not deleted in time. Only while the model is up to date: in a stale one a deleted pod is still live.
    pub fn drop_old_marks(&mut self, second: i64) {
        self.touched.extend(self.marks.drop_old(&self.cluster, second));
    }

    /// Returns the marks of a PodGroup that must stay in its status, because they have not been handled.
    pub fn open_marks(&self, group: &ObjectKey) -> BTreeMap<String, PreemptedPod> {
        let Some(record) = self.groups.get(group) else { return BTreeMap::new() };
        let marks = record.status.preempted_pods.iter();
        marks.filter(|(uid, _)| self.marks.is_open(group, uid)).map(|(uid, pod)| (uid.clone(), pod.clone())).collect()
    }

    /// Returns the UIDs of pods that must not be victims now, because their PodGroup or namespace may not be known yet.
    pub fn unheard(&self) -> &BTreeSet<SmolStr> {
        &self.unheard.spared
    }

    /// Returns true if one of these pods has a lower priority than this.
    pub fn spares_below(&self, priority: i32) -> bool {
        self.unheard.lowest.is_some_and(|lowest| lowest < priority)
    }

    /// Returns the pods that kube-scheduler preempted since the last call, by UID, if their PodGroups are known: pods whose preemption was
    /// observed, and pods that the webhook marked and that no longer exist.
    pub fn take_preempted_by_scheduler(&mut self) -> BTreeMap<SmolStr, PreemptedByScheduler> {
        let marked = self.marks.take(&self.cluster, &self.terminating_for_scheduler);
        let all = marked.into_iter().chain(std::mem::take(&mut self.preempted_by_scheduler));
        let (later, now) = all.partition(|(_, preempted)| self.unheard.awaits(&self.cluster, preempted));
        self.preempted_by_scheduler = later;
        now
    }

    /// Returns the nodes with an outage that began less than `grace` seconds before this second.
    pub fn recovering(&self, second: i64, grace: i64) -> BTreeSet<SmolStr> {
        let recent = self.outages.iter().filter(|(_, since)| second.saturating_sub(**since) < grace);
        recent.map(|(node, _)| node.clone()).collect()
    }

    /// Returns the UIDs of terminating pods whose grace period ended more than 30 s ago, as of the last [`Self::note_time`].
    pub fn overdue(&self) -> &BTreeSet<SmolStr> {
        &self.overdue
    }

    fn uids_due(&self, when: impl Fn(i64) -> bool) -> impl Iterator<Item = SmolStr> {
        self.deadlines.values().filter(move |(_, at)| when(*at)).map(|(uid, _)| uid.clone())
    }

    /// Returns kube-scheduler's last message about this pod.
    pub fn scheduler_message(&self, pod: &ObjectKey) -> Option<&str> {
        self.pods.get(pod).and_then(|r| r.scheduler_message.as_deref())
    }
}

/// Returns the owner reference to the PodGroup of Giveway that controls an object.
fn owning_group(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let ours = owner.kind == "PodGroup" && owner.api_version.starts_with(&format!("{}/", keys::GROUP));
    ours.then_some(owner)
}

/// Returns the reference to the owner that a PodGroup was created for because of the gang label, which it has, too.
fn made_for(group: &PodGroup) -> Option<&OwnerReference> {
    group.labels().get(keys::LABEL_GANG).filter(|value| *value == "true")?;
    group.owner_references().iter().find(|owner| owner.controller == Some(true))
}

/// Returns true if the kind of an owner has one PodGroup for each replica.
fn has_replicas(owner: &OwnerReference) -> bool {
    kinds::of_version(&owner.api_version, &owner.kind).is_some_and(|row| !row.replica.is_empty())
}

/// Returns whether a node with an outage is ready, and since when, in seconds since the epoch; `None` if it has no outage. An outage lasts
/// while the node is not ready, and then until the node controller has removed its taints.
fn outage(node: &Node) -> Option<(bool, i64)> {
    let ready = node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready")?;
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let is_ready = ready.status == "True";
    let has_outage = !is_ready || taints.into_iter().any(|taint| OUTAGE_TAINTS.contains(&taint.key.as_str()));
    Some((is_ready, ready.last_transition_time.as_ref()?.0.as_second())).filter(|_| has_outage)
}

fn scheduler_message(pod: &Pod) -> Option<String> {
    if pod.spec.as_ref().is_some_and(|s| s.node_name.is_some()) {
        return None;
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    (scheduled.reason.as_deref() != Some("SchedulingGated")).then(|| scheduled.message.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::messages::input::{Input, Update};
    use crate::testing::{TestPod, World};
    use giveway_crds::keys::LABEL_GANG;
    use giveway_planner::model::ObjectKey;

    #[test]
    fn members_of_a_later_owner_are_told_from_those_that_a_group_was_made_for() {
        let of = |name: &str, uid: &str| {
            TestPod::new(name, 10).of("train").of_job("train").owner_uid(uid).labelled(LABEL_GANG, "true")
        };
        let mut world = World::new();
        let key = world.key("train");
        let asked = |world: &World, key: &ObjectKey| world.model.has_members_of_another_owner(key);
        world.node("n1", 4).made_for("train", "u1", 2).pod(of("a", "u1").on("n1").terminating());
        world.pod(TestPod::new("mine", 10).of("train").held());
        assert!(!asked(&world, &key), "its own, and one that a user made");
        world.pod(of("b", "u2").held());
        assert!(asked(&world, &key));
        world.pod(of("b", "u2").held().terminating());
        assert!(!asked(&world, &key), "it goes as well");
        world.pod(of("c", "u1").held());
        assert!(!asked(&world, &key));
        world.group("other", 2, 10, "Pod").pod(of("d", "u2").of("other").held());
        assert!(!asked(&world, &world.key("other")), "nobody asked for that one by a label");
    }

    #[test]
    fn a_group_of_the_name_of_an_earlier_one_is_told_from_it_also_when_nobody_saw_that_go() {
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
