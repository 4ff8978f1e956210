//! Equal parts of pods, stored once: most pods of a cluster come from a few owners.
//!
//! What is stored is bounded by what pods of the model use: parts that no pod uses any more are removed as soon as they can be half of all.

use super::equivalence::EquivalenceClass;
use super::labels::{KnownLabels, LabelMap, Labels};
use super::origin::Origin;
use super::pod::Pod;
use crate::limits::PARTS_KEPT;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// Values of one type, each stored once.
pub struct Interner<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// Number of values at which those that are not used any more are removed.
    sweep_at: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), sweep_at: PARTS_KEPT }
    }
}

/// A copy starts without any values: what shares them still does.
impl<T: ?Sized> Clone for Interner<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T: ?Sized> fmt::Debug for Interner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interner")
    }
}

impl<T: Eq + Hash + ?Sized> Interner<T> {
    /// Returns the stored value that is equal to this one; stores this one if there is none.
    pub fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (2 * self.values.len()).max(PARTS_KEPT);
            self.values.shrink_to(self.sweep_at);
        }
        self.values.insert(Arc::clone(&value));
        value
    }
}

/// The parts that labels of pods share.
#[derive(Clone, Debug, Default)]
pub struct LabelInterner {
    common: Interner<LabelMap>,
    of_owner: Interner<KnownLabels>,
}

impl LabelInterner {
    /// Lets `labels` use the same memory as those of other pods for the parts that are equal.
    pub fn share(&mut self, labels: &mut Labels) {
        labels.common = self.common.share(Arc::clone(&labels.common));
        labels.of_owner = self.of_owner.share(Arc::clone(&labels.of_owner));
    }
}

/// The parts that pods of a model share.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    origins: Interner<Origin>,
    labels: LabelInterner,
}

impl Shared {
    /// Lets `pod`, a newer version of the pod `known`, use the same memory for the fields that are equal in both. The caller has checked
    /// that labels and equivalence class are equal.
    pub(super) fn share_known(&mut self, pod: &mut Pod, known: &Pod) {
        if pod.origin != known.origin {
            self.share(pod, &known.class);
            return;
        }
        pod.origin = Arc::clone(&known.origin);
        pod.labels.common = Arc::clone(&known.labels.common);
        pod.labels.of_owner = Arc::clone(&known.labels.of_owner);
    }

    /// Lets `pod` use the same memory as other pods for fields that are equal; `class` is the stored equivalence class that equals the
    /// pod's own.
    pub(super) fn share(&mut self, pod: &mut Pod, class: &Arc<EquivalenceClass>) {
        if !Arc::ptr_eq(&pod.origin.class, class) {
            Arc::make_mut(&mut pod.origin).class = Arc::clone(class);
        }
        pod.origin = self.origins.share(Arc::clone(&pod.origin));
        self.labels.share(&mut pod.labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once() {
        let mut interner = Interner::default();
        let first = interner.share(Arc::new("a".to_owned()));
        let second = interner.share(Arc::new("a".to_owned()));
        let other = interner.share(Arc::new("b".to_owned()));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        assert_eq!(interner.values.len(), 2);
    }

    #[test]
    fn values_that_are_not_used_any_more_never_outnumber_those_that_are() {
        let mut interner = Interner::default();
        let used: Vec<Arc<usize>> = (0..3000).map(|n| interner.share(Arc::new(n))).collect();
        for n in 3000..100_000_usize {
            drop(interner.share(Arc::new(n)));
            assert!(interner.values.len() <= 2 * used.len() + 1, "{} at {n}", interner.values.len());
        }
        assert!(used.iter().all(|value| Arc::ptr_eq(value, &interner.share(Arc::clone(value)))));
        drop(used);
        for n in 0..20_000_usize {
            drop(interner.share(Arc::new(n)));
        }
        assert!(interner.values.len() <= 2 * PARTS_KEPT, "{}", interner.values.len());
    }
}
