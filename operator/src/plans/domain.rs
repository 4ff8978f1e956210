//! The topology domain of a plan (design, section 4, "Domains of topology"). A plan keeps its domain until it ends.
//! This file checks whether it can: whether its placements and the other pods of its PodGroup are still in the domain,
//! and no member requires another one.

use super::{Flight, current};
use crate::model::Model;
use giveway_crds::plan::StoredDomain;
use giveway_crds::wording::conditions::{plan_end, resumed};
use giveway_planner::{Cluster, Context, Placement, Preemptor, SmolStr};
use std::collections::BTreeSet;

impl Flight {
    /// Checks that these placements fit in the plan's topology domain when the pods with the UIDs in `removed` have terminated. `context`
    /// describes the other plans in flight.
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

    /// Returns the reason why the plan cannot keep its topology domain: a planned node or a pod of the PodGroup is outside of it, or a
    /// member requires another one. `None` if it can, or has no domain.
    pub(super) fn outside_domain(&self, cluster: &Cluster) -> Option<String> {
        let domain = self.plan.domain.as_ref()?;
        if let Some(why) = self.member_asks_for_another_domain(cluster) {
            return Some(why);
        }
        let outside = |node: &str| cluster.node(node).is_some() && !is_in_domain(cluster, domain, node);
        if let Some(member) = self.members.iter().find(|member| outside(&member.node)) {
            return Some(plan_end::node_outside_domain(&member.node, &member.pod, domain));
        }
        // The other pods of the PodGroup are bound to a node, or were ungated with a node selector for their domain.
        let Preemptor::Group(group) = &self.preemptor else { return None };
        cluster.members(group).filter(|pod| pod.live()).find_map(|pod| match &pod.node {
            Some(node) if outside(node) => Some(plan_end::member_outside_domain(&pod.key, node, domain)),
            None if !pod.gated => {
                let value = pod.asks_for(&domain.key).filter(|value| *value != domain.value)?;
                Some(plan_end::member_ungated_for(&pod.key, &with_value(domain, value), domain))
            }
            _ => None,
        })
    }

    /// Returns a sentence if the node selector of a member requires another topology domain than the plan's. The API server does not allow
    /// to change it. `None` if no member does.
    pub(super) fn member_asks_for_another_domain(&self, cluster: &Cluster) -> Option<String> {
        let domain = self.plan.domain.as_ref()?;
        let waiting = self.members.iter().filter_map(|m| current(cluster, &m.pod, &m.uid));
        let mut asking = waiting.filter_map(|pod| Some((pod, pod.asks_for(&domain.key)?)));
        let (pod, value) = asking.find(|(_, value)| *value != domain.value)?;
        Some(plan_end::member_asks_for(&pod.key, &with_value(domain, value), domain))
    }

    /// Returns the reason if the domain of a resumed plan does not match the topology constraint of its PodGroup: one of them has none, or
    /// another label key.
    pub(super) fn wrong_domain(&self, model: &Model) -> Option<String> {
        let asked = match &self.preemptor {
            Preemptor::Group(key) => model.cluster.group(key).and_then(|group| group.topology.as_deref()),
            Preemptor::Pod(_) => None,
        };
        match (asked, &self.plan.domain) {
            (Some(key), None) => Some(resumed::domain_missing(key)),
            (Some(key), Some(domain)) if domain.key != key => Some(resumed::domain_of_another_key(key, domain)),
            (None, Some(domain)) => Some(resumed::domain_not_asked_for(domain)),
            _ => None,
        }
    }
}

/// Returns the topology domain with the key of `domain` and another value.
fn with_value(domain: &StoredDomain, value: &str) -> StoredDomain {
    StoredDomain { key: domain.key.clone(), value: value.to_owned() }
}

/// Returns true if a node is in the topology domain.
fn is_in_domain(cluster: &Cluster, domain: &StoredDomain, node: &str) -> bool {
    cluster.node(node).and_then(|node| node.labels.get(&domain.key)).is_some_and(|value| *value == domain.value)
}
