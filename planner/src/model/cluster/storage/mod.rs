//! Volumes, claims, classes and drivers of storage, and the pods that use them. What they say about a pod is computed when one of them
//! or the pod changes ([`claims`]), and stored with the pod; what they say about a node is counted as a resource.

mod claims;
mod free_volumes;

use super::counted::Counted;
use super::{Cluster, PodSlot};
use crate::model::storage::{HOST, Shape, StorageClass, Volume, VolumeClaim};
use crate::model::{Node, ObjectKey, Pod, PodIndex};
pub(super) use claims::Required;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass as StorageClassObject};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// Volumes, claims, their classes, and the pods that use them.
#[derive(Clone, Debug, Default)]
pub(super) struct Storage {
    volumes: BTreeMap<SmolStr, Volume>,
    claims: BTreeMap<ObjectKey, VolumeClaim>,
    classes: BTreeMap<SmolStr, StorageClass>,
    /// CSI drivers that report how much storage they have where (`CSIStorageCapacity`).
    capacity_drivers: BTreeSet<SmolStr>,
    /// By node: how many volumes of a CSI driver it can attach.
    limits: BTreeMap<SmolStr, BTreeMap<SmolStr, i128>>,
    /// By class: the volumes that claims may be bound to.
    free: BTreeMap<SmolStr, FreeVolumes>,
    /// By claim, which need not exist: the pods with it.
    users: BTreeMap<ObjectKey, Users>,
    /// By volume, which need not exist: the claims that name it.
    claims_on: BTreeMap<SmolStr, BTreeSet<ObjectKey>>,
    /// By claim, which need not exist: the volume that names it.
    reserved: BTreeMap<ObjectKey, SmolStr>,
}

/// The free volumes of a class.
#[derive(Clone, Debug, Default)]
struct FreeVolumes {
    /// How many have a shape; and whether each of them is on one host.
    shapes: BTreeMap<(Shape, bool), usize>,
    /// How many are on a host.
    hosts: BTreeMap<SmolStr, i128>,
}

/// The pods that use one PersistentVolumeClaim.
#[derive(Clone, Debug, Default)]
struct Users {
    all: BTreeSet<PodIndex>,
    /// Those that are on a node and have not ended.
    bound: BTreeSet<PodIndex>,
    /// Those without a node that have neither ended nor a `deletionTimestamp`.
    waiting: BTreeSet<PodIndex>,
}

impl Users {
    /// Records that a pod uses the claim, and whether it is bound or pending.
    fn note(&mut self, index: PodIndex, slot: &PodSlot) {
        self.all.insert(index);
        let is_bound = slot.node.is_some();
        let is_waiting = !is_bound && slot.pod.live();
        for (list, listed) in [(&mut self.bound, is_bound), (&mut self.waiting, is_waiting)] {
            let _ = if listed { list.insert(index) } else { list.remove(&index) };
        }
    }

    /// Records that a pod no longer uses the claim.
    fn forget(&mut self, index: PodIndex) {
        for list in [&mut self.all, &mut self.bound, &mut self.waiting] {
            list.remove(&index);
        }
    }
}

impl Cluster {
    /// Adds or replaces a PersistentVolume. Returns true if anything changed.
    pub fn upsert_volume(&mut self, object: &PersistentVolume) -> bool {
        let Some(name) = object.metadata.name.as_deref().map(SmolStr::new) else { return false };
        let volume = Volume::from_object(object);
        if self.storage.volumes.get(&name) == Some(&volume) {
            return false;
        }
        let old = self.storage.volumes.insert(name.clone(), volume.clone());
        self.volume_changed(&name, old, Some(volume));
        true
    }

    /// Removes a PersistentVolume. Returns true if the model had it.
    pub fn remove_volume(&mut self, name: &str) -> bool {
        let Some(old) = self.storage.volumes.remove(name) else { return false };
        self.volume_changed(name, Some(old), None);
        true
    }

    /// Updates the claims and pods that depend on a PersistentVolume which changed from `old` to `new`; `None` if it does not exist before
    /// or after.
    fn volume_changed(&mut self, name: &str, old: Option<Volume>, new: Option<Volume>) {
        let claims: Vec<ObjectKey> = self.storage.claims_on.get(name).into_iter().flatten().cloned().collect();
        claims.iter().for_each(|claim| self.claim_changed(claim));
        for (claim, is_reserved) in [
            (old.as_ref().and_then(|volume| volume.claim.clone()), false),
            (new.as_ref().and_then(|volume| volume.claim.clone()), true),
        ] {
            let Some(claim) = claim else { continue };
            if is_reserved {
                self.storage.reserved.insert(claim.clone(), name.into());
            } else if self.storage.reserved.get(&claim).is_some_and(|volume| volume == name) {
                self.storage.reserved.remove(&claim);
            }
            self.claim_changed(&claim);
        }
        let (old, new) = (old.and_then(|volume| volume.free), new.and_then(|volume| volume.free));
        if old != new {
            for (free, sign) in [(new, 1), (old, -1)] {
                if let Some(free) = free {
                    self.count_free_volume(&free, sign);
                }
            }
        }
    }

