//! What the operator knows: the planner's cluster, and beside it what only the controllers need ([stored plans](plans),
//! statuses, workloads). Fed by [`Input`]s, read by the arbiter; it makes no call and no decision.

pub mod changed;
pub mod pending;
pub mod plans;
pub mod preempted_by_scheduler;
mod unheard;

use crate::index::Index;
use crate::input::{Input, Update, key_of};
use crate::missing::{Missing, Since};
use crate::model::changed::{ChangedObjects, Footprint};
use crate::model::pending::Pending;
use crate::model::plans::Plans;
use crate::model::preempted_by_scheduler::PreemptedByScheduler;
use crate::model::unheard::Unheard;
use crate::origin::GangPod;
use crate::switch::Said;
use giveway_crds::autoscaling::{Progress, ProvisioningRequest};
use giveway_crds::keys;
use giveway_crds::kinds;
use giveway_crds::native::MemberPod;
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

/// What is known of a PodGroup beside its scheduling properties.
#[derive(Clone, Debug, Default)]
pub struct GroupRecord {
    /// UID of the object.
    pub uid: SmolStr,
    /// `metadata.resourceVersion`.
    pub resource_version: SmolStr,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The status as last seen, or as last written by us if that is newer.
    pub status: PodGroupStatus,
    /// Whether it has our finalizer.
    pub protected: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Template it was made from: workload and template name.
    pub template: Option<(String, String)>,
    /// Whether Giveway made it.
    pub managed: bool,
    /// UID of the owner that it was made for, where a label asked for it.
    pub made_for: Option<String>,
    /// Whether it is of a replica of that owner, which stays when the replica goes.
    pub of_replica: bool,
    /// How many pods start together.
    pub min_count: Option<i32>,
    /// Since when it is being deleted, in seconds since the epoch.
    pub deleted: Option<i64>,
}

/// What is known of a Workload.
#[derive(Clone, Debug)]
pub struct WorkloadRecord {
    /// The object as last seen.
    pub object: Workload,
}

/// What is known of a pod beside its scheduling properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRecord {
    /// UID of the pod.
    pub uid: SmolStr,
    /// What kube-scheduler last said of the pod, while it is pending.
    pub scheduler_message: Option<String>,
    /// When kube-scheduler announced that it preempts the pod, in seconds since the epoch.
    pub preempted: Option<i64>,
    /// What it says of its owner, where a label asked for a gang.
    pub gang: Option<Box<GangPod>>,
}

/// What is known of a ProvisioningRequest.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// Its UID.
    pub uid: SmolStr,
    /// For which group it was made.
    pub group: ObjectKey,
    /// UID of that group.
    pub group_uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// How far it is.
    pub progress: Progress,
}

impl RequestRecord {
    /// Reads one; `None` of one that was made for no group.
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

/// An object that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Kind of the object.
    pub kind: &'static str,
    /// Its name.
    pub key: ObjectKey,
}

/// How many kinds are watched.
const KINDS: usize = 15;

