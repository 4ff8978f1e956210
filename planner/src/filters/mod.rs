//! Filters that decide whether a pod fits on a node: those of kube-scheduler, one file each.
//!
//! [`Nodes`] orders the nodes by name; a node's position in that order is its *rank*, and ties are broken by the lowest rank. [`Occupancy`]
//! is the free capacity under an assumption (some pods removed, others placed). Filters that depend on the node alone are run once per
//! class of pods ([`unsuitable`]); the others use the occupancy.

mod declared_features;
mod exclusive;
mod kinds;
mod labels;
mod neighbours;
mod node_affinity;
mod node_name;
mod nodes;
mod occupancy;
mod pins;
mod pod_affinity;
mod resources;
mod spread;
mod taints;
mod unschedulable;
mod volumes;

pub(crate) use neighbours::{CounterState, NodeDomains, RejectingCounter, Slack};
pub(crate) use nodes::{Nodes, Nomination, Rank};
pub(crate) use occupancy::Occupancy;
pub(crate) use pins::NodesByLabel;
pub(crate) use pod_affinity::{affinity_term_matches, excluded_by_anti_affinity};
pub(crate) use spread::is_peer;

use crate::api::Refusal;
use crate::model::{Node, Pod};

/// Returns why a node is infeasible for a pod, by the filters that do not depend on other pods of the node, so that no eviction there
/// helps: taints, node affinity, volumes and others. `None` if the node passes them.
pub(crate) fn unsuitable(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node)
        .or_else(|| node_name::refuse(pod, node))
        .or_else(|| taints::refuse(pod, node))
        .or_else(|| node_affinity::refuse(pod, node))
        .or_else(|| declared_features::refuse(pod, node))
        .or_else(|| volumes::refuse(pod, node))
        .or_else(|| exclusive::refuse(pod, node))
}

/// Returns why a node would be infeasible for a pod, by the filters of [`unsuitable`], if the pod were not bound: its own node name is
/// ignored. `None` if the node passes them.
pub(crate) fn unsuitable_if_unbound(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node)
        .or_else(|| taints::refuse(pod, node))
        .or_else(|| node_affinity::refuse(pod, node))
        .or_else(|| declared_features::refuse(pod, node))
        .or_else(|| volumes::refuse(pod, node))
        .or_else(|| exclusive::refuse(pod, node))
}
