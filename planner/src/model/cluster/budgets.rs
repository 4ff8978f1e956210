//! Budgets and priority classes of the model.

use super::{BudgetSlot, Cluster, PodSlot};
use crate::model::ModelError;
use crate::model::{Budget, BudgetIndex, Change, ObjectKey, Pod, PodIndex};
use giveway_crds::priority::{Class, Classes};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use std::collections::BTreeSet;

impl Cluster {
    /// Adds or replaces a PodDisruptionBudget. Returns true if anything changed that a decision can depend on.
    ///
    /// # Errors
    /// The object has no name.
    pub fn upsert_budget(&mut self, object: &PodDisruptionBudget) -> Result<bool, ModelError> {
        let budget = Budget::from_object(object)?;
        if let Some(index) = self.budget_index.get(&budget.key).copied()
            && let Some(slot) = self.budgets.get_mut(index)
            && slot.budget.selects_like(&budget)
        {
            if slot.budget == budget {
                return Ok(false);
            }
            slot.budget = budget;
            self.changes.note(Change::Budget(index));
            return Ok(true);
        }
        self.remove_budget(&budget.key);
        let under = |index: &PodIndex| self.pod_at(*index).is_some_and(|pod| budget.matches(&pod.labels));
        let pods: BTreeSet<PodIndex> = self.pod_index.in_namespace(&budget.key.namespace).filter(under).collect();
        let key = budget.key.clone();
        let index = self.budgets.insert(BudgetSlot { budget, pods: pods.clone() });
        self.budget_index.insert(key, index);
        for pod in &pods {
            if let Some(slot) = self.pods.get_mut(*pod) {
                slot.budgets.push(index);
            }
        }
        self.renew_budgeted(&pods);
        self.changes.note(Change::Budget(index));
        Ok(true)
    }

    /// Adds a new pod to the pod list of every budget that selects it, and these budgets to the pod's list of budgets.
    pub(super) fn add_to_budgets(&mut self, index: PodIndex) {
        let Some(slot) = self.pods.get_mut(index) else { return };
        let namespace = &slot.pod.key.namespace;
        let first = ObjectKey::new(namespace, "");
        let budgets = self.budget_index.range(first..).take_while(|(key, _)| key.namespace == *namespace);
        for (_, number) in budgets {
            if let Some(budget) = self.budgets.get_mut(*number)
                && budget.budget.matches(&slot.pod.labels)
            {
                budget.pods.insert(index);
                slot.budgets.push(*number);
            }
        }
    }

    /// Removes a pod from the pod lists of its budgets, and clears the pod's list of budgets.
    pub(super) fn remove_from_budgets(&mut self, index: PodIndex) {
        let Some(slot) = self.pods.get_mut(index) else { return };
        for number in std::mem::take(&mut slot.budgets) {
            if let Some(budget) = self.budgets.get_mut(number) {
                budget.pods.remove(&index);
            }
        }
    }

    /// Recomputes the summary rows (`Row`) of pods whose budgets changed; if the group of such a pod is disrupted together, those of all
    /// its members.
    fn renew_budgeted(&mut self, pods: &BTreeSet<PodIndex>) {
        let mut groups = BTreeSet::new();
        for pod in pods {
            let group = self.pods.get(*pod).and_then(|slot| slot.group);
            match group.filter(|group| self.is_disrupted_together(*group)) {
                Some(group) => drop(groups.insert(group)),
                None => self.renew_pod(*pod, self.row(*pod).class),
            }
        }
        groups.into_iter().for_each(|group| self.renew_group(group));
    }

    /// Returns true if several budgets select the pod and it has started: the Eviction API rejects the eviction of such a pod.
    pub(crate) fn is_selected_by_several_budgets(&self, pod: PodIndex) -> bool {
        self.row(pod).budgeted && self.pods.get(pod).is_some_and(PodSlot::is_selected_by_several_budgets)
    }

    /// Returns the indexes of the budgets that select a pod, in no defined order; empty if the model has no pod with this index.
    pub(crate) fn budgets_at(&self, pod: PodIndex) -> &[BudgetIndex] {
        self.pods.get(pod).map_or(&[], |slot| &slot.budgets)
    }

    /// Returns the budget with this index, and the pods that it selects; `None` if no budget has this index.
    pub(crate) fn budget_at(&self, index: BudgetIndex) -> Option<(&Budget, &BTreeSet<PodIndex>)> {
        self.budgets.get(index).map(|slot| (&slot.budget, &slot.pods))
    }

    /// Returns one more than the largest index of a budget: the length of a list with an entry for each budget index.
    pub(crate) fn budget_bound(&self) -> usize {
        self.budgets.bound()
    }

    /// Removes a PodDisruptionBudget. Returns true if the model had it.
    pub fn remove_budget(&mut self, key: &ObjectKey) -> bool {
        let Some(index) = self.budget_index.remove(key) else { return false };
        let Some(removed) = self.budgets.remove(index) else { return false };
        for pod in &removed.pods {
            if let Some(slot) = self.pods.get_mut(*pod) {
                slot.budgets.retain(|budget| *budget != index);
            }
            if let Some(node) = self.row(*pod).node {
                self.changes.note(Change::Pods(node));
            }
        }
        self.renew_budgeted(&removed.pods);
        self.changes.note(Change::Budget(index));
        true
    }

    /// Returns every budget of the model, sorted by namespace and name.
    pub fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.budget_index.values().filter_map(|index| self.budgets.get(*index)).map(|slot| &slot.budget)
    }

    /// Returns the healthy pods that a budget of the model selects: ready, neither finished nor terminating, and counted by the budget
    /// ([`Budget::counts`]).
    pub fn healthy_under<'a>(&'a self, budget: &'a Budget) -> impl Iterator<Item = &'a Pod> {
        let under = self.budget_index.get(&budget.key).and_then(|index| self.budget_at(*index)).map(|(_, pods)| pods);
        let pods = under.into_iter().flatten().filter_map(move |index| self.pod_at(*index));
        pods.filter(move |pod| pod.ready && pod.live() && budget.counts(pod))
    }

    /// Adds or replaces a PriorityClass, and recomputes the priorities of groups. Returns true if the class changed.
    pub fn upsert_class(&mut self, object: &PriorityClass) -> bool {
        let changed = self.classes.upsert(Class::from_object(object));
        if changed {
            self.resolve_groups();
        }
        changed
    }

    /// Removes a PriorityClass, and recomputes the priorities of groups. Returns true if the model had the class.
    pub fn remove_class(&mut self, name: &str) -> bool {
        let was_there = self.classes.remove(name);
        if was_there {
            self.resolve_groups();
        }
        was_there
    }

    /// Returns the PriorityClasses of the model.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Recomputes priority and policy of all groups after a change of the PriorityClasses.
    fn resolve_groups(&mut self) {
        let mut changed = Vec::new();
        for (index, slot) in self.groups.iter_mut() {
            if slot.group.as_mut().is_some_and(|group| group.resolve(&self.classes)) {
                changed.push(index);
            }
        }
        changed.into_iter().for_each(|group| self.renew_group(group));
    }
}
