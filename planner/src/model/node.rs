//! A node: its capacity, and its taints.

use super::error::ModelError;
use super::requests;
use super::resources::{ResourceId, ResourceNames};
use k8s_openapi::api::core::v1::Node as NodeObject;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: SmolStr,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Taints that exclude pods without a toleration (`NoSchedule` and `NoExecute`).
    pub taints: Vec<Taint>,
    /// Features that its kubelet declares.
    pub features: BTreeSet<String>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// What it offers, by resource number; what is missing is 0.
    pub(crate) allocatable: Vec<i128>,
}

/// A taint that excludes pods without a toleration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Key of the taint.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    /// `NoSchedule` or `NoExecute`.
    pub effect: String,
}

impl Node {
    /// Reads a node, and gives each resource that it offers a number in `names`.
    ///
    /// # Errors
    /// The object has no name, or a quantity cannot be read.
    pub(super) fn from_object(node: &NodeObject, names: &mut ResourceNames) -> Result<Self, ModelError> {
        let name = match node.metadata.name.as_deref() {
            Some(name) if !name.is_empty() => SmolStr::new(name),
            _ => return Err(ModelError::nameless("Node", String::new(), "metadata.name")),
        };
        let offered = node.status.as_ref().and_then(|s| s.allocatable.as_ref());
        let amounts = requests::amounts(offered, "Node", &name, &"status.allocatable")?;
        let amounts: Vec<_> = amounts.into_iter().map(|(resource, amount)| (names.number(resource), amount)).collect();
        let mut allocatable = vec![0; names.len()];
        for (id, amount) in amounts {
            if let Some(id) = id {
                allocatable[usize::from(id)] = amount;
            }
        }
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|s| s.taints.as_deref()).unwrap_or_default();
        Ok(Self {
            name,
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: taints
                .iter()
                .filter(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute")
                .map(|taint| Taint {
                    key: taint.key.clone(),
                    value: taint.value.clone().unwrap_or_default(),
                    effect: taint.effect.clone(),
                })
                .collect(),
            features: node.status.iter().flat_map(|s| s.declared_features.iter().flatten()).cloned().collect(),
            unschedulable: spec.and_then(|s| s.unschedulable).unwrap_or(false),
            allocatable,
        })
    }

    /// Returns how much of a resource the node offers, in the scheduler's unit (`cpu` in thousandths, all others in whole units); 0 if
    /// none.
    pub fn allocatable(&self, id: ResourceId) -> i128 {
        self.allocatable.get(usize::from(id)).copied().unwrap_or(0)
    }
}
