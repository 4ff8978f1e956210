//! Volumes, claims and devices: what pins a pod to nodes, and unknown requirements, for which no pod is evicted.

use crate::common::*;
use giveway_crds::devices::DeviceClass;
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
            "Where it can run depends on what Giveway does not know: claim data, which is not bound to volume pv yet. {LEFT}"
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
    let says =
        |what: &str| format!("Where it can run depends on what Giveway does not know: claim data, {what}. {LEFT}");
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

/// A class whose volumes are made in one zone, or anywhere, when kube-scheduler has chosen the node.
fn class(cluster: &mut Cluster, zone: Option<&str>, provisioner: &str) -> bool {
    let topology = |zone: &str| json!([{"matchLabelExpressions": [{"key": "zone", "values": [zone]}]}]);
    cluster.upsert_storage_class(&read(json!({"metadata": {"name": "standard"}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": zone.map(topology)})))
}

#[test]
fn a_volume_that_is_made_for_its_first_consumer_is_feasible_where_its_class_allows() {
    let mut cluster = full(&["data"]);
    claim(&mut cluster, "data", None, "standard");
    for (name, zone) in [("a", "east"), ("b", "west")] {
        add(&mut cluster, &node(name, 1).label("zone", zone));
    }
    assert!(why(decide(&cluster, &for_pod("p"))).contains("claim data, which is bound to no volume yet"), "no class");
    for (zone, victim) in [("west", "on-b"), ("east", "on-a")] {
        assert!(class(&mut cluster, Some(zone), "csi.example.com"));
        assert!(!class(&mut cluster, Some(zone), "csi.example.com"), "the same again is no change");
        for strategy in Strategy::ALL {
            let context = Context { strategy, ..Context::default() };
            assert_eq!(victims(&planned(plan(&cluster, &for_pod("p"), &context))), [victim]);
        }
    }
    assert!(class(&mut cluster, Some("nowhere"), "csi.example.com"));
    assert!(
        shortfall(decide(&cluster, &for_pod("p"))).contains("2 node(s) didn't match PersistentVolume's node affinity.")
    );
    assert!(class(&mut cluster, None, "csi.example.com"));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
    let immediate = json!({"metadata": {"name": "standard"}, "provisioner": "x", "volumeBindingMode": "Immediate"});
    assert!(cluster.upsert_storage_class(&read(immediate)));
    assert!(why(decide(&cluster, &for_pod("p"))).contains("claim data, which is bound to no volume yet"));
    assert!(cluster.remove_storage_class("standard") && !cluster.remove_storage_class("standard"));
}

#[test]
fn a_gang_whose_volumes_are_made_for_it_evicts_and_is_not_ungated_without_capacity() {
    let mut cluster = full(&[]);
    class(&mut cluster, None, "csi.example.com");
    for (at, member) in waiting_gang("g", 50, 2).into_iter().enumerate() {
        let name = format!("data-{at}");
        claim(&mut cluster, &name, None, "standard");
        add(&mut cluster, &if member.0["kind"] == "Pod" { with_claims(member, &[name.as_str()]) } else { member });
    }
    let plan = planned(decide(&cluster, &for_group("g")));
    assert_eq!((victims(&plan), plan.placements.len()), (vec!["on-a", "on-b"], 2));
    add(&mut cluster, &pod("on-a").priority(60).on("a"));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Unschedulable(_)), "it stays gated");
}

#[test]
fn a_volume_that_is_being_made_pins_its_pod_to_the_selected_node() {
    let mut cluster = full(&["data"]);
    class(&mut cluster, None, "csi.example.com");
    let selected = |node: &str| {
        read(json!({"metadata": {"namespace": NAMESPACE, "name": "data",
            "annotations": {"volume.kubernetes.io/selected-node": node}}, "spec": {"storageClassName": "standard"}}))
    };
    for (node, victim) in [("a", "on-a"), ("b", "on-b")] {
        cluster.upsert_claim(&selected(node));
        assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), [victim]);
    }
}

