//! Why a pod does not fit on a node, in the words of kube-scheduler.

use crate::model::ResourceId;
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
    /// The node affinity that the configuration of the pod's scheduler adds does not match.
    AddedAffinity,
    /// The node does not declare a feature that the pod needs.
    Features,
    /// The node cannot attach a volume of the pod.
    Volumes,
    /// A port of the node is taken.
    Ports,
    /// Another pod uses a claim that only one pod may use (`ReadWriteOncePod`).
    ClaimInUse,
    /// The node has too little of this resource.
    Insufficient(ResourceId),
    /// No pod there matches the pod's affinity.
    Affinity,
    /// The pod's required anti-affinity, or that of a pod on the node or in its domain, excludes it.
    AntiAffinity,
    /// It would be more than its topology spread allows.
    Spread,
}

impl fmt::Display for Refusal {
    /// Writes the reason in the words of kube-scheduler, as it follows a number of nodes: `node(s) were unschedulable`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeName => f.write_str("node(s) didn't match the requested node name"),
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::Taint(key, value) => write!(f, "node(s) had untolerated taint {{{key}: {value}}}"),
            Self::NodeAffinity => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::AddedAffinity => f.write_str("node(s) didn't match scheduler-enforced node affinity"),
            Self::Features => f.write_str("node(s) didn't match Pod's required features"),
            Self::Volumes => f.write_str("node(s) didn't match PersistentVolume's node affinity"),
            Self::Ports => f.write_str("node(s) didn't have free ports for the requested pod ports"),
            Self::ClaimInUse => f.write_str(
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            ),
            Self::Insufficient(_) => f.write_str("node(s) had insufficient resources"),
            Self::Affinity => f.write_str("node(s) didn't match pod affinity rules"),
            Self::AntiAffinity => f.write_str("node(s) didn't satisfy pod anti-affinity rules"),
            Self::Spread => f.write_str("node(s) didn't match pod topology spread constraints"),
        }
    }
}

impl Refusal {
    /// Returns the reason as a clause about one node, such as "insufficient cpu". `name` returns the name of a resource.
    pub(crate) fn on_one_node<'n>(&self, name: impl Fn(ResourceId) -> &'n str) -> String {
        match self {
            Self::NodeName => "it is bound to another node".to_owned(),
            Self::Unschedulable => "the node is unschedulable".to_owned(),
            Self::Taint(key, value) => format!("the node has the untolerated taint {{{key}: {value}}}"),
            Self::NodeAffinity => "the node doesn't match its node affinity/selector".to_owned(),
            Self::AddedAffinity => {
                "the node doesn't match the node affinity of its scheduler's configuration".to_owned()
            }
            Self::Features => "the node doesn't declare a feature that it needs".to_owned(),
            Self::Volumes => "the node cannot attach one of its volumes".to_owned(),
            Self::Ports => "a port that it needs is taken".to_owned(),
            Self::ClaimInUse => "another pod uses one of its claims, which only one pod may use".to_owned(),
            Self::Insufficient(id) => format!("insufficient {}", name(*id)),
            Self::Affinity => "no pod there matches its pod affinity".to_owned(),
            Self::AntiAffinity => "its pod anti-affinity, or that of another pod, excludes the node".to_owned(),
            Self::Spread => "its topology spread constraints do not allow it".to_owned(),
        }
    }
}
