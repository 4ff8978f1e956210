//! Pods that are not evicted: those in namespaces that the chart names or that an administrator annotates, and critical add-ons.

use super::Cluster;
use crate::model::{GroupIndex, Pod, PodIndex};
use giveway_crds::keys;
use k8s_openapi::api::core::v1::Namespace;
use std::collections::BTreeSet;

/// Why pods of a namespace are protected from eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// The administrator lists it (chart value `victims.protectedNamespaces`).
    Listed,
    /// It is annotated `scheduling.giveway.dev/never-evict: "true"`.
    Annotated,
}

/// As in "its namespace is protected by its annotation …".
impl std::fmt::Display for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listed => f.write_str("its namespace is protected (victims.protectedNamespaces)"),
            Self::Annotated => write!(f, "its namespace is protected ({}: \"true\")", keys::ANNOTATION_NEVER_EVICT),
        }
    }
}

/// The namespaces that are protected from eviction, by name, and those in which pods can be critical add-ons.
#[derive(Clone, Debug, Default)]
pub(super) struct ProtectedNamespaces {
    listed: BTreeSet<String>,
    annotated: BTreeSet<String>,
    /// Namespaces in which an annotation makes a pod a critical add-on; `None` while critical add-ons are not enabled.
    critical: Option<BTreeSet<String>>,
}

impl Cluster {
    /// Sets the namespaces whose pods are never evicted, whatever their annotations are (chart value `victims.protectedNamespaces`). The
    /// namespaces need not exist.
    pub fn protect_namespaces(&mut self, names: BTreeSet<String>) {
        let old = std::mem::replace(&mut self.protected_namespaces.listed, names);
        let changed: Vec<String> = old.symmetric_difference(&self.protected_namespaces.listed).cloned().collect();
        changed.iter().for_each(|namespace| self.renew_namespace(namespace));
    }

    /// Ends the protection of one namespace, listed or annotated, to find out what the protection costs.
    pub fn unprotect_namespace(&mut self, name: &str) {
        let was_listed = self.protected_namespaces.listed.remove(name);
        if self.protected_namespaces.annotated.remove(name) || was_listed {
            self.renew_namespace(name);
        }
    }

    /// Sets the namespaces in which an annotation makes a pod a critical add-on. A critical add-on is then not a potential victim, except
    /// of another one. `None` if critical add-ons are not enabled.
    pub fn protect_critical_addons(&mut self, namespaces: Option<BTreeSet<String>>) {
        if self.protected_namespaces.critical != namespaces {
            self.protected_namespaces.critical = namespaces;
            let bound = self.bound().collect();
            self.renew_pods(bound);
        }
    }

    /// Returns true if critical add-ons are enabled and the pod is one: by its priority, or by an annotation in one of the namespaces that
    /// permit it.
    pub fn is_critical_addon(&self, pod: &Pod) -> bool {
        self.protected_namespaces.critical.as_ref().is_some_and(|namespaces| pod.is_critical_addon(namespaces))
    }

    /// Returns why pods of a namespace are protected from eviction; `None` if they are not.
    pub fn protection(&self, namespace: &str) -> Option<Protection> {
        let ProtectedNamespaces { listed, annotated, .. } = &self.protected_namespaces;
        // Most clusters have no protected namespaces, and this is called for every pod.
        if !listed.is_empty() && listed.contains(namespace) {
            Some(Protection::Listed)
        } else if !annotated.is_empty() && annotated.contains(namespace) {
            Some(Protection::Annotated)
        } else {
            None
        }
    }

    /// Records whether a namespace has the annotation that protects its pods from eviction; `object` is its newest version, `None` if it
    /// was deleted. Returns true if that changed.
    pub(super) fn note_annotation(&mut self, name: &str, object: Option<&Namespace>) -> bool {
        let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
        let asks = annotations.and_then(|a| a.get(keys::ANNOTATION_NEVER_EVICT)).is_some_and(|value| value == "true");
        let annotated = &mut self.protected_namespaces.annotated;
        let changed = if asks { annotated.insert(name.to_owned()) } else { annotated.remove(name) };
        if changed {
            self.renew_namespace(name);
        }
        changed
    }

    /// Recomputes the summary rows (`Row`) of the bound pods in a namespace, after its protection from eviction changed.
    fn renew_namespace(&mut self, namespace: &str) {
        let pods = self.bound_in(namespace).collect();
        self.renew_pods(pods);
    }

    /// Recomputes the summary rows (`Row`) of these pods; if the group of such a pod is disrupted together, those of all its members.
    fn renew_pods(&mut self, pods: Vec<PodIndex>) {
        let mut groups: BTreeSet<GroupIndex> = BTreeSet::new();
        for index in pods {
            match self.group_index_of(index).filter(|group| self.is_disrupted_together(*group)) {
                Some(group) => drop(groups.insert(group)),
                None => self.renew_pod(index, self.row(index).class),
            }
        }
        groups.into_iter().for_each(|group| self.renew_group(group));
    }
}
