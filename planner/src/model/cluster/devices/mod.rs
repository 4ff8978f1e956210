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
    /// Returns true if a DeviceClass provides this extended resource.
    pub(super) fn serves(&self, resource: &str) -> bool {
        self.served.contains_key(resource)
    }

    /// Returns true if the model has the ResourceClaims of the cluster, so that a claim that is not in the model does not exist. That is
    /// concluded from the DeviceClasses, which are read together with the claims: a claim that can be allocated names a class.
    pub(super) fn are_read(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Adds to `unknown`, as words, the extended resources that a pod requests and that only devices can provide.
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
        self.serve(name, resource, true);
        self.settle_class(were_read);
        true
    }

    /// Removes a DeviceClass. Returns whether it was there.
    pub fn remove_device_class(&mut self, name: &str) -> bool {
        let were_read = self.devices.are_read();
        let was_there = self.forget_device_class(name);
        if was_there {
            self.settle_class(were_read);
        }
        was_there
    }

    /// Removes a DeviceClass, without updating pods with ResourceClaims. Returns whether it was there.
    fn forget_device_class(&mut self, name: &str) -> bool {
        let Some(class) = self.devices.classes.remove(name) else { return false };
        self.serve(name, class.resource, false);
        true
    }

    /// Records that a DeviceClass provides an extended resource besides its implicit one (`more`), or no longer does, and updates the pods
    /// that request it.
    fn serve(&mut self, class: &str, resource: Option<SmolStr>, more: bool) {
        for name in resource.into_iter().chain([SmolStr::from(format!("{IMPLICIT_RESOURCE}{class}"))]) {
            let classes = self.devices.served.entry(name.clone()).or_default();
            *classes = if more { *classes + 1 } else { classes.saturating_sub(1) };
            if *classes == 0 {
                self.devices.served.remove(&name);
            }
            let pods: Vec<PodIndex> = self.askers.get(&name).into_iter().flatten().copied().collect();
            pods.into_iter().for_each(|pod| self.settle_again(pod));
        }
    }

    /// Returns the names of the device classes that are known.
    pub fn device_classes(&self) -> impl Iterator<Item = &SmolStr> {
        self.devices.classes.keys()
    }

    /// Returns the names of the slices that are known.
    pub fn resource_slices(&self) -> impl Iterator<Item = &SmolStr> {
        self.devices.slices.keys()
    }

    /// Returns the keys of the claims of devices that are known.
    pub fn resource_claims(&self) -> impl Iterator<Item = &ObjectKey> {
        self.devices.claims.keys()
    }

    /// Returns true if a DeviceClass serves a resource, so that a node that offers none of it may provide it by devices.
    pub(crate) fn is_served(&self, id: ResourceId) -> bool {
        !self.devices.served.is_empty() && self.devices.serves(self.resource_name(id))
    }
}
