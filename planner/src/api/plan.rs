//! A plan: placements, victims, and their cost.

use crate::api::cost::{Cost, CostBound};
use crate::api::domain::Domain;
use crate::model::{ObjectKey, UnitKind};
use smallvec::SmallVec;
use smol_str::SmolStr;

/// A member and its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// Name of the node.
    pub node: SmolStr,
}

/// A plan: placements, victims, and their cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the strategy that found it.
    pub strategy: &'static str,
    /// The topology domain in which the group is placed, if it must be placed within one.
    pub domain: Option<Domain>,
    /// Placements in the order in which they were made: with inter-pod constraints, each member fits beside those before it.
    pub placements: Vec<Placement>,
    /// The victims, from the most to the least important. Empty if it is enough that the pods of `awaited` terminate.
    pub victims: Vec<Victim>,
    /// Pods that are leaving anyway (terminating, or evicted by a decision in flight) and must terminate before the members fit.
    pub awaited: Vec<ObjectKey>,
    /// What it costs.
    pub cost: Cost,
    /// What every plan for as many members costs at least. Only `least-cost` computes it.
    pub least: CostBound,
    /// How it was found, a sentence per step.
    pub trace: Vec<String>,
    /// Requirements of the members that the planner cannot evaluate; kube-scheduler decides about them.
    pub not_modeled: Vec<String>,
}

/// A unit that is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// A single pod or a whole group.
    pub kind: UnitKind,
    /// Key of the pod or group.
    pub key: ObjectKey,
    /// Its effective priority.
    pub priority: i32,
    /// Every pod of it that is evicted, by name.
    pub pods: SmallVec<[VictimPod; 1]>,
    /// Whether evicting it violates a PodDisruptionBudget.
    pub violates_budget: bool,
    /// One sentence that says why it was chosen.
    pub why: SmolStr,
}

/// A pod that is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimPod {
    /// The pod.
    pub key: ObjectKey,
    /// Its UID: only this pod is evicted.
    pub uid: SmolStr,
    /// The node it runs on.
    pub node: SmolStr,
}
