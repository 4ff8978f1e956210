//! How many devices a pod has, or needs, and what is not known about that (design, section 4, "Unknown is not infeasible").

use super::PoolKey;
use crate::model::cluster::Cluster;
use crate::model::cluster::counted::Counted;
use crate::model::cluster::storage::Required;
use crate::model::devices::{Claim, DeviceClaimRef, Selected};
use crate::model::{ObjectKey, Pod};
use giveway_crds::devices::ResourceClaim;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// What a pending pod lacks until a controller has created its claims.
const NOT_CREATED: &str = "ResourceClaims (not created yet)";

/// Why the devices of a claim are not counted.
enum Uncounted {
    /// The claim, or its class, does not exist yet: kube-scheduler binds no pod before.
    Missing(SmolStr),
    /// It asks for more than a number of devices of a driver whose devices are all counted.
    Unknown,
}

impl Claim {
    /// Returns how many devices of this pool are allocated to the claim.
    pub(super) fn devices_of(&self, pool: &PoolKey) -> i128 {
        self.allocated.iter().filter(|allocated| *allocated == pool).map(|_| 1).sum()
    }
}

impl Cluster {
    /// Adds to `required` the devices that a pod needs because of its ResourceClaims: for a bound pod those on its node that are reserved
    /// for it alone, for a pending pod those that its claims ask for. What cannot be counted becomes `missing` or `unknown`.
    pub(in crate::model::cluster) fn required_by_devices(&self, pod: &Pod, required: &mut Required) {
        let mut counts: BTreeMap<SmolStr, i128> = BTreeMap::new();
        if pod.bound() {
            let held = self.devices.held.get(&pod.uid).into_iter().flatten();
            let pools = held.filter_map(|claim| self.devices.claims.get(claim)).flat_map(|claim| &claim.allocated);
            for pool in pools.filter(|pool| self.devices.node_of(pool) == pod.node.as_ref()) {
                *counts.entry(pool.driver.clone()).or_default() += 1;
            }
        }
        let mut is_unknown = false;
        for claim in &pod.device_claims {
            match self.devices_for(pod, claim) {
                Ok(devices) => {
                    devices.into_iter().for_each(|(driver, count)| *counts.entry(driver).or_default() += count)
                }
                Err(Uncounted::Missing(what)) => *required.missing.entry(what).or_default() += 1,
                Err(Uncounted::Unknown) => is_unknown = true,
            }
        }
        if is_unknown {
            let what = "its resource claims, whose devices Giveway cannot count (dynamic resource allocation)";
            required.unknown.push(what.to_owned());
        }
        for (driver, count) in counts {
            let what = Counted::Devices(driver);
            match self.counted_id(&what) {
                Some(id) => *required.counted.entry(id).or_default() += count,
                // No slice of the driver was ever known.
                None => *required.missing.entry(what.to_string().into()).or_default() += count,
            }
        }
    }

    /// Returns the devices that a pending pod needs for one of its ResourceClaims: the names of their drivers, each with a number of
    /// devices.
    ///
    /// # Errors
    /// `Missing` if the claim or its DeviceClass does not exist yet. `Unknown` if the devices cannot be counted: the claim is not the pod's
    /// own, is allocated already, or asks for more than a number of devices of one driver.
    fn devices_for(&self, pod: &Pod, claim: &DeviceClaimRef) -> Result<Vec<(SmolStr, i128)>, Uncounted> {
        let DeviceClaimRef::Own(name) = claim else { return Err(Uncounted::Unknown) };
        let made = name.as_ref().map(|name| ObjectKey::new(&pod.key.namespace, name));
        let Some(claim) = made.and_then(|key| self.devices.claims.get(&key)) else {
            return Err(if self.devices.are_read() {
                Uncounted::Missing(NOT_CREATED.into())
            } else {
                Uncounted::Unknown
            });
        };
        if claim.is_allocated || claim.owner.as_ref() != Some(&pod.uid) {
            return Err(Uncounted::Unknown);
        }
        let mut devices = Vec::new();
        for asked in claim.asked.as_ref().ok_or(Uncounted::Unknown)? {
            let Some(class) = self.devices.classes.get(&asked.class) else {
                return Err(Uncounted::Missing(
                    format!("devices (class {}, which does not exist)", asked.class).into(),
                ));
            };
            match class.selected.clone().and(asked.selected.clone()) {
                Selected::OfDriver(driver) if self.devices.are_counted(&driver) => devices.push((driver, asked.count)),
                _ => return Err(Uncounted::Unknown),
            }
        }
        Ok(devices)
    }