    /// Adds or replaces a PersistentVolumeClaim. Returns true if anything changed.
    pub fn upsert_claim(&mut self, object: &PersistentVolumeClaim) -> bool {
        let Some(name) = object.metadata.name.as_deref() else { return false };
        let key = ObjectKey::new(object.metadata.namespace.as_deref().unwrap_or_default(), name);
        let claim = VolumeClaim::from_object(object);
        let old = self.storage.claims.insert(key.clone(), claim.clone());
        if old.as_ref() == Some(&claim) {
            return false;
        }
        self.storage.forget_claim(&key, old);
        if let Some(volume) = claim.volume {
            self.storage.claims_on.entry(volume).or_default().insert(key.clone());
        }
        self.claim_changed(&key);
        true
    }

    /// Removes a PersistentVolumeClaim. Returns true if the model had it.
    pub fn remove_claim(&mut self, key: &ObjectKey) -> bool {
        let Some(old) = self.storage.claims.remove(key) else { return false };
        self.storage.forget_claim(key, Some(old));
        self.claim_changed(key);
        true
    }

    /// Recomputes the requirements of the pods that use this PersistentVolumeClaim.
    fn claim_changed(&mut self, key: &ObjectKey) {
        let pods: Vec<PodIndex> =
            self.storage.users.get(key).into_iter().flat_map(|users| &users.all).copied().collect();
        pods.into_iter().for_each(|pod| self.derive_fields_again(pod));
    }

    /// Recomputes the requirements of the pods that use a PersistentVolumeClaim for which `concerned` returns true.
    fn claims_changed(&mut self, concerned: impl Fn(&Storage, &VolumeClaim) -> bool) {
        let storage = &self.storage;
        let claims = storage.claims.iter().filter(|(_, claim)| concerned(storage, claim));
        let claims: Vec<ObjectKey> = claims.map(|(key, _)| key.clone()).collect();
        claims.iter().for_each(|claim| self.claim_changed(claim));
    }

    /// Adds or replaces a StorageClass. Returns whether anything changed.
    pub fn upsert_storage_class(&mut self, object: &StorageClassObject) -> bool {
        let Some(name) = object.metadata.name.as_deref().map(SmolStr::new) else { return false };
        let class = StorageClass::from_object(object);
        let changed = self.storage.classes.insert(name.clone(), class.clone()).as_ref() != Some(&class);
        if changed {
            self.claims_changed(|_, claim| claim.volume.is_none() && claim.class.as_ref() == Some(&name));
        }
        changed
    }

    /// Removes a StorageClass. Returns whether it was there.
    pub fn remove_storage_class(&mut self, name: &str) -> bool {
        let was_there = self.storage.classes.remove(name).is_some();
        if was_there {
            self.claims_changed(|_, claim| claim.volume.is_none() && claim.class.as_deref() == Some(name));
        }
        was_there
    }

    /// Records whether a CSIDriver reports the capacity of its storage. Returns true if that changed.
    pub fn upsert_csi_driver(&mut self, object: &CSIDriver) -> bool {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let reports = object.spec.storage_capacity == Some(true);
        reports && self.storage.capacity_drivers.insert(name.into()) && self.csi_driver_changed(name)
            || !reports && self.remove_csi_driver(name)
    }

    /// Removes a CSIDriver. Returns true if that may affect a decision.
    pub fn remove_csi_driver(&mut self, name: &str) -> bool {
        self.storage.capacity_drivers.remove(name) && self.csi_driver_changed(name)
    }

    /// Recomputes the requirements of the pods whose claims without a volume get one of this CSI driver. Returns true: a decision can
    /// depend on that.
    fn csi_driver_changed(&mut self, name: &str) -> bool {
        self.claims_changed(|storage, claim| claim.volume.is_none() && storage.driver_of(claim) == Some(name));
        true
    }

