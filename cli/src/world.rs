//! The objects as the planner's model, with what the commands need besides: pending pods (to continue from a decision),
//! Workloads, and the operator's plans in progress.

use crate::args::SchedulerArgs;
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::live::Fallback;
#[cfg(test)]
use crate::live::Objects;
use crate::{files, live};
use giveway_crds::native::{self, NativeGroup};
use giveway_crds::plan::StoredPlan;
use giveway_crds::preemption::{assemble, plan_of_part};
use giveway_crds::scheduler_config::SchedulerConfig;
use giveway_crds::{PodGroup, Preemption, Workload};
use giveway_crds::{critical, keys};
use giveway_planner::rescue::rank;
use giveway_planner::{Cluster, Context, ModelError, ObjectKey, Preemptor, Reservation, SmolStr, Strategy, Terms};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// State of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    /// Source of the objects: a file, or `cluster`.
    pub(crate) source: String,
    /// The planner's model.
    pub(crate) cluster: Cluster,
    /// Pods without a node.
    pub(crate) pending: BTreeMap<ObjectKey, Pod>,
    /// Pods of native groups, with the name of the group.
    natives: BTreeMap<ObjectKey, String>,
    /// Pod groups.
    pub(crate) groups: BTreeMap<ObjectKey, PodGroup>,
    /// Nodes, from which added nodes are copied.
    pub(crate) nodes: Vec<Node>,
    /// Workloads.
    pub(crate) workloads: BTreeMap<ObjectKey, Workload>,
    /// RuntimeClasses by name, for pods that are only planned: a pod that exists has its overhead in its own spec.
    pub(crate) runtime_classes: BTreeMap<String, RuntimeClass>,
    /// The stored plans, by name.
    pub(crate) plans: BTreeMap<String, StoredPlan>,
    /// When those of them that are finished were completed, cancelled or failed, by name.
    pub(crate) finished: BTreeMap<String, Time>,
    /// Which pods are critical add-ons.
    pub(crate) addons: Terms,
    /// UIDs of pods of a live cluster that are still terminating 30 s after their grace period: the planner does not
    /// wait for them.
    overdue: BTreeSet<SmolStr>,
    /// The time until which the work of victims counts, in ns since the epoch: now, or for a file the latest start of a pod.
    now: Option<i64>,
    /// Objects that were skipped, as sentences.
    pub(crate) notes: Vec<String>,
    /// True if the user may not see enough of the cluster for the planner to decide.
    pub(crate) blind: bool,
}

/// A world whose objects arrive one by one.
struct Gathering {
    world: World,
    /// The parts of stored plans, by name of the plan.
    parts: BTreeMap<String, Vec<Preemption>>,
    /// For a live cluster: pods that had to terminate before this time are overdue.
    latest: Option<Timestamp>,
}

impl Gathering {
    fn new(source: String, live: bool) -> Self {
        let mut world = World { source, ..World::default() };
        // Pods of classes that are not managed have their policy only in their spec.
        world.cluster.trust_pod_policy = true;
        world.set_critical_namespaces(critical::NAMESPACE);
        let latest = live.then(|| Timestamp::now() - SignedDuration::from_secs(30));
        Self { world, parts: BTreeMap::new(), latest }
    }

    /// Adds an object.
    ///
    /// # Errors
    /// It is from a file, and cannot be read. Such objects of a live cluster are skipped, as by the operator, and noted.
    fn add(&mut self, item: &Value) -> Result<(), CliError> {
        match self.world.add(item, &mut self.parts) {
            Err(error) if self.latest.is_some() => self.world.notes.push(format!("Left out: {error}")),
            outcome => outcome?,
        }
        if let Some(latest) = self.latest {
            self.world.note_overdue(item, latest);
        }
        Ok(())
    }

