//! Fills nodes with groups or single pods that are bound at creation.

use super::{Group, GroupBuilder, Kit, PodHandle, Shape, Shaped};
use crate::cluster::pods::{default_request, node_of, ready};
use crate::wait::wait_for;
use giveway_crds::PodGroup;
use giveway_crds::policy::DisruptionMode;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeMap;
use std::time::Duration;

/// Describes how nodes are filled. The number of pods follows from the free capacity of the nodes and the requests of each pod.
#[derive(Clone)]
pub struct FillBuilder {
    kit: Kit,
    nodes: Vec<String>,
    prefix: String,
    shape: Shape,
    mode: DisruptionMode,
    seed: Option<u64>,
}

impl Shaped for FillBuilder {
    fn shape(&mut self) -> &mut Shape {
        &mut self.shape
    }
}

impl FillBuilder {
    /// Returns a builder that fills these nodes with pods of 1 CPU.
    pub fn new<S: AsRef<str>>(kit: Kit, nodes: &[S]) -> Self {
        Self {
            kit,
            nodes: nodes.iter().map(|node| node.as_ref().to_owned()).collect(),
            prefix: "low".to_owned(),
            shape: Shape::default(),
            mode: DisruptionMode::Pod,
            seed: None,
        }
    }

    /// Sets the prefix of the names.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Sets mode `PodGroup`: the pods of each group are disrupted together.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.mode = DisruptionMode::PodGroup;
        self
    }

    /// Spreads each group over the nodes in a pseudo-random order that depends only on the seed. Without this call groups are
    /// packed: one node after the other is filled.
    #[must_use]
    pub fn spread(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Fills the nodes with groups of `size` pods. Remaining capacity stays free.
    ///
    /// # Panics
    /// If an object is rejected or a pod does not run.
    pub async fn groups_of(self, size: usize) -> Vec<Group> {
        let places = self.places().await;
        let mut builders = Vec::new();
        for (index, nodes) in places.chunks_exact(size).enumerate() {
            let mut builder = GroupBuilder::new(self.kit.clone(), &format!("{}-{index:03}", self.prefix), size);
            *builder.shape() = self.shape.clone();
            builders.push(builder.mode(self.mode).on(nodes));
        }
        let objects = builders.iter().map(GroupBuilder::build).collect();
        Kit::create_all(&self.kit.api::<PodGroup>(), objects).await;
        let mut groups: Vec<Group> = builders.iter().map(GroupBuilder::without_group).collect();
        let pods = groups.iter().flat_map(|group| group.planned_pods(size)).collect();
        let created = self.create_pods(pods).await;
        for (group, pods) in groups.iter_mut().zip(created.chunks_exact(size)) {
            group.adopt(pods);
        }
        groups
    }

    /// Fills the nodes with single pods.
    ///
    /// # Panics
    /// If a pod is rejected or does not run.
    pub async fn singles(self) -> Vec<PodHandle> {
        let shape = default_request(self.shape.clone());
        let places = self.places().await;
        let pods = (places.into_iter().enumerate())
            .map(|(index, node)| {
                Shape { node: Some(node), ..shape.clone() }.pod(&format!("{}-{index:03}", self.prefix))
            })
            .collect();
        let created = self.create_pods(pods).await;
        created.iter().map(|pod| PodHandle::new(self.kit.clone(), pod)).collect()
    }

    async fn create_pods(&self, pods: Vec<Pod>) -> Vec<Pod> {
        let api = self.kit.api::<Pod>();
        let created = Kit::create_all(&api, pods).await;
        let uids: Vec<&str> = created.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let wanted: std::collections::BTreeSet<&str> = uids.into_iter().collect();
        wait_for(&format!("{} pods run", wanted.len()), Duration::from_secs(120), async || {
            let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let is_mine = |pod: &&Pod| pod.metadata.uid.as_deref().is_some_and(|uid| wanted.contains(uid));
            let running = all.items.iter().filter(is_mine).filter(|pod| ready(pod)).count();
            if running == wanted.len() { Ok(()) } else { Err(format!("{running} of {} run", wanted.len())) }
        })
        .await;
        created
    }

    /// Returns the node of each pod that still fits on the nodes, in the order in which the pods are created.
    ///
    /// # Panics
    /// If a node does not exist.
    pub async fn places(&self) -> Vec<String> {
        let shape = default_request(self.shape.clone());
        let nodes = Api::<Node>::all(self.kit.client.clone()).list(&ListParams::default()).await.unwrap();
        let pods = Api::<Pod>::all(self.kit.client.clone()).list(&ListParams::default()).await.unwrap();
        let mut places = Vec::new();
        for name in &self.nodes {
            let node = nodes.items.iter().find(|node| node.metadata.name.as_ref() == Some(name));
            let node = node.unwrap_or_else(|| panic!("node {name} does not exist"));
            let allocatable = node.status.clone().and_then(|status| status.allocatable).unwrap_or_default();
            let mut free: BTreeMap<String, u64> =
                allocatable.into_iter().map(|(resource, quantity)| (resource, milli(&quantity.0))).collect();
            for pod in pods.items.iter().filter(|pod| node_of(pod) == Some(name)) {
                for (resource, amount) in requests(pod) {
                    let left = free.entry(resource).or_default();
                    *left = left.saturating_sub(amount);
                }
            }
            let mut wanted: BTreeMap<String, u64> =
                shape.resources.iter().map(|(resource, quantity)| (resource.clone(), milli(&quantity.0))).collect();
            wanted.insert("pods".to_owned(), 1000);
            let fitting = wanted.iter().map(|(r, amount)| free.get(r).copied().unwrap_or(0) / (*amount).max(1)).min();
            places.extend((0..fitting.unwrap_or(0)).map(|_| name.clone()));
        }
        if let Some(seed) = self.seed {
            shuffle(&mut places, seed);
        }
        places
    }
}

fn requests(pod: &Pod) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::from([("pods".to_owned(), 1000)]);
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let resources = container.resources.clone().unwrap_or_default();
        for (resource, quantity) in resources.requests.unwrap_or_default() {
            *sum.entry(resource).or_default() += milli(&quantity.0);
        }
    }
    sum
}

/// Parses a quantity in thousandths. Supports only the forms that the builders write.
fn milli(quantity: &str) -> u64 {
    let digits = quantity.find(|c: char| !c.is_ascii_digit()).unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(digits);
    let factor = match unit {
        "m" => 1,
        "" => 1000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        _ => panic!("the quantity {quantity} is in a form that the builders do not write"),
    };
    number.parse::<u64>().unwrap_or_else(|_| panic!("{quantity} is no quantity")) * factor
}

/// Fisher and Yates' shuffle with the generator `xorshift64*`.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for last in (1..items.len()).rev() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let random = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        items.swap(last, usize::try_from(random).unwrap_or(0) % (last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_thousandths() {
        assert_eq!((milli("250m"), milli("8"), milli("2Ki")), (250, 8000, 2_048_000));
    }

    #[test]
    fn a_shuffle_depends_on_its_seed_only() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<u32>>());
    }
}
