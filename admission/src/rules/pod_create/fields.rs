//! The fields of an admitted pod that the rules read.

use crate::object::{MIRROR, Map, Metadata, Text};
use giveway_crds::keys::GATE;
use serde::Deserialize;

/// The part of a pod that rules read.
#[derive(Debug, Deserialize)]
pub struct PodFields<'a> {
    /// Its metadata.
    #[serde(borrow, default)]
    pub metadata: Map<Metadata<'a>>,
    /// Its spec.
    #[serde(borrow, default)]
    pub spec: Map<Spec<'a>>,
}

/// The part of a pod's spec that rules read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec<'a> {
    /// Name of its priority class; the Priority plugin has filled it before.
    #[serde(borrow, default)]
    pub priority_class_name: Option<Text<'a>>,
    /// Its priority; the Priority plugin has filled it before.
    #[serde(default)]
    pub priority: Option<i32>,
    /// Its preemption policy; the Priority plugin has filled it before.
    #[serde(borrow, default)]
    pub preemption_policy: Option<Text<'a>>,
    /// Its node, if it is created with one.
    #[serde(borrow, default)]
    pub node_name: Option<Text<'a>>,
    /// The native group that it belongs to.
    #[serde(borrow, default)]
    pub scheduling_group: Option<Map<NativeGroupName<'a>>>,
    /// Its scheduling gates.
    #[serde(borrow, default)]
    pub scheduling_gates: Option<Vec<Map<Gate<'a>>>>,
}

/// The reference of a pod to its native group.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeGroupName<'a> {
    /// Name of the group.
    #[serde(borrow, default)]
    pub pod_group_name: Option<Text<'a>>,
}

/// A scheduling gate.
#[derive(Debug, Default, Deserialize)]
pub struct Gate<'a> {
    /// Its name.
    #[serde(borrow, default)]
    pub name: Text<'a>,
}

impl PodFields<'_> {
    /// Returns true for a mirror pod, the API's copy of a static pod.
    pub fn is_mirror(&self) -> bool {
        self.metadata.annotation(MIRROR).is_some()
    }

    /// Returns true if the pod has Giveway's scheduling gate.
    pub fn has_gate(&self) -> bool {
        self.gates().next().is_some()
    }

    /// Returns the indexes of Giveway's scheduling gate in `spec.schedulingGates`, in ascending order.
    pub(super) fn gates(&self) -> impl Iterator<Item = usize> {
        let gates = self.spec.scheduling_gates.as_deref().unwrap_or_default();
        gates.iter().enumerate().filter(|(_, gate)| &*gate.name == GATE).map(|(index, _)| index)
    }

    /// Returns the name of the native group in `spec.schedulingGroup`; `None` if the pod names none.
    pub(super) fn native_group(&self) -> Option<&str> {
        self.spec.scheduling_group.as_ref()?.pod_group_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns true if the pod is created with a node in `spec.nodeName`.
    pub(super) fn is_bound(&self) -> bool {
        self.spec.node_name.as_deref().is_some_and(|node| !node.is_empty())
    }
}
