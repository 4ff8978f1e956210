//! Volumes, claims, their classes and their drivers, as far as they say where a pod can run.

use super::constraints::{NodeTerm, Pin, Requirement, node_terms};
use super::quantity;
use giveway_crds::ObjectKey;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};
use k8s_openapi::api::storage::v1::StorageClass as StorageClassObject;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Provisioner of classes whose volumes an administrator creates.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Annotation of a claim: the node for which its volume is being provisioned.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Access mode of a claim that only one pod in the cluster may use at a time.
const ONE_POD: &str = "ReadWriteOncePod";
/// Access mode of a claim whose volume one node at a time can attach.
const ONE_NODE: &str = "ReadWriteOnce";
/// Label of a node by which local volumes name it.
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// Labels of volumes and nodes that kube-scheduler compares (its filter VolumeZone): with the label that a node may have instead.
const ZONE_LABELS: [(&str, Option<&str>); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", Some("topology.kubernetes.io/zone")),
    ("failure-domain.beta.kubernetes.io/region", Some("topology.kubernetes.io/region")),
    ("topology.kubernetes.io/zone", None),
    ("topology.kubernetes.io/region", None),
];

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    /// The nodes that can attach it, by its node affinity; `None` for all.
    pub(super) pin: Option<Pin>,
    /// The nodes that its zone labels allow; `None` for all.
    pub(super) zones: Option<Pin>,
    /// Its CSI driver.
    pub(super) driver: Option<SmolStr>,
    /// The claim that it names: no other claim can be bound to it.
    pub(super) claim: Option<ObjectKey>,
    /// Set if claims of its class may be bound to it.
    pub(super) free: Option<FreeVolume>,
}

/// A volume that claims may be bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FreeVolume {
    /// Its class.
    pub(super) class: SmolStr,
    /// The value of the node label [`HOST`], if the volume is on the one node that has it.
    pub(super) host: Option<SmolStr>,
    /// What claims compare.
    pub(super) shape: Shape,
}

/// What a claim requests of a volume, or what a volume has: size, access modes, volume mode. Free volumes of one shape are equal for every
/// claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    /// Bytes that the volume has, or that the claim requests.
    pub(super) bytes: i128,
    /// Access modes, ascending.
    pub(super) modes: Vec<String>,
    /// Whether it is a block device, instead of a file system.
    pub(super) block: bool,
}

impl Shape {
    /// Reads size, access modes and volume mode of a claim or volume; a size that cannot be parsed counts as `unreadable` bytes.
    fn new(
        amounts: Option<&BTreeMap<String, Quantity>>,
        unreadable: i128,
        modes: Option<&Vec<String>>,
        mode: Option<&str>,
    ) -> Self {
        let amount = amounts.and_then(|amounts| amounts.get("storage"));
        let bytes = amount.map(|amount| quantity::parse(&amount.0).map_or(unreadable, quantity::ceil_unit));
        let mut modes = modes.cloned().unwrap_or_default();
        modes.sort_unstable();
        Self { bytes: bytes.unwrap_or(0), modes, block: mode == Some("Block") }
    }

    /// Returns true if a claim of this shape can be bound to a volume of the shape `volume`.
    pub(super) fn fits_in(&self, volume: &Self) -> bool {
        self.bytes <= volume.bytes
            && self.block == volume.block
            && self.modes.iter().all(|mode| volume.modes.binary_search(mode).is_ok())
    }
}

impl Volume {
    /// Reads a PersistentVolume: the nodes that can attach it, and the claims that may be bound to it.
    pub(super) fn from_object(volume: &PersistentVolume) -> Self {
        let Some(spec) = volume.spec.as_ref() else { return Self::default() };
        let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let pin = required.map(node_terms);
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let available = phase == Some("Available")
            && spec.claim_ref.is_none()
            && volume.metadata.deletion_timestamp.is_none()
            && spec.volume_attributes_class_name.as_ref().is_none_or(String::is_empty);
        Self {
            zones: zones(volume.metadata.labels.as_ref()),
            driver: spec.csi.as_ref().map(|csi| SmolStr::new(&csi.driver)),
            claim: spec.claim_ref.as_ref().and_then(|claim| {
                let namespace = claim.namespace.as_deref().unwrap_or_default();
                Some(ObjectKey::new(namespace, claim.name.as_deref()?))
            }),
            free: available.then(|| FreeVolume::new(spec, pin.as_ref())),
            pin,
        }
    }
}

impl FreeVolume {
    /// Reads the class, the shape and the host of a volume that claims may be bound to; `pin` has the nodes that can attach it.
    fn new(spec: &PersistentVolumeSpec, pin: Option<&Pin>) -> Self {
        Self {
            class: spec.storage_class_name.as_deref().unwrap_or_default().into(),
            host: pin.and_then(|terms| host(terms)),
            shape: Shape::new(spec.capacity.as_ref(), 0, spec.access_modes.as_ref(), spec.volume_mode.as_deref()),
        }
    }
}

/// Returns the value of the node label [`HOST`] to which these terms restrict a volume; `None` if they require anything else than one value
/// of it.
fn host(terms: &[NodeTerm]) -> Option<SmolStr> {
    let [NodeTerm { labels, fields }] = terms else { return None };
    let ([rule], true) = (labels.as_slice(), fields.is_empty()) else { return None };
    match (rule.key.as_str(), rule.operator.as_str(), rule.values.as_slice()) {
        (HOST, "In", [value]) => Some(value.into()),
        _ => None,
    }
}

