//! Applies changes of objects to the model.

use super::records::{GroupRecord, InvalidObject, PodRecord, RequestRecord, SchedulerReport, owning_group};
use super::{Model, STORED_PLANS};
use crate::messages::input::{Input, Update, key_of};
use crate::model::changed::Footprint;
use crate::model::pod_deletions::PodDeletion;
use crate::model::preempted_by_scheduler::{Members, PreemptedByScheduler, preempted_at};
use crate::model::template_hash::template_hash;
use crate::views::correction::{Correction, Since};
use crate::views::origin::{GangPod, controller};
use giveway_crds::native::MemberPod;
use giveway_crds::{PodGroup, Workload, keys, kinds};
use giveway_planner::model::{Cluster, ObjectKey};
use giveway_planner::{OUTAGE_TAINTS, SmolStr};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Number of recorded preemptions from which on those are dropped of which no other pod of the PodGroup is left.
const MOST_PREEMPTED: usize = 10_000;

impl Model {
    /// Updates the model by one input, if that is a change of objects. The arbiter handles the other inputs.
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
                |m| named(m.namespaces.iter()),
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
                |m| named(m.cluster.volumes()),
                in_cluster(Cluster::upsert_volume, by_name(Cluster::remove_volume)),
            ),
            Input::Claim(update) => self.each(
                "PersistentVolumeClaim",
                update,
                |m| m.cluster.claims().cloned().collect(),
                in_cluster(Cluster::upsert_claim, Cluster::remove_claim),
            ),
            Input::StorageClass(update) => self.each(
                "StorageClass",
                update,
                |m| named(m.cluster.storage_classes()),
                in_cluster(Cluster::upsert_storage_class, by_name(Cluster::remove_storage_class)),
            ),
            Input::CsiDriver(update) => self.each(
                "CSIDriver",
                update,
                |m| named(m.cluster.csi_drivers()),
                in_cluster(Cluster::upsert_csi_driver, by_name(Cluster::remove_csi_driver)),
            ),
            Input::CsiNode(update) => self.each(
                "CSINode",
                update,
                |m| named(m.cluster.csi_nodes()),
                in_cluster(Cluster::upsert_csi_node, by_name(Cluster::remove_csi_node)),
            ),
            Input::DeviceClass(update) => self.each(
                "DeviceClass",
                update,
                |m| named(m.cluster.device_classes()),
                in_cluster(Cluster::upsert_device_class, by_name(Cluster::remove_device_class)),
            ),
            Input::ResourceSlice(update) => self.each(
                "ResourceSlice",
                update,
                |m| named(m.cluster.resource_slices()),
                in_cluster(Cluster::upsert_resource_slice, by_name(Cluster::remove_resource_slice)),
            ),
            Input::ResourceClaim(update) => self.each(
                "ResourceClaim",
                update,
                |m| m.cluster.resource_claims().cloned().collect(),
                in_cluster(Cluster::upsert_resource_claim, Cluster::remove_resource_claim),
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
                |m, key, map| Ok(m.said.update(key, map.as_deref())),
            ),
            Input::Preemption(update) => {
                self.plans.listed |= matches!(update, Update::Replaced(_) | Update::Complete);
                self.each(
                    STORED_PLANS,
                    update,
                    |m| m.plans.names(),
                    |m, key, object| Ok(m.plans.update(&key.name, object)),
                )
            }
            Input::Report(_) | Input::Dump => {}
        }
    }

    /// Applies an update of the objects of `kind`, one by one. `known` returns the names of those in the model, from which a complete list
    /// removes all that it does not contain. `change` stores one object, or removes it (`None`), and returns true if that may affect a
    /// decision, or the error that the object is invalid, which is kept in `problems`.
    fn each<K: ResourceExt>(
        &mut self,
        kind: &'static str,
        update: Update<K>,
        known: fn(&Self) -> Vec<ObjectKey>,
        change: impl Fn(&mut Self, &ObjectKey, Option<Box<K>>) -> Result<bool, String>,
    ) {
        let one = |model: &mut Self, key: ObjectKey, object: Option<Box<K>>, unreadable: Option<String>| {
            let problem = InvalidObject { kind, key: key.clone() };
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
        let updates = match update {
            Update::Replaced(list) => [Update::Started].into_iter().chain(list).chain([Update::Complete]).collect(),
            update => vec![update],
        };
        for update in updates {
            let (key, object, unreadable) = match update {
                Update::Started => {
                    self.listing.insert(kind, known(self).into_iter().collect());
                    continue;
                }
                Update::Complete => {
                    for key in self.listing.get_mut(kind).map(std::mem::take).unwrap_or_default() {
                        one(self, key, None, None);
                    }
                    self.listing.remove(kind);
                    self.synced.insert(kind);
                    continue;
                }
                // A list contains no list.
                Update::Replaced(_) => continue,
                Update::Applied(object) => (key_of(&*object), Some(object), None),
                Update::Deleted(key) => (key, None, None),
                Update::Invalid(key, error) => (key, None, Some(error)),
            };
            if let Some(unseen) = self.listing.get_mut(kind) {
                unseen.remove(&key);
            }
            one(self, key, object, unreadable);
        }
    }

    /// Stores the new state of a node; `None` means that it was deleted. Returns true if that may affect a decision. The error says why the
    /// object is invalid.
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

    /// Stores the new state of a PriorityClass; `None` means that it was deleted. Returns true if that may affect a decision. The error
    /// says why the object is invalid.
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
            pods.iter().for_each(|pod| self.note_correction(pod));
        }
        Ok(changed)
    }

    /// Updates, after a change of the pod `key` or of its PriorityClass, how its annotations differ from those that the class gives.
    fn note_correction(&mut self, key: &ObjectKey) {
        let correction = self.cluster.pod(key).and_then(|pod| {
            let Some(name) = pod.priority_class_name.as_deref().filter(|name| !name.is_empty()) else {
                return Correction::without_class(pod);
            };
            Correction::of(pod, self.cluster.classes().get(name)?, *self.classes.get(name)?)
        });
        match correction {
            Some(correction) => drop(self.corrections.insert(key.clone(), correction)),
            None => drop(self.corrections.remove(key)),
        }
    }

    /// Marks the PodGroup of the pod `key` as changed since the last pass.
    fn touch_group_of(&mut self, key: &ObjectKey) {
        if let Some(group) = self.cluster.pod(key).filter(|p| !p.native()).and_then(|p| p.group.as_ref()) {
            self.touched.insert(ObjectKey::new(&key.namespace, group));
        }
    }

    /// Updates of which PodGroup the pod `key` is a placeholder. `pod` is its new state, `None` if it was deleted; the model still has the
    /// old one.
    fn note_placeholder(&mut self, key: &ObjectKey, pod: Option<&Pod>) {
        let before = self.cluster.pod(key).and_then(|pod| pod.labels.get(keys::LABEL_PLACEHOLDER)).map(str::to_owned);
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

    /// Stores the new state of a pod, and updates the indexes and the changes since the last pass; `None` means that it was deleted.
    /// Returns true if that may affect a decision. The error says why the pod is invalid.
    fn pod(&mut self, key: &ObjectKey, pod: Option<Box<MemberPod>>) -> Result<bool, String> {
        let before = Footprint::of(&self.cluster, key);
        let changed = self.store_pod(key, pod);
        self.pending.note(key, self.cluster.pod(key));
        // The model may have an earlier state of a pod that is invalid now.
        if *changed.as_ref().unwrap_or(&true) {
            self.changes.note_pod(before, Footprint::of(&self.cluster, key));
        }
        changed
    }

    /// Like [`Self::pod`], without the index of pending pods and the changes since the last pass.
    fn store_pod(&mut self, key: &ObjectKey, pod: Option<Box<MemberPod>>) -> Result<bool, String> {
        self.touch_group_of(key);
        self.note_placeholder(key, pod.as_ref().map(|pod| &pod.pod));
        let Some(MemberPod { pod, native_group }) = pod.map(|pod| *pod) else {
            if let Some(record) = self.pods.remove(key)
                && let Some(at) = record.preempted
                && !self.terminating_for_scheduler.remove(&record.uid)
            {
                self.note_preempted_by_scheduler(key, at);
            }
            self.corrections.remove(key);
            if let Some((uid, _)) = self.deadlines.remove(key) {
                self.note_pod_deletion(PodDeletion::Terminated(uid));
            }
            self.unknown_groups.forget(key);
            return Ok(self.cluster.remove_pod(key));
        };
        let mut record = PodRecord {
            uid: pod.uid().unwrap_or_default().into(),
            report: SchedulerReport::of(&pod),
            template: template_hash(&pod),
            preempted: preempted_at(&pod),
            gang: GangPod::of(&pod).map(Box::new),
        };
        let deadline = pod.metadata.deletion_timestamp.as_ref().map(|at| (record.uid.clone(), at.0.as_second()));
        let earlier = match deadline.clone() {
            Some(deadline) => self.deadlines.insert(key.clone(), deadline),
            None => self.deadlines.remove(key),
        };
        let (uid, preempted) = (record.uid.clone(), record.preempted);
        self.note_decision(key, &pod, &mut record);
        let is_needed =
            record.report.is_some() || record.template.is_some() || preempted.is_some() || record.gang.is_some();
        let before = if is_needed { self.pods.insert(key.clone(), record) } else { self.pods.remove(key) };
        // Another pod has the name now: the earlier one has been removed, although no event reported that.
        if let Some(other) = before.filter(|before| before.uid != uid)
            && !self.terminating_for_scheduler.remove(&other.uid)
            && let Some(at) = other.preempted
        {
            self.note_preempted_by_scheduler(key, at);
        }
        let changed = self.cluster.upsert_pod_in(&pod, native_group.as_deref()).map_err(|e| e.to_string());
        if changed.as_ref().is_ok_and(|changed| *changed)
            && self.cluster.pod(key).is_some_and(|pod| !pod.bound() && (pod.gated || pod.unschedulable))
        {
            self.arrivals += 1;
        }
        self.touch_group_of(key);
        if let Some((_, at)) = deadline.filter(|(uid, _)| earlier.is_none_or(|(earlier, _)| earlier != *uid)) {
            self.note_terminating(key, &pod, at);
        }
        self.note_correction(key);
        self.unknown_groups.note(&self.cluster, &self.namespaces, key);
        if let Some(at) = preempted.filter(|_| pod.metadata.deletion_timestamp.is_some())
            && self.terminating_for_scheduler.insert(uid)
        {
            self.note_preempted_by_scheduler(key, at);
        }
        changed
    }

    /// Counts a decision of kube-scheduler if `pod`, the new state, shows one: a pending pod was bound, or what kube-scheduler reports
    /// about it changed. Stores in the report in `record` the number of the decision that it belongs to. The model still has the old state.
    fn note_decision(&mut self, key: &ObjectKey, pod: &Pod, record: &mut PodRecord) {
        let was_pending = self.cluster.pod(key).is_some_and(|before| before.uid == record.uid && !before.bound());
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        if was_pending && bound {
            self.scheduler_decisions += 1;
            self.scheduler_bindings += 1;
        }
        let Some(report) = &mut record.report else { return };
        let known = self.pods.get(key).filter(|known| known.uid == record.uid).and_then(|known| known.report.as_ref());
        match known {
            Some(known) if known.says_the_same(report) => report.decision = known.decision,
            _ if was_pending => {
                self.scheduler_decisions += 1;
                report.decision = self.scheduler_decisions;
            }
            _ => {}
        }
    }

    /// Records for the next pass that kube-scheduler preempted the pod `key`, announced at `at`, in seconds since the epoch, and which
    /// members of its PodGroup were bound then. Members of native PodGroups are left out: if all pods of such a group are disrupted
    /// together, kube-scheduler evicts the others itself.
    fn note_preempted_by_scheduler(&mut self, key: &ObjectKey, at: i64) {
        if let Some(pod) = self.cluster.pod(key).filter(|pod| !pod.native())
            && let Some(group) = pod.group_key()
        {
            let members = if self.listing.contains_key("Pod") {
                // If the preempted pod is hardly older than its preemption, pods that were created in the same second are no replacements:
                // the members of a gang are created together.
                Members::CreatedBefore(if pod.existed_at(at.saturating_sub(2)) { at } else { at.saturating_add(1) })
            } else {
                let bound = self.cluster.members(&group).filter(|pod| pod.bound());
                Members::Bound(bound.map(|pod| pod.uid.clone()).collect())
            };
            let preempted = PreemptedByScheduler { pod: key.clone(), group, at, members };
            let uid = pod.uid.clone();
            // Before the lists are complete no pass handles them: those of which no other pod is left need no departure.
            if self.preempted_by_scheduler.len() >= MOST_PREEMPTED {
                let cluster = &self.cluster;
                self.preempted_by_scheduler
                    .retain(|uid, preempted| preempted.remaining_members(cluster).any(|pod| pod.uid != *uid));
            }
            self.preempted_by_scheduler.insert(uid, preempted);
        }
    }

    /// Stores the new state of a PodGroup; `None` means that it was deleted. Returns true if that may affect a decision. The error says why
    /// the object is invalid.
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
        let managed = group.labels().get(keys::LABEL_MANAGED_BY).is_some_and(|value| value == keys::MANAGED_BY);
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
            managed,
            made_for: made_for(&group).map(|owner| owner.uid.clone()),
            of_replica: made_for(&group).is_some_and(has_replicas),
            orphaned: managed && has_gang_label(&group) && group.owner_references().is_empty(),
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

    /// Updates the index of PodGroups by Workload after the PodGroup `key` changed; `before` is its earlier record. If it names another
    /// Workload than before, or none, the earlier Workload counts as changed.
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

    /// Stores the new state of a Workload; `None` means that it was deleted. Returns true if that may affect a decision. Its PodGroups that
    /// pods refer to count as changed.
    fn workload(&mut self, key: &ObjectKey, workload: Option<Box<Workload>>) -> Result<bool, String> {
        self.touched_workloads.insert(key.clone());
        // Its status, labels and annotations do not affect PodGroups: if only they changed, no pod needs to be checked.
        if let (Some(known), Some(object)) = (self.workloads.get_mut(key), &workload)
            && known.metadata.uid == object.metadata.uid
            && known.metadata.deletion_timestamp == object.metadata.deletion_timestamp
            && known.spec == object.spec
        {
            known.clone_from(object);
            return Ok(false);
        }
        // Pods may have been created before the Workload that describes their PodGroup.
        let of_it = self.cluster.pods_in(&key.namespace);
        let of_it = of_it.filter(|p| p.template.as_ref().is_some_and(|(workload, _)| *workload == key.name));
        let groups: Vec<ObjectKey> = of_it.filter_map(giveway_planner::model::Pod::group_key).collect();
        self.touched.extend(groups);
        Ok(match workload {
            Some(object) => {
                self.workloads.insert(key.clone(), *object);
                true
            }
            None => self.workloads.remove(key).is_some(),
        })
    }
}

