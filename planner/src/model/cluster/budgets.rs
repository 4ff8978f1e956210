//! Budgets and priority classes of the model.

use super::Cluster;
use crate::error::ModelError;
use crate::model::{Budget, ObjectKey};
use giveway_crds::priority::{Class, Classes};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;

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
        self.budgets.insert(budget.key.clone(), budget);
        Ok(true)
    }

    /// Removes a budget. Returns whether it was there.
    pub fn remove_budget(&mut self, key: &ObjectKey) -> bool {
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

    /// How many pods under a budget are healthy: ready, and not on their way out.
    pub fn healthy_under(&self, budget: &Budget) -> usize {
        let first = ObjectKey::new(budget.key.namespace.as_str(), "");
        let here = self.pod_index.range(first..).take_while(|(key, _)| key.namespace == budget.key.namespace);
        let pods = here.filter_map(|(_, index)| self.pod_at(*index));
        pods.filter(|pod| pod.ready && pod.live() && budget.counts(pod) && budget.matches(&pod.labels)).count()
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
