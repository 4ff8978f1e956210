//! What the claims of a pod require of a node, and what is not known about that (design, section 4, "Unknown is not infeasible").

use super::{Cluster, Counted, Users};
use crate::model::constraints::{Exclusive, Pin};
use crate::model::pod::PodClaim;
use crate::model::storage::{StorageClass, VolumeClaim, only};
use crate::model::{ObjectKey, Pod, PodIndex, ResourceId};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// What the claims of a pod require.
#[derive(Default)]
pub(in crate::model::cluster) struct Required {
    /// Lists of nodes; each of them must contain the node.
    pub(in crate::model::cluster) pins: Vec<Pin>,
    /// Claims that no other pod may use.
    pub(in crate::model::cluster) exclusive: Vec<Exclusive>,
    /// The node of the pod that uses one of these claims.
    pub(in crate::model::cluster) user_on: Option<SmolStr>,
    /// What is counted as a resource.
    pub(in crate::model::cluster) counted: BTreeMap<ResourceId, i128>,
    /// What no node has, by words that name it like a resource.
    pub(in crate::model::cluster) missing: BTreeMap<SmolStr, i128>,
    /// What is not known, as words that complete "it depends on".
    pub(in crate::model::cluster) unknown: Vec<String>,
}

impl Required {
    /// Adds 1 to the amount that the pod needs of this counted resource; does nothing for `None`.
    fn count(&mut self, id: Option<ResourceId>) {
        if let Some(id) = id {
            *self.counted.entry(id).or_default() += 1;
        }
    }
}

/// Which pods use a claim that only one pod may use, or whose volume is not made yet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ClaimUse {
    /// The pod on a node that uses it, if only one pod may.
    user: Option<PodIndex>,
    /// Whether several pending pods need it.
    contested: bool,
}

/// The claims of a pod whose use by other pods matters (`ReadWriteOncePod`, or `ReadWriteOnce` without a volume yet), each with the pods
/// that use it.
pub(in crate::model::cluster) struct ClaimUses(Vec<(ObjectKey, ClaimUse)>);

impl Cluster {
    /// Returns what the PersistentVolumeClaims of a pod require of its node, which counted resources they need, and what is not known about
    /// them.
    pub(in crate::model::cluster) fn required_by_claims(&self, pod: &Pod) -> Required {
        let mut required = Required::default();
        for of in &pod.claims {
            let key = ObjectKey::new(&pod.key.namespace, &of.name);
            let mut says = |what: String| required.unknown.push(format!("claim {}, {what}", of.name));
            let Some(claim) = self.storage.claims.get(&key) else {
                says("which was not found".to_owned());
                continue;
            };
            if claim.deleting {
                says("which is being deleted".to_owned());
            }
            if of.ephemeral && claim.controller.as_ref() != Some(&pod.uid) {
                says("which belongs to another object than the pod".to_owned());
            }
            if claim.one_pod && !of.ephemeral {
                self.require_sole_use(&key, pod, &mut required);
            }
            self.require_volume(of, (&key, claim), &mut required);
            let driver = self.storage.driver_of(claim);
            required.count(driver.and_then(|driver| self.counted_id(&Counted::Attachments(driver.into()))));
        }
        // Sorted, so that pods with the same pins are in one equivalence class regardless of the order of their volumes.
        required.pins.sort();
        required.pins.dedup();
        required
    }

    /// Adds to `required` what a claim of a pod requires because of its PersistentVolume, or of the volume that it will get. `of` is the
    /// claim as the pod names it; `key` and `claim` are the object.
    fn require_volume(&self, of: &PodClaim, (key, claim): (&ObjectKey, &VolumeClaim), required: &mut Required) {
        let mut says = |what: String| required.unknown.push(format!("claim {}, {what}", of.name));
        let Some(volume) = &claim.volume else {
            match claim.class.as_ref().and_then(|name| Some((name, self.storage.classes.get(name)?))) {
                Some((name, class)) if class.waits => match self.storage.reserved_for(key) {
                    // kube-scheduler has chosen it, or an administrator has.
                    Some(volume) => required.pins.extend(volume.pin.clone()),
                    None => {
                        if claim.is_for_one_node() && self.claim_use(key).contested {
                            says(
                                "which several pending pods share, and whose volume decides where all of them fit"
                                    .to_owned(),
                            );
                        }
                        self.require_future_volume(of, claim, (name, class), required);
                    }
                },
                // The controller of volumes binds it, whatever kube-scheduler does.
                _ => says("which is bound to no volume yet".to_owned()),
            }
            return;
        };
        let Some(volume_object) = self.storage.volumes.get(volume) else {
            return says(format!("whose volume {volume} was not found"));
        };
        if !claim.bound {
            says(format!("which is not bound to volume {volume} yet"));
        }
        required.pins.extend(volume_object.pin.clone());
        required.pins.extend(volume_object.zones.clone().filter(|_| !of.ephemeral));
    }

