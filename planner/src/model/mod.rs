//! Snapshot of the cluster: nodes, pods, groups, budgets and priority classes, as plain values.
//!
//! Objects are parsed once, when they arrive; everything after that works on numbers and indexes. An object that cannot be parsed is
//! rejected with a [`ModelError`] that names object, field and value.

mod affinity;
mod budget;
mod changes;
mod cluster;
mod constraints;
mod devices;
mod equivalence;
mod error;
mod excess;
mod features;
mod finished;
mod group;
mod interner;
mod labels;
mod memory;
mod node;
mod origin;
mod pod;
mod pods_by_name;
pub mod quantity;
mod requests;
mod reservation;
mod resources;
mod selector;
mod slab;
mod storage;
mod unit;
mod unit_kind;

pub use crate::limits::MAX_GRACEFUL_TERMINATION;
pub use budget::Budget;
pub use cluster::{Cluster, Protection};
pub use error::ModelError;
pub use finished::Finished;
pub use giveway_crds::ObjectKey;
pub use group::Group;
pub use interner::{Interner, LabelInterner};
pub use labels::Labels;
pub use node::{Node, Taint};
pub use pod::{Pod, PodPhase};
pub use reservation::Reservation;
pub use resources::{ResourceId, Resources, is_counted};
pub use unit_kind::UnitKind;

pub(crate) use affinity::{AffinityTerm, NamespaceSet, SpreadConstraint};
pub(crate) use changes::Change;
pub(crate) use cluster::{AssumedFree, CandidatePages, Evictable, clamped};
pub(crate) use constraints::{Constraints, Exclusive, NodeTerm, Requirement};
pub(crate) use equivalence::{ClassId, EquivalenceClass};
pub(crate) use memory::CacheSlot;
pub(crate) use resources::CPU;
pub(crate) use selector::Selector;
pub(crate) use unit::{GroupUnit, RescueClass, Role, Row, Unit, UnitPods, UnitRef};

/// Index of a pod inside the model; stable while the pod is in it.
pub(crate) type PodIndex = u32;
/// Index of a node inside the model; stable while the node, or a pod bound to it, is in it.
pub(crate) type NodeIndex = u32;
/// Index of a group inside the model; stable while the group, or a member of it, is in it.
pub(crate) type GroupIndex = u32;
/// Index of a budget inside the model; stable while the budget is in it.
pub(crate) type BudgetIndex = u32;