#[test]
fn no_pod_is_evicted_for_a_volume_whose_driver_must_have_free_storage() {
    let mut cluster = full(&["data"]);
    claim(&mut cluster, "data", None, "standard");
    class(&mut cluster, None, "csi.example.com");
    let driver =
        |reports: bool| read(json!({"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": reports}}));
    assert!(!cluster.upsert_csi_driver(&driver(false)));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
    assert!(cluster.upsert_csi_driver(&driver(true)) && !cluster.upsert_csi_driver(&driver(true)));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!(
            "Where it can run depends on what Giveway does not know: claim data, for which driver csi.example.com needs free \
             storage. {LEFT}"
        )
    );
    assert_eq!(cluster.csi_drivers().collect::<Vec<_>>(), ["csi.example.com"]);
    assert!(cluster.remove_csi_driver("csi.example.com") && !cluster.remove_csi_driver("csi.example.com"));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
}

/// Adds a local volume of class `standard`, with this size in GiB.
fn local(cluster: &mut Cluster, name: &str, host: &str, size: usize, phase: &str) -> bool {
    let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [host]});
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [rule]}]});
    cluster.upsert_volume(&read(json!({"metadata": {"name": name}, "status": {"phase": phase},
        "spec": {"nodeAffinity": {"required": required}, "capacity": {"storage": format!("{size}Gi")},
            "accessModes": ["ReadWriteOnce"], "storageClassName": "standard"}})))
}

fn local_claim(cluster: &mut Cluster, name: &str, size: usize) {
    cluster.upsert_claim(&read(json!({"metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"storageClassName": "standard", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": format!("{size}Gi")}}}})));
}

#[test]
fn without_a_provisioner_a_claim_needs_a_free_volume_on_the_node() {
    let mut cluster = full(&["data"]);
    for name in ["a", "b"] {
        add(&mut cluster, &node(name, 1).label("kubernetes.io/hostname", &format!("host-{name}")));
    }
    class(&mut cluster, None, "kubernetes.io/no-provisioner");
    local_claim(&mut cluster, "data", 10);
    let nowhere = "2 node(s) didn't match PersistentVolume's node affinity.";
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains(nowhere), "no volume is free");
    assert!(local(&mut cluster, "small", "host-a", 5, "Available"));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains(nowhere), "none is large enough");
    assert!(cluster.remove_volume("small"));
    assert!(local(&mut cluster, "pv", "host-b", 10, "Available"));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-b"]);
    add(&mut cluster, &pod("on-b").priority(9).on("b"));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 1 cpu"));
    // Volumes that differ: which of them it gets is not known.
    assert!(local(&mut cluster, "small", "host-a", 5, "Available"));
    assert!(
        why(decide(&cluster, &for_pod("p"))).contains("to which not every free volume of class standard can be bound")
    );
    assert!(local(&mut cluster, "small", "host-a", 5, "Bound"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)));
    assert!(local(&mut cluster, "pv", "host-b", 10, "Released"));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains(nowhere));
}

#[test]
fn a_volume_that_names_the_claim_is_the_one_that_it_gets() {
    let mut cluster = full(&["data"]);
    for name in ["a", "b"] {
        add(&mut cluster, &node(name, 1).label("kubernetes.io/hostname", name));
    }
    class(&mut cluster, None, "kubernetes.io/no-provisioner");
    local_claim(&mut cluster, "data", 10);
    let chosen = |host: &str| {
        let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [host]});
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [rule]}]});
        let claim = json!({"namespace": NAMESPACE, "name": "data"});
        read(json!({"metadata": {"name": "pv"}, "status": {"phase": "Available"},
            "spec": {"nodeAffinity": {"required": required}, "claimRef": claim, "storageClassName": "standard"}}))
    };
    for (host, victim) in [("a", "on-a"), ("b", "on-b")] {
        assert!(cluster.upsert_volume(&chosen(host)));
        assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), [victim]);
    }
    assert!(cluster.remove_volume("pv"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)));
}