/// Returns the keys of cluster-scoped objects with these names.
fn named<'n>(names: impl Iterator<Item = &'n SmolStr>) -> Vec<ObjectKey> {
    names.map(|name| ObjectKey::new("", name)).collect()
}

/// Returns the function that [`Model::each`] needs for a kind of which only the planner keeps a state: it calls `upsert` with an object,
/// and `remove` with the name of a deleted one.
fn in_cluster<K>(
    upsert: fn(&mut Cluster, &K) -> bool,
    remove: impl Fn(&mut Cluster, &ObjectKey) -> bool,
) -> impl Fn(&mut Model, &ObjectKey, Option<Box<K>>) -> Result<bool, String> {
    move |model, key, object| {
        Ok(match object {
            Some(object) => upsert(&mut model.cluster, &object),
            None => remove(&mut model.cluster, key),
        })
    }
}

/// Converts a function that removes a cluster-scoped object by its name to one that does so by its key.
fn by_name(remove: fn(&mut Cluster, &str) -> bool) -> impl Fn(&mut Cluster, &ObjectKey) -> bool {
    move |cluster, key| remove(cluster, &key.name)
}

/// Returns the reference to the owner for which a PodGroup with the gang label was created: its controller. `None` for PodGroups without
/// that label.
fn made_for(group: &PodGroup) -> Option<&OwnerReference> {
    controller(group.owner_references()).filter(|_| has_gang_label(group))
}

/// Returns true if a PodGroup has the gang label with the value `true`. PodGroups that Giveway creates because of the gang label of pods
/// have it.
fn has_gang_label(group: &PodGroup) -> bool {
    group.labels().get(keys::LABEL_GANG).is_some_and(|value| value == "true")
}

/// Returns true if an owner is of a kind that has several replicas, each with a PodGroup of its own.
fn has_replicas(owner: &OwnerReference) -> bool {
    kinds::of_version(&owner.api_version, &owner.kind).is_some_and(|row| !row.replica.is_empty())
}

/// Returns whether a node with an outage is ready again, and when that last changed, in seconds since the epoch; `None` if it has no
/// outage. An outage lasts while the node is not ready, and then until the node controller has removed its taints.
fn outage(node: &Node) -> Option<(bool, i64)> {
    let ready = node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready")?;
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let is_ready = ready.status == "True";
    let has_outage = !is_ready || taints.into_iter().any(|taint| OUTAGE_TAINTS.contains(&taint.key.as_str()));
    Some((is_ready, ready.last_transition_time.as_ref()?.0.as_second())).filter(|_| has_outage)
}
