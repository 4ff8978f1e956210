//! Devices of dynamic resource allocation: which extended resources DeviceClasses serve, how many devices of a driver a node has
//! ([`pools`]), and how many a pod has or needs ([`claims`]).

mod claims;
mod pools;

use super::Cluster;
use crate::model::devices::{Claim, DeviceClass, PoolKey, Slice};
use crate::model::resources::Provider;
use crate::model::{ObjectKey, Pod, PodIndex, ResourceId};
use giveway_crds::devices::DeviceClass as ClassObject;
use pools::Pool;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// The resource that every DeviceClass serves, whatever else it names (KEP-5004).
const IMPLICIT_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// Classes, pools and claims of devices.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    classes: BTreeMap<SmolStr, DeviceClass>,
    /// By extended resource: how many classes serve it.
    served: BTreeMap<SmolStr, usize>,
    slices: BTreeMap<SmolStr, Slice>,
    pools: BTreeMap<PoolKey, Pool>,
    /// By node and driver: the names of the pools there.
    pools_on: BTreeMap<(SmolStr, SmolStr), BTreeSet<SmolStr>>,
    /// By driver: how many pools it has whose devices are not counted.
    uncounted: BTreeMap<SmolStr, usize>,
    claims: BTreeMap<ObjectKey, Claim>,
    /// By pool, which need not exist: the claims with devices of it.
    claims_on: BTreeMap<PoolKey, BTreeSet<ObjectKey>>,
    /// By UID of a pod: the claims that are reserved for it alone.
    held: BTreeMap<SmolStr, BTreeSet<ObjectKey>>,
}

impl Devices {
    /// Returns true if a DeviceClass provides this extended resource by devices (KEP-5004).
    pub(super) fn serves(&self, resource: &str) -> bool {
        self.served.contains_key(resource)
    }

    /// Returns true if the model has the ResourceClaims of the cluster, so that a claim that is not in the model does not exist. That is
    /// concluded from the DeviceClasses, which are read together with the claims: a claim that can be allocated names a class.
    pub(super) fn are_read(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Adds to `unknown` a text for each extended resource that a pod requests and that only devices can provide.
    pub(super) fn unknown(pod: &Pod, unknown: &mut Vec<String>) {
        for resource in pod.requests.provided(Provider::Devices) {
            unknown.push(format!("devices for {resource} (dynamic resource allocation), which no node offers itself"));
        }
    }
}

impl Cluster {
    /// Adds or replaces a DeviceClass. Returns whether anything changed.
    pub fn upsert_device_class(&mut self, object: &ClassObject) -> bool {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let class = DeviceClass::from_object(object);
        if self.devices.classes.get(name) == Some(&class) {
            return false;
        }
        let were_read = self.devices.are_read();
        self.forget_device_class(name);
        let resource = class.resource.clone();
        self.devices.classes.insert(name.into(), class);
        self.set_provided_by(name, resource, true);
        self.device_class_changed(were_read);
        true
    }

    /// Removes a DeviceClass. Returns whether it was there.
    pub fn remove_device_class(&mut self, name: &str) -> bool {
        let were_read = self.devices.are_read();
        let was_there = self.forget_device_class(name);
        if was_there {
            self.device_class_changed(were_read);
        }
        was_there
    }

    /// Removes a DeviceClass and the extended resources that it provides, without updating the pods with ResourceClaims. Returns true if
    /// the model had it.
    fn forget_device_class(&mut self, name: &str) -> bool {
        let Some(class) = self.devices.classes.remove(name) else { return false };
        self.set_provided_by(name, class.resource, false);
        true
    }

    /// Records that a DeviceClass provides `resource`, if it is set, and the implicit extended resource of the class (`more`), or no longer
    /// does (`more` is false). Recomputes the requirements of the pods that request one of these resources.
    fn set_provided_by(&mut self, class: &str, resource: Option<SmolStr>, more: bool) {
        for name in resource.into_iter().chain([SmolStr::from(format!("{IMPLICIT_RESOURCE}{class}"))]) {
            let classes = self.devices.served.entry(name.clone()).or_default();
            *classes = if more { *classes + 1 } else { classes.saturating_sub(1) };
            if *classes == 0 {
                self.devices.served.remove(&name);
            }
            let pods: Vec<PodIndex> = self.requesters.get(&name).into_iter().flatten().copied().collect();
            pods.into_iter().for_each(|pod| self.derive_fields_again(pod));
        }
    }

    /// Returns the names of the DeviceClasses in the model.
    pub fn device_classes(&self) -> impl Iterator<Item = &SmolStr> {
        self.devices.classes.keys()
    }

    /// Returns the names of the ResourceSlices in the model.
    pub fn resource_slices(&self) -> impl Iterator<Item = &SmolStr> {
        self.devices.slices.keys()
    }

    /// Returns the keys of the ResourceClaims in the model.
    pub fn resource_claims(&self) -> impl Iterator<Item = &ObjectKey> {
        self.devices.claims.keys()
    }

    /// Returns true if a DeviceClass provides the resource with this number, so that a node that offers none of it may provide it by
    /// devices.
    pub(crate) fn is_served(&self, id: ResourceId) -> bool {
        !self.devices.served.is_empty() && self.devices.serves(self.resource_name(id))
    }
}
