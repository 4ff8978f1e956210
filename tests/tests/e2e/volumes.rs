//! Volumes and devices: a bound volume pins its pod, pods are evicted for volumes that are made when a node is chosen, and no pod is evicted
//! for claims whose feasible nodes are unknown. What Giveway takes as feasible, kube-scheduler binds.

use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_tests::cluster::{Shaped, scheduling_gates};
use giveway_tests::control_plane::Version;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_bound_volume_pins_its_pod_and_no_pod_on_other_nodes_is_evicted,
            no_pod_is_evicted_for_an_unbound_claim_or_devices_and_the_gang_is_ungated,
            pods_are_evicted_for_volumes_that_are_made_when_a_node_is_chosen,
            no_pod_is_evicted_for_a_resource_that_another_node_may_serve_by_devices,
            pods_are_evicted_for_the_devices_of_all_members_of_a_gang,
            the_user_of_a_claim_for_one_pod_is_evicted_and_no_node_gets_more_volumes_than_its_limit;
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
    let message = |what: &str| format!("Where it can run depends on what Giveway does not know: {what}. {LEFT}");
    let single = world.pod("single").priority("high").claim("scratch").create().await;
    let unbound = message("claim scratch, which is bound to no volume yet");
    assert_eq!(single.wait_event("Unschedulable", MINUTE).await, unbound);
    let gang = world.gang("train", 2).priority("high").claim("scratch").create().await;
    assert_eq!(gang.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await, unbound);
    wait_for("the gang is ungated", MINUTE, async || {
        let members: Vec<Pod> = gang.members().await.map_err(|error| error.to_string())?;
        let gated = members.iter().filter(|pod| !scheduling_gates(pod).is_empty()).count();
        if gated == 0 { Ok(()) } else { Err(format!("{gated} are gated")) }
    })
    .await;
    let devices = world.gang("devices", 2).priority("high").device_claim("gpu").create().await;
    assert_eq!(
        devices.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await,
        message("its resource claims, whose devices Giveway cannot count (dynamic resource allocation)")
    );
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

/// Creates a class whose volumes are made when kube-scheduler has chosen a node, in one zone or everywhere.
async fn create_storage_class(world: &World, name: &str, zone: Option<&str>) {
    let topologies =
        zone.map(|zone| json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]}]));
    let class = json!({"metadata": {"name": name}, "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies});
    let class: StorageClass = serde_json::from_value(class).unwrap();
    Api::all(world.client()).create(&PostParams::default(), &class).await.unwrap();
}

/// Makes the volumes of the claims for which kube-scheduler has chosen a node, as a provisioner would, until this many claims of a class are
/// bound.
async fn provision(world: &World, class: &str, count: usize) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.client(), "default");
    let volumes: Api<PersistentVolume> = Api::all(world.client());
    wait_for(&format!("{count} claims of class {class} are bound"), MINUTE, async || {
        let list = claims.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let mut bound = 0;
        for claim in list.items {
            let spec = claim.spec.unwrap_or_default();
            if spec.storage_class_name.as_deref() != Some(class) {
                continue;
            }
            if claim.status.and_then(|status| status.phase).as_deref() == Some("Bound") {
                bound += 1;
                continue;
            }
            let annotations = claim.metadata.annotations.unwrap_or_default();
            let Some(node) = annotations.get("volume.kubernetes.io/selected-node") else { continue };
            let name = claim.metadata.name.unwrap_or_default();
            let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
            let object = json!({
                "metadata": {"name": format!("pv-{name}")},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                    "csi": {"driver": "csi.example.com", "volumeHandle": name},
                    "claimRef": {"namespace": "default", "name": name, "uid": claim.metadata.uid},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}}
            });
            let object: PersistentVolume = serde_json::from_value(object).unwrap();
            // It exists already if the claim is not bound to it yet.
            let _ = volumes.create(&PostParams::default(), &object).await;
        }
        if bound == count { Ok(()) } else { Err(format!("{bound} are bound")) }
    })
    .await;
}

async fn pods_are_evicted_for_volumes_that_are_made_when_a_node_is_chosen(world: &World) {
    let zone = "topology.kubernetes.io/zone";
    create_classes(world).await;
    create_storage_class(world, "western", Some("west")).await;
    create_storage_class(world, "anywhere", None).await;
    let east = world.nodes(2).prefix("east").cpus(1).label(zone, "east").create().await;
    let west = world.nodes(1).prefix("west").cpus(1).label(zone, "west").create().await;
    world.fill(&east).priority("low").prefix("east").singles().await;
    world.fill(&west).priority("low").prefix("west").singles().await;
    let spec = |class: &str| json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class});
    let claim = json!({"metadata": {"name": "data"}, "spec": spec("western")});
    let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    Api::namespaced(world.client(), "default").create(&PostParams::default(), &claim).await.unwrap();
    let single = world.pod("single").priority("high").claim("data").create().await;
    provision(world, "western", 1).await;
    assert_eq!(single.wait_bound(MINUTE).await, west[0]);
    // Ephemeral volumes of a gang: its pods are evicted for, and it is not ungated before there is capacity for all members.
    let template = json!({"spec": spec("anywhere")});
    let volumes = json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]});
    let gang = world.gang("train", 2).priority("high").pod_spec(volumes).create().await;
    provision(world, "anywhere", 2).await;
    let mut places = gang.wait_bound(MINUTE).await;
    places.sort();
    assert_eq!(places, east);
    assert_eq!(world.audit().await.evicted().len(), 3);
    world.check_promises().await;
}

