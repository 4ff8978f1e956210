//! `PodGroup`: the unit that is scheduled and preempted (KEP-5710).

use crate::constraints::SchedulingConstraints;
use crate::finished::FinishedMembers;
use crate::plan::PreemptionSummary;
use crate::policy::{DisruptionMode, PreemptFor, PreemptionPolicy, SchedulingPolicy};
use crate::schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A group of pods that has one priority, is scheduled together, and is preempted as a whole or pod by pod.
///
/// Pods join a group with the label `scheduling.giveway.dev/pod-group: NAME` in the group's namespace, set when
/// they are created. `kubectl describe` shows what the group waits for, and what was evicted for it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "scheduling.giveway.dev",
    version = "v1alpha1",
    kind = "PodGroup",
    plural = "podgroups",
    shortname = "gpg",
    category = "giveway",
    namespaced,
    status = "PodGroupStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "PodGroup is a group of pods that has one priority, is scheduled together, and is preempted as a whole or pod by pod. Pods join it with the label `scheduling.giveway.dev/pod-group: NAME` when they are created. `kubectl describe` shows what the group waits for and what was evicted for it.",
    validation = Rule::new("self.metadata.name.size() <= 63").message("metadata.name: must be no more than 63 characters, because pods name their group in a label: use a shorter name"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.disruptionMode", description = "what is evicted together: Pod or PodGroup"),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.schedulingPolicy.gang.minCount", description = "pods that must have a node before any of them starts; empty for a basic group"),
    printcolumn(name = "Scheduled", type_ = "integer", json_path = ".status.pods.scheduled", description = "live pods that have a node"),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".status.pods.total", description = "all pods of the group that exist"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority", description = "the priority of the group; it counts for a pod only up to the priority of the class of the pod"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.conditions[?(@.type==\"Scheduled\")].reason", description = "why the group is, or is not, scheduled"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Plan", type_ = "string", json_path = ".status.preemption.state", description = "state of the preemption for this group", priority = "1"),
    printcolumn(name = "Victims", type_ = "integer", json_path = ".status.preemption.victims", description = "pods that the preemption for this group evicts", priority = "1"),
    printcolumn(name = "Preempted-By", type_ = "string", json_path = ".status.preemptedBy.name", description = "name of the last preemptor of pods of this group; empty if users of the namespace must not know it", priority = "1")
)]
#[x_kube(validation = Rule::new("!(has(self.schedulingPolicy.basic) && has(self.disruptionMode) && self.disruptionMode == 'PodGroup')").message("disruptionMode `PodGroup` cannot be used with schedulingPolicy `basic`: use `Pod`, or schedulingPolicy `gang`").field_path(".disruptionMode"))]
#[x_kube(validation = Rule::new("has(self.podGroupTemplateRef) == has(oldSelf.podGroupTemplateRef) && (!has(self.podGroupTemplateRef) || self.podGroupTemplateRef == oldSelf.podGroupTemplateRef)").message("podGroupTemplateRef: field is immutable").field_path(".podGroupTemplateRef"))]
#[x_kube(validation = Rule::new("has(self.disruptionMode) == has(oldSelf.disruptionMode) && (!has(self.disruptionMode) || self.disruptionMode == oldSelf.disruptionMode)").message("disruptionMode: field is immutable").field_path(".disruptionMode"))]
#[x_kube(validation = Rule::new("has(oldSelf.priorityClassName) ? (has(self.priorityClassName) && self.priorityClassName == oldSelf.priorityClassName) : (!has(self.priorityClassName) || !has(oldSelf.priority))").message("priorityClassName: field is immutable").field_path(".priorityClassName"))]
#[x_kube(validation = Rule::new("!has(oldSelf.priority) || (has(self.priority) && self.priority == oldSelf.priority)").message("priority: field is immutable").field_path(".priority"))]
#[x_kube(validation = Rule::new("!has(oldSelf.preemptionPolicy) || (has(self.preemptionPolicy) && self.preemptionPolicy == oldSelf.preemptionPolicy)").message("preemptionPolicy: field is immutable").field_path(".preemptionPolicy"))]
#[x_kube(validation = Rule::new("!(has(self.schedulingPolicy.basic) && has(self.schedulingConstraints) && has(self.schedulingConstraints.topology) && self.schedulingConstraints.topology.size() > 0)").message("schedulingConstraints.topology cannot be used with schedulingPolicy `basic`, whose pods are not gated: use schedulingPolicy `gang`").field_path(".schedulingConstraints"))]
#[x_kube(validation = Rule::new("!(has(self.schedulingPolicy.basic) && has(self.preemptFor))").message("preemptFor cannot be used with schedulingPolicy `basic`, whose pods are placed one by one: leave it out, or use schedulingPolicy `gang`").field_path(".preemptFor"))]
#[x_kube(validation = Rule::new("has(self.schedulingConstraints) == has(oldSelf.schedulingConstraints) && (!has(self.schedulingConstraints) || self.schedulingConstraints == oldSelf.schedulingConstraints)").message("schedulingConstraints: field is immutable: create another group instead").field_path(".schedulingConstraints"))]
pub struct PodGroupSpec {
    /// The template of a Workload that this group was made from. Giveway sets it; you need it only if you create
    /// the group yourself and want it to be counted in the Workload's status. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group_template_ref: Option<PodGroupTemplateRef>,

    /// How the pods are scheduled: exactly one of `basic: {}` (one by one) and `gang: {minCount: N}` (no pod starts
    /// before N of them have a node). The choice is immutable, `minCount` is not.
    pub scheduling_policy: SchedulingPolicy,

    /// Where the pods are placed together: with `topology: [{key: LABEL}]` all of them run on nodes with one value of this
    /// label, such as one rack, which Giveway chooses. Needs `gang`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<SchedulingConstraints>,

