//! `Workload`: templates of pod groups (KEP-5710).

use crate::brief::first_characters;
use crate::constraints::SchedulingConstraints;
use crate::policy::{DisruptionMode, SchedulingPolicy};
use crate::schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most templates of one workload.
pub const MOST_TEMPLATES: usize = 8;

/// Templates for the pod groups of one workload.
///
/// A pod names a template with the labels `scheduling.giveway.dev/workload` and
/// `scheduling.giveway.dev/pod-group-template`; the operator creates the PodGroup when the first such pod appears.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "scheduling.giveway.dev",
    version = "v1alpha1",
    kind = "Workload",
    plural = "workloads",
    shortname = "gwl",
    category = "giveway",
    namespaced,
    status = "WorkloadStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Workload holds the templates of the pod groups of one workload. A pod names a template with the labels `scheduling.giveway.dev/workload` and `scheduling.giveway.dev/pod-group-template` (and `scheduling.giveway.dev/pod-group-replica` for one group per replica); the PodGroup is created when the first such pod appears.",
    printcolumn = r#"{"name": "Groups", "type": "integer", "jsonPath": ".status.groups.total", "description": "pod groups made from this workload's templates"}"#,
    printcolumn = r#"{"name": "Scheduled", "type": "integer", "jsonPath": ".status.groups.scheduled", "description": "groups that are scheduled"}"#,
    printcolumn = r#"{"name": "Pending", "type": "integer", "jsonPath": ".status.groups.pending", "description": "groups that wait"}"#,
    printcolumn = r#"{"name": "Preempting", "type": "integer", "jsonPath": ".status.groups.preempting", "description": "groups for which others are evicted now"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[x_kube(validation = Rule::new("has(self.controllerRef) == has(oldSelf.controllerRef) && (!has(self.controllerRef) || self.controllerRef == oldSelf.controllerRef)").message("controllerRef: field is immutable").field_path(".controllerRef"))]
#[x_kube(validation = Rule::new("oldSelf.podGroupTemplates.all(old, self.podGroupTemplates.exists(template, template.name == old.name))").message("podGroupTemplates: templates cannot be removed: keep them all, or create another Workload").field_path(".podGroupTemplates"))]
pub struct WorkloadSpec {
    /// The object that owns this workload, such as a Job or a LeaderWorkerSet. For people and tools; Giveway does
    /// not read it. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_ref: Option<ControllerRef>,
    /// The templates, at most 8, each with a name of its own. Templates can be added, but not removed: a template that is added again could have
    /// another priority class.
    #[schemars(length(max = MOST_TEMPLATES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pod_group_templates: Vec<PodGroupTemplate>,
}

/// Maximum length of the name of a kind.
const LONGEST_KIND: usize = 63;
/// Maximum length of the name of an object, and of an API group.
const LONGEST_NAME: usize = 253;

/// The controller of a workload or of pods.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerRef {
    /// API group of the controller; empty for the core group.
    #[serde(default)]
    #[schemars(length(max = LONGEST_NAME))]
    pub api_group: String,
    /// Kind of the controller.
    #[schemars(length(min = 1, max = LONGEST_KIND))]
    pub kind: String,
    /// Name of the controller, in the namespace of the workload or of the pods.
    #[schemars(length(min = 1, max = LONGEST_NAME))]
    pub name: String,
}

/// Refers to the owner of an object. Any user can write owner references, and the API server does not limit the length of their values, so
/// longer ones are cut.
impl From<&OwnerReference> for ControllerRef {
    fn from(owner: &OwnerReference) -> Self {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        Self {
            api_group: first_characters(group, LONGEST_NAME).to_owned(),
            kind: first_characters(&owner.kind, LONGEST_KIND).to_owned(),
            name: first_characters(&owner.name, LONGEST_NAME).to_owned(),
        }
    }
}

