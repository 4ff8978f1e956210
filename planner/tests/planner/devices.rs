//! Devices of dynamic resource allocation that are counted: claims of a number of devices of a driver, from the slices of nodes and the
//! claims that have devices.

use crate::common::*;
use giveway_crds::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use giveway_planner::{Cluster, Context, Decision, Strategy};
use serde_json::{Value, json};

const DRIVER: &str = "gpu.example.com";
const UNKNOWN: &str = "Where it can run depends on what Giveway does not know: its resource claims, whose devices \
                       Giveway cannot count (dynamic resource allocation). No pod is evicted for it; kube-scheduler places it.";

fn class_of(cluster: &mut Cluster, name: &str, expressions: &[&str]) -> bool {
    let selectors: Vec<Value> = expressions.iter().map(|text| json!({"cel": {"expression": text}})).collect();
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": selectors}});
    cluster.upsert_device_class(&serde_json::from_value::<DeviceClass>(class).unwrap())
}

/// A class of the driver.
fn class(cluster: &mut Cluster) {
    class_of(cluster, "gpus", &["device.driver == \"gpu.example.com\""]);
}

/// The devices of a node: a pool of the node's name with one slice.
fn slice(node: &str, devices: usize) -> Value {
    let devices: Vec<Value> = (0..devices).map(|n| json!({"name": format!("gpu-{n}")})).collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-gpus")},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices}})
}

fn add_slice(cluster: &mut Cluster, slice: Value) -> bool {
    cluster.upsert_resource_slice(&serde_json::from_value::<ResourceSlice>(slice).unwrap())
}

/// The claim that was made for a pod, of a number of devices.
fn claim(pod: &str, count: usize) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": NAMESPACE, "name": format!("{pod}-gpu-x7k2p"), "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("uid-{pod}"), "controller": true}]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly":
            {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": count}}]}}})
}

/// The same with devices of a node, reserved for the pods with these UIDs.
fn allocated(pod: &str, count: usize, node: &str, reserved_for: &[&str]) -> Value {
    let result = |n| json!({"request": "gpu", "driver": DRIVER, "pool": node, "device": format!("gpu-{n}")});
    let results: Vec<Value> = (0..count).map(result).collect();
    let consumers: Vec<Value> =
        reserved_for.iter().map(|uid| json!({"resource": "pods", "name": "x", "uid": uid})).collect();
    let mut claim = claim(pod, count);
    claim["status"] = json!({"allocation": {"devices": {"results": results}}, "reservedFor": consumers});
    claim
}

fn add_claim(cluster: &mut Cluster, claim: Value) -> bool {
    cluster.upsert_resource_claim(&serde_json::from_value::<ResourceClaim>(claim).unwrap())
}

/// A pod with a claim from a template, which was made.
fn with_claim(pod: Built) -> Built {
    let name = format!("{}-gpu-x7k2p", pod.0["metadata"]["name"].as_str().unwrap());
    pod.set("/spec/resourceClaims", json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}]))
        .set("/status/resourceClaimStatuses", json!([{"name": "gpu", "resourceClaimName": name}]))
}

/// Nodes `a` and `b` with four devices each, all of them used by a pod of priority 0 on each node.
fn full() -> Cluster {
    let mut cluster = cluster(&[node("a", 8), node("b", 8)]);
    class(&mut cluster);
    for node in ["a", "b"] {
        let name = format!("on-{node}");
        add_slice(&mut cluster, slice(node, 4));
        add_claim(&mut cluster, allocated(&name, 4, node, &[&format!("uid-{name}")]));
        add(&mut cluster, &with_claim(pod(&name)).on(node));
    }
    cluster
}

fn fits(cluster: &Cluster, pod: &str) -> bool {
    matches!(decide(cluster, &for_pod(pod)), Decision::Fits { .. })
}

