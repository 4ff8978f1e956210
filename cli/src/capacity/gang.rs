//! A gang whose size is varied: the largest one that fits within a limit.

use super::answer::{Fit, Limit};
use crate::decide::{self, DecisionOutcome};
use crate::error::CliError;
use crate::world::World;
use giveway_crds::policy::SchedulingPolicy;
use giveway_planner::{ObjectKey, Preemptor, Strategy};
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;

/// A PodGroup with all or some of its pending pods.
pub(super) struct PendingGang {
    /// The cluster with the first pods of the group.
    pub(super) world: World,
    key: ObjectKey,
    /// The pending pods, by name.
    pods: Vec<Pod>,
    /// How many of them are in the world.
    present: usize,
    /// Members that are bound or have finished, and count for `minCount`.
    counted: usize,
    /// The sizes that were decided.
    known: BTreeMap<usize, Option<Fit>>,
}

impl PendingGang {
    /// Creates the gang of the PodGroup `key` with all of its pending pods in `world`, the objects of the cluster.
    pub(super) fn new(world: World, key: &ObjectKey) -> Self {
        let (cluster, key) = (&world.cluster, key.clone());
        let members = || cluster.members(&key).filter(|pod| pod.live());
        let pending = members().filter(|pod| !pod.bound()).filter_map(|pod| world.pending.get(&pod.key));
        let pods: Vec<Pod> = pending.cloned().collect();
        let finished = cluster.group(&key).map_or(0, |group| cluster.finished(group));
        let counted = members().filter(|pod| pod.bound()).count() + finished;
        Self { key, present: pods.len(), pods, counted, known: BTreeMap::new(), world }
    }

    /// Finds the largest number of members that fit if no more pods terminate or are evicted than `limit` permits. Returns that number, how
    /// many pods are evicted for them, the highest priority of these pods, and how many of these evictions violate a budget.
    ///
    /// # Errors
    /// The planner's model rejects a pod or the group.
    pub(super) fn largest(&mut self, limit: Limit) -> Result<Fit, CliError> {
        let (mut best, mut too_many) = (Fit::default(), self.pods.len() + 1);
        while too_many - best.members > 1 {
            let members = best.members + (too_many - best.members) / 2;
            match self.fit_of(members)?.filter(|fit| limit.allows(fit)) {
                Some(fit) => best = Fit { members, ..fit },
                None => too_many = members,
            }
        }
        Ok(best)
    }

    /// Returns the decision for one more member than `fit`, the number that fits; `None` if all pending members fit.
    ///
    /// # Errors
    /// As of [`PendingGang::largest`].
    pub(super) fn decide_one_more(&mut self, fit: usize) -> Result<Option<DecisionOutcome>, CliError> {
        (fit < self.pods.len()).then(|| self.decide(fit + 1)).transpose()
    }

    /// Returns what is evicted so that this number of members fits; `None` if they do not fit. A result is computed once for each
    /// number.
    fn fit_of(&mut self, members: usize) -> Result<Option<Fit>, CliError> {
        if let Some(known) = self.known.get(&members) {
            return Ok(*known);
        }
        let fit = Fit::of(&self.decide(members)?.decision);
        self.known.insert(members, fit);
        Ok(fit)
    }

    /// Decides for a gang of the first `members` pending pods of the group, which are only placed together.
    fn decide(&mut self, members: usize) -> Result<DecisionOutcome, CliError> {
        for pod in self.pods.get(self.present..members).into_iter().flatten() {
            self.world.add_pod(pod.clone())?;
        }
        for pod in self.pods.get(members..self.present).into_iter().flatten() {
            self.world.remove_pod(&pod.metadata);
        }
        self.present = members;
        if let Some(mut group) = self.world.groups.get(&self.key).cloned() {
            let min_count = i32::try_from(self.counted + members).unwrap_or(i32::MAX);
            group.spec.scheduling_policy = SchedulingPolicy::gang(min_count);
            self.world.add_group(group)?;
        }
        Ok(decide::once(&self.world, &Preemptor::Group(self.key.clone()), Strategy::default()))
    }
}
