//! Adds and removes objects one by one, as they are listed or as watches deliver them.

use super::{World, key_of, names_in, nanoseconds, preemptor_of, read};
use crate::error::CliError;
use giveway_cluster::objects::KindFields;
use giveway_crds::native::{self, NativeGroup};
use giveway_crds::preemption::{assemble, plan_of_part};
use giveway_crds::scheduler_config::SchedulerConfig;
use giveway_crds::{PodGroup, Preemption, Workload, critical, keys};
use giveway_planner::rescue::reservation_priority;
use giveway_planner::{Cluster, ModelError, ObjectKey, Reservation, SmolStr};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `apiVersion` of Giveway's kinds.
const OWN: &str = "scheduling.giveway.dev/v1alpha1";

/// Stands for the kind of an object where a stored plan cannot be joined.
const PLAN: &str = "plan";

impl World {
    /// Adds or replaces an object of a file or of a live cluster. What depends on several objects is known after
    /// [`World::update_derived`].
    ///
    /// # Errors
    /// The object is from a file, and cannot be read. Such an object of a live cluster is left out and noted, as by the operator.
    pub(crate) fn add(&mut self, item: &Value) -> Result<(), CliError> {
        if self.is_live {
            self.put(item);
            Ok(())
        } else {
            let created = item["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
            self.written = self.written.max(created.and_then(nanoseconds));
            self.store(item)
        }
    }

    /// Adds or replaces an object of a live cluster. An object that cannot be read is left out and noted.
    pub(crate) fn put(&mut self, item: &Value) {
        let (key, kind) = (key_in(item), item["kind"].as_str().unwrap_or_default());
        // Hardly any object has a problem.
        if !self.problems.is_empty() {
            self.problems.remove(&(kind.to_owned(), key.clone()));
        }
        if let Err(error) = self.store(item) {
            self.remove_object(item["apiVersion"].as_str().unwrap_or_default(), kind, &key);
            self.note_problem(kind, key, format!("Left out: {error}"));
        }
        if kind == "Pod" {
            self.note_termination(item);
        }
    }

    /// Removes the object `key` of the kind `row`, if it is known.
    pub(crate) fn remove(&mut self, row: &KindFields, key: &ObjectKey) {
        self.problems.remove(&(row.kind.to_owned(), key.clone()));
        self.remove_object(row.api_version, row.kind, key);
    }

    /// Computes what depends on several objects: assembles stored plans, reserves the placements of those in progress, and sets the
    /// notes to `notes` and those about objects that are left out.
    pub(crate) fn update_derived(&mut self, notes: Vec<String>) {
        for plan in std::mem::take(&mut self.changed) {
            self.assemble_plan(&plan);
        }
        self.reserve_placements();
        self.notes = notes;
        self.notes.extend(self.problems.values().flatten().cloned());
    }

    /// Adds a note about the object `key`, which is shown until the object is replaced or removed.
    fn note_problem(&mut self, kind: &str, key: ObjectKey, text: String) {
        self.problems.entry((kind.to_owned(), key)).or_default().push(text);
    }

    /// Assembles the stored plan `name` again from its Preemption objects, after one of them has changed. The plan is removed if none
    /// of them exists.
    fn assemble_plan(&mut self, name: &str) {
        let key = ObjectKey::new("", name);
        self.problems.remove(&(PLAN.to_owned(), key.clone()));
        self.plans.remove(name);
        self.finished.remove(name);
        let Some(parts) = self.parts.get(name) else { return };
        let finished = parts.values().find_map(|part| part.status.as_ref()?.finished_at.clone());
        let parts = parts.values().map(|part| Preemption::clone(part)).collect();
        self.finished.extend(finished.map(|at| (name.to_owned(), at)));
        match assemble(parts) {
            Ok(plan) => drop(self.plans.insert(name.to_owned(), plan)),
            Err(why) => self.note_problem(PLAN, key, format!("Left out: Preemption {name}: {why}.")),
        }
    }

    /// Reserves capacity for the placements of the plans in progress, and ends other reservations. The reservation for a critical
    /// add-on has the priority of critical pods.
    fn reserve_placements(&mut self) {
        let mut wanted: BTreeMap<SmolStr, (SmolStr, Reservation)> = BTreeMap::new();
        for plan in self.plans.values().filter(|plan| plan.state.in_flight()) {
            let own = self.priority(&preemptor_of(plan));
            let priority = if plan.critical_addon.is_some() { reservation_priority(own) } else { own };
            for placement in &plan.placements {
                let place = (SmolStr::new(&placement.node), Reservation::Started(priority));
                wanted.insert(SmolStr::new(&placement.uid), place);
            }
        }
        for uid in std::mem::take(&mut self.reserved).into_iter().filter(|uid| !wanted.contains_key(uid)) {
            self.cluster.unreserve(&uid);
        }
        for (uid, (node, reservation)) in wanted {
            self.cluster.reserve(&uid, &node, reservation);
            self.reserved.insert(uid);
        }
    }

    /// Records until when a terminating pod has its grace period; of any other pod, removes that record.
    fn note_termination(&mut self, pod: &Value) {
        let metadata = &pod["metadata"];
        let ends = metadata["deletionTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        match (ends, metadata["uid"].as_str()) {
            (Some(ends), Some(uid)) => drop(self.terminating.insert(key_in(pod), (SmolStr::new(uid), ends))),
            _ => drop(self.terminating.remove(&key_in(pod))),
        }
    }

    /// Adds or replaces an object by the function `upsert` of the planner's model; nothing else is stored of its kind.
    fn put_in_model<K: DeserializeOwned>(
        &mut self,
        item: &Value,
        upsert: fn(&mut Cluster, &K) -> bool,
    ) -> Result<(), CliError> {
        upsert(&mut self.cluster, &read(item, &self.source)?);
        Ok(())
    }

    /// Adds or replaces an object of any kind. The error says why the object cannot be used.
    fn store(&mut self, item: &Value) -> Result<(), CliError> {
        let (version, kind) = (item["apiVersion"].as_str(), item["kind"].as_str());
        match (version.unwrap_or_default(), kind.unwrap_or_default()) {
            ("v1", "Node") => {
                let node: Node = read(item, &self.source)?;
                self.change_model(|cluster| cluster.upsert_node(&node))?;
                self.nodes.insert(node.metadata.name.clone().unwrap_or_default(), node);
                Ok(())
            }
            ("v1", "Pod") => self.add_pod_in(read(item, &self.source)?, native::group_of(item)),
            (OWN, "PodGroup") => self.add_group(read(item, &self.source)?),
            (OWN, "Preemption") => {
                let part: Preemption = read(item, &self.source)?;
                let name = part.metadata.name.clone().unwrap_or_default();
                let plan = plan_of_part(&name).to_owned();
                self.parts.entry(plan.clone()).or_default().insert(name, Arc::new(part));
                self.changed.insert(plan);
                Ok(())
            }
            (OWN, "Workload") => {
                let workload: Workload = read(item, &self.source)?;
                self.workloads.insert(key_of(&workload.metadata), workload);
                Ok(())
            }
            ("v1", "Namespace") => self.put_in_model(item, Cluster::upsert_namespace),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy") => {
                if self.is_live {
                    self.reset_policy();
                }
                for problem in self.read_policy(item) {
                    self.note_problem("ValidatingAdmissionPolicy", key_in(item), problem);
                }
                Ok(())
            }
            ("v1", "PersistentVolume") => self.put_in_model(item, Cluster::upsert_volume),
            ("v1", "PersistentVolumeClaim") => self.put_in_model(item, Cluster::upsert_claim),
            ("storage.k8s.io/v1", "StorageClass") => self.put_in_model(item, Cluster::upsert_storage_class),
            ("storage.k8s.io/v1", "CSIDriver") => self.put_in_model(item, Cluster::upsert_csi_driver),
            ("storage.k8s.io/v1", "CSINode") => self.put_in_model(item, Cluster::upsert_csi_node),
            ("resource.k8s.io/v1", "DeviceClass") => self.put_in_model(item, Cluster::upsert_device_class),
            ("resource.k8s.io/v1", "ResourceSlice") => self.put_in_model(item, Cluster::upsert_resource_slice),
            ("resource.k8s.io/v1", "ResourceClaim") => self.put_in_model(item, Cluster::upsert_resource_claim),
            ("node.k8s.io/v1", "RuntimeClass") => {
                let class: RuntimeClass = read(item, &self.source)?;
                self.runtime_classes.insert(class.metadata.name.clone().unwrap_or_default(), class);
                Ok(())
            }
            ("policy/v1", "PodDisruptionBudget") => {
                let budget: PodDisruptionBudget = read(item, &self.source)?;
                self.change_model(|cluster| cluster.upsert_budget(&budget))
            }
            ("scheduling.k8s.io/v1", "PriorityClass") => self.put_in_model(item, Cluster::upsert_class),
            (version, native::KIND) if is_native(version) => {
                let group: NativeGroup = read(item, &self.source)?;
                self.change_model(|cluster| cluster.upsert_native_group(&group))
            }
            _ => Ok(()),
        }
    }

