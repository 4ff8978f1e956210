//! What the model counts on a node like a resource that the node offers: how many volumes of a CSI driver can be attached there, the free
//! volumes of a class that are there, and the devices of a driver. Searches, sums and sentences treat it as any other resource.

use super::Cluster;
use crate::model::{Node, NodeIndex, ResourceId};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// What a node has where there is no limit: more than all pods of a cluster can use.
const UNLIMITED: i128 = 1 << 40;

/// What the model counts on each node like a resource. `Display` is its [name](crate::model::is_counted) in messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counted {
    /// Volumes of a CSI driver that can be attached to the node.
    Attachments(SmolStr),
    /// Free volumes of a class on the node.
    FreeVolumes(SmolStr),
    /// Devices of a driver on the node.
    Devices(SmolStr),
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachments(driver) => write!(f, "attachable volumes ({driver})"),
            Self::FreeVolumes(class) => write!(f, "free volumes (class {class})"),
            Self::Devices(driver) => write!(f, "devices ({driver})"),
        }
    }
}

/// The resource numbers of what the model counts on nodes itself.
#[derive(Clone, Debug, Default)]
pub(super) struct CountedIds {
    ids: BTreeMap<Counted, ResourceId>,
    all: BTreeSet<ResourceId>,
}

impl CountedIds {
    /// Returns true if this resource number stands for volumes or devices that the model counts itself, and not for a resource of
    /// `status.allocatable`.
    pub(super) fn contains(&self, id: ResourceId) -> bool {
        self.all.contains(&id)
    }
}

impl Cluster {
    /// Returns the resource number under which the model counts these volumes or devices; `None` if it does not count them yet.
    pub(super) fn counted_id(&self, what: &Counted) -> Option<ResourceId> {
        self.counted.ids.get(what).copied()
    }

    /// Gives these volumes or devices a resource number, and counts them on every node. Returns false if the model counts them already, or
    /// no number is left.
    pub(super) fn start_counting(&mut self, what: Counted) -> bool {
        if self.counted.ids.contains_key(&what) {
            return false;
        }
        let Some(id) = self.names.number(&what.to_string()) else { return false };
        self.counted.ids.insert(what, id);
        self.counted.all.insert(id);
        let nodes: Vec<NodeIndex> = self.node_order().iter().map(|(index, _)| *index).collect();
        nodes.into_iter().for_each(|node| self.recount_at(node));
        true
    }

    /// Sets in the `allocatable` amounts of a node how much it has of everything that the model counts itself: volumes and devices.
    pub(super) fn count_on(&self, node: &mut Node) {
        for (what, id) in &self.counted.ids {
            let at = usize::from(*id);
            node.allocatable.resize(node.allocatable.len().max(at + 1), 0);
            node.allocatable[at] = self.amount(what, node);
        }
    }

    /// Returns how many of these volumes or devices a node has; `UNLIMITED` attachable volumes if its CSINode states no limit.
    fn amount(&self, what: &Counted, node: &Node) -> i128 {
        match what {
            Counted::Attachments(driver) => self.storage.attachable(driver, &node.name).unwrap_or(UNLIMITED),
            Counted::FreeVolumes(class) => self.storage.free_on(class, node),
            Counted::Devices(driver) => self.devices_on(driver, &node.name),
        }
    }

    /// Counts the volumes and devices of the node with this name again; does nothing if there is no such node.
    pub(super) fn recount(&mut self, node: &str) {
        if let Some(index) = self.node_index(node) {
            self.recount_at(index);
        }
    }

    /// Counts the volumes and devices of the node with this index again; does nothing if there is no such node.
    pub(super) fn recount_at(&mut self, index: NodeIndex) {
        let Some(mut node) = self.node_at(index).cloned() else { return };
        self.count_on(&mut node);
        self.put_node(index, Arc::new(node));
    }
}
