//! A unit of preemption: what is evicted together (KEP-5710, "Preemption unit").
//!
//! A large cluster has a hundred thousand of them and every decision looks at those below its priority, so making one
//! for a single pod costs no allocation.

use super::PodIndex;
use super::key::ObjectKey;
use crate::plan::UnitKind;
use std::ops::Deref;

/// A single pod, or a whole group in mode `PodGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit<'a> {
    /// What it is.
    pub(crate) kind: UnitKind,
    /// Key of the pod or group.
    pub(crate) key: &'a ObjectKey,
    /// Its effective priority.
    pub(crate) priority: i32,
    /// Whether it is, or belongs to, a group: that ranks above a pod on its own.
    pub(crate) grouped: bool,
    /// Every pod of it that would be evicted, by key.
    pub(crate) pods: UnitPods,
    /// When its first pod started, in ns since the epoch; `None` counts as just now.
    pub(crate) started: Option<i64>,
    /// The highest threshold among its pods (KEP-3280).
    pub(crate) threshold: Option<i32>,
}

/// The pods of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnitPods {
    /// One, which needs no list.
    One([PodIndex; 1]),
    /// Any number.
    Many(Vec<PodIndex>),
}

impl Deref for UnitPods {
    type Target = [PodIndex];

    fn deref(&self) -> &[PodIndex] {
        match self {
            Self::One(pods) => pods,
            Self::Many(pods) => pods,
        }
    }
}

impl<'u> IntoIterator for &'u UnitPods {
    type Item = &'u PodIndex;
    type IntoIter = std::slice::Iter<'u, PodIndex>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<PodIndex> for UnitPods {
    fn from_iter<T: IntoIterator<Item = PodIndex>>(pods: T) -> Self {
        Self::Many(pods.into_iter().collect())
    }
}
