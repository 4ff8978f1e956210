//! The cluster of the demonstration: 40 nodes of 8 GPUs, all in use.

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

/// Numbers of the groups and pods that fill the cluster.
pub(super) struct Layout {
    /// Training groups whose pods share a node.
    pub(super) packed: usize,
    /// Training groups spread over two nodes.
    pub(super) halved: usize,
    /// Single pods.
    pub(super) singles: usize,
    /// Pods of the service with a guaranteed budget.
    pub(super) service: usize,
    /// Number of disruptions that the budget allows.
    pub(super) allowed: i32,
}

/// The budget of the service.
pub(super) const BUDGET: &str = "web";
/// Threshold of the service's class, far above the gang's priority.
pub(super) const THRESHOLD: i32 = 5000;

/// Fills the cluster. All groups have mode `PodGroup`.
pub(super) async fn build(world: &World) -> Layout {
    let nodes = world.nodes(NODES).cpus(64).memory("512Gi").gpus(GPUS).create().await;
    for (name, value) in [("notebook", 50), ("training", 100)] {
        world.class(name, value).managed().create().await;
    }
    // The service has the lowest priority, so only its budget protects it.
    world.class("service", 10).managed().threshold(THRESHOLD).create().await;
    let size = 8;
    let (packed_nodes, rest) = nodes.split_at(30);
    let (halved_nodes, rest) = rest.split_at(8);
    let packed = world.fill(packed_nodes).prefix("train").priority("training").gpu(1).whole().groups_of(size).await;
    let halves = halved_nodes.chunks(2).flat_map(|pair| {
        let placements: Vec<&String> =
            std::iter::repeat_n(&pair[0], 4).chain(std::iter::repeat_n(&pair[1], 4)).collect();
        [placements.clone(), placements]
    });
    let halved = join_all(halves.enumerate().map(|(index, placements)| {
        let name = format!("halves-{index}");
        world.gang(&name, size).priority("training").gpu(1).whole().on(&placements).create()
    }))
    .await;
    let singles = world.fill(&rest[..1]).prefix("notebook").priority("notebook").gpu(1).singles().await;
    let service = world.fill(&rest[1..]).prefix("web").priority("service").gpu(1).label("app", "web").singles().await;
    let allowed = 1;
    let least = i32::try_from(service.len()).unwrap() - allowed;
    world.budget(BUDGET).matching("app", "web").min_available(least).create_allowing(allowed).await;
    Layout { packed: packed.len(), halved: halved.len(), singles: singles.len(), service: service.len(), allowed }
}

/// Number of all and of free GPUs, and the largest number of GPUs of one pod.
pub(super) struct GpuCounts {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) largest: u64,
}

/// Counts the GPUs of the cluster.
pub(super) async fn count_gpus(world: &World) -> GpuCounts {
    let nodes = Api::<Node>::all(world.client()).list(&ListParams::default()).await.unwrap();
    let pods = world.kit().api::<Pod>().list(&ListParams::default()).await.unwrap();
    let total = nodes.items.iter().map(gpus_of_node).sum();
    let in_use: Vec<u64> = pods.items.iter().filter(|pod| ready(pod)).map(gpus_of_pod).collect();
    let used: u64 = in_use.iter().sum();
    GpuCounts { total, free: total - used, largest: in_use.into_iter().max().unwrap_or(1) }
}

fn gpus_of_node(node: &Node) -> u64 {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|all| all.get("nvidia.com/gpu")).and_then(|gpus| gpus.0.parse().ok()).unwrap_or(0)
}

/// Returns the GPUs that a pod requests.
pub(super) fn gpus_of_pod(pod: &Pod) -> u64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    requests.filter_map(|all| all.get("nvidia.com/gpu")?.0.parse::<u64>().ok()).sum()
}
