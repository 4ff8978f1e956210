//! The domain of a plan (design, section 4, "Domains of topology"). A plan keeps its domain until it is over; what this
//! file asks is whether the plan can: whether its places and its group are still in it, and no member asks for another.

use super::{Flight, current};
use crate::model::Model;
use giveway_crds::plan::StoredDomain;
use giveway_planner::{Cluster, Context, Placement, Preemptor, SmolStr};
use std::collections::BTreeSet;

impl Flight {
    /// Whether these placements fit once those in `gone` are gone, in the domain of the plan.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub(super) fn still_fits(
        &self,
        cluster: &Cluster,
        placements: &[Placement],
        context: &Context,
        gone: &BTreeSet<SmolStr>,
    ) -> Result<(), String> {
        match self.outside_domain(cluster) {
            Some(why) => Err(why),
            None => giveway_planner::still_fits(cluster, placements, self.own_priority(), context, gone),
        }
    }

    /// Why the plan cannot keep its domain: a node of it, or a member, is outside.
    pub(super) fn outside_domain(&self, cluster: &Cluster) -> Option<String> {
        let domain = self.plan.domain.as_ref()?;
        if let Some(why) = self.asks_for_another(cluster) {
            return Some(why);
        }
        let outside = |node: &str| cluster.node(node).is_some() && !holds(cluster, domain, node);
        if let Some(member) = self.members.iter().find(|member| outside(&member.node)) {
            return Some(format!("Node {}, planned for pod {}, is not in {domain} any more.", member.node, member.pod));
        }
        // The others of the group are bound where they are, or by the selector that they were released with.
        let Preemptor::Group(group) = &self.preemptor else { return None };
        cluster.members(group).filter(|pod| pod.live()).find_map(|pod| match &pod.node {
            Some(node) if outside(node) => {
                Some(format!("Pod {} of the group has node {node}, which is not in {domain}.", pod.key))
            }
            None if !pod.held => {
                let value = pod.asks_for(&domain.key).filter(|value| *value != domain.value)?;
                Some(format!(
                    "Pod {} of the group was released to {}={value}, and not to {domain}.",
                    pod.key, domain.key
                ))
            }
            _ => None,
        })
    }

    /// A member whose own node selector asks for another domain than the plan's: the API server lets nobody change that.
    pub(super) fn asks_for_another(&self, cluster: &Cluster) -> Option<String> {
        let domain = self.plan.domain.as_ref()?;
        let waiting = self.members.iter().filter_map(|m| current(cluster, &m.pod, &m.uid));
        let mut asking = waiting.filter_map(|pod| Some((pod, pod.asks_for(&domain.key)?)));
        let (pod, value) = asking.find(|(_, value)| *value != domain.value)?;
        let asked = StoredDomain { key: domain.key.clone(), value: value.to_owned() };
        Some(format!("Pod {} asks for {asked} in its own nodeSelector, and its group is placed in {domain}.", pod.key))
    }

    /// Why a plan that was taken over is not for the kind of domain that its group asks for.
    pub(super) fn wrong_domain(&self, model: &Model) -> Option<String> {
        let asked = match &self.preemptor {
            Preemptor::Group(key) => model.cluster.group(key).and_then(|group| group.topology.as_deref()),
            Preemptor::Pod(_) => None,
        };
        match (asked, &self.plan.domain) {
            (Some(key), None) => Some(format!("its group must stay within one value of {key}, and it names none.")),
            (Some(key), Some(domain)) if domain.key != key => {
                Some(format!("its group must stay within one value of {key}, and it is for {domain}."))
            }
            (None, Some(domain)) => Some(format!("it is for {domain}, and its preemptor asks for no domain.")),
            _ => None,
        }
    }
}

fn holds(cluster: &Cluster, domain: &StoredDomain, node: &str) -> bool {
    cluster.node(node).and_then(|node| node.labels.get(&domain.key)).is_some_and(|value| *value == domain.value)
}
