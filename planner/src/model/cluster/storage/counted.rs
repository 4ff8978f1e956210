//! What the model counts on a node like a resource that the node offers: how many volumes of a CSI driver can be attached there, and the
//! free volumes of a class that are there. Searches, sums and sentences treat it as any other resource.

use super::{Cluster, Storage};
use crate::model::storage::{FreeVolume, HOST};
use crate::model::{Node, NodeIndex, ResourceId};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a node has where there is no limit: more than all pods of a cluster can use.
const UNLIMITED: i128 = 1 << 40;

/// Something that is counted on each node. `Display` is its name in messages; no resource of an object can have such a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::model::cluster) enum Counted {
    /// Volumes of a CSI driver that can be attached to the node.
    Attachments(SmolStr),
    /// Free volumes of a class on the node.
    FreeVolumes(SmolStr),
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attachments(driver) => write!(f, "attachable volumes ({driver})"),
            Self::FreeVolumes(class) => write!(f, "free volumes (class {class})"),
        }
    }
}

/// The numbers of what is counted.
#[derive(Clone, Debug, Default)]
pub(in crate::model::cluster) struct CountedIds(BTreeMap<Counted, ResourceId>);

impl CountedIds {
    pub(in crate::model::cluster) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::model::cluster) fn contains(&self, id: ResourceId) -> bool {
        self.0.values().any(|counted| *counted == id)
    }
}

impl Cluster {
    /// Returns true if the number of a resource stands for something that the model counts itself, and that no object can request.
    pub fn is_counted(&self, id: ResourceId) -> bool {
        self.counted.contains(id)
    }

    pub(super) fn counted_id(&self, what: &Counted) -> Option<ResourceId> {
        self.counted.0.get(what).copied()
    }

    /// Begins to count something on every node. Returns false if it is counted already.
    pub(super) fn start_counting(&mut self, what: Counted) -> bool {
        if self.counted.0.contains_key(&what) {
            return false;
        }
        let Some(id) = self.names.number(&what.to_string()) else { return false };
        self.counted.0.insert(what, id);
        let nodes: Vec<NodeIndex> = self.node_order().iter().map(|(index, _)| *index).collect();
        nodes.into_iter().for_each(|node| self.recount_at(node));
        true
    }

    /// Sets what the model counts on a node.
    pub(in crate::model::cluster) fn count_on(&self, node: &mut Node) {
        for (what, id) in &self.counted.0 {
            let at = usize::from(*id);
            node.allocatable.resize(node.allocatable.len().max(at + 1), 0);
            node.allocatable[at] = self.storage.amount(what, node);
        }
    }

    /// Counts again on a node.
    pub(super) fn recount(&mut self, node: &str) {
        if let Some(index) = self.node_index(node) {
            self.recount_at(index);
        }
    }

    fn recount_at(&mut self, index: NodeIndex) {
        let Some(mut node) = self.node_at(index).cloned() else { return };
        self.count_on(&mut node);
        self.put_node(index, Arc::new(node));
    }

    /// Records that there is one more (`sign` 1) or one less (-1) free volume.
    pub(super) fn count_free_volume(&mut self, FreeVolume { class, host, shape }: &FreeVolume, sign: i128) {
        if class.is_empty() {
            return;
        }
        let free = self.storage.free.entry(class.clone()).or_default();
        let entry = (shape.clone(), host.is_some());
        let count = free.shapes.entry(entry.clone()).or_default();
        let before = *count;
        *count = if sign > 0 { before + 1 } else { before.saturating_sub(1) };
        let differs = (before == 0) != (*count == 0);
        if *count == 0 {
            free.shapes.remove(&entry);
        }
        if let Some(host) = host {
            let there = free.hosts.entry(host.clone()).or_default();
            *there += sign;
            if *there == 0 {
                free.hosts.remove(host);
            }
        }
        if free.shapes.is_empty() {
            self.storage.free.remove(class);
        }
        self.start_counting(Counted::FreeVolumes(class.clone()));
        if let Some(host) = host {
            self.recount_host(host);
        }
        if differs {
            self.claims_changed(|_, claim| claim.volume.is_none() && claim.class.as_ref() == Some(class));
        }
    }

    /// Counts again on the nodes with this value of [`HOST`]: as a rule the node of this name.
    fn recount_host(&mut self, host: &str) {
        let is_it = |node: &Node| node.labels.get(HOST).is_some_and(|label| label == host);
        if self.node(host).is_some_and(is_it) {
            return self.recount(host);
        }
        let nodes: Vec<NodeIndex> =
            self.node_order().iter().filter(|(_, node)| is_it(node)).map(|(index, _)| *index).collect();
        nodes.into_iter().for_each(|node| self.recount_at(node));
    }
}

impl Storage {
    fn amount(&self, what: &Counted, node: &Node) -> i128 {
        match what {
            Counted::Attachments(driver) => {
                self.limits.get(&node.name).and_then(|limits| limits.get(driver)).copied().unwrap_or(UNLIMITED)
            }
            Counted::FreeVolumes(class) => {
                let host = || self.free.get(class)?.hosts.get(node.labels.get(HOST)?.as_str()).copied();
                host().unwrap_or(0)
            }
        }
    }
}
