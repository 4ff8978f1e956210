//! Capacity requests to Karpenter (with its provider for kwok) by placeholder pods, because Karpenter ignores gated pods.

use giveway_crds::condition::types::CAPACITY_REQUESTED;
use giveway_crds::keys::LABEL_PLACEHOLDER;
use giveway_tests::World;
use giveway_tests::cluster::{Group, PodHandle, Shaped};
use giveway_tests::controllers::Controller;
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
/// Number of pods of the gang.
const MEMBERS: usize = 32;
/// Pods of 1 CPU that fit on one of Karpenter's nodes of 16 CPUs, of which 0.1 CPU is reserved for the kubelet.
const ON_A_NODE: usize = 15;

/// Starts a world with Karpenter and with a Giveway that requests capacity before it preempts.
pub async fn world() -> World {
    let builder = World::builder().helm_value("provisioning.method=Placeholder").controllers(&[Controller::Karpenter]);
    let builder = builder.operator_flag("--provisioning-method=placeholder").operator_flag("--provisioning-first");
    let world = builder.start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world
}

/// Creates a NodePool: Karpenter may add nodes of 16 CPUs, up to `cpus` in total, and removes empty nodes.
async fn create_node_pool(world: &World, cpus: usize) {
    let pool = format!(
        "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {{name: fake}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: gangs}}
spec:
  limits: {{cpu: {cpus}}}
  disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: 30s}}
  template:
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: fake}}
      expireAfter: Never
      requirements:
      - {{key: node.kubernetes.io/instance-type, operator: In, values: [c-16x-amd64-linux]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
"
    );
    world.apply(&pool).await.unwrap();
}

/// Creates nodes full of pods of class `low` and a gang that preempts after an hour. Returns both.
async fn create_full_nodes_and_gang(world: &World, nodes: usize, cpus: u32) -> (Vec<PodHandle>, Group) {
    let nodes = world.nodes(nodes).cpus(cpus).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", MEMBERS).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(3_600));
    (low, late.create().await)
}

/// Returns the nodes that Karpenter has created.
async fn created_nodes(world: &World) -> BTreeSet<String> {
    let nodes: Api<Node> = Api::all(world.client());
    let nodes = nodes.list(&ListParams::default().labels("karpenter.sh/nodepool=gangs")).await.unwrap();
    nodes.iter().map(ResourceExt::name_any).collect()
}

/// Waits until the capacity request has ended and no placeholder exists.
async fn wait_request_removed(world: &World, gang: &Group) {
    gang.wait_condition(CAPACITY_REQUESTED, "False", "CapacityNotNeeded", LIMIT).await;
    let pods: Api<Pod> = Api::all(world.client());
    wait_for("no placeholder exists", LIMIT, async || {
        let left =
            pods.list(&ListParams::default().labels(LABEL_PLACEHOLDER)).await.map_err(|error| error.to_string())?;
        if left.items.is_empty() { Ok(()) } else { Err(format!("{} exist", left.items.len())) }
    })
    .await;
}

pub async fn karpenter_adds_nodes_for_a_gang_and_no_pod_is_evicted(world: &World) {
    create_node_pool(world, 1_000).await;
    let (low, gang) = create_full_nodes_and_gang(world, 1, 4).await;
    let on: BTreeSet<String> = gang.wait_bound(LIMIT).await.into_iter().collect();
    assert_eq!(on, created_nodes(world).await, "the gang uses exactly the nodes that Karpenter created");
    assert_eq!(on.len(), MEMBERS.div_ceil(ON_A_NODE));
    gang.wait_running(LIMIT).await;
    wait_request_removed(world, &gang).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for pod in &low {
        pod.wait_running(LIMIT).await;
    }
}

pub async fn a_gang_preempts_after_its_delay_if_the_limit_of_the_node_pool_is_too_low(world: &World) {
    create_node_pool(world, 16).await;
    let (_, gang) = create_full_nodes_and_gang(world, 2, 16).await;
    let half = format!("of which {ON_A_NODE} are bound");
    wait_for("Karpenter has created nodes up to its limit", LIMIT, async || {
        let said = gang.wait_condition(CAPACITY_REQUESTED, "True", "CapacityRequested", LIMIT).await;
        if said.contains(&half) { Ok(()) } else { Err(said) }
    })
    .await;
    assert_eq!(created_nodes(world).await.len(), 1);
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new(), "the delay has not passed");
    let shorter = Patch::Merge(json!({"spec": {"preemptionDelaySeconds": 1}}));
    let groups = world.kit().api::<giveway_crds::PodGroup>();
    groups.patch("train", &PatchParams::default(), &shorter).await.unwrap();
    gang.wait_bound(LIMIT).await;
    let evicted = world.audit().await.evicted_names();
    assert_eq!(
        evicted.len(),
        MEMBERS - ON_A_NODE,
        "one victim for each member that has no node of Karpenter: {evicted:?}"
    );
    assert!(evicted.iter().all(|name| name.starts_with("low-")), "{evicted:?}");
    wait_request_removed(world, &gang).await;
}
