//! Namespaces in which nobody is evicted: those that the chart names, and those with the annotation of an administrator.

use super::Cluster;
use crate::model::{GroupIndex, PodIndex};
use giveway_crds::keys;
use k8s_openapi::api::core::v1::Namespace;
use std::collections::BTreeSet;

/// Why nobody in a namespace is evicted.
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

/// The namespaces that are protected, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelter {
    listed: BTreeSet<String>,
    annotated: BTreeSet<String>,
}

impl Cluster {
    /// Says in which namespaces nobody is evicted, whatever their annotations say. They need not exist.
    pub fn protect_namespaces(&mut self, names: BTreeSet<String>) {
        let old = std::mem::replace(&mut self.shelter.listed, names);
        let changed: Vec<String> = old.symmetric_difference(&self.shelter.listed).cloned().collect();
        changed.iter().for_each(|namespace| self.renew_namespace(namespace));
    }

    /// Why nobody in a namespace is evicted; `None` where somebody may be.
    pub fn protection(&self, namespace: &str) -> Option<Protection> {
        let Shelter { listed, annotated } = &self.shelter;
        // Hardly any cluster has one, and every pod asks.
        if !listed.is_empty() && listed.contains(namespace) {
            Some(Protection::Listed)
        } else if !annotated.is_empty() && annotated.contains(namespace) {
            Some(Protection::Annotated)
        } else {
            None
        }
    }

    /// Takes in whether a namespace is annotated. Returns whether that changed.
    pub(super) fn note_annotation(&mut self, name: &str, object: Option<&Namespace>) -> bool {
        let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
        let asks = annotations.and_then(|a| a.get(keys::ANNOTATION_NEVER_EVICT)).is_some_and(|value| value == "true");
        let annotated = &mut self.shelter.annotated;
        let changed = if asks { annotated.insert(name.to_owned()) } else { annotated.remove(name) };
        if changed {
            self.renew_namespace(name);
        }
        changed
    }

    /// Notes anew what can become of the pods in a namespace.
    fn renew_namespace(&mut self, namespace: &str) {
        let pods: Vec<PodIndex> = self.bound_in(namespace).collect();
        let mut groups: BTreeSet<GroupIndex> = BTreeSet::new();
        for index in pods {
            match self.group_index_of(index).filter(|group| self.goes_whole(*group)) {
                Some(group) => drop(groups.insert(group)),
                None => self.renew_pod(index, self.row(index).class),
            }
        }
        groups.into_iter().for_each(|group| self.renew_group(group));
    }
}
