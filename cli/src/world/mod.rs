//! The objects as the planner's model, with what the commands need besides: pending pods (to continue from a decision),
//! Workloads, and the operator's plans in progress. [`objects`] adds and removes objects one by one, and [`sources`] reads them.

mod objects;
mod sources;
#[cfg(test)]
mod tests;

use crate::args::SchedulerArgs;
use crate::error::CliError;
use giveway_crds::plan::StoredPlan;
use giveway_crds::{PodGroup, Preemption, Workload};
use giveway_planner::{Cluster, Context, ObjectKey, Preemptor, SmolStr, Strategy, Terms};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use objects::key_in;

/// Time after its grace period for which the planner waits for a terminating pod.
const OVERDUE: SignedDuration = SignedDuration::from_secs(30);

/// The objects of a cluster at one time, from the API server or from files, as the planner's model and as what the commands need besides.
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
    /// Nodes by name, from which added nodes are copied.
    pub(crate) nodes: BTreeMap<String, Node>,
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
    /// The objects of the stored plans, by name of the plan and of the object.
    parts: BTreeMap<String, BTreeMap<String, Arc<Preemption>>>,
    /// The stored plans of which an object was added, changed or removed since they were joined.
    changed: BTreeSet<String>,
    /// UIDs of the pods for which the plans in progress reserve capacity.
    reserved: BTreeSet<SmolStr>,
    /// Terminating pods of a live cluster: UID, and when the grace period ends.
    terminating: BTreeMap<ObjectKey, (SmolStr, Timestamp)>,
    /// True for a live cluster, of which objects that cannot be read are left out and noted.
    is_live: bool,
    /// Of a file: the earliest time at which it can have been written, in ns since the epoch: the latest `creationTimestamp` in it. It is
    /// the time until which the work of victims counts. Without one, lost work is unknown and the latest start decides.
    written: Option<i64>,
    /// What is left out or assumed, as sentences, by kind and key of the object.
    problems: BTreeMap<(String, ObjectKey), Vec<String>>,
    /// What is not known, as sentences.
    pub(crate) notes: Vec<String>,
    /// True if the user may not see enough of the cluster for the planner to decide.
    pub(crate) blind: bool,
}

impl World {
    /// Sets the configuration of kube-scheduler to that of the flag `--scheduler-config`, if it is set; it replaces the chart's.
    pub(crate) fn configure_schedulers(&mut self, scheduler: &SchedulerArgs) {
        if let Some(config) = &scheduler.config {
            self.cluster.configure_schedulers(config);
        }
    }

    /// Returns the number of members of a group that have no node.
    pub(crate) fn pending_members(&self, group: &ObjectKey) -> usize {
        self.cluster.members(group).filter(|pod| pod.live() && !pod.bound()).count()
    }

    /// Returns true for a group in a namespace in which Giveway serves no groups.
    pub(crate) fn is_unserved(&self, preemptor: &Preemptor) -> bool {
        matches!(preemptor, Preemptor::Group(key) if !self.cluster.serves_groups_in(&key.namespace))
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

    /// Returns the stored plan in progress of a preemptor, or else its last one; `None` if none is stored.
    pub(crate) fn last_plan(&self, preemptor: &Preemptor) -> Option<&StoredPlan> {
        let its = self.plans.values().filter(|plan| plan.cause.is_plan() && preemptor_of(plan) == *preemptor);
        its.max_by_key(|plan| (plan.state.in_flight(), plan.age_order()))
    }

    /// Returns what the planner needs to know for `preemptor` besides the objects: the algorithm, the time, the victims of plans in
    /// progress for other preemptors, and pods whose termination is overdue.
    pub(crate) fn context(&self, preemptor: &Preemptor, strategy: Strategy) -> Context {
        let mut context = Context { strategy, now: self.written, ..Context::default() };
        if self.is_live {
            let now = Timestamp::now();
            let overdue = self.terminating.values().filter(|(_, ends)| *ends < now - OVERDUE);
            context.lingering = overdue.map(|(uid, _)| uid.clone()).collect();
            context.now = nanoseconds(now);
        }
        for plan in self.plans.values().filter(|plan| plan.state.in_flight()) {
            if plan.cause.is_plan() && preemptor_of(plan) == *preemptor {
                continue;
            }
            context.departing.extend(plan.victims.iter().flat_map(|v| &v.pods).map(|pod| SmolStr::new(&pod.uid)));
        }
        context
    }
}

/// Returns a time in nanoseconds since the epoch; `None` if 64 bits do not suffice.
fn nanoseconds(at: Timestamp) -> Option<i64> {
    i64::try_from(at.as_nanosecond()).ok()
}

/// Returns the PodGroup or pod that a stored plan is for.
pub(crate) fn preemptor_of(plan: &StoredPlan) -> Preemptor {
    let key = ObjectKey::new(&plan.preemptor.namespace, &plan.preemptor.name);
    if plan.preemptor.kind == "Pod" { Preemptor::Pod(key) } else { Preemptor::Group(key) }
}

/// Returns the names in the value of an annotation that the chart writes, separated by commas, such as [that of protected
/// namespaces](giveway_crds::keys::ANNOTATION_PROTECTED).
pub(crate) fn names_in(annotation: &str) -> impl Iterator<Item = &str> {
    annotation.split(',').filter(|name| !name.is_empty())
}

/// Returns namespace and name in an object's metadata; an empty text for what is missing.
pub(crate) fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Decodes an object from JSON. `file` is the name of its file for the error, which also names the object and the field.
pub(crate) fn read<T: DeserializeOwned>(item: &Value, file: &str) -> Result<T, CliError> {
    let failed = |error: serde_path_to_error::Error<serde_json::Error>| CliError::Object {
        file: file.to_owned(),
        kind: item["kind"].as_str().unwrap_or_default().to_owned(),
        object: name_of(item),
        field: error.path().to_string(),
        problem: error.into_inner().to_string(),
    };
    // Decoding takes much longer if the path to each field is recorded, so it is recorded only for an error.
    T::deserialize(item).or_else(|_| serde_path_to_error::deserialize(item).map_err(failed))
}

/// Returns `NAMESPACE/NAME`, or the name of an object without a namespace.
pub(crate) fn name_of(item: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
    if namespace.is_empty() { name } else { format!("{namespace}/{name}") }
}
