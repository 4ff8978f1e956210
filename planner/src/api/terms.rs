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
    /// Returns true if a pod is a critical add-on: by its own priority, or by an annotation if its namespace is one of
    /// [`Self::namespaces`].
    pub fn is_critical(&self, pod: &Pod) -> bool {
        pod.is_critical_addon(&self.namespaces)
    }

    /// Returns true if the planner may evict other pods for this pending pod: it is critical, and its namespace is one of
    /// [`Self::namespaces`]. In other namespaces, a tenant may be able to create pods of a `system-` class; kube-scheduler preempts for
    /// these, and neither shortens grace periods nor evicts pods of the same priority.
    pub fn evicts_for(&self, pod: &Pod) -> bool {
        self.namespaces.contains(pod.key.namespace.as_str()) && self.is_critical(pod)
    }

    /// Returns whether `pod` may be evicted for the critical add-on `addon`. `only_node` is true if the add-on can run on no node but that
    /// of `pod`. `grouped` is true if the pod is disrupted together with its group: then it may be evicted although it is a member of a
    /// DaemonSet.
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

/// Returns true if the pod's own grace period is longer than [`critical::LONGEST_GRACE`], to which it is shortened when the pod is evicted
/// for a critical add-on.
pub fn is_shortened(pod: &Pod) -> bool {
    pod.grace > critical::LONGEST_GRACE
}