#[test]
fn each_member_takes_a_free_volume_of_its_own() {
    let mut cluster = full(&[]);
    class(&mut cluster, None, "kubernetes.io/no-provisioner");
    for name in ["a", "b"] {
        add(&mut cluster, &node(name, 2).label("kubernetes.io/hostname", name));
    }
    local(&mut cluster, "one", "a", 10, "Available");
    for (at, member) in waiting_gang("g", 50, 2).into_iter().enumerate() {
        let name = format!("data-{at}");
        local_claim(&mut cluster, &name, 10);
        add(&mut cluster, &if member.0["kind"] == "Pod" { with_claims(member, &[name.as_str()]) } else { member });
    }
    let said = shortfall(decide(&cluster, &for_group("g")));
    assert!(said.contains("Missing 1 cpu, 1 free volumes (class standard)."), "{said}");
    local(&mut cluster, "two", "b", 10, "Available");
    match decide(&cluster, &for_group("g")) {
        Decision::Fits { placements, .. } => {
            assert_eq!(placements.iter().map(|placement| placement.node.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        }
        other => panic!("{other:?}"),
    }
    cluster.remove_volume("two");
    local(&mut cluster, "three", "a", 10, "Available");
    assert_eq!(victims(&planned(decide(&cluster, &for_group("g")))), ["on-a"]);
}

/// The volume is made for the pod that is bound first, and its node affinity can exclude the nodes of the others.
#[test]
fn no_pod_is_evicted_for_pods_that_share_a_claim_whose_volume_is_not_made_yet() {
    let several = "claim data, which several pending pods share, and whose volume decides where all of them fit";
    let mut gang = full(&[]);
    class(&mut gang, None, "csi.example.com");
    local_claim(&mut gang, "data", 10);
    for member in waiting_gang("g", 50, 2) {
        add(&mut gang, &if member.0["kind"] == "Pod" { with_claims(member, &["data"]) } else { member });
    }
    assert!(why(decide(&gang, &for_group("g"))).contains(several));
    let mut cluster = full(&["data"]);
    class(&mut cluster, None, "csi.example.com");
    local_claim(&mut cluster, "data", 10);
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1, "no other pod uses it");
    add(&mut cluster, &with_claims(pod("q").priority(9), &["data"]));
    assert!(why(decide(&cluster, &for_pod("p"))).contains(several));
    let shared = json!({"storageClassName": "standard", "accessModes": ["ReadWriteMany"]});
    cluster.upsert_claim(&read(json!({"metadata": {"namespace": NAMESPACE, "name": "data"}, "spec": shared})));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1, "several nodes can attach it");
    local_claim(&mut cluster, "data", 10);
    assert!(why(decide(&cluster, &for_pod("p"))).contains(several));
    cluster.remove_pod(&key("q"));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
    // Without a provisioner, one free volume is enough for both.
    class(&mut cluster, None, "kubernetes.io/no-provisioner");
    for name in ["a", "b"] {
        add(&mut cluster, &node(name, 4).label("kubernetes.io/hostname", name));
    }
    local(&mut cluster, "pv", "a", 10, "Available");
    add(&mut cluster, &with_claims(pod("q").priority(9), &["data"]));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "by everything that is known");
    for name in ["a", "b"] {
        add(&mut cluster, &pod(&format!("more-on-{name}")).asks("cpu", "3").on(name));
    }
    assert!(why(decide(&cluster, &for_pod("p"))).contains(several));
}

#[test]
fn zone_labels_of_a_volume_are_compared_with_those_of_the_node() {
    let zone = "topology.kubernetes.io/zone";
    let old = "failure-domain.beta.kubernetes.io/zone";
    let fits = |labels: Value, node_labels: &[(&str, &str)]| {
        let labelled = node_labels.iter().fold(node("a", 1), |node, (key, value)| node.label(key, value));
        let mut cluster = cluster(&[labelled, with_claims(pod("p"), &["data"])]);
        cluster.upsert_volume(&read(json!({"metadata": {"name": "pv", "labels": labels}, "spec": {}})));
        claim(&mut cluster, "data", Some("pv"), "");
        matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. })
    };
    assert!(fits(json!({zone: "east"}), &[(zone, "east")]));
    assert!(!fits(json!({zone: "east"}), &[(zone, "west")]));
    assert!(fits(json!({zone: "east__west"}), &[(zone, "west")]), "several zones");
    assert!(fits(json!({zone: "east"}), &[]), "a node without labels of zones");
    assert!(!fits(json!({zone: "east"}), &[("topology.kubernetes.io/region", "r")]));
    assert!(fits(json!({old: "east"}), &[(zone, "east")]), "the newer label instead");
    assert!(!fits(json!({old: "east"}), &[(old, "west"), (zone, "east")]));
    assert!(!fits(json!({zone: "east"}), &[(old, "east")]), "not the other way round");
    let both = json!({zone: "east", "topology.kubernetes.io/region": "r"});
    assert!(fits(both.clone(), &[(zone, "east"), ("topology.kubernetes.io/region", "r")]));
    assert!(!fits(both, &[(zone, "east"), ("topology.kubernetes.io/region", "s")]));
}

