//! Where a pod fits: the filters of kube-scheduler, one file each.
//!
//! [`Nodes`] orders the nodes by name; a node's place in that order is its *rank*, and every choice that is not decided
//! otherwise falls to the lowest rank. [`Occupancy`] is what is free under an assumption (these pods gone, those placed).
//! Filters that only look at the node are asked once per kind of pod ([`unsuitable`]); the others ask the room.

mod kinds;
mod labels;
mod neighbours;
mod node_affinity;
mod node_name;
mod nodes;
mod occupancy;
mod pod_affinity;
mod ports;
mod resources;
mod spread;
mod taints;
mod unschedulable;
mod volumes;

pub(crate) use neighbours::{Domains, Mood, Objector, Slack};
pub(crate) use nodes::{Nodes, Rank};
pub(crate) use occupancy::Occupancy;
pub(crate) use pod_affinity::{about, repelled};
pub(crate) use spread::is_peer;

use crate::api::Refusal;
use crate::model::{Node, Pod};

/// Why a node is out for a pod, whatever else runs there; `None` when it is not.
pub(crate) fn unsuitable(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node)
        .or_else(|| node_name::refuse(pod, node))
        .or_else(|| taints::refuse(pod, node))
        .or_else(|| node_affinity::refuse(pod, node))
        .or_else(|| volumes::refuse(pod, node))
}

/// The same for a pod like this one that is not bound yet.
pub(crate) fn unsuitable_anew(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node)
        .or_else(|| taints::refuse(pod, node))
        .or_else(|| node_affinity::refuse(pod, node))
        .or_else(|| volumes::refuse(pod, node))
}
