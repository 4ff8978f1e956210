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
pub(crate) use nodes::{Held, Nodes, Rank};
pub(crate) use occupancy::Occupancy;
pub(crate) use pins::Pins;
pub(crate) use pod_affinity::{about, repelled};
pub(crate) use spread::is_peer;

use crate::api::Refusal;
use crate::model::{Node, Pod};

/// Returns why a node is infeasible for a pod whatever else runs there; `None` if it is not.
pub(crate) fn unsuitable(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node)
        .or_else(|| node_name::refuse(pod, node))
        .or_else(|| taints::refuse(pod, node))
        .or_else(|| node_affinity::refuse(pod, node))
        .or_else(|| declared_features::refuse(pod, node))
        .or_else(|| volumes::refuse(pod, node))
        .or_else(|| exclusive::refuse(pod, node))
}

/// Returns why a node would be infeasible for a pod like this one that is not bound yet, whatever else runs there;
/// `None` if it would not be.
pub(crate) fn unsuitable_if_unbound(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node)
        .or_else(|| taints::refuse(pod, node))
        .or_else(|| node_affinity::refuse(pod, node))
        .or_else(|| declared_features::refuse(pod, node))
        .or_else(|| volumes::refuse(pod, node))
        .or_else(|| exclusive::refuse(pod, node))
}