    /// Removes the object `key` of this `apiVersion` and kind. Returns true if it was known.
    fn remove_object(&mut self, version: &str, kind: &str, key: &ObjectKey) -> bool {
        let cluster = &mut self.cluster;
        match (version, kind) {
            ("v1", "Node") => {
                self.nodes.remove(key.name.as_str());
                cluster.remove_node(&key.name)
            }
            ("v1", "Pod") => self.remove_pod_by_key(key),
            (OWN, "PodGroup") => {
                self.groups.remove(key);
                cluster.remove_group(key)
            }
            (OWN, "Preemption") => self.remove_plan_part(&key.name),
            (OWN, "Workload") => self.workloads.remove(key).is_some(),
            ("v1", "Namespace") => cluster.remove_namespace(&key.name),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy") => {
                self.reset_policy();
                true
            }
            ("v1", "PersistentVolume") => cluster.remove_volume(&key.name),
            ("v1", "PersistentVolumeClaim") => cluster.remove_claim(key),
            ("storage.k8s.io/v1", "StorageClass") => cluster.remove_storage_class(&key.name),
            ("storage.k8s.io/v1", "CSIDriver") => cluster.remove_csi_driver(&key.name),
            ("storage.k8s.io/v1", "CSINode") => cluster.remove_csi_node(&key.name),
            ("resource.k8s.io/v1", "DeviceClass") => cluster.remove_device_class(&key.name),
            ("resource.k8s.io/v1", "ResourceSlice") => cluster.remove_resource_slice(&key.name),
            ("resource.k8s.io/v1", "ResourceClaim") => cluster.remove_resource_claim(key),
            ("node.k8s.io/v1", "RuntimeClass") => self.runtime_classes.remove(key.name.as_str()).is_some(),
            ("policy/v1", "PodDisruptionBudget") => cluster.remove_budget(key),
            ("scheduling.k8s.io/v1", "PriorityClass") => cluster.remove_class(&key.name),
            (version, native::KIND) if is_native(version) => cluster.remove_native_group(key),
            _ => false,
        }
    }

    /// Removes the Preemption object `name`, one of those that store a plan. Returns true if it was known.
    fn remove_plan_part(&mut self, name: &str) -> bool {
        let plan = plan_of_part(name).to_owned();
        let Some(parts) = self.parts.get_mut(&plan) else { return false };
        let was_there = parts.remove(name).is_some();
        if parts.is_empty() {
            self.parts.remove(&plan);
        }
        self.changed.insert(plan);
        was_there
    }

    /// Resets what annotations of the chart's policy set to the defaults: protected namespaces, served groups, critical add-ons and the
    /// configuration of kube-scheduler.
    fn reset_policy(&mut self) {
        self.cluster.configure_schedulers(&SchedulerConfig::default());
        self.cluster.protect_namespaces(BTreeSet::new());
        self.cluster.serve_groups_in(None);
        self.set_critical_namespaces(critical::NAMESPACE);
    }

    /// Sets the namespaces in which pods can be critical add-ons. `names` separates them by commas; an empty text switches critical
    /// add-ons off.
    pub(super) fn set_critical_namespaces(&mut self, names: &str) {
        self.addons.namespaces = names_in(names).map(str::to_owned).collect();
        let are_on = !self.addons.namespaces.is_empty();
        self.cluster.protect_critical_addons(are_on.then(|| self.addons.namespaces.clone()));
    }

    /// Applies the annotations of the chart's ValidatingAdmissionPolicy: protected namespaces, namespaces of critical add-ons,
    /// namespaces in which groups are served, and the configuration of kube-scheduler. Returns sentences about what cannot be read.
    fn read_policy(&mut self, policy: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        let annotations = &policy["metadata"]["annotations"];
        if let Some(text) = annotations[keys::ANNOTATION_SCHEDULER_CONFIG].as_str() {
            match SchedulerConfig::parse(text) {
                Ok(config) => self.cluster.configure_schedulers(&config),
                Err(error) => problems.push(format!(
                    "The default configuration of kube-scheduler is assumed: annotation {} of ValidatingAdmissionPolicy {} cannot be read: {error}",
                    keys::ANNOTATION_SCHEDULER_CONFIG,
                    policy["metadata"]["name"].as_str().unwrap_or_default(),
                )),
            }
        }
        if let Some(names) = annotations[keys::ANNOTATION_CRITICAL_NAMESPACES].as_str() {
            self.set_critical_namespaces(names);
        }
        let Some(names) = annotations[keys::ANNOTATION_PROTECTED].as_str() else { return problems };
        self.cluster.protect_namespaces(names_in(names).map(str::to_owned).collect());
        let selector = annotations[keys::ANNOTATION_SERVED].as_str().map(serde_json::from_str::<LabelSelector>);
        match selector.transpose() {
            Ok(selector) => self.cluster.serve_groups_in(selector.as_ref()),
            Err(error) => problems.push(format!(
                "PodGroups are assumed to be served in every namespace: annotation {} of ValidatingAdmissionPolicy {} cannot be read: {error}",
                keys::ANNOTATION_SERVED,
                policy["metadata"]["name"].as_str().unwrap_or_default(),
            )),
        }
        problems
    }

    /// Adds or replaces a pod. `native_group` is the PodGroup of Kubernetes itself that the pod belongs to, if it does. It is an error
    /// if the planner cannot use the pod.
    pub(crate) fn add_pod_in(&mut self, pod: Pod, native_group: Option<&str>) -> Result<(), CliError> {
        let key = key_of(&pod.metadata);
        match native_group {
            Some(name) => drop(self.natives.insert(key, name.to_owned())),
            None => drop(self.natives.remove(&key)),
        }
        self.add_pod(pod)
    }

    /// Adds or replaces a pod; a replaced pod keeps its PodGroup of Kubernetes itself. It is an error if the planner cannot use the
    /// pod.
    pub(crate) fn add_pod(&mut self, pod: Pod) -> Result<(), CliError> {
        let key = key_of(&pod.metadata);
        let native_group = self.natives.get(&key).cloned();
        self.change_model(|cluster| cluster.upsert_pod_in(&pod, native_group.as_deref()))?;
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref().is_none_or(String::is_empty)) {
            self.pending.insert(key, pod);
        } else {
            self.pending.remove(&key);
        }
        Ok(())
    }

    /// Removes the pod with this namespace and name in its metadata.
    pub(crate) fn remove_pod(&mut self, metadata: &ObjectMeta) {
        self.remove_pod_by_key(&key_of(metadata));
    }

    /// Removes the pod `key`. Returns true if it was known.
    fn remove_pod_by_key(&mut self, key: &ObjectKey) -> bool {
        self.pending.remove(key);
        self.natives.remove(key);
        self.terminating.remove(key);
        self.cluster.remove_pod(key)
    }

    /// Adds a PodGroup, or replaces the one with its name. The error says why the planner cannot use it.
    pub(crate) fn add_group(&mut self, group: PodGroup) -> Result<(), CliError> {
        let key = key_of(&group.metadata);
        self.change_model(|cluster| cluster.upsert_group(&group))?;
        self.groups.insert(key, group);
        Ok(())
    }

    /// Applies `change` to the planner's model. An error names the file with the invalid object.
    fn change_model(&mut self, change: impl FnOnce(&mut Cluster) -> Result<bool, ModelError>) -> Result<(), CliError> {
        match change(&mut self.cluster) {
            Ok(_) => Ok(()),
            Err(error) => Err(CliError::Model { file: self.source.clone(), source: Box::new(error) }),
        }
    }
}

/// Returns true if `version` is an `apiVersion` of PodGroups of Kubernetes itself (`scheduling.k8s.io`).
fn is_native(version: &str) -> bool {
    version.strip_prefix(native::GROUP).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns namespace and name of an object that is given as JSON.
pub(crate) fn key_in(item: &Value) -> ObjectKey {
    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}