    /// Returns the world when all objects were added; with these notes first.
    fn end(self, mut notes: Vec<String>) -> World {
        let mut world = self.world;
        notes.append(&mut world.notes);
        world.notes = notes;
        for (name, parts) in self.parts {
            let finished = parts.iter().find_map(|part| part.status.as_ref()?.finished_at.clone());
            world.finished.extend(finished.map(|at| (name.clone(), at)));
            match assemble(parts) {
                Ok(plan) => drop(world.plans.insert(name, plan)),
                Err(why) => world.notes.push(format!("Left out: Preemption {name}: {why}.")),
            }
        }
        world.reserve_placements();
        world.now = match self.latest {
            Some(_) => i64::try_from(Timestamp::now().as_nanosecond()).ok(),
            None => world.cluster.pods().filter_map(|pod| pod.start_time).max(),
        };
        world
    }
}

impl World {
    /// Reads the objects, of a live cluster or of a file.
    ///
    /// # Errors
    /// An object of a file cannot be read. Such objects of a live cluster are skipped, as by the operator, and noted.
    #[cfg(test)]
    pub(crate) fn new(objects: Objects, live: bool) -> Result<Self, CliError> {
        let mut gathering = Gathering::new(objects.source, live);
        objects.items.iter().try_for_each(|item| gathering.add(item))?;
        Ok(gathering.end(objects.notes))
    }

    /// Reads the snapshot that a flag names, or else the live cluster. Returns it with the namespace of manifests that name none.
    ///
    /// # Errors
    /// The snapshot or the cluster cannot be read, or snapshot and manifests are both standard input.
    pub(crate) fn of_flags(
        snapshot: Option<&Path>,
        manifests: &[PathBuf],
        connection: &ClusterConnection,
    ) -> Result<(Self, String), CliError> {
        let is_standard_input = |path: &Path| path.as_os_str() == "-";
        match snapshot {
            Some(file) if is_standard_input(file) && manifests.iter().any(|manifest| is_standard_input(manifest)) => {
                Err(CliError::StandardInputTwice)
            }
            Some(file) => Ok((Self::of_file(file)?, connection.namespace())),
            None => block_on(async {
                let api = connection.api().await?;
                Ok((Self::of_cluster(&api, |_| true).await?, api.namespace.clone()))
            }),
        }
    }

    /// Reads the kinds of a live cluster for which `wanted` returns true. Each object is added as it arrives.
    ///
    /// # Errors
    /// A list fails.
    pub(crate) async fn of_cluster(api: &Api, wanted: impl Fn(&str) -> bool) -> Result<Self, CliError> {
        let mut gathering = Gathering::new("cluster".to_owned(), true);
        let gaps = live::each(api, Fallback::None, wanted, |item| gathering.add(&item)).await?;
        Ok(gathering.end(gaps.notes))
    }

