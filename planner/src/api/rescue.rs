//! What is decided for a critical add-on.

use crate::api::hopeless::Hopeless;
use crate::api::plan::Plan;
use crate::api::step::Step;
use smol_str::SmolStr;

/// What is decided for a critical add-on.
#[derive(Clone, Debug, PartialEq)]
pub enum Rescue {
    /// There is no such pod, or it is not pending, is gated, or is a member of a group.
    Nothing,
    /// The pod fits on this node, now or after the pods that are already leaving have terminated: no eviction is needed.
    Fits(SmolStr),
    /// Some pods of one node must be evicted.
    Evict(Box<Eviction>),
    /// No node fits whatever is evicted, or the pod is pending for a reason that evictions cannot remove.
    Hopeless(Box<Hopeless>),
}

/// The evictions for a critical add-on.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// The plan, of strategy [`critical::STRATEGY`].
    pub plan: Plan,
    /// The least disruptive step in which the pod fits.
    pub step: Step,
    /// Pods whose grace is shortened to [`critical::LONGEST_GRACE`].
    pub shortened: usize,
}
