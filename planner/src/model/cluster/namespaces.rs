//! Labels of the namespaces, which the `namespaceSelector` of a pod affinity term asks for; their [protection](super::protection)
//! is noted with them.

use super::Cluster;
use crate::model::{Change, NamespaceSet, Pod, Selector};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// The label that every namespace has: its own name.
const LABEL_NAME: &str = "kubernetes.io/metadata.name";

impl Cluster {
    /// Adds or replaces a namespace. Returns whether anything changed.
    pub fn upsert_namespace(&mut self, object: &Namespace) -> bool {
        let Some(name) = object.metadata.name.clone() else { return false };
        let mut labels = object.metadata.labels.clone().unwrap_or_default();
        labels.entry(LABEL_NAME.to_owned()).or_insert_with(|| name.clone());
        let protected = self.note_annotation(&name, Some(object));
        let changed = self.namespaces.insert(name, labels.clone()).is_none_or(|old| old != labels);
        if changed {
            self.changes.note(Change::Namespaces);
        }
        changed || protected
    }

    /// Removes a namespace. Returns whether it was there.
    pub fn remove_namespace(&mut self, name: &str) -> bool {
        self.note_annotation(name, None);
        let was_there = self.namespaces.remove(name).is_some();
        if was_there {
            self.changes.note(Change::Namespaces);
        }
        was_there
    }

    /// Sets the namespaces in which Giveway serves groups: those whose labels the selector matches; all without a selector.
    pub fn serve_groups_in(&mut self, selector: Option<&LabelSelector>) {
        self.served = selector.map(Selector::from_object).filter(|selector| !selector.is_empty());
    }

    /// Returns true if groups are served in every namespace.
    pub fn serves_all_namespaces(&self) -> bool {
        self.served.is_none()
    }

    /// Returns true if Giveway serves groups in a namespace. It is also true for a namespace that is not in the model (yet): otherwise pods
    /// could be ungated by mistake.
    pub fn serves_groups_in(&self, namespace: &str) -> bool {
        match &self.served {
            None => true,
            Some(selector) => self.namespaces.get(namespace).is_none_or(|labels| selector.matches(labels)),
        }
    }

    /// Returns true if a namespace belongs to the namespaces of a pod affinity term. Of a namespace that is not in the model, only the name
    /// is compared; while the model has no namespace at all, a `namespaceSelector` that reads other labels than the name is assumed to
    /// match (see [`Cluster::not_modeled`]).
    pub(crate) fn in_namespaces(&self, set: &NamespaceSet, namespace: &str) -> bool {
        if set.names.iter().any(|name| name == namespace) {
            return true;
        }
        let Some(selector) = &set.selector else { return false };
        if selector.is_empty() || (self.namespaces.is_empty() && !selector.asks_only_for(LABEL_NAME)) {
            return true;
        }
        match self.namespaces.get(namespace) {
            Some(labels) => selector.matches(labels),
            None => selector.matches(&BTreeMap::from([(LABEL_NAME.to_owned(), namespace.to_owned())])),
        }
    }

    /// Returns, as text, the requirements of a pod that the planner cannot evaluate; kube-scheduler decides about them.
    pub fn not_modeled(&self, pod: &Pod) -> Vec<String> {
        let constraints = &pod.constraints;
        let mut list = pod.unknown.to_vec();
        let mut terms = constraints.affinity.iter().chain(&constraints.anti_affinity);
        let unknown = |selector: &crate::model::Selector| !selector.is_empty() && !selector.asks_only_for(LABEL_NAME);
        if self.namespaces.is_empty() && terms.any(|term| term.namespaces.selector.as_ref().is_some_and(unknown)) {
            list.push("the namespaceSelector of its pod affinity, because no namespaces are known".to_owned());
        }
        list
    }
}