    /// Reads a live cluster as far as the user may: of what may not be listed in the whole cluster, the objects of this
    /// namespace. The notes say what is unknown.
    ///
    /// # Errors
    /// A list fails for another reason than a missing right.
    pub(crate) async fn of_what_may_be_seen(api: &Api, namespace: &str) -> Result<Self, CliError> {
        let mut gathering = Gathering::new("cluster".to_owned(), true);
        let gaps = live::each(api, Fallback::Namespace(namespace), |_| true, |item| gathering.add(&item)).await?;
        Ok(Self { blind: gaps.blind, ..gathering.end(gaps.notes) })
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    /// The file is not a snapshot, or an object of it cannot be read.
    pub(crate) fn of_file(path: &Path) -> Result<Self, CliError> {
        let mut gathering = Gathering::new(files::title(path), false);
        files::each(path, |item| gathering.add(&item))?;
        Ok(gathering.end(Vec::new()))
    }

    /// Reserves the placements of the plans in progress. The reservation of a critical add-on counts with the priority of critical pods.
    fn reserve_placements(&mut self) {
        for plan in self.plans.values().filter(|plan| plan.state.in_flight()) {
            let own = self.priority(&preemptor_of(plan));
            let priority = if plan.critical_addon.is_some() { rank(own) } else { own };
            for placement in &plan.placements {
                self.cluster.reserve(&placement.uid, &placement.node, Reservation::Started(priority));
            }
        }
    }

    /// Adds a pod to `overdue` if its grace period ended before this time and it is still terminating, as in the operator. Not for
    /// files, whose current time is unknown.
    fn note_overdue(&mut self, item: &Value, latest: Timestamp) {
        let metadata = &item["metadata"];
        let at = metadata["deletionTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        if item["kind"] == "Pod" && at.is_some_and(|at| at < latest) {
            self.overdue.extend(metadata["uid"].as_str().map(SmolStr::new));
        }
    }

    /// Adds an object of a kind of which only the planner's state is kept.
    fn in_cluster<K: DeserializeOwned>(
        &mut self,
        item: &Value,
        upsert: fn(&mut Cluster, &K) -> bool,
    ) -> Result<(), CliError> {
        upsert(&mut self.cluster, &read(item, &self.source)?);
        Ok(())
    }

    /// Adds an object of a snapshot or of the cluster.
    fn add(&mut self, item: &Value, parts: &mut BTreeMap<String, Vec<Preemption>>) -> Result<(), CliError> {
        let (version, kind) = (item["apiVersion"].as_str(), item["kind"].as_str());
        match (version.unwrap_or_default(), kind.unwrap_or_default()) {
            ("v1", "Node") => {
                let node: Node = read(item, &self.source)?;
                self.model(|cluster| cluster.upsert_node(&node))?;
                self.nodes.push(node);
                Ok(())
            }
            ("v1", "Pod") => self.add_pod_in(read(item, &self.source)?, native::group_of(item)),
            ("scheduling.giveway.dev/v1alpha1", "PodGroup") => self.add_group(read(item, &self.source)?),
            ("scheduling.giveway.dev/v1alpha1", "Preemption") => {
                let part: Preemption = read(item, &self.source)?;
                let name = part.metadata.name.clone().unwrap_or_default();
                parts.entry(plan_of_part(&name).to_owned()).or_default().push(part);
                Ok(())
            }
            ("scheduling.giveway.dev/v1alpha1", "Workload") => {
                let workload: Workload = read(item, &self.source)?;
                self.workloads.insert(key_of(&workload.metadata), workload);
                Ok(())
            }
            ("v1", "Namespace") => self.in_cluster(item, Cluster::upsert_namespace),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy") => {
                self.read_policy(item);
                Ok(())
            }
            ("v1", "PersistentVolume") => self.in_cluster(item, Cluster::upsert_volume),
            ("v1", "PersistentVolumeClaim") => self.in_cluster(item, Cluster::upsert_claim),
            ("storage.k8s.io/v1", "StorageClass") => self.in_cluster(item, Cluster::upsert_storage_class),
            ("storage.k8s.io/v1", "CSIDriver") => self.in_cluster(item, Cluster::upsert_csi_driver),
            ("storage.k8s.io/v1", "CSINode") => self.in_cluster(item, Cluster::upsert_csi_node),
            ("resource.k8s.io/v1", "DeviceClass") => self.in_cluster(item, Cluster::upsert_device_class),
            ("resource.k8s.io/v1", "ResourceSlice") => self.in_cluster(item, Cluster::upsert_resource_slice),
            ("resource.k8s.io/v1", "ResourceClaim") => self.in_cluster(item, Cluster::upsert_resource_claim),
            ("node.k8s.io/v1", "RuntimeClass") => {
                let class: RuntimeClass = read(item, &self.source)?;
                self.runtime_classes.insert(class.metadata.name.clone().unwrap_or_default(), class);
                Ok(())
            }
            ("policy/v1", "PodDisruptionBudget") => {
                let budget: PodDisruptionBudget = read(item, &self.source)?;
                self.model(|cluster| cluster.upsert_budget(&budget))
            }
            ("scheduling.k8s.io/v1", "PriorityClass") => self.in_cluster(item, Cluster::upsert_class),
            (version, native::KIND) if version.strip_prefix(native::GROUP).is_some_and(|v| v.starts_with('/')) => {
                let group: NativeGroup = read(item, &self.source)?;
                self.model(|cluster| cluster.upsert_native_group(&group))
            }
            _ => Ok(()),
        }
    }

