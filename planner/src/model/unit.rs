//! A unit of preemption: what is evicted together (KEP-5710, "Preemption unit").

use super::PodIndex;
use super::key::ObjectKey;
use crate::plan::UnitKind;

/// A single pod, or a whole group in mode `PodGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// What it is.
    pub(crate) kind: UnitKind,
    /// Key of the pod or group.
    pub(crate) key: ObjectKey,
    /// Its effective priority.
    pub(crate) priority: i32,
    /// Whether it is, or belongs to, a group: that ranks above a pod on its own.
    pub(crate) grouped: bool,
    /// Every pod of it that would be evicted, by key.
    pub(crate) pods: Vec<PodIndex>,
    /// When its first pod started, in ns since the epoch; `None` counts as just now.
    pub(crate) started: Option<i64>,
    /// The highest threshold among its pods (KEP-3280).
    pub(crate) threshold: Option<i32>,
}
