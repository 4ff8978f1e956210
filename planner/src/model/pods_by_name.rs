//! The index of pods by namespace and name.

use super::PodIndex;
use giveway_crds::ObjectKey;
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Pods by namespace and name. A namespace without pods is not in it.
#[derive(Clone, Debug, Default)]
pub(super) struct PodsByName(BTreeMap<SmolStr, BTreeMap<SmolStr, PodIndex>>);

impl PodsByName {
    /// Returns the pod with this key; `None` if there is none.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<PodIndex> {
        self.0.get(&key.namespace)?.get(&key.name).copied()
    }

    /// Adds a pod, or replaces the one with this key.
    pub(super) fn insert(&mut self, key: ObjectKey, index: PodIndex) {
        self.0.entry(key.namespace).or_default().insert(key.name, index);
    }

    /// Removes and returns the pod with this key; `None` if there is none.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<PodIndex> {
        let names = self.0.get_mut(&key.namespace)?;
        let removed = names.remove(&key.name);
        if names.is_empty() {
            self.0.remove(&key.namespace);
        }
        removed
    }

    /// Returns all pods, sorted by namespace and name.
    pub(super) fn all(&self) -> impl Iterator<Item = PodIndex> + '_ {
        self.0.values().flat_map(BTreeMap::values).copied()
    }

    /// Returns the pods of a namespace, sorted by name.
    pub(super) fn in_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = PodIndex> + use<'a> {
        self.0.get(namespace).into_iter().flat_map(BTreeMap::values).copied()
    }
}
