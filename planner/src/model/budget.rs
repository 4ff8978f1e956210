//! A PodDisruptionBudget: how many of its pods may go.

use super::key::ObjectKey;
use super::selector::Selector;
use crate::error::ModelError;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its key.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// How many more pods may go now.
    pub disruptions_allowed: i32,
    /// Names of pods whose eviction was granted and is not observed yet; they are counted already.
    pub disrupted_pods: BTreeSet<String>,
    /// `None` matches nothing, the empty selector everything in the namespace.
    selector: Option<Selector>,
}

impl Budget {
    /// Reads a budget.
    pub(super) fn from_object(budget: &PodDisruptionBudget) -> Result<Self, ModelError> {
        let metadata = &budget.metadata;
        let (namespace, name) = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone());
        let Some(name) = name else {
            return Err(ModelError::nameless("PodDisruptionBudget", namespace, "metadata.name"));
        };
        let status = budget.status.as_ref();
        Ok(Self {
            key: ObjectKey::new(namespace, name),
            uid: metadata.uid.clone().unwrap_or_default(),
            disruptions_allowed: status.map_or(0, |s| s.disruptions_allowed),
            disrupted_pods: status
                .iter()
                .flat_map(|s| s.disrupted_pods.iter().flatten())
                .map(|(p, _)| p.clone())
                .collect(),
            selector: budget.spec.as_ref().and_then(|s| s.selector.as_ref()).map(Selector::from_object),
        })
    }

    /// Whether the two are about the same pods.
    pub(super) fn selects_like(&self, other: &Self) -> bool {
        self.selector == other.selector
    }

    /// Whether a pod of the budget's namespace with these labels is under this budget.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}
