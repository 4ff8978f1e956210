//! Volumes and devices: a bound volume pins its pod, and no pod is evicted for claims whose feasible nodes are unknown.

use crate::{MINUTE, SCHEDULED};
use giveway_tests::cluster::{Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_bound_volume_pins_its_pod_and_no_pod_on_other_nodes_is_evicted,
            no_pod_is_evicted_for_an_unbound_claim_or_devices_and_the_gang_is_ungated;
    ]
}

const LEFT: &str = "No pod is evicted for it; kube-scheduler places it.";

async fn create_classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

/// Creates a claim. If a node is given, also creates a volume on this node and waits until the claim is bound to it.
async fn create_claim(world: &World, name: &str, node: Option<&str>) {
    let (client, size) = (world.client(), json!({"storage": "1Gi"}));
    let namespace = "default";
    let volume = node.map(|_| format!("pv-{name}"));
    if let (Some(node), Some(volume)) = (node, &volume) {
        let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        let object = json!({
            "metadata": {"name": volume},
            "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"], "local": {"path": "/data"}, "storageClassName": "",
                "claimRef": {"namespace": namespace, "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}}
        });
        let object: PersistentVolume = serde_json::from_value(object).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
    }
    let object = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": volume,
            "storageClassName": ""}
    });
    let object: PersistentVolumeClaim = serde_json::from_value(object).unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, namespace);
    claims.create(&PostParams::default(), &object).await.unwrap();
    if node.is_some() {
        wait_for("the claim is bound", MINUTE, async || {
            let claim = claims.get(name).await.map_err(|error| error.to_string())?;
            let phase = claim.status.and_then(|status| status.phase).unwrap_or_default();
            if phase == "Bound" { Ok(()) } else { Err(format!("{name} is {phase}")) }
        })
        .await;
    }
}

async fn a_bound_volume_pins_its_pod_and_no_pod_on_other_nodes_is_evicted(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.fill(&nodes[..1]).priority("high").prefix("high").singles().await;
    world.fill(&nodes[1..]).priority("low").prefix("low").singles().await;
    create_claim(world, "here", Some(&nodes[0])).await;
    let pinned = world.pod("pinned").priority("high").claim("here").create().await;
    assert_eq!(
        pinned.wait_event("Unschedulable", MINUTE).await,
        "1 pod needed, 0 fit now. Missing 1 cpu. 1 node(s) didn't match PersistentVolume's node affinity. Evicting every \
         workload below priority 1000 would not help."
    );
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    create_claim(world, "there", Some(&nodes[1])).await;
    let other = world.pod("other").priority("high").claim("there").create().await;
    assert_eq!(other.wait_bound(MINUTE).await, nodes[1]);
    assert_eq!(world.audit().await.evicted().len(), 1);
    world.check_promises().await;
}

async fn no_pod_is_evicted_for_an_unbound_claim_or_devices_and_the_gang_is_ungated(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.fill(&nodes).priority("low").singles().await;
    create_claim(world, "scratch", None).await;
    let message = |what: &str| format!("Where it can run depends on what is not known here: {what}. {LEFT}");
    let single = world.pod("single").priority("high").claim("scratch").create().await;
    let unbound = message("claim scratch, which is bound to no volume yet");
    assert_eq!(single.wait_event("Unschedulable", MINUTE).await, unbound);
    let gang = world.gang("train", 2).priority("high").claim("scratch").create().await;
    assert_eq!(gang.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await, unbound);
    wait_for("the gang is ungated", MINUTE, async || {
        let members: Vec<Pod> = gang.members().await.map_err(|error| error.to_string())?;
        let gated = members.iter().filter(|pod| !scheduling_gates(pod).is_empty()).count();
        if gated == 0 { Ok(()) } else { Err(format!("{gated} are gated")) }
    })
    .await;
    let devices = world.gang("devices", 2).priority("high").device_claim("gpu").create().await;
    assert_eq!(
        devices.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await,
        message("its resource claims (dynamic resource allocation)")
    );
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}