fn unknown(decision: Decision) -> String {
    match decision {
        Decision::Unknown(unknown) => unknown.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_is_evicted_for_its_devices_and_only_where_that_frees_enough() {
    let mut cluster = full();
    add_slice(&mut cluster, slice("b", 8));
    add(&mut cluster, &with_claim(pod("p").priority(9)));
    add_claim(&mut cluster, claim("p", 4));
    assert!(fits(&cluster, "p"), "four of b are free");
    add_claim(&mut cluster, claim("p", 6));
    for strategy in Strategy::ALL {
        let context = Context { strategy, ..Context::default() };
        let plan = planned(plan(&cluster, &for_pod("p"), &context));
        assert_eq!((victims(&plan), plan.placements[0].node.as_str()), (vec!["on-b"], "b"));
        assert_eq!(check_plan(&cluster, &for_pod("p"), &plan), Ok(()));
    }
    add_claim(&mut cluster, claim("p", 9));
    assert_eq!(
        shortfall(decide(&cluster, &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 9 devices (gpu.example.com). No node offers as much as one pod asks for. Evicting \
         every workload below priority 9 would not help."
    );
}

#[test]
fn a_gang_needs_devices_for_all_of_its_members() {
    let mut cluster = full();
    let objects = waiting_gang("g", 9, 4);
    for object in objects {
        let object = if object.0["kind"] == "Pod" { with_claim(object) } else { object };
        add(&mut cluster, &object);
    }
    for at in 0..4 {
        add_claim(&mut cluster, claim(&format!("g-00{at}"), 2));
    }
    let plan = planned(decide(&cluster, &for_group("g")));
    assert_eq!((victims(&plan), plan.placements.len()), (vec!["on-a", "on-b"], 4));
    add_claim(&mut cluster, claim("g-003", 3));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Unschedulable(_)), "it stays gated");
}

#[test]
fn devices_of_a_claim_that_no_pod_on_the_node_holds_alone_are_not_freed_by_an_eviction() {
    let mut cluster = full();
    cluster.remove_pod(&key("on-b"));
    add_slice(&mut cluster, slice("b", 0));
    add(&mut cluster, &with_claim(pod("p").priority(9)));
    add_claim(&mut cluster, claim("p", 1));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-a"]);
    // Reserved for no pod, for another pod as well, or for a pod that was removed.
    for reserved_for in [&[][..], &["uid-on-a", "uid-other"], &["uid-gone"]] {
        add_claim(&mut cluster, allocated("on-a", 4, "a", reserved_for));
        assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 1 devices"), "{reserved_for:?}");
    }
    add_claim(&mut cluster, allocated("on-a", 4, "a", &["uid-on-a"]));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-a"]);
    cluster.remove_pod(&key("on-a"));
    assert!(!fits(&cluster, "p"), "the claim still has the devices");
    assert!(
        cluster.remove_resource_claim(&key("on-a-gpu-x7k2p")) && !cluster.remove_resource_claim(&key("on-a-gpu-x7k2p"))
    );
    assert!(fits(&cluster, "p"));
}

#[test]
fn a_pod_that_is_being_bound_has_its_devices() {
    let mut cluster = full();
    cluster.remove_pod(&key("on-a"));
    cluster.remove_resource_claim(&key("on-a-gpu-x7k2p"));
    add(&mut cluster, &with_claim(pod("p").priority(9)));
    add_claim(&mut cluster, claim("p", 3));
    add(&mut cluster, &with_claim(pod("next").priority(0)));
    add_claim(&mut cluster, claim("next", 2));
    assert!(fits(&cluster, "next"));
    // kube-scheduler allocates, then binds.
    add_claim(&mut cluster, allocated("p", 3, "a", &["uid-p"]));
    assert!(!fits(&cluster, "next"));
    add(&mut cluster, &with_claim(pod("p").priority(9)).on("a"));
    assert!(!fits(&cluster, "next"));
    add_claim(&mut cluster, claim("next", 1));
    assert!(fits(&cluster, "next"), "counted once");
    add(&mut cluster, &with_claim(pod("p").priority(9)).on("a").set("/status/phase", json!("Succeeded")));
    add_claim(&mut cluster, claim("next", 2));
    assert!(!fits(&cluster, "next"), "it has ended, and its claim still has the devices");
    add_claim(&mut cluster, claim("p", 3));
    assert!(fits(&cluster, "next"));
}

#[test]
fn the_order_in_which_objects_arrive_does_not_matter() {
    let decided = |order: usize| {
        let mut cluster = Cluster::default();
        for step in 0..5 {
            let part = (step + order) % 5;
            match part {
                0 => ["a", "b"].iter().for_each(|name| add(&mut cluster, &node(name, 8))),
                1 => class(&mut cluster),
                2 => {
                    add_slice(&mut cluster, slice("a", 4));
                    add_slice(&mut cluster, slice("b", 4));
                }
                3 => {
                    add(&mut cluster, &with_claim(pod("on-a")).on("a"));
                    add(&mut cluster, &with_claim(pod("p").priority(9)));
                }
                _ => {
                    add_claim(&mut cluster, allocated("on-a", 4, "a", &["uid-on-a"]));
                    add_claim(&mut cluster, allocated("on-b", 2, "b", &["uid-unknown"]));
                    add_claim(&mut cluster, claim("p", 3));
                }
            }
        }
        places(&planned(decide(&cluster, &for_pod("p"))))
    };
    for order in 0..5 {
        assert_eq!(decided(order), ["p>a"], "{order}");
    }
}

#[test]
fn only_the_newest_complete_generation_of_a_pool_counts() {
    let mut cluster = cluster(&[node("a", 8)]);
    class(&mut cluster);
    add(&mut cluster, &with_claim(pod("p").priority(9)));
    add_claim(&mut cluster, claim("p", 4));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 4 devices (gpu.example.com)."), "no slice");
    let part = |name: &str, generation: i64, devices: usize| {
        let mut part = slice("a", devices);
        part["metadata"]["name"] = json!(name);
        part["spec"]["pool"] = json!({"name": "a", "generation": generation, "resourceSliceCount": 2});
        part
    };
    assert!(add_slice(&mut cluster, part("first", 1, 4)) && !add_slice(&mut cluster, part("first", 1, 4)));
    assert!(!fits(&cluster, "p"), "the second slice is missing");
    add_slice(&mut cluster, part("second", 1, 0));
    assert!(fits(&cluster, "p"));
    add_slice(&mut cluster, part("first", 2, 8));
    assert!(!fits(&cluster, "p"), "of the next generation one is missing");
    add_slice(&mut cluster, part("second", 2, 0));
    assert!(fits(&cluster, "p"));
    assert!(cluster.remove_resource_slice("second") && !cluster.remove_resource_slice("second"));
    assert!(!fits(&cluster, "p"));
    cluster.remove_resource_slice("first");
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 4 devices (gpu.example.com)."));
}

#[test]
fn a_pod_stays_unschedulable_until_its_claim_and_the_class_exist() {
    let mut cluster = cluster(&[node("a", 8)]);
    add_slice(&mut cluster, slice("a", 4));
    let template = json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}]);
    add(&mut cluster, &pod("p").priority(9).set("/spec/resourceClaims", template));
    // Without a class it is not known whether claims can be read; the class may be listed after the pod.
    class(&mut cluster);
    let said = |cluster: &Cluster| shortfall(decide(cluster, &for_pod("p")));
    assert!(said(&cluster).contains("Missing 1 ResourceClaims (not created yet)."));
    add(&mut cluster, &with_claim(pod("p").priority(9)));
    assert!(said(&cluster).contains("Missing 1 ResourceClaims (not created yet)."), "its status names it");
    add_claim(&mut cluster, claim("p", 2));
    assert!(fits(&cluster, "p"));
    class_of(&mut cluster, "others", &[]);
    assert!(cluster.remove_device_class("gpus"));
    assert!(said(&cluster).contains("devices (class gpus, which does not exist)"));
    class(&mut cluster);
    assert!(fits(&cluster, "p"));
    let unnecessary = json!([{"name": "gpu"}]);
    add(&mut cluster, &with_claim(pod("q").priority(9)).set("/status/resourceClaimStatuses", unnecessary));
    assert!(fits(&cluster, "q"), "no claim was necessary");
}