    /// Sets the namespaces of critical add-ons, separated by commas; none while critical add-ons are off.
    fn set_critical_namespaces(&mut self, names: &str) {
        self.addons.namespaces = names_in(names).map(str::to_owned).collect();
        let are_on = !self.addons.namespaces.is_empty();
        self.cluster.protect_critical_addons(are_on.then(|| self.addons.namespaces.clone()));
    }

    /// Reads the chart's protected namespaces, those of critical add-ons, those in which groups are served, and its configuration of
    /// kube-scheduler.
    fn read_policy(&mut self, policy: &Value) {
        let annotations = &policy["metadata"]["annotations"];
        if let Some(text) = annotations[keys::ANNOTATION_SCHEDULER_CONFIG].as_str() {
            match SchedulerConfig::parse(text) {
                Ok(config) => self.cluster.configure_schedulers(&config),
                Err(error) => self.notes.push(format!(
                    "The default configuration of kube-scheduler is assumed: annotation {} of ValidatingAdmissionPolicy {} cannot be read: {error}",
                    keys::ANNOTATION_SCHEDULER_CONFIG,
                    policy["metadata"]["name"].as_str().unwrap_or_default(),
                )),
            }
        }
        if let Some(names) = annotations[keys::ANNOTATION_CRITICAL_NAMESPACES].as_str() {
            self.set_critical_namespaces(names);
        }
        let Some(names) = annotations[keys::ANNOTATION_PROTECTED].as_str() else { return };
        self.cluster.protect_namespaces(names_in(names).map(str::to_owned).collect());
        let selector = annotations[keys::ANNOTATION_SERVED].as_str().map(serde_json::from_str::<LabelSelector>);
        match selector.transpose() {
            Ok(selector) => self.cluster.serve_groups_in(selector.as_ref()),
            Err(error) => self.notes.push(format!(
                "PodGroups are assumed to be served in every namespace: annotation {} of ValidatingAdmissionPolicy {} cannot be read: {error}",
                keys::ANNOTATION_SERVED,
                policy["metadata"]["name"].as_str().unwrap_or_default(),
            )),
        }
    }

    /// Sets the configuration of schedulers that a flag names, which counts instead of the chart's.
    pub(crate) fn configure_schedulers(&mut self, scheduler: &SchedulerArgs) {
        if let Some(config) = &scheduler.config {
            self.cluster.configure_schedulers(config);
        }
    }

    /// Returns the number of members of a group that have no node.
    pub(crate) fn pending_members(&self, group: &ObjectKey) -> usize {
        self.cluster.members(group).filter(|pod| pod.live() && !pod.bound()).count()
    }

    /// Returns true for a group in a namespace whose groups are not served.
    pub(crate) fn is_unserved(&self, preemptor: &Preemptor) -> bool {
        matches!(preemptor, Preemptor::Group(key) if !self.cluster.serves_groups_in(&key.namespace))
    }

    /// Adds a pod, which may belong to a native group.
    pub(crate) fn add_pod_in(&mut self, pod: Pod, native_group: Option<&str>) -> Result<(), CliError> {
        let key = key_of(&pod.metadata);
        match native_group {
            Some(name) => drop(self.natives.insert(key, name.to_owned())),
            None => drop(self.natives.remove(&key)),
        }
        self.add_pod(pod)
    }

