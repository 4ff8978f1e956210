//! The model of the cluster: objects by key, and the indexes that decisions need (pods by node, members by group, used resources by node),
//! all of them updated with every change of an object.

mod budgets;
mod counted;
mod devices;
mod evictable;
mod free;
mod group_units;
mod groups;
mod namespaces;
mod nodes;
mod pods;
mod progress;
mod protection;
mod repelling;
mod reservations;
mod resources;
mod schedulers;
mod settling;
mod special;
mod storage;
mod units;

use super::budget::Budget;
use super::changes::ChangeLog;
use super::equivalence::EquivalenceClasses;
use super::group::Group;
use super::interner::Shared;
use super::node::Node;
use super::pod::Pod;
use super::pods_by_name::PodsByName;
use super::resources::ResourceNames;
use super::selector::Selector;
use super::slab::Slab;
use super::{BudgetIndex, GroupIndex, GroupUnit, NodeIndex, PodIndex, Row};
use crate::model::memory::CacheSlot;
use counted::CountedIds;
use devices::Devices;
pub(crate) use evictable::{Evictable, clamped};
pub(crate) use free::{AssumedFree, CandidatePages};
use free::{Free, MostFree};
use giveway_crds::ObjectKey;
use giveway_crds::priority::Classes;
use group_units::Running;
use protection::ProtectedNamespaces;
pub use protection::Protection;
use repelling::Repelling;
use reservations::Reservations;
use schedulers::Schedulers;
use smol_str::SmolStr;
use special::PodLists;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::Storage;
use units::PriorityCounts;

/// Everything the planner knows of the cluster.
///
/// `upsert_*` return whether anything changed that a decision can depend on. When they return an error the object's
/// old version is dropped as well: an object that cannot be read is better absent than wrong.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// For snapshots of clusters without Giveway: a pod without Giveway's annotation has the preemption policy of its
    /// spec, instead of `Never`.
    pub trust_pod_policy: bool,
    names: ResourceNames,
    /// By name of a resource that no node offers: the pods that request it.
    requesters: BTreeMap<SmolStr, BTreeSet<PodIndex>>,
    nodes: Slab<NodeSlot>,
    node_index: BTreeMap<SmolStr, NodeIndex>,
    /// The nodes that exist, by name.
    order: Vec<(NodeIndex, Arc<Node>)>,
    /// By node: its position in `order`.
    ranks: Vec<Option<u32>>,
    /// By node: what it offers less what the pods on it ask for.
    free: Free,
    /// By page of nodes: the most that is free on one of them.
    most_free: MostFree,
    /// How many nodes declare features: none in a cluster whose kube-scheduler does not compare them.
    declaring: usize,
    /// What all nodes together offer, by resource number.
    offered: Vec<i128>,
    pods: Slab<PodSlot>,
    pod_index: PodsByName,
    groups: Slab<GroupSlot>,
    group_index: BTreeMap<ObjectKey, GroupIndex>,
    budgets: Slab<BudgetSlot>,
    budget_index: BTreeMap<ObjectKey, BudgetIndex>,
    kinds: EquivalenceClasses,
    shared: Shared,
    /// By pod: the summary that decisions read.
    rows: Vec<Row>,
    priority_counts: PriorityCounts,
    changes: ChangeLog,
    memory: CacheSlot,
    classes: Classes,
    pod_lists: PodLists,
    repelling: Repelling,
    reservations: Reservations,
    storage: Storage,
    devices: Devices,
    schedulers: Schedulers,
    /// The numbers of what the model counts on nodes, beside what nodes offer themselves.
    counted: CountedIds,
    /// Labels by name.
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    protected_namespaces: ProtectedNamespaces,
    /// In which namespaces groups are served; `None`: in all.
    served: Option<Selector>,
}

/// A node, or only the name of a node that pods are bound to and that does not exist (yet, or any more).
#[derive(Clone, Debug, Default)]
struct NodeSlot {
    name: SmolStr,
    node: Option<Arc<Node>>,
    /// Pods bound to it that have not ended, by key, with their rows: a decision reads those of one node together.
    rows: Vec<(PodIndex, Row)>,
    /// What they ask for, by resource number.
    used: Vec<i128>,
    /// What evictions of them free.
    evictable: Evictable,
}

/// A pod, and where it is listed.
#[derive(Clone, Debug)]
struct PodSlot {
    pod: Pod,
    /// Set while the pod is bound and has not ended.
    node: Option<NodeIndex>,
    group: Option<GroupIndex>,
    /// The budgets it is under, in no defined order.
    budgets: Vec<BudgetIndex>,
}

impl PodSlot {
    /// Returns true if several budgets select the pod and it has started: the Eviction API rejects the eviction of such a pod, whatever the
    /// budgets allow.
    fn is_selected_by_several_budgets(&self) -> bool {
        self.budgets.len() > 1 && !self.pod.unstarted()
    }
}

/// A budget, and the pods that it selects.
#[derive(Clone, Debug)]
struct BudgetSlot {
    budget: Budget,
    /// The pods under it.
    pods: BTreeSet<PodIndex>,
}

/// A group, or only the key of a group that pods name and that does not exist (yet, or any more).
#[derive(Clone, Debug, Default)]
struct GroupSlot {
    key: ObjectKey,
    group: Option<Group>,
    /// Its members, by key.
    members: Vec<PodIndex>,
    /// Counts over its members that run, if the group is disrupted together.
    running: Running,
    /// The unit of eviction, if the group is disrupted together.
    unit: Option<GroupUnit>,
}
