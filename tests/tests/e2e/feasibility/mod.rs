//! Compares the planner's filters with those of kube-scheduler on 168 random small clusters (more than 500 in `make soak`), for
//! each pod and node.
//!
//! A slot has a few nodes and two namespaces of its own. In every round some of its nodes get other labels and taints, and all of
//! them other pods. Then kube-scheduler schedules a test pod, once pinned to each node and once without a pin; in some rounds a
//! second test pod beside the first. Slots run concurrently; each has one test pod at a time.
//!
//! Known differences, which the comparison accounts for:
//! * For a node kube-scheduler counts only the pods nominated to that node. The planner counts all nominated pods, so it can be
//!   stricter if a nominated pod has anti-affinity to its topology domain. So the comparison uses the planner's answer without
//!   the nominations to other nodes, and checks that the answer with them is never laxer.
//! * kube-scheduler skips its filter for inter-pod affinity, and with it the anti-affinity of nominated pods, if the test pod has
//!   no affinity terms and no bound pod has anti-affinity to it. The planner never skips it, so both answers are correct; the
//!   number of such cases is printed.
//! * kube-scheduler has different watches for nodes and pods, so it can schedule a pod before it observes the last change of a
//!   node. After a disagreement the pod is scheduled again; only the last answer counts.
//!
//! `GIVEWAY_SEED` chooses another seed than the fixed one.

mod board;
mod compare;
mod random;
mod round;

use board::Board;
use compare::Tally;
use futures::{StreamExt as _, stream};
use giveway_tests::World;
use giveway_tests::cluster::is_ready;
use giveway_tests::random::{Random, share};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::PostParams;
use kube::{Api, Client};
use round::Slot;
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            the_planner_and_the_scheduler_agree_on_every_pod_and_node_of_random_clusters;
    ]
}

const SLOTS: usize = 24;
const ROUNDS: usize = 21;

async fn the_planner_and_the_scheduler_agree_on_every_pod_and_node_of_random_clusters() {
    let seed = std::env::var("GIVEWAY_SEED").ok().map_or(0x51e5_7a1d, |text| text.parse().expect("a number"));
    let world = World::builder().bare().scheduler_rate(1000, 1000).start().await;
    let client = world.client();
    create_classes(&client).await;
    let (board, watch) = Board::start(client.clone());
    let slots: Vec<Slot> =
        stream::iter(0..SLOTS).map(|slot| set_up(&client, &board, seed, slot)).buffered(8).collect().await;
    wait_for("all nodes are ready", super::MINUTE, async || {
        let nodes =
            Api::<Node>::all(client.clone()).list(&Default::default()).await.map_err(|error| error.to_string())?;
        let unready = nodes.items.iter().filter(|node| !is_ready(node)).count();
        if unready == 0 { Ok(()) } else { Err(format!("{unready} nodes are not ready")) }
    })
    .await;

    let mut tally = Tally::default();
    let mut all = stream::iter(slots).map(run).buffer_unordered(SLOTS);
    while let Some(slot) = all.next().await {
        tally.add(slot);
    }
    drop(all);
    watch.abort();
    println!("seed {seed}: {tally}");
    assert!(
        tally.disagreements.is_empty(),
        "{} disagreements, seed {seed}:\n{}",
        tally.disagreements.len(),
        tally.disagreements[0]
    );
    assert_eq!(tally.rounds, SLOTS * share(ROUNDS));
    tally.check_coverage();
}

async fn run(slot: Slot) -> Tally {
    let mut tally = Tally::default();
    let mut nodes = Vec::new();
    for round in 0..share(ROUNDS) {
        slot.round(round, &mut nodes, &mut tally).await;
        tally.rounds += 1;
    }
    tally
}

/// Creates the nodes and namespaces of a slot and waits until pods can be created in them.
async fn set_up(client: &Client, board: &Board, seed: u64, slot: usize) -> Slot {
    let mut random = Random::new(seed, slot, ROUNDS);
    let post = PostParams::default();
    let nodes = 3 + random.below(2);
    for index in 0..nodes {
        let node: Node = serde_json::from_value(random::node(slot, index, &mut random)).unwrap();
        Api::all(client.clone()).create(&post, &node).await.unwrap();
    }
    let mut namespaces = Vec::new();
    for namespace in random::namespaces(slot) {
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let namespace = Api::all(client.clone()).create(&post, &namespace).await.unwrap();
        let name = namespace.metadata.name.clone().unwrap();
        namespaces.push(namespace);
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &name);
        wait_for(&format!("namespace {name} has a ServiceAccount"), super::MINUTE, async || {
            let account = accounts.get_opt("default").await.map_err(|error| error.to_string())?;
            account.map(drop).ok_or_else(|| "the ServiceAccount default does not exist".to_owned())
        })
        .await;
    }
    let (volumes, claims) = bound_volumes(client, &namespaces, slot, &mut random).await;
    Slot { client: client.clone(), board: board.clone(), seed, number: slot, nodes, namespaces, volumes, claims }
}

/// Creates the volumes and claims of a slot and waits until the claims are bound.
async fn bound_volumes(
    client: &Client,
    namespaces: &[Namespace],
    slot: usize,
    random: &mut Random,
) -> (Vec<PersistentVolume>, Vec<PersistentVolumeClaim>) {
    let post = PostParams::default();
    let (mut volumes, mut claims) = (Vec::new(), Vec::new());
    for namespace in namespaces {
        let namespace = namespace.metadata.name.as_deref().unwrap();
        let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
        for number in 0..random::VOLUMES {
            let [volume, claim] = random::volume(slot, namespace, number, random);
            let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
            volumes.push(Api::all(client.clone()).create(&post, &volume).await.unwrap());
            let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
            let name = api.create(&post, &claim).await.unwrap().metadata.name.unwrap();
            let what = format!("claim {namespace}/{name} is bound");
            let bound = wait_for(&what, super::MINUTE, async || {
                let claim = api.get(&name).await.map_err(|error| error.to_string())?;
                let phase = claim.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
                if phase == "Bound" { Ok(claim) } else { Err(phase) }
            });
            claims.push(bound.await);
        }
    }
    (volumes, claims)
}

async fn create_classes(client: &Client) {
    let post = PostParams::default();
    for (name, value) in [("below", 10), ("probe", 50), ("same", 50), ("above", 90)] {
        let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"});
        let class: PriorityClass = serde_json::from_value(class).unwrap();
        Api::all(client.clone()).create(&post, &class).await.unwrap();
    }
    let heavy = json!({"metadata": {"name": "heavy"}, "handler": "heavy", "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}}});
    let heavy: RuntimeClass = serde_json::from_value(heavy).unwrap();
    Api::all(client.clone()).create(&post, &heavy).await.unwrap();
}
