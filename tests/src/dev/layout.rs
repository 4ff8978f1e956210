//! The cluster of the demonstration: 40 nodes of 8 GPUs, every GPU taken.

use crate::cluster::{Shaped, ready};
use crate::world::World;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;

/// Nodes in the cluster.
pub(super) const NODES: usize = 40;
/// GPUs of a node, and pods of a training group.
pub(super) const GPUS: u32 = 8;

/// What fills the cluster, in numbers.
pub(super) struct Layout {
    /// Training groups whose pods share a node.
    pub(super) packed: usize,
    /// Training groups spread over two nodes.
    pub(super) halved: usize,
    /// Single pods.
    pub(super) singles: usize,
    /// Pods of the service with a guaranteed budget.
    pub(super) service: usize,
    /// How many of them may go.
    pub(super) allowed: i32,
}

/// The budget of the service.
pub(super) const BUDGET: &str = "web";
/// From this priority on a preemptor may violate it: far above the gang's.
pub(super) const THRESHOLD: i32 = 5000;

/// Fills the cluster. Each group is one of mode `PodGroup`: it goes whole or not at all.
pub(super) async fn build(world: &World) -> Layout {
    let nodes = world.nodes(NODES).cpus(64).memory("512Gi").gpus(GPUS).create().await;
    for (name, value) in [("notebook", 50), ("training", 100)] {
        world.class(name, value).managed().create().await;
    }
    // The lowest priority of all: nothing but its budget protects the service.
    world.class("service", 10).managed().threshold(THRESHOLD).create().await;
    let size = 8;
    let (packed_nodes, rest) = nodes.split_at(30);
    let (halved_nodes, rest) = rest.split_at(8);
    let packed = world.fill(packed_nodes).prefix("train").priority("training").gpu(1).whole().groups_of(size).await;
    let halves = halved_nodes.chunks(2).flat_map(|pair| {
        let places: Vec<&String> = std::iter::repeat_n(&pair[0], 4).chain(std::iter::repeat_n(&pair[1], 4)).collect();
        [places.clone(), places]
    });
    let halved = join_all(halves.enumerate().map(|(index, places)| {
        let name = format!("halves-{index}");
        world.gang(&name, size).priority("training").gpu(1).whole().on(&places).create()
    }))
    .await;
    let singles = world.fill(&rest[..1]).prefix("notebook").priority("notebook").gpu(1).singles().await;
    let service = world.fill(&rest[1..]).prefix("web").priority("service").gpu(1).label("app", "web").singles().await;
    let allowed = 1;
    let least = i32::try_from(service.len()).unwrap() - allowed;
    world.budget(BUDGET).matching("app", "web").min_available(least).create_allowing(allowed).await;
    Layout { packed: packed.len(), halved: halved.len(), singles: singles.len(), service: service.len(), allowed }
}

/// GPUs of the cluster, how many of them no pod holds, and the most that a single pod holds.
pub(super) struct Room {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) largest: u64,
}

/// Counts the GPUs.
pub(super) async fn room(world: &World) -> Room {
    let nodes = Api::<Node>::all(world.client()).list(&ListParams::default()).await.unwrap();
    let pods = world.kit().api::<Pod>().list(&ListParams::default()).await.unwrap();
    let total = nodes.items.iter().map(gpus_of_node).sum();
    let held: Vec<u64> = pods.items.iter().filter(|pod| ready(pod)).map(gpus_of_pod).collect();
    let used: u64 = held.iter().sum();
    Room { total, free: total - used, largest: held.into_iter().max().unwrap_or(1) }
}

fn gpus_of_node(node: &Node) -> u64 {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|all| all.get("nvidia.com/gpu")).and_then(|gpus| gpus.0.parse().ok()).unwrap_or(0)
}

/// The GPUs that a pod asks for.
pub(super) fn gpus_of_pod(pod: &Pod) -> u64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    requests.filter_map(|all| all.get("nvidia.com/gpu")?.0.parse::<u64>().ok()).sum()
}