    /// Adds or replaces a CSINode: how many volumes its node can attach. Returns whether anything changed.
    pub fn upsert_csi_node(&mut self, object: &CSINode) -> bool {
        let Some(node) = object.metadata.name.as_deref().map(SmolStr::new) else { return false };
        let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((SmolStr::new(&driver.name), i128::from(count.max(0))))
        };
        let limits: BTreeMap<SmolStr, i128> = object.spec.drivers.iter().filter_map(limit).collect();
        if limits.is_empty() {
            return self.remove_csi_node(&node);
        }
        if self.storage.limits.get(&node) == Some(&limits) {
            return false;
        }
        let drivers: Vec<SmolStr> = limits.keys().cloned().collect();
        self.storage.limits.insert(node.clone(), limits);
        for driver in drivers {
            if self.start_counting(Counted::Attachments(driver.clone())) {
                self.claims_changed(|storage, claim| storage.driver_of(claim) == Some(driver.as_str()));
            }
        }
        self.recount(&node);
        true
    }

    /// Removes a CSINode. Returns true if that may affect a decision.
    pub fn remove_csi_node(&mut self, node: &str) -> bool {
        let had_limits = self.storage.limits.remove(node).is_some();
        if had_limits {
            self.recount(node);
        }
        had_limits
    }

    /// Returns the names of all PersistentVolumes in the model.
    pub fn volumes(&self) -> impl Iterator<Item = &SmolStr> {
        self.storage.volumes.keys()
    }

    /// Returns the keys of all PersistentVolumeClaims in the model.
    pub fn claims(&self) -> impl Iterator<Item = &ObjectKey> {
        self.storage.claims.keys()
    }

    /// Returns the names of the StorageClasses in the model.
    pub fn storage_classes(&self) -> impl Iterator<Item = &SmolStr> {
        self.storage.classes.keys()
    }

    /// Returns the names of the CSI drivers that report the capacity of their storage.
    pub fn csi_drivers(&self) -> impl Iterator<Item = &SmolStr> {
        self.storage.capacity_drivers.iter()
    }

    /// Returns the names of the nodes with a limit of volumes.
    pub fn csi_nodes(&self) -> impl Iterator<Item = &SmolStr> {
        self.storage.limits.keys()
    }

    /// Records that a pod, which was added or bound or has ended, uses its PersistentVolumeClaims, and whether it is bound or pending.
    pub(super) fn note_claims(&mut self, index: PodIndex) {
        let Some(slot) = self.pods.get(index) else { return };
        for claim in &slot.pod.claims {
            let key = ObjectKey::new(&slot.pod.key.namespace, &claim.name);
            self.storage.users.entry(key).or_default().note(index, slot);
        }
    }

    /// Records that a removed pod does not use its PersistentVolumeClaims any more.
    pub(super) fn forget_claims(&mut self, index: PodIndex, pod: &Pod) {
        for claim in &pod.claims {
            let key = ObjectKey::new(&pod.key.namespace, &claim.name);
            if let Some(users) = self.storage.users.get_mut(&key) {
                users.forget(index);
                if users.all.is_empty() {
                    self.storage.users.remove(&key);
                }
            }
        }
    }
}

impl Storage {
    /// Removes a PersistentVolumeClaim from the list of claims that name its volume; `old` is the last version of the claim.
    fn forget_claim(&mut self, key: &ObjectKey, old: Option<VolumeClaim>) {
        let Some(volume) = old.and_then(|claim| claim.volume) else { return };
        if let Some(claims) = self.claims_on.get_mut(&volume) {
            claims.remove(key);
            if claims.is_empty() {
                self.claims_on.remove(&volume);
            }
        }
    }

    /// Returns how many volumes of a CSI driver a node can attach; `None` if its CSINode states no limit.
    pub(super) fn attachable(&self, driver: &str, node: &str) -> Option<i128> {
        self.limits.get(node)?.get(driver).copied()
    }

    /// Returns how many PersistentVolumes of a StorageClass on a node are free, so that claims may be bound to them; 0 if there are none.
    pub(super) fn free_on(&self, class: &str, node: &Node) -> i128 {
        let host = || self.free.get(class)?.hosts.get(node.labels.get(HOST)?.as_str()).copied();
        host().unwrap_or(0)
    }

    /// Returns the PersistentVolume whose `claimRef` names a claim; `None` if there is none.
    fn reserved_for(&self, claim: &ObjectKey) -> Option<&Volume> {
        self.volumes.get(self.reserved.get(claim)?)
    }

    /// Returns the CSI driver of a claim's volume, or of its class if it has no volume yet; `None` if neither is known.
    fn driver_of(&self, claim: &VolumeClaim) -> Option<&str> {
        match claim.volume.as_ref().and_then(|volume| self.volumes.get(volume)) {
            Some(volume) => volume.driver.as_deref(),
            None => self.classes.get(claim.class.as_ref()?)?.provisioner.as_deref(),
        }
    }
}
