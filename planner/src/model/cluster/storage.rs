//! The nodes on which the claims of pods allow them to run, and what cannot be known about that (design, section 4, "What cannot be
//! known"): computed when a pod, a claim, a volume or a class changes, and stored with the pod.

use super::{Cluster, PodSlot};
use crate::model::constraints::Pin;
use crate::model::storage::{StorageClass, Volume, VolumeClaim};
use crate::model::{ObjectKey, Pod, PodIndex};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass as StorageClassObject;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// The resource that every DeviceClass serves, whatever else it names (KEP-5004).
const IMPLICIT_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// Volumes, claims, their classes, and the pods that use them.
#[derive(Clone, Debug, Default)]
pub(super) struct Storage {
    volumes: BTreeMap<SmolStr, Volume>,
    claims: BTreeMap<ObjectKey, VolumeClaim>,
    classes: BTreeMap<SmolStr, StorageClass>,
    /// By DeviceClass: the extended resource that it serves beside its implicit one.
    devices: BTreeMap<SmolStr, Option<SmolStr>>,
    /// By extended resource: how many classes serve it.
    served: BTreeMap<SmolStr, usize>,
    /// By claim, which need not exist: the pods with it.
    claimants: BTreeMap<ObjectKey, BTreeSet<PodIndex>>,
    /// By volume, which need not exist: the claims that name it.
    claims_on: BTreeMap<SmolStr, BTreeSet<ObjectKey>>,
}

impl Storage {
    pub(super) fn serves(&self, resource: &str) -> bool {
        self.served.contains_key(resource)
    }

    /// Returns the nodes that the claims of a pod allow, and what is not known about them, as words that complete "it depends on".
    fn places(&self, pod: &Pod) -> (Vec<Pin>, Vec<String>) {
        let (mut pins, mut unknown) = (Vec::new(), Vec::new());
        for name in &pod.claims {
            let mut says = |what: String| unknown.push(format!("claim {name}, {what}"));
            let Some(claim) = self.claims.get(&ObjectKey::new(&pod.key.namespace, name)) else {
                says("which was not found".to_owned());
                continue;
            };
            if claim.deleting {
                says("which is being deleted".to_owned());
            }
            match &claim.volume {
                Some(volume) => {
                    match self.volumes.get(volume) {
                        None => says(format!("whose volume {volume} was not found")),
                        Some(_) if !claim.bound => says(format!("which is not bound to volume {volume} yet")),
                        Some(_) => {}
                    }
                    pins.extend(self.volumes.get(volume).and_then(|volume| volume.pin.clone()));
                }
                None => {
                    says("which is bound to no volume yet".to_owned());
                    let class = claim.class.as_ref().and_then(|class| self.classes.get(class));
                    pins.extend(class.and_then(|class| class.pin.clone()));
                }
            }
        }
        if pod.claims_devices {
            unknown.push("its resource claims (dynamic resource allocation)".to_owned());
        }
        for resource in pod.requests.served() {
            unknown.push(format!("devices for {resource} (dynamic resource allocation), which no node offers itself"));
        }
        // Sorted, so that pods with the same pins are in one equivalence class regardless of the order of their volumes.
        pins.sort();
        pins.dedup();
        (pins, unknown)
    }
}

impl Cluster {
    /// Adds or replaces a volume. Returns whether anything changed.
    pub fn upsert_volume(&mut self, object: &PersistentVolume) -> bool {
        let Some(name) = object.metadata.name.as_deref().map(SmolStr::new) else { return false };
        let volume = Volume::from_object(object);
        let changed = self.storage.volumes.insert(name.clone(), volume.clone()).as_ref() != Some(&volume);
        if changed {
            self.volume_changed(&name);
        }
        changed
    }

    /// Removes a volume. Returns whether it was there.
    pub fn remove_volume(&mut self, name: &str) -> bool {
        let was_there = self.storage.volumes.remove(name).is_some();
        if was_there {
            self.volume_changed(name);
        }
        was_there
    }

    fn volume_changed(&mut self, name: &str) {
        let claims: Vec<ObjectKey> = self.storage.claims_on.get(name).into_iter().flatten().cloned().collect();
        claims.iter().for_each(|claim| self.claim_changed(claim));
    }

    /// Adds or replaces a claim. Returns whether anything changed.
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

    /// Removes a claim. Returns whether it was there.
    pub fn remove_claim(&mut self, key: &ObjectKey) -> bool {
        let Some(old) = self.storage.claims.remove(key) else { return false };
        self.storage.forget_claim(key, Some(old));
        self.claim_changed(key);
        true
    }

    fn claim_changed(&mut self, key: &ObjectKey) {
        let pods: Vec<PodIndex> = self.storage.claimants.get(key).into_iter().flatten().copied().collect();
        pods.into_iter().for_each(|pod| self.settle_again(pod));
    }

    /// Adds or replaces a StorageClass. Returns whether anything changed.
    pub fn upsert_storage_class(&mut self, object: &StorageClassObject) -> bool {
        let Some(name) = object.metadata.name.as_deref().map(SmolStr::new) else { return false };
        let class = StorageClass::from_object(object);
        let changed = self.storage.classes.insert(name.clone(), class.clone()).as_ref() != Some(&class);
        if changed {
            self.storage_class_changed(&name);
        }
        changed
    }

