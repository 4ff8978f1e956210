//! Volumes, claims and devices: what pins a pod to nodes, and unknown requirements, for which no pod is evicted.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Strategy};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A volume that only these nodes can attach.
fn volume(cluster: &mut Cluster, name: &str, nodes: &[&str]) -> bool {
    let rule = json!({"key": "hostname", "operator": "In", "values": nodes});
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [rule]}]});
    cluster.upsert_volume(&read(json!({"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}})))
}

/// A claim that is bound to this volume, or to none.
fn claim(cluster: &mut Cluster, name: &str, volume: Option<&str>, class: &str) -> bool {
    let phase = if volume.is_some() { "Bound" } else { "Pending" };
    let spec = json!({"volumeName": volume, "storageClassName": class});
    cluster.upsert_claim(&read(
        json!({"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec, "status": {"phase": phase}}),
    ))
}

fn with_claims(pod: Built, claims: &[&str]) -> Built {
    let volume = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    pod.set("/spec/volumes", claims.iter().map(volume).collect())
}

/// Nodes `a` and `b`, each taken by a pod of priority 0, and pod `p` of priority 9 with these claims.
fn full(claims: &[&str]) -> Cluster {
    let low = |name: &str, on: &str| pod(name).on(on);
    cluster(&[
        node("a", 1),
        node("b", 1),
        low("on-a", "a"),
        low("on-b", "b"),
        with_claims(pod("p").priority(9), claims),
    ])
}

fn why(decision: Decision) -> String {
    match decision {
        Decision::Unknown(unknown) => unknown.to_string(),
        other => panic!("{other:?}"),
    }
}

const LEFT: &str = "No pod is evicted for it; kube-scheduler places it.";

#[test]
fn a_bound_volume_pins_its_pod_to_the_nodes_that_can_attach_it() {
    let mut cluster = full(&["data"]);
    volume(&mut cluster, "pv", &["b"]);
    claim(&mut cluster, "data", Some("pv"), "");
    for strategy in Strategy::ALL {
        let context = Context { strategy, ..Context::default() };
        let plan = planned(plan(&cluster, &for_pod("p"), &context));
        assert_eq!((victims(&plan), plan.placements[0].node.as_str()), (vec!["on-b"], "b"));
    }
    add(&mut cluster, &pod("on-b").priority(9).on("b"));
    assert_eq!(
        shortfall(decide(&cluster, &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 1 cpu. 1 node(s) didn't match PersistentVolume's node affinity. Evicting every \
         workload below priority 9 would not help."
    );
}

/// Its annotation still says that it is bound, which every user with write access to the claim can write.
#[test]
fn for_a_lost_claim_no_pod_is_evicted() {
    let mut cluster = full(&["data"]);
    volume(&mut cluster, "pv", &["b"]);
    cluster.upsert_claim(&read(json!({
        "metadata": {"namespace": NAMESPACE, "name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "pv", "storageClassName": ""}, "status": {"phase": "Lost"}
    })));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!(
            "Where it can run depends on what is not known here: claim data, which is not bound to volume pv yet. {LEFT}"
        )
    );
}

#[test]
fn several_volumes_pin_together_and_one_without_affinity_pins_nothing() {
    let mut cluster = full(&["data", "logs", "shared"]);
    volume(&mut cluster, "pv", &["a", "b"]);
    volume(&mut cluster, "pv-logs", &["a"]);
    assert!(cluster.upsert_volume(&read(json!({"metadata": {"name": "nfs"}, "spec": {}}))));
    claim(&mut cluster, "data", Some("pv"), "");
    claim(&mut cluster, "logs", Some("pv-logs"), "");
    claim(&mut cluster, "shared", Some("nfs"), "");
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-a"]);
    assert!(!volume(&mut cluster, "pv-logs", &["a"]), "the same again is no change");
    assert!(volume(&mut cluster, "pv-logs", &["b"]));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-b"]);
}

#[test]
fn no_pod_is_evicted_for_a_claim_with_an_unknown_node_and_the_sentence_names_it() {
    let mut cluster = full(&["data"]);
    let says = |what: &str| format!("Where it can run depends on what is not known here: claim data, {what}. {LEFT}");
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says("which was not found"));
    assert!(claim(&mut cluster, "data", None, "standard"));
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says("which is bound to no volume yet"));
    claim(&mut cluster, "data", Some("pv"), "standard");
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says("whose volume pv was not found"));
    assert!(volume(&mut cluster, "pv", &["a"]));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-a"]);
    let chosen = json!({"metadata": {"namespace": NAMESPACE, "name": "data"}, "spec": {"volumeName": "pv"}});
    assert!(cluster.upsert_claim(&read(chosen)));
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says("which is not bound to volume pv yet"));
    assert!(claim(&mut cluster, "data", Some("pv"), "") && cluster.remove_volume("pv") && !cluster.remove_volume("pv"));
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says("whose volume pv was not found"));
    assert!(cluster.remove_claim(&key("data")) && !cluster.remove_claim(&key("data")));
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says("which was not found"));
}

#[test]
fn a_claim_that_waits_for_its_first_consumer_keeps_to_the_topologies_of_its_class() {
    let mut cluster = full(&["data"]);
    claim(&mut cluster, "data", None, "zonal");
    for (name, zone) in [("a", "east"), ("b", "west"), ("c", "west")] {
        add(&mut cluster, &node(name, if name == "b" { 1 } else { 2 }).label("zone", zone));
    }
    let class = |zone: &str, mode: &str| {
        let topology = json!({"matchLabelExpressions": [{"key": "zone", "values": [zone]}]});
        read(json!({"metadata": {"name": "zonal"}, "provisioner": "x", "volumeBindingMode": mode,
            "allowedTopologies": [topology]}))
    };
    let place = |cluster: &Cluster| match decide(cluster, &for_pod("p")) {
        Decision::Fits { placements, .. } => placements[0].node.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(cluster.upsert_storage_class(&class("west", "WaitForFirstConsumer")));
    assert!(!cluster.upsert_storage_class(&class("west", "WaitForFirstConsumer")));
    assert_eq!(place(&cluster), "c");
    assert!(cluster.upsert_storage_class(&class("east", "WaitForFirstConsumer")));
    assert_eq!(place(&cluster), "a");
    assert!(cluster.upsert_storage_class(&class("nowhere", "WaitForFirstConsumer")));
    assert!(why(decide(&cluster, &for_pod("p"))).contains("claim data, which is bound to no volume yet"));
    assert!(cluster.upsert_storage_class(&class("nowhere", "Immediate")));
    assert_eq!(place(&cluster), "a");
    assert!(cluster.remove_storage_class("zonal") && !cluster.remove_storage_class("zonal"));
}

#[test]
fn one_member_with_an_unknown_claim_is_enough_and_the_gang_is_ungated_as_a_whole() {
    let mut cluster = full(&[]);
    for member in waiting_gang("g", 50, 2) {
        let claims = if member.0["metadata"]["name"] == "g-001" { &["scratch"][..] } else { &[] };
        let member = if claims.is_empty() { member } else { with_claims(member, claims) };
        add(&mut cluster, &member);
    }
    match decide(&cluster, &for_group("g")) {
        Decision::Unknown(unknown) => {
            assert_eq!(unknown.members, [key("g-000"), key("g-001")]);
            assert_eq!(unknown.why, ["claim scratch, which was not found"]);
        }
        other => panic!("{other:?}"),
    }
    // It fits by everything that is known: it is placed like any other.
    add(&mut cluster, &node("c", 2));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Fits { left: 0, .. }));
    // A terminating pod frees capacity for others; here kube-scheduler alone can see whether it is enough.
    cluster.remove_node("c");
    add(&mut cluster, &pod("on-a").on("a").terminating());
    add(&mut cluster, &pod("on-b").on("b").terminating());
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Unknown(_)));
    // The gang is not decided until all members exist.
    cluster.remove_pod(&key("g-000"));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::WaitingForPods { live: 1, min_count: 2, .. }));
}