    /// Adds to `required` what a claim without a volume requires whose StorageClass waits until kube-scheduler has chosen a node
    /// (`WaitForFirstConsumer`). `name` and `class` are the StorageClass.
    fn require_future_volume(
        &self,
        of: &PodClaim,
        claim: &VolumeClaim,
        (name, class): (&SmolStr, &StorageClass),
        required: &mut Required,
    ) {
        let mut says = |what: String| required.unknown.push(format!("claim {}, {what}", of.name));
        let free = self.storage.free.get(name);
        if let Some(node) = &claim.selected_node {
            required.pins.push(only(node));
        }
        if let Some(driver) = &class.provisioner {
            required.pins.extend(class.pin.clone());
            if self.storage.capacity_drivers.contains(driver) {
                says(format!("for which driver {driver} needs free storage"));
            } else if class.pin.is_some() && free.is_some() {
                says(format!("which may be bound to a volume of class {name} that is free elsewhere"));
            }
            return;
        }
        let shapes = || free.into_iter().flat_map(|free| free.shapes.keys());
        let matching = shapes().filter(|(shape, _)| claim.shape.fits_in(shape)).count();
        let counted = self.counted_id(&Counted::FreeVolumes(name.clone()));
        if matching == 0 {
            // No node.
            required.pins.push(Pin::new());
        } else if claim.selective || matching < shapes().count() || shapes().any(|(_, on_one_host)| !on_one_host) {
            says(format!("to which not every free volume of class {name} can be bound"));
        } else {
            required.count(counted);
        }
    }

    /// Adds to `required` what a claim of `pod` with the access mode `ReadWriteOncePod` requires because of the other pods that use it.
    fn require_sole_use(&self, key: &ObjectKey, pod: &Pod, required: &mut Required) {
        let ClaimUse { user, contested } = self.claim_use(key);
        required.exclusive.push(Exclusive::Claim(key.clone()));
        let user = user.and_then(|index| self.pod_at(index));
        match user.filter(|user| user.key != pod.key) {
            Some(other) => required.user_on.clone_from(&other.node),
            None if contested && !pod.bound() => {
                let what = format!("claim {}, which several pending pods need and only one pod may use", key.name);
                required.unknown.push(what);
            }
            None => {}
        }
    }

    /// Returns which bound pod uses a claim, if only one pod may use it, and whether several pending pods ask for the claim.
    fn claim_use(&self, key: &ObjectKey) -> ClaimUse {
        let Some(Users { bound, waiting, .. }) = self.storage.users.get(key) else {
            return ClaimUse { user: None, contested: false };
        };
        let is_for_one_pod = self.storage.claims.get(key).is_some_and(|claim| claim.one_pod);
        ClaimUse { user: bound.first().copied().filter(|_| is_for_one_pod), contested: waiting.len() > 1 }
    }

    /// Returns the claims of a pod whose use by other pods matters, each with the pods that use it. It is called before the pod is added,
    /// changed or removed.
    pub(in crate::model::cluster) fn claim_uses(&self, pod: &Pod) -> ClaimUses {
        let keys = pod.claims.iter().map(|claim| ObjectKey::new(&pod.key.namespace, &claim.name));
        let others_matter = |claim: &VolumeClaim| claim.one_pod || (claim.volume.is_none() && claim.is_for_one_node());
        let only = keys.filter(|key| self.storage.claims.get(key).is_some_and(others_matter));
        ClaimUses(only.map(|key| (key.clone(), self.claim_use(&key))).collect())
    }

    /// Recomputes the requirements of the pods that use one of these claims, if its use differs from the recorded one.
    pub(in crate::model::cluster) fn update_users_of_claims(&mut self, ClaimUses(before): ClaimUses) {
        for (key, before) in before {
            if self.claim_use(&key) != before {
                self.claim_changed(&key);
            }
        }
    }
}