    /// Adds or replaces a pod; a replaced pod keeps its native group.
    pub(crate) fn add_pod(&mut self, pod: Pod) -> Result<(), CliError> {
        let key = key_of(&pod.metadata);
        let native_group = self.natives.get(&key).cloned();
        self.model(|cluster| cluster.upsert_pod_in(&pod, native_group.as_deref()))?;
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref().is_none_or(String::is_empty)) {
            self.pending.insert(key, pod);
        } else {
            self.pending.remove(&key);
        }
        Ok(())
    }

    /// Removes a pending pod.
    pub(crate) fn remove_pod(&mut self, metadata: &ObjectMeta) {
        let key = key_of(metadata);
        self.cluster.remove_pod(&key);
        self.pending.remove(&key);
    }

    /// Adds or replaces a group.
    pub(crate) fn add_group(&mut self, group: PodGroup) -> Result<(), CliError> {
        let key = key_of(&group.metadata);
        self.model(|cluster| cluster.upsert_group(&group))?;
        self.groups.insert(key, group);
        Ok(())
    }

    /// Changes the model of the cluster. An error names the file with the invalid object.
    fn model(&mut self, change: impl FnOnce(&mut Cluster) -> Result<bool, ModelError>) -> Result<(), CliError> {
        match change(&mut self.cluster) {
            Ok(_) => Ok(()),
            Err(error) => Err(CliError::Model { file: self.source.clone(), source: Box::new(error) }),
        }
    }

    /// Returns true if the group or pod exists.
    pub(crate) fn has(&self, preemptor: &Preemptor) -> bool {
        match preemptor {
            Preemptor::Group(key) => self.cluster.group(key).is_some(),
            Preemptor::Pod(key) => self.cluster.pod(key).is_some(),
        }
    }

    /// Returns the effective priority of a preemptor, or 0 if it does not exist.
    pub(crate) fn priority(&self, preemptor: &Preemptor) -> i32 {
        match preemptor {
            Preemptor::Group(key) => self.cluster.group(key).map_or(0, |group| group.priority),
            Preemptor::Pod(key) => self.cluster.pod(key).map_or(0, |pod| self.cluster.effective_priority(pod)),
        }
    }

    /// Returns the plan in progress of a preemptor, or else its last one.
    pub(crate) fn last_plan(&self, preemptor: &Preemptor) -> Option<&StoredPlan> {
        let its = self.plans.values().filter(|plan| plan.cause.is_plan() && preemptor_of(plan) == *preemptor);
        its.max_by_key(|plan| (plan.state.in_flight(), plan.age_order()))
    }

    /// Returns the planner's context for `preemptor`: the victims of the plans of other preemptors in progress.
    pub(crate) fn context(&self, preemptor: &Preemptor, strategy: Strategy) -> Context {
        let mut context = Context { strategy, lingering: self.overdue.clone(), now: self.now, ..Context::default() };
        for plan in self.plans.values().filter(|plan| plan.state.in_flight()) {
            if plan.cause.is_plan() && preemptor_of(plan) == *preemptor {
                continue;
            }
            context.departing.extend(plan.victims.iter().flat_map(|v| &v.pods).map(|pod| SmolStr::new(&pod.uid)));
        }
        context
    }
}

/// Returns the preemptor of a stored plan.
pub(crate) fn preemptor_of(plan: &StoredPlan) -> Preemptor {
    let key = ObjectKey::new(&plan.preemptor.namespace, &plan.preemptor.name);
    if plan.preemptor.kind == "Pod" { Preemptor::Pod(key) } else { Preemptor::Group(key) }
}

/// Splits an annotation that the chart writes, such as [that of protected namespaces](keys::ANNOTATION_PROTECTED), into names.
pub(crate) fn names_in(annotation: &str) -> impl Iterator<Item = &str> {
    annotation.split(',').filter(|name| !name.is_empty())
}

/// Returns namespace and name of an object.
pub(crate) fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Reads an object; an error names the object and the field.
pub(crate) fn read<T: DeserializeOwned>(item: &Value, file: &str) -> Result<T, CliError> {
    serde_path_to_error::deserialize(item).map_err(|error| CliError::Object {
        file: file.to_owned(),
        kind: item["kind"].as_str().unwrap_or_default().to_owned(),
        object: name_of(item),
        field: error.path().to_string(),
        problem: error.into_inner().to_string(),
    })
}

/// Returns `NAMESPACE/NAME`, or the name of an object without a namespace.
pub(crate) fn name_of(item: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
    if namespace.is_empty() { name } else { format!("{namespace}/{name}") }
}
