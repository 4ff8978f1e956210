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

    /// Returns the name of a resource number in a message about a pod; for `UNOFFERED` (all resources that no node offers), the first such
    /// resource that the pod requests.
    pub(crate) fn resource_name_for<'a>(&'a self, pod: &'a Pod, id: ResourceId) -> &'a str {
        let unoffered = if id == UNOFFERED { pod.requests.unoffered().next() } else { None };
        unoffered.map_or(self.resource_name(id), |(name, _)| name)
    }

    /// Returns names and amounts of resources for a message: the name of the resource `id` with `amount`; for `UNOFFERED` (all resources
    /// that no node offers), each such resource that these pods request, with the sum of their requests.
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

    /// Adds a pod to the index of the resources that have no number: under the name of each such resource that it requests.
    pub(super) fn note_unnumbered(&mut self, index: PodIndex) {
        let Some(slot) = self.pods.get(index) else { return };
        for name in slot.pod.requests.unnumbered() {
            self.requesters.entry(name.clone()).or_default().insert(index);
        }
    }

    /// Removes a pod that is removed from the model from the index of the resources that have no number.
    pub(super) fn forget_unnumbered(&mut self, index: PodIndex, pod: &Pod) {
        for name in pod.requests.unnumbered() {
            if let Some(requesters) = self.requesters.get_mut(name) {
                requesters.remove(&index);
                if requesters.is_empty() {
                    self.requesters.remove(name);
                }
            }
        }
    }

    /// Recomputes the requirements of the pods that request a resource whose number is `first` or a higher one: these resources got their
    /// numbers just now.
    pub(super) fn update_requesters(&mut self, first: usize) {
        let names = self.names.since(first).iter();
        let requesters: BTreeSet<PodIndex> =
            names.filter_map(|name| self.requesters.get(name)).flatten().copied().collect();
        requesters.into_iter().for_each(|pod| self.derive_fields_again(pod));
    }
}
