//! Volumes and devices: a bound volume pins its pod, and nobody is evicted for what is not known.

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
            a_bound_volume_pins_its_pod_and_nobody_goes_where_it_cannot_run,
            nobody_is_evicted_for_an_unbound_claim_or_for_devices_and_the_gang_is_released;
    ]
}

const LEFT: &str = "Nobody is evicted for it; kube-scheduler places it.";

async fn classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

/// A claim that is bound to a volume of this node, or to none.
async fn claim(world: &World, name: &str, node: Option<&str>) {
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

async fn a_bound_volume_pins_its_pod_and_nobody_goes_where_it_cannot_run(world: &World) {
    classes(world).await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.fill(&nodes[..1]).priority("high").prefix("stays").singles().await;
    world.fill(&nodes[1..]).priority("low").prefix("goes").singles().await;
    claim(world, "here", Some(&nodes[0])).await;
    let pinned = world.pod("pinned").priority("high").claim("here").create().await;
    assert_eq!(
        pinned.wait_event("Unschedulable", MINUTE).await,
        "1 pod needed, 0 fit now. Missing 1 cpu. 1 node(s) didn't match PersistentVolume's node affinity. Evicting every \
         workload below priority 1000 would not help."
    );
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    claim(world, "there", Some(&nodes[1])).await;
    let other = world.pod("other").priority("high").claim("there").create().await;
    assert_eq!(other.wait_bound(MINUTE).await, nodes[1]);
    assert_eq!(world.audit().await.evicted().len(), 1);
    world.check_promises().await;
}

async fn nobody_is_evicted_for_an_unbound_claim_or_for_devices_and_the_gang_is_released(world: &World) {
    classes(world).await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.fill(&nodes).priority("low").singles().await;
    claim(world, "scratch", None).await;
    let says = |what: &str| format!("Where it can run depends on what is not known here: {what}. {LEFT}");
    let single = world.pod("single").priority("high").claim("scratch").create().await;
    let unbound = says("claim scratch, which is bound to no volume yet");
    assert_eq!(single.wait_event("Unschedulable", MINUTE).await, unbound);
    let gang = world.gang("train", 2).priority("high").claim("scratch").create().await;
    assert_eq!(gang.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await, unbound);
    wait_for("the gang is released", MINUTE, async || {
        let members: Vec<Pod> = gang.members().await.map_err(|error| error.to_string())?;
        let held = members.iter().filter(|pod| !scheduling_gates(pod).is_empty()).count();
        if held == 0 { Ok(()) } else { Err(format!("{held} are held")) }
    })
    .await;
    let devices = world.gang("devices", 2).priority("high").device_claim("gpu").create().await;
    assert_eq!(
        devices.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await,
        says("its resource claims (dynamic resource allocation)")
    );
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}