#[test]
fn a_claim_of_anything_but_a_number_of_devices_of_a_driver_is_unknown() {
    let exactly = "/spec/devices/requests/0/exactly";
    let with = |path: &str, value: Value| {
        let mut claim = claim("p", 1);
        let (parent, name) = path.rsplit_once('/').unwrap();
        claim.pointer_mut(parent).unwrap()[name] = value;
        claim
    };
    let cel = |text: &str| json!([{"cel": {"expression": text}}]);
    let claims = [
        with(&format!("{exactly}/allocationMode"), json!("All")),
        with(&format!("{exactly}/adminAccess"), json!(true)),
        with(&format!("{exactly}/capacity"), json!({"requests": {"memory": "1Gi"}})),
        with(&format!("{exactly}/selectors"), cel("device.attributes['x'].y > 3")),
        with(&format!("{exactly}/selectors"), cel("device.driver == \"other.example.com\"")),
        with("/spec/devices/constraints", json!([{"matchAttribute": "x/y"}])),
        with(
            "/spec/devices/requests",
            json!([{"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpus"}]}]),
        ),
        with("/metadata/ownerReferences", json!([])),
        allocated("p", 1, "a", &[]),
    ];
    let mut cluster = full();
    add(&mut cluster, &with_claim(pod("p").priority(9)));
    add_claim(&mut cluster, claim("p", 1));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
    for claim in claims {
        let text = claim.to_string();
        add_claim(&mut cluster, claim);
        // Free cpu: what is unknown does not prevent that it starts.
        cluster.upsert_node(&serde_json::from_value(node("a", 0).0).unwrap()).unwrap();
        cluster.upsert_node(&serde_json::from_value(node("b", 0).0).unwrap()).unwrap();
        assert_eq!(unknown(decide(&cluster, &for_pod("p"))), UNKNOWN, "{text}");
    }
    add_claim(&mut cluster, with(&format!("{exactly}/selectors"), cel("device.driver == 'gpu.example.com'")));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)), "it says the same as the class");
    let shared = json!([{"name": "gpu", "resourceClaimName": "p-gpu-x7k2p"}]);
    add(&mut cluster, &pod("p").priority(9).set("/spec/resourceClaims", shared));
    assert_eq!(unknown(decide(&cluster, &for_pod("p"))), UNKNOWN, "other pods may name it, too");
}