/// A claim that only one pod may use, bound to a volume that every node can attach.
fn claim_for_one_pod(cluster: &mut Cluster, name: &str) {
    cluster.upsert_volume(&read(json!({"metadata": {"name": "nfs"}, "spec": {}})));
    cluster
        .upsert_claim(&read(json!({"metadata": {"namespace": NAMESPACE, "name": name}, "status": {"phase": "Bound"},
        "spec": {"volumeName": "nfs", "accessModes": ["ReadWriteOncePod"]}})));
}

#[test]
fn the_pod_that_uses_a_claim_for_one_pod_is_evicted_for_the_next_one() {
    let mut cluster = full(&["data"]);
    claim_for_one_pod(&mut cluster, "data");
    add(&mut cluster, &node("c", 4));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "no pod uses it");
    add(&mut cluster, &with_claims(pod("on-b").on("b"), &["data"]));
    for strategy in Strategy::ALL {
        let plan = planned(plan(&cluster, &for_pod("p"), &Context { strategy, ..Context::default() }));
        assert_eq!((victims(&plan), plan.placements[0].node.as_str()), (vec!["on-b"], "b"));
    }
    add(&mut cluster, &with_claims(pod("on-b").priority(9).on("b"), &["data"]));
    let said = shortfall(decide(&cluster, &for_pod("p")));
    let reason = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
    assert!(said.contains(&format!("2 {reason}")), "{said}");
    add(&mut cluster, &with_claims(pod("on-b").on("b").terminating(), &["data"]));
    let plan = planned(decide(&cluster, &for_pod("p")));
    assert_eq!((plan.victims.len(), plan.awaited.as_slice()), (0, &[key("on-b")][..]), "it is waited for");
    cluster.remove_pod(&key("on-b"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "it is free again");
    add(&mut cluster, &with_claims(pod("q").priority(9), &["data"]));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "by everything that is known");
    cluster.remove_node("c");
    add(&mut cluster, &pod("on-b").on("b"));
    let several = "claim data, which several pending pods need and only one pod may use";
    assert!(why(decide(&cluster, &for_pod("p"))).contains(several));
    cluster.remove_pod(&key("q"));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
}

#[test]
fn the_pod_that_uses_a_claim_for_one_pod_is_evicted_although_capacity_is_free() {
    let user = with_claims(pod("user").on("a"), &["data"]);
    let mut cluster = cluster(&[node("a", 4), user, with_claims(pod("p").priority(9), &["data"])]);
    claim_for_one_pod(&mut cluster, "data");
    for strategy in Strategy::ALL {
        let plan = planned(plan(&cluster, &for_pod("p"), &Context { strategy, ..Context::default() }));
        assert_eq!(victims(&plan), ["user"], "{strategy:?}");
    }
}

/// The limits of CSI drivers on a node.
fn limit(cluster: &mut Cluster, node: &str, count: Option<usize>) -> bool {
    let driver = json!({"name": "csi.example.com", "nodeID": node, "allocatable": {"count": count}});
    cluster.upsert_csi_node(&read(json!({"metadata": {"name": node}, "spec": {"drivers": [driver]}})))
}

/// A claim that is bound to a volume of a CSI driver.
fn csi_claim(cluster: &mut Cluster, name: &str) {
    let source = json!({"driver": "csi.example.com", "volumeHandle": name});
    cluster.upsert_volume(&read(json!({"metadata": {"name": name}, "spec": {"csi": source}})));
    claim(cluster, name, Some(name), "");
}

