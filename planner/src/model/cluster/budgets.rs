//! Budgets and priority classes of the model.

use super::Cluster;
use crate::error::ModelError;
use crate::model::{Budget, ObjectKey, PodIndex};
use giveway_crds::priority::{Class, Classes};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use std::collections::BTreeSet;

impl Cluster {
    /// Adds or replaces a budget.
    ///
    /// # Errors
    /// It has no name.
    pub fn upsert_budget(&mut self, object: &PodDisruptionBudget) -> Result<bool, ModelError> {
        let budget = Budget::from_object(object)?;
        if self.budgets.get(&budget.key) == Some(&budget) {
            return Ok(false);
        }
        if !self.budgets.get(&budget.key).is_some_and(|old| old.selects_like(&budget)) {
            let first = ObjectKey::new(&budget.key.namespace, "");
            let pods = self.pod_index.range(first..).take_while(|(key, _)| key.namespace == budget.key.namespace);
            let under = |index: &PodIndex| self.pod_at(*index).is_some_and(|pod| budget.matches(&pod.labels));
            let covered = pods.map(|(_, index)| *index).filter(under).collect();
            self.covered.insert(budget.key.clone(), covered);
        }
        self.budgets.insert(budget.key.clone(), budget);
        Ok(true)
    }

    /// Notes under which budgets a pod is.
    pub(super) fn cover(&mut self, index: PodIndex) {
        let Some(slot) = self.pods.get(index) else { return };
        let namespace = &slot.pod.key.namespace;
        let first = ObjectKey::new(namespace, "");
        let budgets = self.budgets.range(first..).take_while(|(key, _)| key.namespace == *namespace);
        for (key, _) in budgets.filter(|(_, budget)| budget.matches(&slot.pod.labels)) {
            self.covered.entry(key.clone()).or_default().insert(index);
        }
    }

    /// Forgets a pod that is removed.
    pub(super) fn uncover(&mut self, index: PodIndex, namespace: &str) {
        let first = ObjectKey::new(namespace, "");
        for (_, covered) in self.covered.range_mut(first..).take_while(|(key, _)| key.namespace == namespace) {
            covered.remove(&index);
        }
    }

    /// Every budget with the pods under it, by key.
    pub(crate) fn covered(&self) -> impl Iterator<Item = (&Budget, &BTreeSet<PodIndex>)> {
        self.covered.iter().filter_map(|(key, pods)| Some((self.budgets.get(key)?, pods)))
    }

    /// Removes a budget. Returns whether it was there.
    pub fn remove_budget(&mut self, key: &ObjectKey) -> bool {
        self.covered.remove(key);
        self.budgets.remove(key).is_some()
    }

    /// Every budget, by key.
    pub fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.budgets.values()
    }

    /// The budgets of a namespace, by name.
    pub(crate) fn budgets_in<'a, 'n>(&'a self, namespace: &'n str) -> impl Iterator<Item = &'a Budget> + use<'a, 'n> {
        let first = ObjectKey::new(namespace, "");
        self.budgets.range(first..).take_while(move |(key, _)| key.namespace == namespace).map(|(_, budget)| budget)
    }

    /// Adds or replaces a priority class. Returns whether anything changed.
    pub fn upsert_class(&mut self, object: &PriorityClass) -> bool {
        let changed = self.classes.upsert(Class::from_object(object));
        if changed {
            self.resolve_groups();
        }
        changed
    }

    /// Removes a priority class. Returns whether it was there.
    pub fn remove_class(&mut self, name: &str) -> bool {
        let was_there = self.classes.remove(name);
        if was_there {
            self.resolve_groups();
        }
        was_there
    }

    /// The priority classes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    fn resolve_groups(&mut self) {
        for group in self.groups.values_mut().filter_map(|slot| slot.group.as_mut()) {
            group.resolve(&self.classes);
        }
    }
}
