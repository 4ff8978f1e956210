//! Volumes, claims and their classes, as far as they say where a pod can run.

use super::constraints::{NodeTerm, Pin, Requirement, node_terms};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass as StorageClassObject;
use smol_str::SmolStr;

/// A PersistentVolume: the nodes that can attach it; `None` for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) pin: Option<Pin>,
}

impl Volume {
    pub(super) fn from_object(volume: &PersistentVolume) -> Self {
        let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
        Self { pin: affinity.and_then(|affinity| affinity.required.as_ref()).map(node_terms) }
    }
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VolumeClaim {
    /// The volume that it names.
    pub(super) volume: Option<SmolStr>,
    /// Whether it is bound to that volume for good.
    pub(super) bound: bool,
    /// True if it has a `deletionTimestamp` and exists until no pod uses it: kube-scheduler binds no pod to it then.
    pub(super) deleting: bool,
    /// Its class.
    pub(super) class: Option<SmolStr>,
}

impl VolumeClaim {
    pub(super) fn from_object(claim: &PersistentVolumeClaim) -> Self {
        let spec = claim.spec.as_ref();
        let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).map(SmolStr::new);
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        Self {
            volume: text(spec.and_then(|spec| spec.volume_name.as_ref())),
            // Only the controller writes the phase. The bind-completed annotation can be written by every user with write access to the
            // claim, and remains when the claim is lost: a plan that relied on it would evict pods without benefit.
            bound: phase == Some("Bound"),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            class: text(spec.and_then(|spec| spec.storage_class_name.as_ref())),
        }
    }
}

/// A StorageClass: where volumes can be made for pods that choose their node first (`WaitForFirstConsumer`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StorageClass {
    /// `None` where the volume comes first, or can be made anywhere.
    pub(super) pin: Option<Pin>,
}

impl StorageClass {
    pub(super) fn from_object(class: &StorageClassObject) -> Self {
        let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
        if class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") || topologies.is_empty() {
            return Self::default();
        }
        let terms = topologies.iter().map(|topology| NodeTerm {
            labels: topology
                .match_label_expressions
                .iter()
                .flatten()
                .map(|rule| Requirement::new(&rule.key, "In", Some(&rule.values)))
                .collect(),
            fields: Vec::new(),
        });
        Self { pin: Some(terms.collect()) }
    }
}
