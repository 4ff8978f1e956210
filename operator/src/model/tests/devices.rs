//! Devices, claims and volumes in the model: they are known by what the watches deliver.

use crate::messages::input::{Input, Update};
use crate::testing::{TestPod, World};
use giveway_crds::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use giveway_planner::{Context, Decision, Preemptor};
use serde_json::json;

fn class(resource: &str) -> Update<DeviceClass> {
    let spec = json!({"selectors": [], "extendedResourceName": resource});
    let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpus"},
        "spec": spec});
    Update::Applied(Box::new(serde_json::from_value(object).unwrap()))
}

#[test]
fn a_class_makes_unknown_what_it_serves_until_a_list_without_it_comes() {
    let mut world = World::new();
    let asks = json!([{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]);
    world.pod(TestPod::new("p", 0).spec("containers", asks));
    world.node("n1", 1);
    let preemptor = Preemptor::Pod(world.key("p"));
    let fits = |world: &World| {
        matches!(giveway_planner::plan(&world.model.cluster, &preemptor, &Context::default()), Decision::Fits { .. })
    };
    assert!(!fits(&world));
    let version = world.model.version;
    world.model.apply(Input::DeviceClass(class("example.com/gpu")));
    assert!(fits(&world));
    assert!(world.model.version > version, "it may change a decision");
    world.model.apply(Input::DeviceClass(Update::Replaced(Vec::new())));
    assert!(!fits(&world));
}

#[test]
fn claims_and_volumes_are_known_by_what_the_watches_say() {
    let mut world = World::new();
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.pod(TestPod::new("p", 0).spec("volumes", volumes));
    let unknown = |world: &World| world.model.cluster.pod(&world.key("p")).unwrap().unknown.to_vec();
    assert_eq!(unknown(&world), ["claim data, which was not found"]);
    let claim = json!({"metadata": {"namespace": "default", "name": "data"}, "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"}});
    world.model.apply(Input::Claim(Update::Applied(serde_json::from_value(claim).map(Box::new).unwrap())));
    assert_eq!(unknown(&world), ["claim data, whose volume pv was not found"]);
    let volume = json!({"metadata": {"name": "pv"}, "spec": {}});
    world.model.apply(Input::Volume(Update::Applied(serde_json::from_value(volume).map(Box::new).unwrap())));
    assert_eq!(unknown(&world), Vec::<String>::new());
    world.model.apply(Input::Volume(Update::Replaced(Vec::new())));
    assert_eq!(unknown(&world), ["claim data, whose volume pv was not found"]);
}

#[test]
fn devices_are_counted_by_what_the_watches_say() {
    fn applied<K: serde::de::DeserializeOwned>(object: serde_json::Value) -> Update<K> {
        Update::Applied(Box::new(serde_json::from_value(object).unwrap()))
    }
    let mut world = World::new();
    let of_pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true});
    world.node("n1", 4).pod(
        TestPod::new("p", 0).spec("resourceClaims", json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}])),
    );
    let uid = world.model.cluster.pod(&world.key("p")).unwrap().uid.to_string();
    let fits = |world: &World| {
        let preemptor = Preemptor::Pod(world.key("p"));
        let decision = giveway_planner::plan(&world.model.cluster, &preemptor, &Context::default());
        matches!(decision, Decision::Fits { .. })
    };
    let selectors = json!([{"cel": {"expression": "device.driver == \"gpu.example.com\""}}]);
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpus"},
        "spec": {"selectors": selectors}});
    world.model.apply(Input::DeviceClass(applied::<DeviceClass>(class)));
    assert!(!fits(&world), "its claim does not exist");
    let mut owner = of_pod;
    owner["uid"] = json!(uid);
    let exactly = json!({"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 2});
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": "p-gpu", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}});
    world.pod(
        TestPod::new("p", 0)
            .spec("resourceClaims", json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}]))
            .status("resourceClaimStatuses", json!([{"name": "gpu", "resourceClaimName": "p-gpu"}])),
    );
    world.model.apply(Input::ResourceClaim(applied::<ResourceClaim>(claim)));
    assert!(!fits(&world), "no node has devices");
    let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n1-gpus"},
        "spec": {"driver": "gpu.example.com", "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "a"}, {"name": "b"}]}});
    let version = world.model.version;
    world.model.apply(Input::ResourceSlice(applied::<ResourceSlice>(slice)));
    assert!(fits(&world) && world.model.version > version, "it may change a decision");
    world.model.apply(Input::ResourceSlice(Update::Replaced(Vec::new())));
    assert!(!fits(&world));
    world.model.apply(Input::ResourceClaim(Update::Replaced(Vec::new())));
    assert!(!fits(&world));
}