/// The operator's knowledge of the cluster.
#[derive(Debug, Default)]
pub struct Model {
    /// The planner's model.
    pub cluster: Cluster,
    /// Pod groups.
    pub groups: BTreeMap<ObjectKey, GroupRecord>,
    /// Workloads.
    pub workloads: BTreeMap<ObjectKey, WorkloadRecord>,
    /// By Workload: the groups that were made from its templates.
    templated: Index<ObjectKey, ObjectKey>,
    /// Pods of which more is known than the planner needs.
    pub pods: BTreeMap<ObjectKey, PodRecord>,
    /// UIDs of terminating pods, and when they should be gone, in seconds since the epoch.
    pub deadlines: BTreeMap<ObjectKey, (SmolStr, i64)>,
    /// UIDs of nodes, by name.
    pub nodes: BTreeMap<SmolStr, SmolStr>,
    /// How often kube-scheduler was seen to decide about a pod.
    pub scheduler_decisions: u64,
    /// Stored plans.
    pub plans: Plans,
    /// What cluster-autoscaler was asked.
    pub requests: BTreeMap<ObjectKey, RequestRecord>,
    /// UIDs of the pods that were made so that an autoscaler sees a gang, by group and pod.
    placeholders: BTreeMap<ObjectKey, BTreeMap<ObjectKey, SmolStr>>,
    /// What the ConfigMap that switches Giveway says.
    pub said: Said,
    /// Objects that cannot be used, with the reason.
    pub problems: BTreeMap<Problem, String>,
    /// Problems not reported yet.
    pub new_problems: Vec<(Problem, String)>,
    /// Groups that something happened to since the arbiter last looked.
    pub touched: BTreeSet<ObjectKey>,
    /// Workloads that something happened to since the arbiter last looked.
    pub touched_workloads: BTreeSet<ObjectKey>,
    /// Pods that lack annotations of their class, because admission did not see them.
    pub unfilled: BTreeMap<ObjectKey, Missing>,
    /// Nodes with an [outage], and since when they are not ready, in seconds since the epoch.
    outages: BTreeMap<SmolStr, i64>,
    /// Pods that kube-scheduler preempted since the arbiter last looked, by UID.
    pub preempted_by_scheduler: BTreeMap<SmolStr, PreemptedByScheduler>,
    /// UIDs of those among them that still exist: each is noted once.
    terminating_for_scheduler: BTreeSet<SmolStr>,
    /// Groups that have the name of an earlier one, which is gone.
    pub namesakes: Vec<ObjectKey>,
    /// Grows whenever somebody may have come who waits for a decision: a group changed, or a pod that waits.
    pub arrivals: u64,
    /// Grows whenever something changed that may change a decision.
    pub version: u64,
    /// What changed since the last pass, as far as a plan in flight may depend on it.
    pub changes: ChangedObjects,
    /// The live pods without a node.
    pub pending: Pending,
    overdue: BTreeSet<SmolStr>,
    unheard: Unheard,
    classes: BTreeMap<SmolStr, Since>,
    synced: BTreeSet<&'static str>,
    namespaces: BTreeSet<SmolStr>,
}

impl Model {
    /// One that knows nothing yet but the namespaces in which nobody is evicted, and those in which groups are served.
    pub fn of(protected: BTreeSet<String>, served: Option<&LabelSelector>) -> Self {
        let mut model = Self::default();
        model.cluster.protect_namespaces(protected);
        model.cluster.serve_groups_in(served);
        model
    }

    /// Whether every kind was listed once. Nothing is decided before.
    pub fn synced(&self) -> bool {
        self.synced.len() == KINDS
    }

    /// UID of a preemptor; `None` when it does not exist.
    pub fn uid_of(&self, preemptor: &Preemptor) -> Option<&SmolStr> {
        match preemptor {
            Preemptor::Group(key) => self.groups.get(key).map(|group| &group.uid),
            Preemptor::Pod(key) => self.cluster.pod(key).map(|pod| &pod.uid),
        }
    }

    /// The priority that a preemptor preempts with; `None` when it does not exist.
    pub fn priority_of(&self, preemptor: &Preemptor) -> Option<i32> {
        match preemptor {
            Preemptor::Group(key) => self.cluster.group(key).map(|group| group.priority),
            Preemptor::Pod(key) => self.cluster.pod(key).map(|pod| self.cluster.effective_priority(pod)),
        }
    }

    /// Takes in one input. Reports are not for the model and are ignored.
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

    /// Applies an update object by object. `known` lists the keys of the kind that exist in the model, `change`
    /// adds (`Some`) or removes (`None`) one object and says whether that may change a decision.
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

    /// Notes which annotations of its class a pod lacks.
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

    /// From which priority on the budgets of a pod may be violated, also when that was not written to it yet.
    pub fn threshold(&self, pod: &PlannerPod) -> Option<i32> {
        pod.threshold.or_else(|| self.unfilled.get(&pod.key)?.threshold())
    }

    /// Which of these pods, when they go one after the other, leave a budget with fewer healthy pods than it wants, by UID
    /// and with the reason; judged by the pods as they are known here. The eviction API believes the budget's status, which
    /// lags behind deletions; this does not.
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

    /// What a pod says of its owner, where a label asked for a gang.
    pub fn gang_of(&self, pod: &PlannerPod) -> Option<&GangPod> {
        self.pods.get(&pod.key).filter(|record| record.uid == pod.uid)?.gang.as_deref()
    }

    /// Whether a group must stay for this member. One that goes with its owner does not stay for pods of the next owner of that
    /// name, which has a group of its own as soon as this one is gone.
    pub fn keeps(&self, group: &GroupRecord, pod: &PlannerPod) -> bool {
        let (Some(owner), Some(deleted), Some(gang)) = (&group.made_for, group.deleted, self.gang_of(pod)) else {
            return true;
        };
        match &gang.origin.uid {
            Some(uid) => uid == owner,
            None => pod.existed_at(deleted),
        }
    }

    /// Whether live members of a group that a label asked for are not of the owner that it was made for: it goes, and they get one
    /// of their own when the last pod of the earlier owner is gone.
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