/// Returns the nodes that the zone labels of a volume allow: those that have no such label at all, and those with the same values; `None`,
/// for all nodes, if the volume has no such label. A label of a volume may list several values.
fn zones(labels: Option<&BTreeMap<String, String>>) -> Option<Pin> {
    let own = ZONE_LABELS.iter().filter_map(|(key, newer)| Some((*key, *newer, labels?.get(*key)?)));
    let mut all = vec![NodeTerm::default()];
    for (key, newer, listed) in own {
        let values: Vec<String> = listed.split("__").map(str::to_owned).collect();
        if values.iter().any(String::is_empty) {
            continue;
        }
        let equal = |key: &str| Requirement::new(key, "In", Some(&values));
        let mut options = vec![vec![equal(key)]];
        // A node without the older label is compared by the newer one.
        options.extend(newer.map(|newer| vec![Requirement::new(key, "DoesNotExist", None), equal(newer)]));
        let with = |term: &NodeTerm, option: &Vec<Requirement>| NodeTerm {
            labels: term.labels.iter().chain(option).cloned().collect(),
            fields: Vec::new(),
        };
        all = all.iter().flat_map(|term| options.iter().map(|option| with(term, option)).collect::<Vec<_>>()).collect();
    }
    if all.iter().all(|term| term.labels.is_empty()) {
        return None;
    }
    let without = ZONE_LABELS.iter().map(|(key, _)| Requirement::new(key, "DoesNotExist", None)).collect();
    all.push(NodeTerm { labels: without, fields: Vec::new() });
    Some(all)
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
    /// UID of its controller: the pod, if it is the claim of an ephemeral volume.
    pub(super) controller: Option<SmolStr>,
    /// Whether only one pod in the cluster may use it at a time (`ReadWriteOncePod`).
    pub(super) one_pod: bool,
    /// What it requests of a volume.
    pub(super) shape: Shape,
    /// True if it chooses volumes by more than their shape: by labels, or by their attributes.
    pub(super) selective: bool,
    /// The node for which its volume is being provisioned.
    pub(super) selected_node: Option<SmolStr>,
}

impl VolumeClaim {
    /// Reads a PersistentVolumeClaim: its volume, class and access modes, and what it requests.
    pub(super) fn from_object(claim: &PersistentVolumeClaim) -> Self {
        let (metadata, spec) = (&claim.metadata, claim.spec.as_ref());
        let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).map(SmolStr::new);
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let mut owners = metadata.owner_references.iter().flatten();
        let modes = spec.and_then(|spec| spec.access_modes.as_ref());
        let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
        Self {
            volume: text(spec.and_then(|spec| spec.volume_name.as_ref())),
            // Only the controller writes the phase. The bind-completed annotation can be written by every user with write access to the
            // claim, and remains when the claim is lost: a plan that relied on it would evict pods without benefit.
            bound: phase == Some("Bound"),
            deleting: metadata.deletion_timestamp.is_some(),
            class: text(spec.and_then(|spec| spec.storage_class_name.as_ref())),
            controller: owners.find(|owner| owner.controller == Some(true)).map(|owner| SmolStr::new(&owner.uid)),
            one_pod: modes.is_some_and(|modes| modes.iter().any(|mode| mode == ONE_POD)),
            shape: Shape::new(requests, i128::MAX, modes, spec.and_then(|spec| spec.volume_mode.as_deref())),
            selective: spec.is_some_and(|spec| {
                spec.selector.is_some()
                    || spec.volume_attributes_class_name.as_ref().is_some_and(|name| !name.is_empty())
            }),
            selected_node: text(metadata.annotations.as_ref().and_then(|annotations| annotations.get(SELECTED_NODE))),
        }
    }

    /// Returns true if `ReadWriteOnce` is the only access mode of the claim: one node at a time can attach its volume, and several pods
    /// there can use it.
    pub(super) fn is_for_one_node(&self) -> bool {
        self.shape.modes == [ONE_NODE]
    }
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StorageClass {
    /// Whether a claim is bound, or its volume made, only when kube-scheduler has chosen a node (`WaitForFirstConsumer`).
    pub(super) waits: bool,
    /// What makes its volumes; `None` if an administrator does.
    pub(super) provisioner: Option<SmolStr>,
    /// Where volumes can be made; `None` for everywhere.
    pub(super) pin: Option<Pin>,
}

impl StorageClass {
    /// Reads a StorageClass: when and where its volumes are made.
    pub(super) fn from_object(class: &StorageClassObject) -> Self {
        let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
        let terms = topologies.iter().map(|topology| NodeTerm {
            labels: topology
                .match_label_expressions
                .iter()
                .flatten()
                .map(|rule| Requirement::new(&rule.key, "In", Some(&rule.values)))
                .collect(),
            fields: Vec::new(),
        });
        let provisioner = class.provisioner.as_str();
        Self {
            waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            provisioner: (!provisioner.is_empty() && provisioner != NO_PROVISIONER).then(|| provisioner.into()),
            pin: (!topologies.is_empty()).then(|| terms.collect()),
        }
    }
}

/// Returns the restriction of a pod to the node with this name.
pub(super) fn only(node: &str) -> Pin {
    let named = Requirement::new("metadata.name", "In", Some(&[node.to_owned()]));
    vec![NodeTerm { labels: Vec::new(), fields: vec![named] }]
}
