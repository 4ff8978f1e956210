//! Who is a critical add-on, and who may go for one (design, section 5, "Critical pods").

use crate::model::Pod;
use giveway_crds::critical;
use std::collections::BTreeSet;

/// What the administrator says of critical add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Namespaces in which an annotation makes a pod a critical add-on.
    pub namespaces: BTreeSet<String>,
    /// Whether a critical add-on that can run on one node only may displace critical pods of its own priority that have a
    /// place elsewhere.
    pub stranded: bool,
}

/// Whether a pod may go for a critical add-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It may.
    Goes,
    /// It may if it has a place elsewhere: it is critical, and the add-on is stranded.
    GoesElsewhere,
    /// It stays.
    Stays,
}

impl Terms {
    /// Whether a pod is a critical add-on: by its own priority, or by an annotation where that counts.
    pub fn is_critical(&self, pod: &Pod) -> bool {
        pod.is_critical_addon(&self.namespaces)
    }

    /// What becomes of a pod on the node of `addon`; `only_node` says that the add-on can run on no other one, `grouped` that
    /// the pod goes with a whole group, which one pod of a DaemonSet does not shield.
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

/// Whether a pod's grace is shortened when it goes for a critical add-on.
pub fn is_shortened(pod: &Pod) -> bool {
    pod.grace > critical::LONGEST_GRACE
}
