//! Critical add-ons that wait for a node: their order, and the taint that keeps a node for one of them (design, section 5, "Critical
//! add-ons"). The planner decides about them, and the plans in flight carry the decisions out.

pub mod queue;
pub mod taints;

use crate::plans::AddonRescue;
use giveway_crds::plan::StoredRescue;
use giveway_planner::rescue::Terms;
use queue::AddonQueue;
use std::sync::Arc;
use taints::Taints;

/// The state of this concern.
#[derive(Debug)]
pub struct CriticalAddons {
    /// The pending add-ons.
    pub queue: AddonQueue,
    /// Which pods are critical add-ons; `None` if Giveway does not preempt for them.
    pub terms: Option<Arc<Terms>>,
    /// Taints that no plan needs.
    pub taints: Taints,
}

impl CriticalAddons {
    /// Creates the state without a pending critical add-on. `terms` says which pods are critical add-ons; `None` if Giveway does not
    /// preempt for them.
    pub fn new(terms: Option<Terms>) -> Self {
        Self { queue: AddonQueue::default(), terms: terms.map(Arc::new), taints: Taints::default() }
    }

    /// Returns the additional state of a plan in flight for a critical add-on, from its stored form; `None` if Giveway does not preempt for
    /// critical add-ons.
    pub fn rescuing(&self, stored: StoredRescue) -> Option<AddonRescue> {
        Some(AddonRescue::new(stored, Arc::clone(self.terms.as_ref()?)))
    }
}
