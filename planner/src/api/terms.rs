//! Which pods are critical add-ons, and which pods may be evicted for one (design, section 5, "Critical pods").

use crate::model::Pod;
use giveway_crds::critical;
use std::collections::BTreeSet;

/// The administrator's configuration of critical add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The namespaces of critical add-ons: pods are evicted only for pods there, and only there an annotation makes a pod critical.
    pub namespaces: BTreeSet<String>,
    /// True if a critical add-on that can run on one node only may displace critical pods of its own priority that fit on another node.
    pub stranded: bool,
}

/// Whether a pod may be evicted for a critical add-on; variants ascend from allowed to forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It may be evicted.
    Goes,
    /// It may be evicted if it fits on another node: it is critical, and the add-on can run on no other node.
    GoesElsewhere,
    /// It must not be evicted.
    Stays,
}

impl Terms {
    /// Returns true if a pod is critical: by its own priority, or by an annotation where that counts.
    pub fn is_critical(&self, pod: &Pod) -> bool {
        pod.is_critical_addon(&self.namespaces)
    }

    /// Returns true if pods are evicted for this pod: it is critical, and in a namespace of critical add-ons. Elsewhere a tenant may be able to
    /// create pods of a `system-` class. kube-scheduler preempts for them, and neither shortens grace periods nor evicts pods of the same
    /// priority.
    pub fn evicts_for(&self, pod: &Pod) -> bool {
        self.namespaces.contains(pod.key.namespace.as_str()) && self.is_critical(pod)
    }

    /// Returns whether a pod on the node of `addon` may be evicted; `only_node` says that the add-on can run on no other node, `grouped`
    /// that the pod is disrupted together with its group, which a member of a DaemonSet does not protect.
    pub fn fate(&self, addon: &Pod, only_node: bool, pod: &Pod, grouped: bool) -> Fate {
        if pod.mirror || (pod.daemon && !grouped) {
            Fate::Stays
        } else if !self.is_critical(pod) {
            Fate::Goes
        } else if self.stranded && only_node && pod.priority == addon.priority {
            Fate::GoesElsewhere
        } else {
            Fate::Stays
        }
    }
}

/// Returns true if a pod that is evicted for a critical add-on gets a shorter grace period than its own.
pub fn is_shortened(pod: &Pod) -> bool {
    pod.grace > critical::LONGEST_GRACE
}
