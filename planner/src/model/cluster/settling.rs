//! Fills in the requests and constraints of a pod that depend on other objects: numbers of resources, nodes and limits of volumes,
//! devices. They are computed when the pod or one of these objects changes, and stored with the pod.

use super::Cluster;
use crate::model::{Pod, PodIndex};

impl Cluster {
    /// Fills in what depends on other objects.
    pub(super) fn settle(&self, pod: &mut Pod) {
        if pod.requests.unnumbered().next().is_some() {
            let requests = pod.requests.renumbered(&self.names, |name| self.devices.serves(name));
            if requests != pod.requests {
                pod.class_mut().requests = requests;
            }
        }
        let mut required = self.required_by_claims(pod);
        self.devices.unknown(pod, &mut required.unknown);
        pod.unknown = required.unknown;
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
        if !pod.claims.is_empty() && !self.counted.is_empty() {
            let requests = pod.requests.with_counted(|id| self.counted.contains(id), required.counted);
            if requests != pod.requests {
                pod.class_mut().requests = requests;
            }
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
