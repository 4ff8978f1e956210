//! How much of each resource a node offers, and how much pods of each priority request of it.

use giveway_planner::Cluster;
use giveway_planner::model::{Node, ResourceId};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Resources that are not shown unless they are chosen: hardly any cluster lacks them.
const PLENTIFUL: [&str; 2] = ["pods", "ephemeral-storage"];

/// What nodes offer of a resource, and what pods request of it, in the scheduler's unit: `cpu` in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// What the nodes offer.
    pub(crate) capacity: i128,
    /// What is left on nodes that are not cordoned.
    pub(crate) free: i128,
    /// What pods request, by their effective priority.
    pub(crate) levels: BTreeMap<i32, i128>,
    /// What potential victims on nodes that are not cordoned request.
    pub(crate) freeable: i128,
}

/// [`Usage`] as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct UsageLine {
    capacity: i64,
    used: i64,
    free: i64,
    freeable: i64,
    /// Priority and amount, the lowest priority first.
    levels: Vec<(i32, i64)>,
}

impl Usage {
    /// Returns how much of the resource pods of all priorities request.
    pub(crate) fn used(&self) -> i128 {
        self.levels.values().sum()
    }

    /// Returns how many thousandths of the capacity an amount is; 0 without capacity.
    pub(crate) fn share(&self, amount: i128) -> i64 {
        if self.capacity <= 0 { 0 } else { number(amount * 1000 / self.capacity) }
    }

    /// Returns the usage with integers of 64 bits for JSON; an amount that is too large becomes the largest of them.
    pub(crate) fn line(&self) -> UsageLine {
        UsageLine {
            capacity: number(self.capacity),
            used: number(self.used()),
            free: number(self.free),
            freeable: number(self.freeable),
            levels: self.levels.iter().map(|(priority, amount)| (*priority, number(*amount))).collect(),
        }
    }

    /// Adds the usage of the same resource on other nodes.
    fn add(&mut self, other: &Self) {
        self.capacity += other.capacity;
        self.free += other.free;
        self.freeable += other.freeable;
        for (priority, amount) in &other.levels {
            *self.levels.entry(*priority).or_default() += amount;
        }
    }
}

/// Returns an amount as an integer of 64 bits for JSON; the largest of them if it is too large.
fn number(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// How much pods request of each resource of one node.
#[derive(Debug)]
pub(crate) struct NodeUsage<'c> {
    /// The node.
    pub(crate) node: &'c Node,
    usages: BTreeMap<ResourceId, Usage>,
}

impl<'c> NodeUsage<'c> {
    /// Returns the usage of each resource on a node. What pods below `priority` request counts as freeable.
    fn new(cluster: &'c Cluster, node: &'c Node, priority: i32) -> Self {
        let offered = cluster.resources().map(|(id, _)| (id, node.allocatable(id)));
        let usage = |capacity| Usage { capacity, ..Usage::default() };
        let mut usages: BTreeMap<ResourceId, Usage> =
            offered.filter(|(_, capacity)| *capacity > 0).map(|(id, capacity)| (id, usage(capacity))).collect();
        for pod in cluster.pods_on(&node.name) {
            let level = cluster.effective_priority(pod);
            let is_freeable = !node.unschedulable && cluster.is_potential_victim(pod, priority);
            for (id, amount) in pod.requests.iter() {
                let usage = usages.entry(id).or_default();
                *usage.levels.entry(level).or_default() += amount;
                usage.freeable += if is_freeable { amount } else { 0 };
            }
        }
        for usage in usages.values_mut().filter(|_| !node.unschedulable) {
            usage.free = (usage.capacity - usage.used()).max(0);
        }
        Self { node, usages }
    }
}

/// Adds up the usage of one resource on these nodes.
pub(crate) fn total<'n, 'c: 'n>(nodes: impl IntoIterator<Item = &'n NodeUsage<'c>>, resource: ResourceId) -> Usage {
    let mut sum = Usage::default();
    nodes.into_iter().filter_map(|node| node.usages.get(&resource)).for_each(|usage| sum.add(usage));
    sum
}

/// A resource that a node offers, and its usage in the whole cluster.
#[derive(Debug)]
pub(crate) struct Resource<'c> {
    /// Its number in the model.
    pub(crate) id: ResourceId,
    /// Its name.
    pub(crate) name: &'c str,
    /// Its usage.
    pub(crate) usage: Usage,
}

/// The usage of every resource on every node.
#[derive(Debug)]
pub(crate) struct Capacity<'c> {
    /// The nodes, by name.
    pub(crate) nodes: Vec<NodeUsage<'c>>,
    /// The resources that a node offers now.
    pub(crate) resources: Vec<Resource<'c>>,
}

impl<'c> Capacity<'c> {
    /// Returns the usage of every resource on every node. What potential victims of a preemptor of this priority request counts as
    /// freeable.
    pub(crate) fn of(cluster: &'c Cluster, priority: i32) -> Self {
        let nodes: Vec<NodeUsage<'c>> = cluster.nodes().map(|node| NodeUsage::new(cluster, node, priority)).collect();
        let all = cluster.resources().map(|(id, name)| Resource { id, name, usage: total(&nodes, id) });
        let resources = all.filter(|resource| resource.usage.capacity > 0).collect();
        Self { nodes, resources }
    }

    /// Returns the resource of this name; without one of that name, the resource of which the largest share is used. `None` if no node
    /// offers any.
    pub(crate) fn chosen(&self, name: Option<&str>) -> Option<&Resource<'c>> {
        let named = self.resources.iter().find(|resource| Some(resource.name) == name);
        named.or_else(|| self.scarcest().into_iter().next())
    }

    /// Returns the resources, those of which the largest share is used first, without those that hardly any cluster lacks (`pods`,
    /// `ephemeral-storage`).
    pub(crate) fn scarcest(&self) -> Vec<&Resource<'c>> {
        let scarce = self.resources.iter().filter(|resource| !PLENTIFUL.contains(&resource.name));
        let mut scarce: Vec<&Resource<'c>> = scarce.collect();
        // Resources with the same share stay in their order: cpu before memory.
        scarce.sort_by_key(|resource| Reverse(resource.usage.share(resource.usage.used())));
        scarce
    }
}
