//! The topology domain of a plan (design, section 4, "Domains of topology"). A plan keeps its domain until it ends.
//! This file checks whether it can: whether its placements and the other pods of its PodGroup are still in the domain,
//! and no member requires another one.

use super::{Flight, current};
use crate::model::Model;
use giveway_crds::plan::StoredDomain;
use giveway_planner::{Cluster, Context, Placement, Preemptor, SmolStr};
use std::collections::BTreeSet;

impl Flight {
    /// Checks that these placements fit in the domain of the plan when the pods in `removed` have terminated.
    ///
    /// # Errors
    /// A sentence with the reason why they do not fit.
    pub(super) fn still_fits(
        &self,
        cluster: &Cluster,
        placements: &[Placement],
        context: &Context,
        removed: &BTreeSet<SmolStr>,
    ) -> Result<(), String> {
        match self.outside_domain(cluster) {
            Some(why) => Err(why),
            None => giveway_planner::still_fits(cluster, placements, self.own_priority(), context, removed),
        }
    }

    /// Returns the reason why the plan cannot keep its domain: a planned node, or a pod of the PodGroup, is outside of
    /// it.
    pub(super) fn outside_domain(&self, cluster: &Cluster) -> Option<String> {
        let domain = self.plan.domain.as_ref()?;
        if let Some(why) = self.asks_for_another(cluster) {
            return Some(why);
        }
        let outside = |node: &str| cluster.node(node).is_some() && !holds(cluster, domain, node);
        if let Some(member) = self.members.iter().find(|member| outside(&member.node)) {
            return Some(format!("Node {}, planned for pod {}, is not in {domain} any more.", member.node, member.pod));
        }
        // The other pods of the PodGroup are bound to a node, or were ungated with a node selector for their domain.
        let Preemptor::Group(group) = &self.preemptor else { return None };
        cluster.members(group).filter(|pod| pod.live()).find_map(|pod| match &pod.node {
            Some(node) if outside(node) => {
                Some(format!("Pod {} of the group has node {node}, which is not in {domain}.", pod.key))
            }
            None if !pod.gated => {
                let value = pod.asks_for(&domain.key).filter(|value| *value != domain.value)?;
                Some(format!(
                    "Pod {} of the group was ungated for {}={value}, and not to {domain}.",
                    pod.key, domain.key
                ))
            }
            _ => None,
        })
    }

    /// Returns a sentence if the node selector of a member requires another domain than the plan's. The API server does
    /// not allow to change it.
    pub(super) fn asks_for_another(&self, cluster: &Cluster) -> Option<String> {
        let domain = self.plan.domain.as_ref()?;
        let waiting = self.members.iter().filter_map(|m| current(cluster, &m.pod, &m.uid));
        let mut asking = waiting.filter_map(|pod| Some((pod, pod.asks_for(&domain.key)?)));
        let (pod, value) = asking.find(|(_, value)| *value != domain.value)?;
        let asked = StoredDomain { key: domain.key.clone(), value: value.to_owned() };
        Some(format!("Pod {} asks for {asked} in its own nodeSelector, and its group is placed in {domain}.", pod.key))
    }

    /// Returns the reason if the domain of a resumed plan does not match the topology constraint of its PodGroup.
    pub(super) fn wrong_domain(&self, model: &Model) -> Option<String> {
        let asked = match &self.preemptor {
            Preemptor::Group(key) => model.cluster.group(key).and_then(|group| group.topology.as_deref()),
            Preemptor::Pod(_) => None,
        };
        match (asked, &self.plan.domain) {
            (Some(key), None) => {
                Some(format!("its group must stay within one value of {key}, and the plan names none."))
            }
            (Some(key), Some(domain)) if domain.key != key => {
                Some(format!("its group must stay within one value of {key}, and the plan is for {domain}."))
            }
            (None, Some(domain)) => Some(format!("the plan is for {domain}, and its preemptor asks for no domain.")),
            _ => None,
        }
    }
}

/// Returns true if a node is in the topology domain.
fn holds(cluster: &Cluster, domain: &StoredDomain, node: &str) -> bool {
    cluster.node(node).and_then(|node| node.labels.get(&domain.key)).is_some_and(|value| *value == domain.value)
}