#[test]
fn a_driver_with_a_device_that_is_not_counted_is_unknown_on_every_node() {
    let device = |more: Value| {
        let mut slice = slice("b", 1);
        slice["spec"]["devices"][0].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        slice
    };
    let slice_with = |more: Value| {
        let mut slice = slice("b", 1);
        slice["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        slice
    };
    let mut cluster = full();
    add(&mut cluster, &with_claim(pod("p").priority(9).asks("cpu", "9")));
    add_claim(&mut cluster, claim("p", 1));
    for slice in [
        device(json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})),
        device(json!({"consumesCounters": [{"counterSet": "c"}]})),
        device(json!({"bindingConditions": ["ready"]})),
        device(json!({"allowMultipleAllocations": true})),
        slice_with(json!({"nodeName": null, "allNodes": true})),
        slice_with(json!({"perDeviceNodeSelection": true, "nodeName": null})),
        slice_with(json!({"sharedCounters": [{"name": "c"}]})),
    ] {
        let text = slice.to_string();
        add_slice(&mut cluster, slice);
        assert_eq!(unknown(decide(&cluster, &for_pod("p"))), UNKNOWN, "{text}");
    }
    add_slice(&mut cluster, slice("b", 4));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)), "all are counted again");
    class_of(&mut cluster, "gpus", &[]);
    assert_eq!(unknown(decide(&cluster, &for_pod("p"))), UNKNOWN, "a class of devices of every driver");
}

#[test]
fn without_any_class_claims_are_unknown_because_the_api_server_may_not_have_them() {
    let mut cluster = cluster(&[node("a", 1), pod("low").on("a")]);
    add(&mut cluster, &with_claim(pod("p").priority(9)));
    assert_eq!(unknown(decide(&cluster, &for_pod("p"))), UNKNOWN);
}