    /// The pods that keep room for this gang, which are as good as gone for its own members. Only the operator can have made
    /// them (policy `giveway-placeholders`).
    pub fn placeholders<'m>(&'m self, group: &ObjectKey) -> impl Iterator<Item = &'m PlannerPod> + use<'m> {
        let uid = self.groups.get(group).map(|record| record.uid.as_str());
        let pods = self.placeholders.get(group).into_iter().flatten();
        let pods = pods.filter_map(|(key, uid)| self.cluster.pod(key).filter(|pod| pod.uid == *uid));
        pods.filter(move |pod| pod.live() && pod.owner.as_ref().map(|owner| owner.uid.as_str()) == uid)
    }

    /// The groups that such pods were made for, also of those that are gone.
    pub fn groups_with_placeholders(&self) -> impl Iterator<Item = &ObjectKey> {
        self.placeholders.keys()
    }

    /// Pods that were made for this group, or another one of its name, and are not on their way out.
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
        // A pod that cannot be read may have been known before.
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
            self.deadlines.remove(key);
            self.unheard.forget(key);
            return Ok(self.cluster.remove_pod(key));
        };
        let record = PodRecord {
            uid: pod.uid().unwrap_or_default().into(),
            scheduler_message: scheduler_message(&pod),
            preempted: preempted_by_scheduler::preempted_at(&pod),
            gang: GangPod::of(&pod).map(Box::new),
        };
        match &pod.metadata.deletion_timestamp {
            Some(at) => drop(self.deadlines.insert(key.clone(), (record.uid.clone(), at.0.as_second()))),
            None => drop(self.deadlines.remove(key)),
        }
        let (uid, preempted) = (record.uid.clone(), record.preempted);
        self.note_decision(key, &pod, &record);
        let before = if record.scheduler_message.is_some() || preempted.is_some() || record.gang.is_some() {
            self.pods.insert(key.clone(), record)
        } else {
            self.pods.remove(key)
        };
        // Another pod of that name: the one before is gone, though nobody said so.
        if let Some(other) = before.filter(|before| before.uid != uid)
            && !self.terminating_for_scheduler.remove(&other.uid)
            && let Some(at) = other.preempted
        {
            self.note_preempted_by_scheduler(key, at);
        }
        let known = preempted.is_some() && self.cluster.pod(key).is_some_and(|known| known.uid == uid);
        let changed = self.cluster.upsert_pod_in(&pod, native_group.as_deref()).map_err(|e| e.to_string());
        if changed.as_ref().is_ok_and(|changed| *changed)
            && self.cluster.pod(key).is_some_and(|pod| !pod.bound() && (pod.held || pod.unschedulable))
        {
            self.arrivals += 1;
        }
        self.touch_group_of(key);
        self.look_for_missing(key);
        self.unheard.note(&self.cluster, &self.namespaces, key);
        if let Some(at) = preempted.filter(|_| pod.metadata.deletion_timestamp.is_some())
            && self.terminating_for_scheduler.insert(uid)
        {
            // An earlier leader saw who was there then. Times are whole seconds, and who was created in that one came instead, unless this
            // pod is hardly older itself: members are made together.
            let created = pod.metadata.creation_timestamp.as_ref().map_or(0, |created| created.0.as_second());
            let fresh = created.saturating_add(1) >= at;
            self.note_preempted_by_scheduler(key, if known || fresh { at } else { at.saturating_sub(1) });
        }
        changed
    }

    /// Counts what kube-scheduler decided: a pod that waited has a node now, or is told something else about why not.
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

    /// Notes that kube-scheduler preempted a pod. Native groups in mode `PodGroup` it preempts as a whole itself.
    fn note_preempted_by_scheduler(&mut self, key: &ObjectKey, at: i64) {
        if let Some(pod) = self.cluster.pod(key).filter(|pod| !pod.native())
            && let Some(group) = pod.group_key()
        {
            let preempted = PreemptedByScheduler { pod: key.clone(), group, at };
            self.preempted_by_scheduler.insert(pod.uid.clone(), preempted);
        }
    }

    fn group(&mut self, key: &ObjectKey, group: Option<Box<PodGroup>>) -> Result<bool, String> {
        self.touched.insert(key.clone());
        let Some(group) = group else {
            // The next one of its name may come before anybody looks.
            self.namesakes.push(key.clone());
            let before = self.groups.remove(key);
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
        let before = self.groups.insert(key.clone(), record);
        self.note_workload(key, before.as_ref());
        if before.is_some_and(|earlier| earlier.uid != uid) {
            self.namesakes.push(key.clone());
        }
        changed
    }

    /// Notes of which Workload a group is, and was.
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

    /// The groups that were made from the templates of a Workload.
    pub fn groups_of_workload(&self, workload: &ObjectKey) -> impl Iterator<Item = (&ObjectKey, &GroupRecord)> {
        self.templated.of(workload).filter_map(|key| Some((key, self.groups.get(key)?)))
    }

    fn workload(&mut self, key: &ObjectKey, workload: Option<Box<Workload>>) -> Result<bool, String> {
        self.touched_workloads.insert(key.clone());
        // What is written of it, and what its owner writes beside its spec, changes no group: no pod is looked at for it.
        if let (Some(known), Some(object)) = (self.workloads.get_mut(key), &workload)
            && known.object.metadata.uid == object.metadata.uid
            && known.object.metadata.deletion_timestamp == object.metadata.deletion_timestamp
            && known.object.spec == object.spec
        {
            known.object = (**object).clone();
            return Ok(false);
        }
        // Pods may have been there before the workload that describes their group.
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

    /// UIDs of terminating pods that a critical add-on cannot wait for at this second: they have more than 20 s to go, or
    /// are overdue.
    pub fn lingering(&self, second: i64) -> BTreeSet<SmolStr> {
        let long = second.saturating_add(20);
        self.uids_due(|at| at > long).chain(self.overdue.iter().cloned()).collect()
    }

    /// Notes what is so at this second. Time alone changes decisions by it.
    pub fn note_time(&mut self, second: i64) {
        // Nobody waits any more for terminating pods that should have been gone for 30 s.
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

    /// UIDs of pods that are no victims now, because their group or namespace may not have been heard of yet.
    pub fn unheard(&self) -> &BTreeSet<SmolStr> {
        &self.unheard.spared
    }

    /// Whether one of them has a lower priority than this.
    pub fn spares_below(&self, priority: i32) -> bool {
        self.unheard.lowest.is_some_and(|lowest| lowest < priority)
    }

    /// Pods that kube-scheduler preempted since the last call, by UID, as far as their PodGroups are known.
    pub fn take_preempted_by_scheduler(&mut self) -> BTreeMap<SmolStr, PreemptedByScheduler> {
        let all = std::mem::take(&mut self.preempted_by_scheduler).into_iter();
        let (later, now) = all.partition(|(_, preempted)| self.unheard.awaits(&self.cluster, preempted));
        self.preempted_by_scheduler = later;
        now
    }

    /// Nodes with an outage that began less than `grace` seconds before this second.
    pub fn recovering(&self, second: i64, grace: i64) -> BTreeSet<SmolStr> {
        let recent = self.outages.iter().filter(|(_, since)| second.saturating_sub(**since) < grace);
        recent.map(|(node, _)| node.clone()).collect()
    }

    /// UIDs of terminating pods that should have been gone for 30 s, as last noted.
    pub fn overdue(&self) -> &BTreeSet<SmolStr> {
        &self.overdue
    }

    fn uids_due(&self, when: impl Fn(i64) -> bool) -> impl Iterator<Item = SmolStr> {
        self.deadlines.values().filter(move |(_, at)| when(*at)).map(|(uid, _)| uid.clone())
    }

    /// What kube-scheduler last said of this pod.
    pub fn scheduler_message(&self, pod: &ObjectKey) -> Option<&str> {
        self.pods.get(pod).and_then(|r| r.scheduler_message.as_deref())
    }
}

/// The group of ours that owns an object.
fn owning_group(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let ours = owner.kind == "PodGroup" && owner.api_version.starts_with(&format!("{}/", keys::GROUP));
    ours.then_some(owner)
}

/// The owner that a group was made for: such groups have the label that asked for them.
fn made_for(group: &PodGroup) -> Option<&OwnerReference> {
    group.labels().get(keys::LABEL_GANG).filter(|value| *value == "true")?;
    group.owner_references().iter().find(|owner| owner.controller == Some(true))
}

/// Whether an owner is of a kind whose replicas are groups of their own.
fn has_replicas(owner: &OwnerReference) -> bool {
    kinds::of_version(&owner.api_version, &owner.kind).is_some_and(|row| !row.replica.is_empty())
}

/// Whether a node with an outage is ready, and since when, in seconds since the epoch; `None` if it has none. A node has an outage while it
/// is not ready, and then until the node controller has removed its taints.
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
    use crate::input::{Input, Update};
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
