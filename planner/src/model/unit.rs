//! A unit of preemption: what is evicted together (KEP-5710, "Preemption unit").
//!
//! A large cluster has a hundred thousand of them, so making one costs no allocation.

use super::equivalence::ClassId;
use super::unit_kind::UnitKind;
use super::{GroupIndex, NodeIndex, PodIndex};
use giveway_crds::ObjectKey;
use std::ops::Deref;

/// Reference to a unit of eviction: a single pod, or a whole group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnitRef {
    /// A pod on its own.
    Pod(PodIndex),
    /// A whole group.
    Group(GroupIndex),
}

/// A unit of eviction: a single pod, or a whole group in mode `PodGroup`, whose pods are evicted together.
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
    pub(crate) pods: UnitPods<'a>,
    /// When its first pod started, in ns since the epoch; `None` counts as just now.
    pub(crate) started: Option<i64>,
    /// The highest threshold among its pods (KEP-3280).
    pub(crate) threshold: Option<i32>,
}

/// The pods of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnitPods<'a> {
    /// One, which needs no list.
    One([PodIndex; 1]),
    /// Those of a group, as the model lists them.
    All(&'a [PodIndex]),
    /// Some of a group.
    Some(Vec<PodIndex>),
}

impl Deref for UnitPods<'_> {
    type Target = [PodIndex];

    fn deref(&self) -> &[PodIndex] {
        match self {
            Self::One(pods) => pods,
            Self::All(pods) => pods,
            Self::Some(pods) => pods,
        }
    }
}

impl<'u> IntoIterator for &'u UnitPods<'_> {
    type Item = &'u PodIndex;
    type IntoIter = std::slice::Iter<'u, PodIndex>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<PodIndex> for UnitPods<'_> {
    fn from_iter<T: IntoIterator<Item = PodIndex>>(pods: T) -> Self {
        Self::Some(pods.into_iter().collect())
    }
}

/// A whole group as a unit, as the model keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupUnit {
    /// Its bound pods that are not leaving anyway, by key.
    pub(crate) pods: Vec<PodIndex>,
    /// The lowest effective priority of its pods: a member with a higher priority does not protect the others.
    pub(crate) priority: i32,
    /// When the first of them started.
    pub(crate) started: Option<i64>,
    /// The highest threshold among them.
    pub(crate) threshold: Option<i32>,
    /// See [`Row::barred_below`].
    pub(crate) barred_below: i32,
}

/// Summary of a pod, with all that decisions read of most pods; stored contiguously for all pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The node whose capacity it uses.
    pub(crate) node: Option<NodeIndex>,
    /// The priority of its unit; its own when it has none.
    pub(crate) priority: i32,
    /// Its equivalence class: requests and constraints.
    pub(crate) class: ClassId,
    /// Whether, and how, it can be evicted.
    pub(crate) role: Role,
    /// Whether it is under a budget.
    pub(crate) budgeted: bool,
    /// Whether it has a node and has not started there.
    pub(crate) unstarted: bool,
    /// Whether it is ready.
    pub(crate) ready: bool,
    /// How it may be evicted for a critical add-on.
    pub(crate) rescue_class: RescueClass,
    /// No preemptor of a lower priority may evict its unit: the threshold of the unit, if several budgets select one of the unit's pods,
    /// because the Eviction API rejects such a pod whatever its budgets allow. `i32::MIN` for all other units.
    pub(crate) barred_below: i32,
}

/// How a pod may be evicted to free capacity for a critical add-on, as far as that is known without reading the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RescueClass {
    /// It may be critical itself, or a member of a DaemonSet: the pod must be read.
    #[default]
    Special,
    /// It may be evicted, with its own grace period.
    Short,
    /// It may be evicted, with a shortened grace period.
    Long,
}

/// Whether, and how, a pod can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has no node, or is never evicted.
    Stays,
    /// It is not evicted, because its namespace is protected.
    Protected,
    /// It is a critical add-on: it is evicted only for a critical add-on that can run on no other node.
    CriticalAddon,
    /// It is leaving.
    Leaves,
    /// It is evicted with a unit.
    Evictable(UnitRef),
}

impl Role {
    /// Returns the unit of eviction to which the pod with this role and index belongs; `None` if the pod can be a victim of no plan.
    pub(crate) fn unit(self, pod: PodIndex) -> Option<UnitRef> {
        match self {
            Self::Evictable(unit) => Some(unit),
            Self::CriticalAddon => Some(UnitRef::Pod(pod)),
            Self::Stays | Self::Protected | Self::Leaves => None,
        }
    }
}

impl Default for Row {
    fn default() -> Self {
        Self {
            node: None,
            priority: 0,
            class: 0,
            role: Role::Stays,
            budgeted: false,
            unstarted: false,
            ready: false,
            rescue_class: RescueClass::Special,
            barred_below: i32::MIN,
        }
    }
}
