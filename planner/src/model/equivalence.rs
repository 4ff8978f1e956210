//! Equivalence classes of pods: requests and constraints, stored once for all pods that have the same. Most pods come from a few templates,
//! so that decisions compare and look up small numbers instead of lists.

use super::constraints::Constraints;
use super::resources::Resources;
use super::slab::Slab;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of an equivalence class; stable while a pod of it is in the model, and reused afterwards.
pub(crate) type ClassId = u32;

/// Requests and constraints: pods for which both are equal are equal for every filter that does not read labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EquivalenceClass {
    /// Their requests.
    pub requests: Resources,
    /// Their other constraints.
    pub(crate) constraints: Constraints,
}

/// The equivalence classes of the pods of a model.
#[derive(Clone, Debug, Default)]
pub(super) struct EquivalenceClasses {
    list: Slab<(Arc<EquivalenceClass>, usize)>,
    index: BTreeMap<Arc<EquivalenceClass>, ClassId>,
}

impl EquivalenceClasses {
    /// Counts one more pod of an equivalence class, and stores the class with its first pod. Returns the number of the class, and true if
    /// it was stored now.
    pub(super) fn hold(&mut self, class: &Arc<EquivalenceClass>) -> (ClassId, bool) {
        let known = self.index.get(class).copied();
        if let Some((id, slot)) = known.and_then(|id| Some((id, self.list.get_mut(id)?))) {
            slot.1 += 1;
            return (id, false);
        }
        let id = self.list.insert((Arc::clone(class), 1));
        self.index.insert(Arc::clone(class), id);
        (id, true)
    }

    /// Counts one pod less of an equivalence class, and removes the class with its last pod.
    pub(super) fn release(&mut self, id: ClassId) {
        let Some((_, pods)) = self.list.get_mut(id) else { return };
        *pods -= 1;
        if *pods > 0 {
            return;
        }
        if let Some((class, _)) = self.list.remove(id) {
            self.index.remove(&class);
        }
    }

    /// Returns the equivalence class with this number; `None` if there is none.
    pub(super) fn get(&self, id: ClassId) -> Option<&Arc<EquivalenceClass>> {
        self.list.get(id).map(|(kind, _)| kind)
    }

    /// Returns one more than the largest number of an equivalence class: the length of a list with an entry for each class number.
    pub(super) fn bound(&self) -> usize {
        self.list.bound()
    }
}