#[test]
fn no_more_volumes_are_attached_to_a_node_than_its_limit() {
    let mut cluster = full(&["data"]);
    ["data", "a1", "b1"].iter().for_each(|name| csi_claim(&mut cluster, name));
    for name in ["a", "b"] {
        add(&mut cluster, &node(name, 4));
    }
    add(&mut cluster, &with_claims(pod("on-a").on("a"), &["a1"]));
    add(&mut cluster, &with_claims(pod("on-b").priority(-1).on("b"), &["b1"]));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "no limit is known");
    assert!(limit(&mut cluster, "a", Some(1)) && !limit(&mut cluster, "a", Some(1)));
    match decide(&cluster, &for_pod("p")) {
        Decision::Fits { placements, .. } => assert_eq!(placements[0].node, "b"),
        other => panic!("{other:?}"),
    }
    assert!(limit(&mut cluster, "b", Some(1)));
    for strategy in Strategy::ALL {
        let context = Context { strategy, ..Context::default() };
        assert_eq!(victims(&planned(plan(&cluster, &for_pod("p"), &context))), ["on-b"]);
    }
    for name in ["on-a", "on-b"] {
        let (claim, on) = if name == "on-a" { ("a1", "a") } else { ("b1", "b") };
        add(&mut cluster, &with_claims(pod(name).priority(9).on(on), &[claim]));
    }
    let said = shortfall(decide(&cluster, &for_pod("p")));
    assert!(said.contains("Missing 1 attachable volumes (csi.example.com)."), "{said}");
    add(&mut cluster, &node("c", 1));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "a node without limits");
    cluster.remove_node("c");
    assert!(limit(&mut cluster, "b", Some(2)));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
    assert!(limit(&mut cluster, "b", Some(0)));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)));
    assert_eq!(cluster.csi_nodes().collect::<Vec<_>>(), ["a", "b"]);
    assert!(limit(&mut cluster, "b", None), "the driver states no limit any more");
    assert!(cluster.remove_csi_node("a") && !cluster.remove_csi_node("a"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
}

#[test]
fn volumes_that_are_made_for_a_pod_count_for_the_limit_of_their_driver() {
    let mut cluster = full(&[]);
    class(&mut cluster, None, "csi.example.com");
    limit(&mut cluster, "a", Some(1));
    limit(&mut cluster, "b", Some(0));
    for name in ["a", "b"] {
        add(&mut cluster, &node(name, 4));
    }
    for (at, member) in waiting_gang("g", 50, 2).into_iter().enumerate() {
        let name = format!("data-{at}");
        claim(&mut cluster, &name, None, "standard");
        add(&mut cluster, &if member.0["kind"] == "Pod" { with_claims(member, &[name.as_str()]) } else { member });
    }
    let said = shortfall(decide(&cluster, &for_group("g")));
    assert!(said.starts_with("2 pods needed, 1 fits now. Missing 1 attachable volumes (csi.example.com)."), "{said}");
    assert!(limit(&mut cluster, "a", Some(2)));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Fits { .. }));
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
    assert!(why(decide(&cluster, &for_pod("p"))).contains("claim p-tmp, which belongs to another object than the pod"));
    let owned = |spec: Value, phase: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": true});
        let metadata = json!({"namespace": NAMESPACE, "name": "p-tmp", "ownerReferences": [owner]});
        read(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}}))
    };
    cluster.upsert_claim(&owned(json!({"volumeName": "pv", "storageClassName": ""}), "Bound"));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-b"]);
    // As the controller creates it, before kube-scheduler has chosen a node.
    class(&mut cluster, None, "csi.example.com");
    cluster.upsert_claim(&owned(json!({"storageClassName": "standard"}), "Pending"));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
}

#[test]
fn no_pod_is_evicted_for_a_claim_that_is_being_deleted() {
    let mut cluster = full(&[]);
    volume(&mut cluster, "pv", &["b"]);
    add(&mut cluster, &bound_claim("data", "pv").terminating());
    add(&mut cluster, &with_claims(pod("p").priority(9), &["data"]));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!("Where it can run depends on what Giveway does not know: claim data, which is being deleted. {LEFT}")
    );
    cluster.remove_claim(&key("data"));
    add(&mut cluster, &bound_claim("data", "pv"));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["on-b"]);
}