    /// What is evicted together when a workload of higher priority needs the capacity: `Pod` (default), each pod on its
    /// own; or `PodGroup`, the whole group or no pod of it, for jobs that lose all their work with one pod. `PodGroup` needs
    /// `gang`. Immutable.
    #[serde(default)]
    #[schemars(default)]
    pub disruption_mode: DisruptionMode,

    /// For how many members other pods are evicted: `MinCount` (default), for those that `minCount` needs, and further members use free
    /// capacity only; or `AllMembers`, for every pending member. Needs `gang`. The strategy `kep5710` ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["MinCount", "AllMembers"]))]
    pub preempt_for: Option<String>,

    /// The PriorityClass of the group. It counts for a pod only up to the priority of the pod's own class. Without it: the class marked
    /// `globalDefault`, or priority 0. Use a class annotated `scheduling.giveway.dev/managed: "true"`, so that
    /// kube-scheduler does not preempt for single members. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,

    /// The priority, filled from the class by admission; higher is more important. Leave it out. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,

    /// Whether pods may be evicted for this group, filled from the class by admission. Leave it out. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<PreemptionPolicy>,

    /// Seconds to wait between a plan and its first eviction, for example to let an autoscaler add nodes. If the
    /// capacity becomes free in that time, no pod is evicted. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub preemption_delay_seconds: Option<i32>,
}

/// Which template of which Workload a group was made from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupTemplateRef {
    /// The Workload in the group's namespace.
    pub workload: WorkloadTemplateRef,
}

/// A template inside a Workload.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadTemplateRef {
    /// Name of the Workload.
    #[schemars(length(min = 1, max = 253))]
    pub workload_name: String,
    /// Name of the template in the Workload's `podGroupTemplates`.
    #[schemars(length(min = 1, max = 63))]
    pub pod_group_template_name: String,
}

/// What Giveway observed and decided. The webhook writes `preemptedPods`, the operator writes the other fields.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// The state of the group in sentences. Types: `Scheduled`, `PodGroupInitiallyScheduled`, `Preempting`,
    /// `DisruptionTarget`, `PodsNotMatchingPriority`, `CapacityRequested`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The `metadata.generation` that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// How many pods the group has, by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// Members that have finished, which count for the gang's `minCount`.
    #[serde(default, skip_serializing_if = "FinishedMembers::is_empty")]
    #[schemars(default)]
    pub finished: FinishedMembers,
    /// The preemption in progress for this group, or the last one, in short; administrators read the whole plan in the
    /// Preemption of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionSummary>,
    /// The last preemptor of pods of this PodGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted_by: Option<PreemptorReference>,
    /// Pods that kube-scheduler was permitted to preempt, by UID. The webhook's guard writes them, for groups in mode `PodGroup`. The
    /// operator removes an entry when it has acted on it: so it learns of preemptions that happened while it was not running.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default, extend("maxProperties" = 64))]
    pub preempted_pods: BTreeMap<String, PreemptedPod>,
}

/// The preemptor of pods of a PodGroup.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptorReference {
    /// `PodGroup`, `Pod`, or `Scheduler` if kube-scheduler preempted a pod of the group. Later versions may add kinds.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its namespace; absent if users of the PodGroup's namespace must not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Its name; absent if users of the PodGroup's namespace must not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Its UID; absent if it is kube-scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub uid: Option<String>,
}

impl PreemptorReference {
    /// Returns the reference to a preemptor of which only its scheduler, with this name, is known.
    pub fn scheduler(name: &str) -> Self {
        Self { kind: "Scheduler".to_owned(), name: Some(name.to_owned()), ..Self::default() }
    }

    /// Returns this reference to a preemptor without its name and namespace, for users who must not know these.
    pub fn without_names(&self) -> Self {
        Self { namespace: None, name: None, ..self.clone() }
    }
}

/// Formats the preemptor for use within a sentence: `podgroup/NAMESPACE/NAME`, or the name of a scheduler.
impl std::fmt::Display for PreemptorReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.to_lowercase();
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, "{kind}/{namespace}/{name}"),
            (None, Some(name)) => f.write_str(name),
            (_, None) => {
                write!(f, "a {kind} of another namespace (UID {})", self.uid.as_deref().unwrap_or("unknown"))
            }
        }
    }
}

/// A pod that kube-scheduler was permitted to preempt.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptedPod {
    /// Name of the pod.
    #[schemars(length(max = 253))]
    pub name: String,
    /// When the guard permitted its deletion.
    pub time: Time,
}

/// Pods of a group by state. A pod is live if it is neither terminating nor finished. A count that is absent is 0, so that later versions
/// can add counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCounts {
    /// All pods of the group that exist.
    #[schemars(range(min = 0))]
    pub total: i32,
    /// Live pods with Giveway's scheduling gate.
    #[schemars(range(min = 0))]
    pub gated: i32,
    /// Live pods that have a node, ready ones included.
    #[schemars(range(min = 0))]
    pub scheduled: i32,
    /// Live pods that have a node and are ready.
    #[schemars(range(min = 0))]
    pub ready: i32,
    /// Pods in phase Succeeded.
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Pods in phase Failed.
    #[schemars(range(min = 0))]
    pub failed: i32,
}

impl PodGroupSpec {
    /// Returns `spec.preemptFor`: for how many members of the gang other pods are evicted.
    pub fn preempt_for(&self) -> PreemptFor {
        PreemptFor::of(self.preempt_for.as_deref())
    }

    /// Returns the key of the node label that must have the same value on all nodes of the group's pods; `None` without such a
    /// constraint.
    pub fn topology_key(&self) -> Option<&str> {
        self.scheduling_constraints.as_ref().and_then(SchedulingConstraints::topology_key)
    }
}
