//! Where a pod fits: the filters of kube-scheduler, one file each.
//!
//! [`Nodes`] orders the nodes by name; a node's place in that order is its *rank*, and every choice that is not decided
//! otherwise falls to the lowest rank. [`Room`] is what is free under an assumption (these pods gone, those placed).
//! Filters that only look at the node are asked once per kind of pod ([`unsuitable`]); the others ask the room.

mod around;
mod node_affinity;
mod node_name;
mod nodes;
mod pod_affinity;
mod ports;
mod resources;
mod room;
mod spread;
mod taints;
mod unschedulable;

pub(crate) use nodes::{Nodes, Rank};
pub(crate) use pod_affinity::{about, repelled};
pub(crate) use room::Room;

use crate::model::{Node, Pod, ResourceId};
use std::fmt;

/// Why a pod does not fit on a node. `Display` completes "3 " as kube-scheduler does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The pod is bound to another node.
    NodeName,
    /// The node is cordoned.
    Unschedulable,
    /// The pod does not tolerate a taint: key and value.
    Taint(String, String),
    /// The pod's node selector or required node affinity does not match.
    NodeAffinity,
    /// A port of the node is taken.
    Ports,
    /// The node has too little of this resource.
    Insufficient(ResourceId),
    /// The pod's affinity finds nobody there.
    Affinity,
    /// The pod's anti-affinity, or that of a pod that is there, keeps it away.
    AntiAffinity,
    /// It would be more than its topology spread allows.
    Spread,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeName => f.write_str("node(s) didn't match the requested node name"),
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::Taint(key, value) => write!(f, "node(s) had untolerated taint {{{key}: {value}}}"),
            Self::NodeAffinity => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::Ports => f.write_str("node(s) didn't have free ports for the requested pod ports"),
            Self::Insufficient(_) => f.write_str("node(s) had insufficient resources"),
            Self::Affinity => f.write_str("node(s) didn't match pod affinity rules"),
            Self::AntiAffinity => f.write_str("node(s) didn't satisfy pod anti-affinity rules"),
            Self::Spread => f.write_str("node(s) didn't match pod topology spread constraints"),
        }
    }
}

/// Why a node is out for a pod, whatever else runs there; `None` when it is not.
pub(crate) fn unsuitable(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node)
        .or_else(|| node_name::refuse(pod, node))
        .or_else(|| taints::refuse(pod, node))
        .or_else(|| node_affinity::refuse(pod, node))
}

/// The same for a pod like this one that is not bound yet.
pub(crate) fn unsuitable_anew(pod: &Pod, node: &Node) -> Option<Refusal> {
    unschedulable::refuse(pod, node).or_else(|| taints::refuse(pod, node)).or_else(|| node_affinity::refuse(pod, node))
}

impl Refusal {
    /// The reason for one node: "insufficient cpu".
    pub(crate) fn on_one_node<'n>(&self, name: impl Fn(ResourceId) -> &'n str) -> String {
        match self {
            Self::NodeName => "it is bound to another node".to_owned(),
            Self::Unschedulable => "the node is unschedulable".to_owned(),
            Self::Taint(key, value) => format!("the node has the untolerated taint {{{key}: {value}}}"),
            Self::NodeAffinity => "the node doesn't match its node affinity/selector".to_owned(),
            Self::Ports => "a port that it needs is taken".to_owned(),
            Self::Insufficient(id) => format!("insufficient {}", name(*id)),
            Self::Affinity => "nobody is there whom its pod affinity wants".to_owned(),
            Self::AntiAffinity => "pod anti-affinity keeps it away".to_owned(),
            Self::Spread => "its topology spread constraints do not allow it".to_owned(),
        }
    }
}