const DEVICE_CLASS: &str = "
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpus}
spec:
  extendedResourceName: example.com/gpu
  selectors: [{cel: {expression: 'device.driver == \"gpu.example.com\"'}}]
";

async fn no_pod_is_evicted_for_a_resource_that_another_node_may_serve_by_devices(world: &World) {
    if !Version::chosen().unwrap().has_resources_by_devices() {
        return world.check_promises().await;
    }
    create_classes(world).await;
    world.apply(DEVICE_CLASS).await.unwrap();
    let offering = world.nodes(1).prefix("offers").cpus(4).resource("example.com/gpu", "1").create().await;
    let other = world.nodes(1).prefix("other").cpus(4).create().await;
    let low = world.pod("low").priority("low").resource("example.com/gpu", "1").on(&offering[0]).create().await;
    let high = world.pod("high").priority("high").resource("example.com/gpu", "1").create().await;
    let unknown = "devices for example.com/gpu (dynamic resource allocation) on nodes that offer none of it themselves";
    let message = format!("Where it can run depends on what Giveway does not know: {unknown}. {LEFT}");
    assert_eq!(high.wait_event("Unschedulable", MINUTE).await, message);
    world.apply(&slice_of(&other[0])).await.unwrap();
    assert_eq!(high.wait_bound(MINUTE).await, other[0]);
    assert!(low.get().await.is_some());
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

/// Returns the manifest of a slice with one device on a node.
fn slice_of(node: &str) -> String {
    format!(
        "
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {node}-gpus}}
spec:
  driver: gpu.example.com
  nodeName: {node}
  pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}
  devices: [{{name: gpu-0}}]
"
    )
}

const CLAIM_TEMPLATE: &str = "
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpus}}]}}}
";

async fn pods_are_evicted_for_the_devices_of_all_members_of_a_gang(world: &World) {
    if !Version::chosen().unwrap().has_devices() {
        return world.check_promises().await;
    }
    create_classes(world).await;
    // The field of extended resources is newer than the class.
    world.apply(&DEVICE_CLASS.replace("  extendedResourceName: example.com/gpu\n", "")).await.unwrap();
    world.apply(CLAIM_TEMPLATE).await.unwrap();
    let nodes = world.nodes(3).cpus(4).create().await;
    for node in &nodes[..2] {
        world.apply(&slice_of(node)).await.unwrap();
    }
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]});
    for name in ["low-0", "low-1"] {
        let low = world.pod(name).priority("low").pod_spec(claims.clone()).create().await;
        assert!(nodes[..2].contains(&low.wait_bound(MINUTE).await));
    }
    let three = world.gang("three", 3).priority("high").pod_spec(claims.clone()).create().await;
    let message = three.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    assert!(message.starts_with("3 pods needed, 0 fit now. Missing"), "{message}");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    let two = world.gang("two", 2).priority("high").pod_spec(claims).create().await;
    let mut places = two.wait_bound(MINUTE).await;
    places.sort();
    assert_eq!(places, nodes[..2]);
    assert_eq!(world.audit().await.evicted().len(), 2);
    world.check_promises().await;
}

/// Creates a volume of a CSI driver that every node can attach, and a claim that is bound to it.
async fn create_csi_claim(world: &World, name: &str, mode: &str) {
    let (size, namespace) = (json!({"storage": "1Gi"}), "default");
    let volume = json!({
        "metadata": {"name": format!("pv-{name}")},
        "spec": {"capacity": size, "accessModes": [mode], "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "storageClassName": "", "claimRef": {"namespace": namespace, "name": name}}
    });
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
    Api::all(world.client()).create(&PostParams::default(), &volume).await.unwrap();
    let claim = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": size}, "volumeName": format!("pv-{name}"),
            "storageClassName": ""}
    });
    let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.client(), namespace);
    claims.create(&PostParams::default(), &claim).await.unwrap();
    wait_for("the claim is bound", MINUTE, async || {
        let claim = claims.get(name).await.map_err(|error| error.to_string())?;
        let phase = claim.status.and_then(|status| status.phase).unwrap_or_default();
        if phase == "Bound" { Ok(()) } else { Err(format!("{name} is {phase}")) }
    })
    .await;
}

async fn the_user_of_a_claim_for_one_pod_is_evicted_and_no_node_gets_more_volumes_than_its_limit(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(4).create().await;
    for node in &nodes {
        let driver = json!({"name": "csi.example.com", "nodeID": node, "allocatable": {"count": 1}});
        let limits = json!({"metadata": {"name": node}, "spec": {"drivers": [driver]}});
        let limits: CSINode = serde_json::from_value(limits).unwrap();
        Api::all(world.client()).create(&PostParams::default(), &limits).await.unwrap();
    }
    create_csi_claim(world, "only", "ReadWriteOncePod").await;
    let user = world.pod("user").priority("low").claim("only").on(&nodes[0]).create().await;
    let next = world.pod("next").priority("high").claim("only").create().await;
    assert_eq!(next.wait_bound(MINUTE).await, nodes[0]);
    user.wait_removed(MINUTE).await;
    for name in ["first", "second"] {
        create_csi_claim(world, name, "ReadWriteOnce").await;
    }
    let first = world.pod("first").priority("low").claim("first").on(&nodes[1]).create().await;
    let second = world.pod("second").priority("high").claim("second").create().await;
    assert_eq!(second.wait_bound(MINUTE).await, nodes[1]);
    first.wait_removed(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 2);
    world.check_promises().await;
}
