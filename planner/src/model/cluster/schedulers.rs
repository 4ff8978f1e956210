//! The configuration of schedulers, as far as it decides where their pods fit and no object of the cluster shows it.

use super::Cluster;
use crate::model::constraints::{Pin, node_terms};
use crate::model::resources::Provider;
use crate::model::{Pod, PodIndex};
use giveway_crds::scheduler_config::{Profile, SchedulerConfig};
use std::collections::BTreeMap;

/// The configuration of one scheduler: a profile of kube-scheduler.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedulers(BTreeMap<String, Scheduler>);

/// A profile of kube-scheduler.
#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    profile: Profile,
    /// Node affinity that it requires in addition to that of a pod.
    pub(super) added_affinity: Option<Pin>,
}

impl Schedulers {
    /// Returns the configuration of the scheduler with this name; `None` if it has none.
    pub(super) fn get(&self, name: &str) -> Option<&Scheduler> {
        self.0.get(name)
    }
}

impl Scheduler {
    /// Returns true if there are resources whose requests this scheduler does not compare with what nodes offer.
    pub(super) fn ignores_any(&self) -> bool {
        self.profile.ignores_any()
    }

    /// Returns true if this scheduler does not compare requests of this resource with what nodes offer.
    pub(super) fn ignores(&self, resource: &str) -> bool {
        self.profile.ignores(resource)
    }

    /// Adds to `unknown`, as texts, what is not known about the nodes on which this scheduler can place the pod: resources that it ignores,
    /// and its default topology spread constraints.
    pub(super) fn unknown(&self, pod: &Pod, unknown: &mut Vec<String>) {
        let name = &pod.scheduler_name;
        for resource in pod.requests.provided(Provider::Ignored) {
            unknown.push(format!("resource {resource}, which the configuration of {name} ignores"));
        }
        if self.profile.spreads_by_default && !pod.spreads_itself {
            unknown.push(format!(
                "the default topology spread constraints of {name}, whose selectors come from Services and controllers"
            ));
        }
    }
}

impl Cluster {
    /// Replaces the configurations of all schedulers, and recomputes the requirements of all pods. Schedulers that `config` does not name
    /// have none.
    pub fn configure_schedulers(&mut self, config: &SchedulerConfig) {
        let scheduler = |profile: &Profile| Scheduler {
            added_affinity: profile.added_affinity.as_ref().map(node_terms),
            profile: profile.clone(),
        };
        let schedulers = config.profiles.iter().map(|(name, profile)| (name.clone(), scheduler(profile)));
        self.schedulers = Schedulers(schedulers.collect());
        let pods: Vec<PodIndex> = self.pod_index.all().collect();
        pods.into_iter().for_each(|pod| self.derive_fields_again(pod));
    }
}
