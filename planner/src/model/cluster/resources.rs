//! Names of resources: which pods request one before any node offers it, and under which name to report one that no node offers.
//!
//! A name gets a number when a node is added that offers it; the pods that requested it are then numbered again. The size of the index
//! depends on what the pods mention, not on the number of nodes.

use super::Cluster;
use crate::model::resources::UNOFFERED;
use crate::model::{Pod, PodIndex, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

impl Cluster {
    /// Returns the name of a resource number; empty for the number that stands for all resources that no node offers.
    pub fn resource_name(&self, id: ResourceId) -> &str {
        self.names.name(id)
    }

    /// Returns the number and name of every resource that a node offers or offered.
    pub fn resources(&self) -> impl Iterator<Item = (ResourceId, &str)> {
        let numbered = self.names.since(0).iter().enumerate();
        let named = numbered.filter_map(|(index, name)| Some((ResourceId::try_from(index).ok()?, name.as_str())));
        named.filter(|(id, _)| *id != UNOFFERED)
    }

    /// Returns true for a resource that stands for GPUs or parts of them: an extended resource with `gpu` in its name, or NVIDIA's MIG.
    pub(crate) fn is_gpu(&self, id: ResourceId) -> bool {
        let name = self.resource_name(id);
        name.contains('/') && (name.contains("gpu") || name.starts_with("nvidia.com/mig-"))
    }

    /// Returns the name of a resource number in the requests of a pod; for `UNOFFERED`, the first such name that the pod requests.
    pub(crate) fn resource_name_for<'a>(&'a self, pod: &'a Pod, id: ResourceId) -> &'a str {
        let unoffered = if id == UNOFFERED { pod.requests.unoffered().next() } else { None };
        unoffered.map_or(self.resource_name(id), |(name, _)| name)
    }

    /// Returns the amount of a resource with its name; for `UNOFFERED`, the names and amounts that these pods request.
    pub(crate) fn by_name<'p>(
        &self,
        id: ResourceId,
        amount: i128,
        pods: impl Iterator<Item = &'p Pod>,
    ) -> Vec<(String, i128)> {
        if id != UNOFFERED {
            return vec![(self.resource_name(id).to_owned(), amount)];
        }
        let mut amounts: BTreeMap<&str, i128> = BTreeMap::new();
        for (name, amount) in pods.flat_map(|pod| pod.requests.unoffered()) {
            let sum = amounts.entry(name).or_default();
            *sum = sum.saturating_add(amount);
        }
        amounts.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    /// Records the resources without a number that a pod requests.
    pub(super) fn note_unnumbered(&mut self, index: PodIndex) {
        let Some(slot) = self.pods.get(index) else { return };
        for name in slot.pod.requests.unnumbered() {
            self.askers.entry(name.clone()).or_default().insert(index);
        }
    }

    /// Removes these records of a pod that is removed.
    pub(super) fn forget_unnumbered(&mut self, index: PodIndex, pod: &Pod) {
        for name in pod.requests.unnumbered() {
            if let Some(askers) = self.askers.get_mut(name) {
                askers.remove(&index);
                if askers.is_empty() {
                    self.askers.remove(name);
                }
            }
        }
    }

    /// Reads again the pods that request one of the names numbered from `first` on.
    pub(super) fn number_askers(&mut self, first: usize) {
        let names = self.names.since(first).iter();
        let askers: BTreeSet<PodIndex> = names.filter_map(|name| self.askers.get(name)).flatten().copied().collect();
        askers.into_iter().for_each(|pod| self.settle_again(pod));
    }
}
