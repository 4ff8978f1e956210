//! Fills in the requests and constraints of a pod that depend on other objects: numbers of resources, nodes and limits of volumes,
//! devices. They are computed when the pod or one of these objects changes, and stored with the pod.

use super::Cluster;
use crate::model::{Pod, PodIndex};

impl Cluster {
    /// Fills in what depends on other objects.
    pub(super) fn settle(&self, pod: &mut Pod) {
        if pod.requests.unnumbered().next().is_some() {
            pod.requests = pod.requests.renumbered(&self.names, |name| self.devices.serves(name));
        }
        let mut required = self.required_by_claims(pod);
        self.devices.unknown(pod, &mut required.unknown);
        pod.unknown = required.unknown;
        pod.constraints.volumes = required.pins;
        pod.constraints.user_on = required.user_on;
        pod.constraints.exclusive.retain(|exclusive| exclusive.port().is_some());
        pod.constraints.exclusive.extend(required.exclusive);
        pod.constraints.exclusive.sort();
        if !pod.claims.is_empty() && !self.counted.is_empty() {
            pod.requests = pod.requests.with_counted(|id| self.counted.contains(id), required.counted);
        }
    }

    /// Does so again, after one of these objects changed.
    pub(super) fn settle_again(&mut self, index: PodIndex) {
        let Some(known) = self.pod_at(index) else { return };
        let mut pod = known.clone();
        self.settle(&mut pod);
        if pod != *known {
            self.drop_pod(&pod.key);
            self.insert_pod(pod);
        }
    }
}
