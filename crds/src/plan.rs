//! The plan of a preemption as it is stored, before the first eviction, in `status.preemption` of a PodGroup or in
//! the annotation [`crate::keys::ANNOTATION_PLAN`] of a single pod.
//!
//! A new leader resumes or drops a stored plan by what is written here alone, so everything that an eviction needs
//! (UIDs above all) is in it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a preemption is (design, section 5).
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum PlanState {
    /// Stored; nobody is evicted yet.
    #[default]
    Planned,
    /// Victims are being evicted.
    Evicting,
    /// Every eviction was accepted; victims are terminating.
    WaitingForVictims,
    /// The victims are gone and the members are released to the scheduler.
    Releasing,
    /// Every placed member is bound.
    Completed,
    /// Dropped because it is not needed any more, or no longer fits.
    Cancelled,
    /// It could not be carried out.
    Failed,
}

impl PlanState {
    /// Whether the plan still has something to do.
    pub fn in_flight(self) -> bool {
        matches!(self, Self::Planned | Self::Evicting | Self::WaitingForVictims | Self::Releasing)
    }
}

/// A decision: who is placed where, who is evicted for it, and what that costs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPlan {
    /// Identity of the plan: unique for the preemptor.
    pub id: String,
    /// Identity of the leader that made or resumed the plan; evictions are made by the leader of this term only.
    pub term: String,
    /// How far it is.
    pub state: PlanState,
    /// The algorithm that made it.
    pub strategy: String,
    /// When the plan was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<Time>,
    /// One sentence: what happens, or what happened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The members that get a place, and where.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["pod"]))]
    pub placements: Vec<StoredPlacement>,
    /// Who is evicted, by unit.
    #[serde(default)]
    pub victims: Vec<StoredVictim>,
    /// What it costs.
    #[serde(default)]
    pub cost: StoredCost,
}

/// A member and its node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPlacement {
    /// Name of the pod, in the preemptor's namespace.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Name of the node.
    pub node: String,
}

/// A unit that is evicted: a whole group in `PodGroup` mode, or a single pod.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredVictim {
    /// `PodGroup` or `Pod`.
    pub kind: String,
    /// Namespace of the unit.
    pub namespace: String,
    /// Name of the group or pod.
    pub name: String,
    /// Its effective priority.
    pub priority: i32,
    /// Whether its eviction violates a PodDisruptionBudget.
    #[serde(default)]
    pub violates_budget: bool,
    /// Every pod of the unit that is evicted.
    pub pods: Vec<StoredVictimPod>,
}

/// A pod that is evicted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredVictimPod {
    /// Name of the pod.
    pub name: String,
    /// UID of the pod: only this pod is evicted, never a later one of the same name.
    pub uid: String,
    /// The node it runs on.
    pub node: String,
}

/// What a plan costs, in the order in which plans are compared (design, section 4, step 9).
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCost {
    /// Pods whose eviction violates a budget.
    pub budget_violations: i32,
    /// The highest priority among the victims; absent without victims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_victim_priority: Option<i32>,
    /// Pods that are evicted.
    pub victim_pods: i32,
    /// Whole groups that are evicted.
    pub victim_groups: i32,
}
