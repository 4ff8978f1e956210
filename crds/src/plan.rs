//! The plan of a preemption: placements, victims, cost and state.
//!
//! It is stored as a [`crate::Preemption`] before the first eviction. A new leader resumes or cancels it using only the
//! stored plan, so everything that an eviction needs (in particular the UIDs) is in it.

use crate::brief::MOST_OF_MESSAGE;
use crate::workload::ControllerRef;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

/// Maximum number of placements, of units and of pods of a unit in one object. An object has fewer: each takes at least as many of its
/// [bytes](crate::preemption::PART_BYTES) as the names of its fields.
pub const MOST_ITEMS: usize = 8_192;

/// How far a preemption is (design, section 5). A string in objects, so that later versions can add states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum PlanState {
    /// The plan is stored; no pod has been evicted for it.
    #[default]
    Planned,
    /// Victims are being evicted.
    Evicting,
    /// Every eviction was accepted; victims are terminating.
    WaitingForVictims,
    /// The victims have terminated, and the members are ungated, so that kube-scheduler can bind them.
    Ungating,
    /// Every placed member is bound.
    Completed,
    /// The plan was cancelled, for example because it is not needed any more or no longer fits.
    Cancelled,
    /// It could not be carried out.
    Failed,
    // The last state: a test counts up to it.
    /// The plan was only stored: no pod is evicted for it, because Giveway only observes.
    Observed,
}

impl PlanState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Planned,
        Self::Evicting,
        Self::WaitingForVictims,
        Self::Ungating,
        Self::Completed,
        Self::Cancelled,
        Self::Failed,
        Self::Observed,
    ];

    /// Parses the state of a plan as it is stored in the status of a `Preemption`; `None` if this version of Giveway does not know it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns true if the plan has not ended: it may still evict pods or reserve capacity.
    pub fn in_flight(self) -> bool {
        matches!(self, Self::Planned | Self::Evicting | Self::WaitingForVictims | Self::Ungating)
    }

    /// Returns the state of the plan as it is stored in the status of a `Preemption`, such as `Completed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "Planned",
            Self::Evicting => "Evicting",
            Self::WaitingForVictims => "WaitingForVictims",
            Self::Ungating => "Ungating",
            Self::Completed => "Completed",
            Self::Cancelled => "Cancelled",
            Self::Failed => "Failed",
            Self::Observed => "Observed",
        }
    }
}

/// Reads a state. A state that this version does not know is read as `Cancelled`, so that no pod is evicted for the plan and the object
/// with the plan can be read.
impl<'de> Deserialize<'de> for PlanState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::parse(&text).unwrap_or(Self::Cancelled))
    }
}

/// The schema is a string without `enum`: the API server stores the states of later versions.
impl JsonSchema for PlanState {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PlanState".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": 63})
    }
}

/// Why pods are evicted (`spec.cause` of a Preemption). A string, so that later versions can add causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// A PodGroup or pod of higher priority needs the capacity.
    #[default]
    Preemptor,
    /// A critical add-on needs the capacity.
    CriticalAddon,
    /// kube-scheduler preempted a pod of a PodGroup in mode `PodGroup`: its other pods are evicted.
    MemberPreempted,
    /// A gang has been partially scheduled for too long: its pods are evicted.
    PartiallyScheduled,
    /// A plan was cancelled after it evicted some pods of a PodGroup in mode `PodGroup`: the others are evicted.
    PartiallyDisrupted,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 5] = [
        Self::Preemptor,
        Self::CriticalAddon,
        Self::MemberPreempted,
        Self::PartiallyScheduled,
        Self::PartiallyDisrupted,
    ];

    /// Returns the cause of the plan as it is stored in the spec of a `Preemption`, such as `CriticalAddon`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preemptor => "Preemptor",
            Self::CriticalAddon => "CriticalAddon",
            Self::MemberPreempted => "MemberPreempted",
            Self::PartiallyScheduled => "PartiallyScheduled",
            Self::PartiallyDisrupted => "PartiallyDisrupted",
        }
    }

    /// Parses the cause of a plan as it is stored in the spec of a `Preemption`; `None` if this version of Giveway does not know it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == text)
    }

    /// Returns true if pods are evicted to place the pods of a preemptor, and false if the pods of a disrupted PodGroup are evicted without
    /// a preemptor.
    pub fn is_plan(self) -> bool {
        matches!(self, Self::Preemptor | Self::CriticalAddon)
    }
}

/// A whole decision: one [`crate::Preemption`] stores it, or several store its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredPlan {
    /// Identity of the plan, and name of its `Preemption`.
    pub id: String,
    /// Identity of the leader that made or resumed the plan; only the leader of this term evicts for it.
    pub term: String,
    /// State of the plan.
    pub state: PlanState,
    /// Why pods are evicted.
    pub cause: Cause,
    /// The preemptor; it remains set when the plan is cancelled; empty if there is none.
    pub preemptor: StoredPreemptor,
    /// The algorithm that made the plan; empty for other causes than a preemptor.
    pub strategy: String,
    /// One sentence: what the plan does, and for which preemptor.
    pub reason: String,
    /// When the plan was made; for a plan that replaced a postponed one, when the postponed one was made.
    pub planned_at: Option<Time>,
    /// One sentence: what happens, or what happened.
    pub message: String,
    /// The topology domain of the placements, if the group must be placed within one.
    pub domain: Option<StoredDomain>,
    /// The placed members and their nodes.
    pub placements: Vec<StoredPlacement>,
    /// The evicted units: pods, or groups that are disrupted together.
    pub victims: Vec<StoredVictim>,
    /// The cost of the plan.
    pub cost: StoredCost,
    /// Set if the plan is for a critical add-on.
    pub critical_addon: Option<StoredRescue>,
}