fn device_class(cluster: &mut Cluster, name: &str, resource: Option<&str>) -> bool {
    let class = json!({"metadata": {"name": name}, "spec": {"extendedResourceName": resource}});
    cluster.upsert_device_class(&DeviceClass {
        metadata: read(class["metadata"].clone()),
        spec: read(class["spec"].clone()),
    })
}

#[test]
fn no_pod_is_evicted_for_devices_of_dynamic_resource_allocation() {
    let mut cluster = full(&[]);
    add(&mut cluster, &pod("p").priority(9).set("/spec/resourceClaims", json!([{"name": "gpu"}])));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!(
            "Where it can run depends on what Giveway does not know: its resource claims, whose devices Giveway cannot \
             count (dynamic resource allocation). {LEFT}"
        )
    );
}

#[test]
fn an_extended_resource_that_only_a_device_class_serves_is_not_known() {
    let mut cluster = full(&[]);
    add(&mut cluster, &pod("p").priority(9).asks("example.com/gpu", "2"));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 1 cpu, 2 example.com/gpu."));
    assert!(device_class(&mut cluster, "gpus", Some("example.com/gpu")));
    assert!(!device_class(&mut cluster, "gpus", Some("example.com/gpu")));
    assert_eq!(
        why(decide(&cluster, &for_pod("p"))),
        format!(
            "Where it can run depends on what Giveway does not know: devices for example.com/gpu (dynamic resource \
             allocation), which no node offers itself. {LEFT}"
        )
    );
    add(&mut cluster, &node("c", 1));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }), "by everything that is known");
    // On a node that offers it, it is an amount like any other.
    add(&mut cluster, &node("d", 1).offers("example.com/gpu", "2"));
    match decide(&cluster, &for_pod("p")) {
        Decision::Fits { placements, .. } => assert_eq!(placements[0].node, "d"),
        other => panic!("{other:?}"),
    }
    assert!(cluster.remove_device_class("gpus") && !cluster.remove_device_class("gpus"));
    add(&mut cluster, &pod("q").priority(9).asks("deviceclass.resource.kubernetes.io/nics", "1"));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Unschedulable(_)));
    assert!(device_class(&mut cluster, "nics", None));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Fits { .. }));
    assert!(device_class(&mut cluster, "nics", Some("example.com/nic")));
    assert!(cluster.remove_device_class("nics"));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Unschedulable(_)));
}

#[test]
fn no_pod_is_evicted_where_a_resource_is_offered_if_another_suitable_node_may_serve_it_by_devices() {
    let mut cluster = cluster(&[node("n1", 4).offers("example.com/gpu", "1"), node("n2", 4)]);
    add(&mut cluster, &pod("low").asks("example.com/gpu", "1").on("n1"));
    add(&mut cluster, &pod("p").priority(9).asks("example.com/gpu", "1"));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["low"], "no class serves it");
    device_class(&mut cluster, "gpus", Some("example.com/gpu"));
    let unknown = "devices for example.com/gpu (dynamic resource allocation) on nodes that offer none of it themselves";
    let says = format!("Where it can run depends on what Giveway does not know: {unknown}. {LEFT}");
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says);
    add(&mut cluster, &node("n2", 4).offers("example.com/gpu", "0"));
    assert_eq!(why(decide(&cluster, &for_pod("p"))), says, "a node that offers 0 of it");
    add(&mut cluster, &node("n2", 4).set("/spec/unschedulable", json!(true)));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["low"], "a node that is not suitable");
    add(&mut cluster, &node("n2", 4).offers("example.com/gpu", "1"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
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
    let unknown = "Where it can run depends on what Giveway does not know: claim data, which is bound to no volume yet. \
                   No pod is evicted for it, and it stays gated until it fits within one domain.";
    assert!(said.contains(unknown) && !said.contains("preemptionPolicy is Never"), "{said}");
}