    /// Removes a StorageClass. Returns whether it was there.
    pub fn remove_storage_class(&mut self, name: &str) -> bool {
        let was_there = self.storage.classes.remove(name).is_some();
        if was_there {
            self.storage_class_changed(name);
        }
        was_there
    }

    fn storage_class_changed(&mut self, name: &str) {
        let of_it = self.storage.claims.iter().filter(|(_, claim)| claim.class.as_deref() == Some(name));
        let unbound: Vec<ObjectKey> =
            of_it.filter(|(_, claim)| claim.volume.is_none()).map(|(key, _)| key.clone()).collect();
        unbound.iter().for_each(|claim| self.claim_changed(claim));
    }

    /// Adds or replaces a DeviceClass and the extended resource that it names (`spec.extendedResourceName`). Returns
    /// whether anything changed.
    pub fn upsert_device_class(&mut self, name: &str, extended_resource: Option<&str>) -> bool {
        let resource = extended_resource.filter(|resource| !resource.is_empty()).map(SmolStr::new);
        if self.storage.devices.get(name) == Some(&resource) {
            return false;
        }
        self.remove_device_class(name);
        self.storage.devices.insert(name.into(), resource.clone());
        self.serve(name, resource, true);
        true
    }

    /// Removes a DeviceClass. Returns whether it was there.
    pub fn remove_device_class(&mut self, name: &str) -> bool {
        let Some(resource) = self.storage.devices.remove(name) else { return false };
        self.serve(name, resource, false);
        true
    }

    fn serve(&mut self, class: &str, resource: Option<SmolStr>, more: bool) {
        for name in resource.into_iter().chain([SmolStr::from(format!("{IMPLICIT_RESOURCE}{class}"))]) {
            let classes = self.storage.served.entry(name.clone()).or_default();
            *classes = if more { *classes + 1 } else { classes.saturating_sub(1) };
            if *classes == 0 {
                self.storage.served.remove(&name);
            }
            let pods: Vec<PodIndex> = self.askers.get(&name).into_iter().flatten().copied().collect();
            pods.into_iter().for_each(|pod| self.settle_again(pod));
        }
    }

    /// Names of the volumes that are known.
    pub fn volumes(&self) -> impl Iterator<Item = &SmolStr> {
        self.storage.volumes.keys()
    }

    /// Keys of the claims that are known.
    pub fn claims(&self) -> impl Iterator<Item = &ObjectKey> {
        self.storage.claims.keys()
    }

    /// Names of the storage classes that are known.
    pub fn storage_classes(&self) -> impl Iterator<Item = &SmolStr> {
        self.storage.classes.keys()
    }

    /// Names of the device classes that are known.
    pub fn device_classes(&self) -> impl Iterator<Item = &SmolStr> {
        self.storage.devices.keys()
    }

    /// Fills in those requests and constraints of a pod that depend on other objects: numbers of resources, nodes of volumes.
    pub(super) fn settle(&self, pod: &mut Pod) {
        if pod.requests.unnumbered().next().is_some() {
            let requests = pod.requests.renumbered(&self.names, |name| self.storage.serves(name));
            if requests != pod.requests {
                pod.class_mut().requests = requests;
            }
        }
        let (volumes, unknown) = self.storage.places(pod);
        if volumes != pod.constraints.volumes {
            pod.class_mut().constraints.volumes = volumes;
        }
        pod.unknown = unknown;
    }

    /// Does so again, after one of these objects changed.
    pub(super) fn settle_again(&mut self, index: PodIndex) {
        let Some(known) = self.pod_at(index) else { return };
        let mut pod = known.clone();
        self.settle(&mut pod);
        if pod != *known {
            self.remove_pod(&pod.key);
            self.insert_pod(pod);
        }
    }

    /// Records the claims of a pod that was added.
    pub(super) fn note_claims(&mut self, index: PodIndex) {
        let Some(PodSlot { pod, .. }) = self.pods.get(index) else { return };
        for name in &pod.claims {
            let key = ObjectKey::new(&pod.key.namespace, name);
            self.storage.claimants.entry(key).or_default().insert(index);
        }
    }

    /// Forgets the claims of a pod that is removed.
    pub(super) fn forget_claims(&mut self, index: PodIndex, pod: &Pod) {
        for name in &pod.claims {
            let key = ObjectKey::new(&pod.key.namespace, name);
            if let Some(pods) = self.storage.claimants.get_mut(&key) {
                pods.remove(&index);
                if pods.is_empty() {
                    self.storage.claimants.remove(&key);
                }
            }
        }
    }
}

impl Storage {
    /// Forgets which volume a claim named.
    fn forget_claim(&mut self, key: &ObjectKey, old: Option<VolumeClaim>) {
        let Some(volume) = old.and_then(|claim| claim.volume) else { return };
        if let Some(claims) = self.claims_on.get_mut(&volume) {
            claims.remove(key);
            if claims.is_empty() {
                self.claims_on.remove(&volume);
            }
        }
    }
}