/// Formats the controller as `KIND/NAME`.
impl std::fmt::Display for ControllerRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// What a pod group made from this template looks like.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.schedulingPolicy.basic) && has(self.disruptionMode) && self.disruptionMode == 'PodGroup')").message("disruptionMode `PodGroup` cannot be used with schedulingPolicy `basic`: use `Pod`, or schedulingPolicy `gang`").field_path(".disruptionMode"))]
#[x_kube(validation = Rule::new("has(self.disruptionMode) == has(oldSelf.disruptionMode) && (!has(self.disruptionMode) || self.disruptionMode == oldSelf.disruptionMode)").message("disruptionMode: field is immutable").field_path(".disruptionMode"))]
#[x_kube(validation = Rule::new("has(oldSelf.priorityClassName) ? (has(self.priorityClassName) && self.priorityClassName == oldSelf.priorityClassName) : (!has(self.priorityClassName) || !has(oldSelf.priority))").message("priorityClassName: field is immutable").field_path(".priorityClassName"))]
#[x_kube(validation = Rule::new("!has(oldSelf.priority) || (has(self.priority) && self.priority == oldSelf.priority)").message("priority: field is immutable").field_path(".priority"))]
#[x_kube(validation = Rule::new("!(has(self.schedulingPolicy.basic) && has(self.schedulingConstraints) && has(self.schedulingConstraints.topology) && self.schedulingConstraints.topology.size() > 0)").message("schedulingConstraints.topology cannot be used with schedulingPolicy `basic`, whose pods are not gated: use schedulingPolicy `gang`").field_path(".schedulingConstraints"))]
#[x_kube(validation = Rule::new("!(has(self.schedulingPolicy.basic) && has(self.preemptFor))").message("preemptFor cannot be used with schedulingPolicy `basic`, whose pods are placed one by one: leave it out, or use schedulingPolicy `gang`").field_path(".preemptFor"))]
#[x_kube(validation = Rule::new("has(self.schedulingConstraints) == has(oldSelf.schedulingConstraints) && (!has(self.schedulingConstraints) || self.schedulingConstraints == oldSelf.schedulingConstraints)").message("schedulingConstraints: field is immutable: create another template instead").field_path(".schedulingConstraints"))]
pub struct PodGroupTemplate {
    /// Name of the template: a DNS label, unique in the workload. Pods name it in the label
    /// `scheduling.giveway.dev/pod-group-template`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// How the pods are scheduled: exactly one of `basic: {}` and `gang: {minCount: N}`. The choice is immutable,
    /// `minCount` is not; groups that exist keep theirs.
    pub scheduling_policy: SchedulingPolicy,
    /// Where the pods of each group are placed together: with `topology: [{key: LABEL}]` all of them run on nodes with one
    /// value of this label, such as one rack; another group may be in another one. Needs `gang`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<SchedulingConstraints>,
    /// What is evicted together: `Pod` (default) or `PodGroup` (the whole group or nothing; needs `gang`). Immutable.
    #[serde(default)]
    #[schemars(default)]
    pub disruption_mode: DisruptionMode,
    /// For how many members of a group other pods are evicted: `MinCount` (default) or `AllMembers`. Needs `gang`. It may be changed;
    /// groups that exist keep theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["MinCount", "AllMembers"]))]
    pub preempt_for: Option<String>,
    /// The PriorityClass of the groups; without it the `globalDefault` class, or priority 0. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// The priority, filled from the class by admission. Leave it out. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// Summary of the groups made from a workload. Written by the operator only.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// The state of the workload in sentences. Type: `PodGroupsScheduled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The `metadata.generation` that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// How many groups there are, by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupCounts>,
}

/// Groups of a workload by state. A count that is absent is 0, so that later versions can add counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroupCounts {
    /// All groups.
    #[schemars(range(min = 0))]
    pub total: i32,
    /// Groups whose condition `Scheduled` is True.
    #[schemars(range(min = 0))]
    pub scheduled: i32,
    /// Groups that are not scheduled, for example because pods are missing or do not fit.
    #[schemars(range(min = 0))]
    pub pending: i32,
    /// Groups for which a preemption is in progress.
    #[schemars(range(min = 0))]
    pub preempting: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_an_owner_reference_are_cut_to_the_lengths_of_the_schema() {
        let owner = |name: &str| OwnerReference {
            api_version: "batch/v1".into(),
            kind: "K".repeat(100),
            name: name.into(),
            ..OwnerReference::default()
        };
        let found = ControllerRef::from(&owner(&"é".repeat(10_000)));
        assert_eq!((found.api_group.as_str(), found.kind.len(), found.name.chars().count()), ("batch", 63, 253));
        let core = ControllerRef::from(&OwnerReference { api_version: "v1".into(), kind: "Pod".into(), ..owner("p") });
        assert_eq!((core.api_group.as_str(), core.to_string()), ("", "Pod/p".to_owned()));
    }
}