impl StoredPlan {
    /// Returns the sort key that orders the plans of a preemptor from the oldest to the newest. Plan names of one term
    /// end with a number, so a longer name is newer.
    pub fn age_order(&self) -> (Option<Timestamp>, usize, &str) {
        (self.planned_at.as_ref().map(|time| time.0), self.id.len(), &self.id)
    }
}

/// What is special about a plan for a critical add-on.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRescue {
    /// How disruptive the evictions are: step 1 evicts only pods whose budgets allow it and whose grace period is at
    /// most 10 s, step 2 also shortens longer grace periods to 10 s, step 3 also violates budgets that are not
    /// guaranteed.
    #[schemars(range(min = 1, max = 3))]
    pub step: i32,
    /// Whether the taint CriticalAddonsOnly reserves the node for the pod; otherwise the pod is nominated.
    #[serde(default)]
    pub taint: bool,
}

/// The PodGroup or pod that needs the capacity.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPreemptor {
    /// `PodGroup` or `Pod`.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its UID: only this object preempts, never a later one of the same name.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// The effective priority that it preempts with.
    pub priority: i32,
}

/// A domain of topology: the nodes with this value of a label.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredDomain {
    /// Key of the node label.
    #[schemars(length(max = 317))]
    pub key: String,
    /// Its value.
    #[schemars(length(max = 63))]
    pub value: String,
}

/// Formats the domain as a node selector on the command line: `KEY=VALUE`.
impl std::fmt::Display for StoredDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// A member and its node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPlacement {
    /// Name of the pod, in the preemptor's namespace.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// UID of the pod.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// Name of the node.
    #[schemars(length(max = 253))]
    pub node: String,
}

/// A unit that is evicted: a whole group in `PodGroup` mode, or a single pod.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredVictim {
    /// `PodGroup` or `Pod`.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Namespace of the unit.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name of the group or pod.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its effective priority.
    pub priority: i32,
    /// Whether its eviction violates a PodDisruptionBudget.
    #[serde(default)]
    pub violates_budget: bool,
    /// Whether no pod of the unit may be deleted if a budget refuses its eviction, because one of them has or had a guaranteed budget.
    /// Only where no plan evicts them: for a plan the priority of its preemptor decides.
    #[serde(default, skip_serializing_if = "is_false")]
    pub guaranteed: bool,
    /// The controller of its pods; absent for pods without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ControllerRef>,
    /// Every pod of the unit that is evicted.
    #[schemars(length(max = MOST_ITEMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<StoredVictimPod>,
}

/// Returns true if `value` is false, which is left out of the stored object.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A pod that is evicted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredVictimPod {
    /// Name of the pod.
    #[schemars(length(max = 253))]
    pub name: String,
    /// UID of the pod: only this pod is evicted, never a later one of the same name.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// The node it runs on.
    #[schemars(length(max = 253))]
    pub node: String,
}

/// What a plan costs, in the order in which plans are compared (design, section 4, step 9).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCost {
    /// Pods whose eviction violates a budget.
    #[schemars(range(min = 0))]
    pub budget_violations: i32,
    /// The highest priority among the victims; absent without victims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_victim_priority: Option<i32>,
    /// Pods that are evicted.
    #[schemars(range(min = 0))]
    pub victim_pods: i32,
    /// Whole groups that are evicted.
    #[schemars(range(min = 0))]
    pub victim_groups: i32,
    /// The last criterion by which no plan for as many pods is cheaper: `BudgetViolations`, `HighestPriority` or `PrioritySum` (no plan is
    /// cheaper at all, apart from tie-breaks). Absent if nothing is proven. Later versions may add criteria.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub proven_up_to: Option<String>,
    /// At least this many pods are evicted by every plan for as many pods that costs no more by budget violations and highest priority. Absent
    /// if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub least_victim_pods: Option<i32>,
}

/// Summary of a preemption in the status of its PodGroup. The plan itself is a [`crate::Preemption`], which only
/// administrators read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionSummary {
    /// Name of the Preemption.
    #[schemars(length(max = 253))]
    pub name: String,
    /// How far it is: `Planned` (stored, no pod has been evicted), `Evicting`, `WaitingForVictims` (every eviction was accepted), `Ungating` (the
    /// members are ungated, and kube-scheduler binds them), `Completed`, `Cancelled`, `Failed`, or `Observed` (only stored, because Giveway
    /// observes). Later versions may add states.
    pub state: PlanState,
    /// How many pods it evicts.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub victims: i32,
    /// One sentence: what happens, or what happened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = MOST_OF_MESSAGE))]
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_state_is_read_as_it_is_written_and_an_unknown_one_evicts_no_pod() {
        assert_eq!(PlanState::ALL.len(), PlanState::Observed as usize + 1, "every state is listed");
        for state in PlanState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), json!(state.as_str()));
            assert_eq!(from_value::<PlanState>(json!(state.as_str())).unwrap(), state);
        }
        let later: PreemptionSummary = from_value(json!({"name": "p", "state": "Later"})).unwrap();
        assert_eq!((later.state, later.state.in_flight()), (PlanState::Cancelled, false));
    }
}