    /// Adds or replaces a ResourceClaim. Returns whether anything changed.
    pub fn upsert_resource_claim(&mut self, object: &ResourceClaim) -> bool {
        let Some(name) = object.metadata.name.as_deref() else { return false };
        let key = ObjectKey::new(object.metadata.namespace.as_deref().unwrap_or_default(), name);
        let claim = Claim::from_object(object);
        let old = self.devices.claims.insert(key.clone(), claim.clone());
        let differs = old.as_ref() != Some(&claim);
        if differs {
            self.resource_claim_changed(&key, [old, Some(claim)]);
        }
        differs
    }

    /// Removes a ResourceClaim. Returns whether it was there.
    pub fn remove_resource_claim(&mut self, key: &ObjectKey) -> bool {
        let Some(old) = self.devices.claims.remove(key) else { return false };
        self.resource_claim_changed(key, [Some(old), None]);
        true
    }

    /// Updates indexes, pods and nodes after a ResourceClaim changed; `versions` are the claim before and after the change, `None` if it
    /// does not exist then.
    fn resource_claim_changed(&mut self, key: &ObjectKey, versions: [Option<Claim>; 2]) {
        let (mut pods, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        for (claim, is_new) in versions.into_iter().zip([false, true]) {
            let Some(claim) = claim else { continue };
            let devices = &mut self.devices;
            nodes.extend(claim.allocated.iter().filter_map(|pool| devices.node_of(pool).cloned()));
            for pool in claim.allocated {
                set_index_entry(&mut devices.claims_on, pool, key, is_new);
            }
            if let Some(holder) = &claim.holder {
                set_index_entry(&mut devices.held, holder.clone(), key, is_new);
            }
            pods.extend(claim.owner.into_iter().chain(claim.holder));
        }
        pods.iter().for_each(|uid| self.derive_fields_of_uid(uid));
        nodes.iter().for_each(|node| self.recount(node));
    }

    /// Counts devices again on the nodes of those devices that ResourceClaims reserve for the pod with this UID alone. Called when this pod
    /// was added, removed or bound, or has ended.
    pub(in crate::model::cluster) fn recount_held(&mut self, uid: &str) {
        let held = self.devices.held.get(uid).into_iter().flatten();
        let pools = held.filter_map(|claim| self.devices.claims.get(claim)).flat_map(|claim| &claim.allocated);
        let nodes: BTreeSet<SmolStr> = pools.filter_map(|pool| self.devices.node_of(pool).cloned()).collect();
        nodes.iter().for_each(|node| self.recount(node));
    }

    /// Recomputes the requirements of all pods for which a ResourceClaim was created or is reserved.
    pub(super) fn update_users_of_resource_claims(&mut self) {
        let claims: Vec<ObjectKey> = self.devices.claims.keys().cloned().collect();
        claims.iter().for_each(|claim| self.update_users_of_resource_claim(claim));
    }

    /// Recomputes the requirements of the pods with ResourceClaims after a DeviceClass changed. `were_read` is the value of
    /// [`Devices::are_read`] before the change: if it differs now, pods whose claims do not exist are included.
    pub(super) fn device_class_changed(&mut self, were_read: bool) {
        self.update_users_of_resource_claims();
        if self.devices.are_read() != were_read {
            let asking = self.pods().filter(|pod| !pod.device_claims.is_empty());
            let asking: Vec<SmolStr> = asking.map(|pod| pod.uid.clone()).collect();
            asking.iter().for_each(|uid| self.derive_fields_of_uid(uid));
        }
    }

    /// Recomputes the requirements of the pods for which this ResourceClaim was created or is reserved.
    pub(super) fn update_users_of_resource_claim(&mut self, key: &ObjectKey) {
        let Some(claim) = self.devices.claims.get(key) else { return };
        let pods: BTreeSet<SmolStr> = claim.owner.iter().chain(&claim.holder).cloned().collect();
        pods.iter().for_each(|uid| self.derive_fields_of_uid(uid));
    }

    /// Recomputes the requirements of the pod with this UID; does nothing if the model does not have it.
    fn derive_fields_of_uid(&mut self, uid: &str) {
        if let Some(index) = self.pod_with_uid(uid) {
            self.derive_fields_again(index);
        }
    }
}

/// Adds a claim to the set that an index has for the key `at` if `is_new`, otherwise removes it. A set that becomes empty is removed from
/// the index.
fn set_index_entry<K: Ord + Clone>(
    index: &mut BTreeMap<K, BTreeSet<ObjectKey>>,
    at: K,
    claim: &ObjectKey,
    is_new: bool,
) {
    let claims = index.entry(at.clone()).or_default();
    let _ = if is_new { claims.insert(claim.clone()) } else { claims.remove(claim) };
    if claims.is_empty() {
        index.remove(&at);
    }
}