#[test]
fn the_claim_of_an_ephemeral_volume_has_the_names_of_pod_and_volume() {
    let mut cluster = full(&[]);
    let ephemeral = json!([{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
    add(&mut cluster, &pod("p").priority(9).set("/spec/volumes", ephemeral));
    assert!(why(decide(&cluster, &for_pod("p"))).contains("claim p-tmp, which was not found"));
    volume(&mut cluster, "pv", &["b"]);
    claim(&mut cluster, "p-tmp", Some("pv"), "");
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-b"]);
}

#[test]
fn no_pod_is_evicted_for_a_claim_that_is_being_deleted() {
    let mut cluster = full(&[]);
    volume(&mut cluster, "pv", &["b"]);
    add(&mut cluster, &bound_claim("data", "pv").terminating());
    add(&mut cluster, &with_claims(pod("p").priority(9), &["data"]));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!("Where it can run depends on what is not known here: claim data, which is being deleted. {LEFT}")
    );
    cluster.remove_claim(&key("data"));
    add(&mut cluster, &bound_claim("data", "pv"));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-b"]);
}

#[test]
fn no_pod_is_evicted_for_devices_of_dynamic_resource_allocation() {
    let mut cluster = full(&[]);
    add(&mut cluster, &pod("p").priority(9).set("/spec/resourceClaims", json!([{"name": "gpu"}])));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!(
            "Where it can run depends on what is not known here: its resource claims (dynamic resource allocation). {LEFT}"
        )
    );
}

#[test]
fn an_extended_resource_that_only_a_device_class_serves_is_not_known() {
    let mut cluster = full(&[]);
    add(&mut cluster, &pod("p").priority(9).asks("example.com/gpu", "2"));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 1 cpu, 2 example.com/gpu."));
    assert!(cluster.upsert_device_class("gpus", Some("example.com/gpu")));
    assert!(!cluster.upsert_device_class("gpus", Some("example.com/gpu")));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!(
            "Where it can run depends on what is not known here: devices for example.com/gpu (dynamic resource \
             allocation), which no node offers itself. {LEFT}"
        )
    );
    add(&mut cluster, &node("c", 1));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "by everything that is known");
    // A node that offers it makes it an amount like any other.
    add(&mut cluster, &node("d", 1).offers("example.com/gpu", "2"));
    match decide(&cluster, &for_pod("p")) {
        Decision::Fits { placements, .. } => assert_eq!(placements[0].node, "d"),
        other => panic!("{other:?}"),
    }
    assert!(cluster.remove_device_class("gpus") && !cluster.remove_device_class("gpus"));
    add(&mut cluster, &pod("q").priority(9).asks("deviceclass.resource.kubernetes.io/nics", "1"));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Unschedulable(_)));
    assert!(cluster.upsert_device_class("nics", None));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Fits { .. }));
    assert!(cluster.upsert_device_class("nics", Some("example.com/nic")));
    assert!(cluster.remove_device_class("nics"));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Unschedulable(_)));
}

#[test]
fn a_gang_within_a_domain_is_not_released_for_what_is_not_known_and_its_sentence_says_so() {
    let mut all = vec![node("a", 1).label("rack", "r1"), node("b", 1).label("rack", "r2")];
    all.extend([pod("on-a").on("a"), pod("on-b").on("b")]);
    let topology = json!({"topology": [{"key": "rack"}]});
    all.push(gang("g", 9, 1).set("/spec/schedulingConstraints", topology));
    all.push(with_claims(pod("p").group("g").priority(9), &["data"]));
    let mut cluster = cluster(&all);
    claim(&mut cluster, "data", None, "standard");
    let said = shortfall(decide(&cluster, &for_group("g")));
    let unknown = "Where it can run depends on what is not known here: claim data, which is bound to no volume yet. \
                   No pod is evicted for it, and it stays gated until it fits within one domain.";
    assert!(said.contains(unknown) && !said.contains("preemptionPolicy Never"), "{said}");
}
