//! Devices of dynamic resource allocation: which extended resources DeviceClasses serve.

use super::Cluster;
use crate::model::resources::Provider;
use crate::model::{Pod, PodIndex, ResourceId};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// The resource that every DeviceClass serves, whatever else it names (KEP-5004).
const IMPLICIT_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// The device classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    /// By DeviceClass: the extended resource that it serves beside its implicit one.
    classes: BTreeMap<SmolStr, Option<SmolStr>>,
    /// By extended resource: how many classes serve it.
    served: BTreeMap<SmolStr, usize>,
}

impl Devices {
    pub(super) fn serves(&self, resource: &str) -> bool {
        self.served.contains_key(resource)
    }

    /// Adds what is not known of a pod's devices.
    pub(super) fn unknown(&self, pod: &Pod, unknown: &mut Vec<String>) {
        if pod.claims_devices {
            unknown.push("its resource claims (dynamic resource allocation)".to_owned());
        }
        for resource in pod.requests.provided(Provider::Devices) {
            unknown.push(format!("devices for {resource} (dynamic resource allocation), which no node offers itself"));
        }
    }
}

impl Cluster {
    /// Adds or replaces a DeviceClass and the extended resource that it names (`spec.extendedResourceName`). Returns
    /// whether anything changed.
    pub fn upsert_device_class(&mut self, name: &str, extended_resource: Option<&str>) -> bool {
        let resource = extended_resource.filter(|resource| !resource.is_empty()).map(SmolStr::new);
        if self.devices.classes.get(name) == Some(&resource) {
            return false;
        }
        self.remove_device_class(name);
        self.devices.classes.insert(name.into(), resource.clone());
        self.serve(name, resource, true);
        true
    }

    /// Removes a DeviceClass. Returns whether it was there.
    pub fn remove_device_class(&mut self, name: &str) -> bool {
        let Some(resource) = self.devices.classes.remove(name) else { return false };
        self.serve(name, resource, false);
        true
    }

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

    /// Names of the device classes that are known.
    pub fn device_classes(&self) -> impl Iterator<Item = &SmolStr> {
        self.devices.classes.keys()
    }

    /// Returns true if a DeviceClass serves a resource, so that a node that offers none of it may provide it by devices.
    pub(crate) fn is_served(&self, id: ResourceId) -> bool {
        !self.devices.served.is_empty() && self.devices.serves(self.resource_name(id))
    }
}
