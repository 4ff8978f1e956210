//! Fills in the requests and constraints of a pod that depend on other objects: numbers of resources, nodes and limits of volumes,
//! devices, the configuration of schedulers. They are computed when the pod or one of these objects changes, and stored with the pod.

use super::Cluster;
use super::devices::Devices;
use super::schedulers::Scheduler;
use crate::model::resources::Provider;
use crate::model::{Pod, PodIndex};

impl Cluster {
    /// Computes the fields of a pod that depend on other objects: what its volumes, ResourceClaims and scheduler require, and which of its
    /// requests nodes can offer.
    pub(super) fn derive_fields(&self, pod: &mut Pod) {
        let scheduler = self.schedulers.get(&pod.scheduler_name);
        self.derive_providers(pod, scheduler);
        let mut required = self.required_by_claims(pod);
        self.required_by_devices(pod, &mut required);
        Devices::unknown(pod, &mut required.unknown);
        if let Some(scheduler) = scheduler.filter(|_| !pod.bound()) {
            scheduler.unknown(pod, &mut required.unknown);
        }
        let features = if self.declaring > 0 { pod.features.as_slice() } else { &[] };
        if pod.constraints.features != features {
            let features = features.to_vec();
            pod.class_mut().constraints.features = features;
        }
        let added = scheduler.and_then(|scheduler| scheduler.added_affinity.as_ref());
        if pod.constraints.added_affinity.as_ref() != added {
            pod.class_mut().constraints.added_affinity = added.cloned();
        }
        pod.unknown = required.unknown.into();
        required.exclusive.sort();
        let known = &pod.constraints;
        let claims = known.exclusive.iter().filter(|exclusive| exclusive.port().is_none());
        // The class is shared with other pods unless something differs.
        if known.volumes != required.pins || known.user_on != required.user_on || claims.ne(&required.exclusive) {
            let constraints = &mut pod.class_mut().constraints;
            (constraints.volumes, constraints.user_on) = (required.pins, required.user_on);
            constraints.exclusive.retain(|exclusive| exclusive.port().is_some());
            constraints.exclusive.extend(required.exclusive);
            constraints.exclusive.sort();
        }
        let is_counted = |id| self.counted.contains(id);
        if !required.counted.is_empty() || !required.missing.is_empty() || pod.requests.has_counted(is_counted) {
            let requests = pod.requests.with_counted(is_counted, required.counted, required.missing);
            if requests != pod.requests {
                pod.class_mut().requests = requests;
            }
        }
    }

    /// Determines which requests of a pod are compared with what nodes offer, and which ones its scheduler ignores or devices may provide.
    /// A pod on a node uses what the node offers, also of a resource that its scheduler ignores.
    fn derive_providers(&self, pod: &mut Pod, scheduler: Option<&Scheduler>) {
        let is_pending = !pod.bound();
        let may_ignore = is_pending && scheduler.is_some_and(Scheduler::ignores_any);
        if !may_ignore && pod.requests.unnumbered().next().is_none() {
            return;
        }
        let requests = pod.requests.renumbered(&self.names, |name, is_offered| match scheduler {
            Some(scheduler) if (is_pending || !is_offered) && scheduler.ignores(name) => Some(Provider::Ignored),
            _ => (!is_offered && self.devices.serves(name)).then_some(Provider::Devices),
        });
        if requests != pod.requests {
            pod.class_mut().requests = requests;
        }
    }

    /// Recomputes the requirements of the pods that need kubelet features if nodes declare features now and did not before (`were_compared`
    /// is false), or the other way round.
    pub(super) fn node_features_changed(&mut self, were_compared: bool) {
        if were_compared == (self.declaring > 0) {
            return;
        }
        let pods: Vec<PodIndex> =
            self.pod_index.all().filter(|pod| self.pod_at(*pod).is_some_and(|pod| !pod.features.is_empty())).collect();
        pods.into_iter().for_each(|pod| self.derive_fields_again(pod));
    }

    /// Recomputes the fields of a pod that depend on other objects ([`Self::derive_fields`]) after one of these objects changed.
    pub(super) fn derive_fields_again(&mut self, index: PodIndex) {
        let Some(known) = self.pod_at(index) else { return };
        let mut pod = known.clone();
        self.derive_fields(&mut pod);
        if pod != *known {
            self.drop_pod(&pod.key);
            self.insert_pod(pod);
        }
    }
}
