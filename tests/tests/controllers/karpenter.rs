//! Karpenter, with its provider for kwok, is asked for room by placeholders: it knows no gangs, and does not look at pods that are
//! held.

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
/// The gang.
const MEMBERS: usize = 32;
/// Pods of 1 CPU on one of Karpenter's nodes of 16, of which the kubelet has a tenth of a CPU.
const ON_A_NODE: usize = 15;

/// Karpenter and Giveway, which asks it as soon as somebody would have to go.
pub async fn world() -> World {
    let builder = World::builder().helm_value("provisioning.method=Placeholder").controllers(&[Controller::Karpenter]);
    let builder = builder.operator_flag("--provisioning-method=placeholder").operator_flag("--provisioning-first");
    let world = builder.start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world
}

/// Lets Karpenter add nodes of 16 CPUs, up to so many CPUs. It takes one that is empty away again, as its users have it.
async fn node_pool(world: &World, cpus: usize) {
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

/// Full nodes, and a gang that would take their place after an hour.
async fn full(world: &World, nodes: usize, cpus: u32) -> (Vec<PodHandle>, Group) {
    let nodes = world.nodes(nodes).cpus(cpus).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", MEMBERS).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(3_600));
    (low, late.create().await)
}

/// The nodes that Karpenter has made.
async fn made(world: &World) -> BTreeSet<String> {
    let nodes: Api<Node> = Api::all(world.client());
    let nodes = nodes.list(&ListParams::default().labels("karpenter.sh/nodepool=gangs")).await.unwrap();
    nodes.iter().map(ResourceExt::name_any).collect()
}

/// Waits until nobody is asked any more and nothing of it is left.
async fn asks_nobody(world: &World, gang: &Group) {
    gang.wait_condition(CAPACITY_REQUESTED, "False", "CapacityNotNeeded", LIMIT).await;
    let pods: Api<Pod> = Api::all(world.client());
    wait_for("no placeholder is left", LIMIT, async || {
        let left =
            pods.list(&ListParams::default().labels(LABEL_PLACEHOLDER)).await.map_err(|error| error.to_string())?;
        if left.items.is_empty() { Ok(()) } else { Err(format!("{} are", left.items.len())) }
    })
    .await;
}

pub async fn nodes_come_for_a_gang_and_nobody_is_evicted(world: &World) {
    node_pool(world, 1_000).await;
    let (low, gang) = full(world, 1, 4).await;
    let on: BTreeSet<String> = gang.wait_bound(LIMIT).await.into_iter().collect();
    assert_eq!(on, made(world).await, "on Karpenter's nodes, and it made no other");
    assert_eq!(on.len(), MEMBERS.div_ceil(ON_A_NODE));
    gang.wait_running(LIMIT).await;
    asks_nobody(world, &gang).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for pod in &low {
        pod.wait_running(LIMIT).await;
    }
}

pub async fn where_its_limit_leaves_too_little_the_time_passes_and_the_gang_preempts(world: &World) {
    node_pool(world, 16).await;
    let (_, gang) = full(world, 2, 16).await;
    let half = format!("of which {ON_A_NODE} have a node");
    wait_for("Karpenter has made what it may", LIMIT, async || {
        let said = gang.wait_condition(CAPACITY_REQUESTED, "True", "CapacityAsked", LIMIT).await;
        if said.contains(&half) { Ok(()) } else { Err(said) }
    })
    .await;
    assert_eq!(made(world).await.len(), 1);
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new(), "there is time");
    let over = Patch::Merge(json!({"spec": {"preemptionDelaySeconds": 1}}));
    let groups = world.kit().api::<giveway_crds::PodGroup>();
    groups.patch("train", &PatchParams::default(), &over).await.unwrap();
    gang.wait_bound(LIMIT).await;
    let evicted = world.audit().await.evicted_names();
    assert_eq!(evicted.len(), MEMBERS - ON_A_NODE, "as many as Karpenter had no node for: {evicted:?}");
    assert!(evicted.iter().all(|name| name.starts_with("low-")), "{evicted:?}");
    asks_nobody(world, &gang).await;
}
