//! The labels that selectors read: pods with equal values of these labels match the same selectors.

use crate::model::{Pod, Selector};
use std::collections::BTreeSet;

/// The keys of the labels that some selectors read.
pub(super) struct SelectorLabels<'a>(BTreeSet<&'a str>);

impl<'a> SelectorLabels<'a> {
    /// Collects the label keys that these selectors read.
    pub(super) fn of(selectors: impl Iterator<Item = &'a Selector>) -> Self {
        Self(selectors.flat_map(Selector::keys).collect())
    }

    /// Returns those labels of a pod, key and value, that the selectors read.
    pub(super) fn of_pod<'p>(&self, pod: &'p Pod) -> Vec<(&'p str, &'p str)> {
        pod.labels.iter().filter(|(key, _)| self.0.contains(*key)).collect()
    }
}
