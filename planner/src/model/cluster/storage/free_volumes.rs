//! The volumes of a class that claims may be bound to, by the node that has them.

use crate::model::cluster::Cluster;
use crate::model::cluster::counted::Counted;
use crate::model::storage::{FreeVolume, HOST};
use crate::model::{Node, NodeIndex};

impl Cluster {
    /// Counts one more (`sign` 1) or one less (-1) free PersistentVolume of this class, host and shape, and updates the nodes and pods that
    /// depend on it. Volumes without a class are not counted.
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

    /// Counts volumes and devices again on the nodes whose label [`HOST`] has this value: as a rule the node of this name.
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
