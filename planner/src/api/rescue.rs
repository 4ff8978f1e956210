//! What is decided for a critical add-on.

use crate::api::hopeless::Hopeless;
use crate::api::plan::Plan;
use crate::api::step::Step;
use smol_str::SmolStr;

/// What is decided for a critical add-on.
#[derive(Clone, Debug, PartialEq)]
pub enum Rescue {
    /// There is no such pod, or it does not wait for a node by itself.
    Nothing,
    /// This node has room, or will have it once the pods are gone that leave anyway: nobody has to go.
    Fits(SmolStr),
    /// Some pods of one node have to go.
    Evict(Box<Eviction>),
    /// No node has room whoever goes, or what it waits for is nothing that eviction cures.
    Hopeless(Box<Hopeless>),
}

/// Who goes for a critical add-on.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// The plan, of strategy [`critical::STRATEGY`].
    pub plan: Plan,
    /// How far it goes.
    pub step: Step,
    /// Pods whose grace is shortened to [`critical::LONGEST_GRACE`].
    pub shortened: usize,
}
