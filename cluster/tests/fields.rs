//! The planner's model of complete objects is the same as that of objects of which only the fields of the table were decoded.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

mod maximal;

use giveway_cluster::objects::document::decode;
use giveway_cluster::objects::kinds;
use giveway_cluster::objects::{KindFields, TrimmedObject};
use giveway_crds::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use giveway_crds::native::{MemberPod, NativeGroup, group_of};
use giveway_crds::{PodGroup, Preemption, Workload, keys};
use giveway_planner::Cluster;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use kube::Resource;
use maximal::{both, set};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns a complete object, the fields of it that daemons read, and those that the command line reads.
fn thrice<K: Resource + TrimmedObject + DeserializeOwned>(object: &Value) -> [K; 3] {
    let [whole, trimmed] = both(object);
    let in_snapshots = decode(object.to_string().as_bytes()).unwrap();
    [whole, trimmed, serde_json::from_value(in_snapshots).unwrap()]
}

/// Checks that a model has the same content, whichever fields of the object were decoded. The model must not ignore the object.
#[track_caller]
fn same<K: Resource + TrimmedObject + DeserializeOwned>(object: &Value, add: impl Fn(&mut Cluster, &K)) {
    let models = thrice::<K>(object).map(|object| {
        let mut cluster = Cluster::default();
        add(&mut cluster, &object);
        format!("{cluster:#?}")
    });
    assert_ne!(models[0], format!("{:#?}", Cluster::default()));
    assert_eq!(models[0], models[1], "fields that daemons read");
    assert_eq!(models[0], models[2], "fields of snapshots");
}

#[test]
fn every_field_of_a_pod_that_the_planner_reads_is_in_the_table() {
    let mut pod = maximal::pod();
    set(&mut pod, &json!({"spec": {"schedulingGroup": {"podGroupName": "native"}}}));
    for phase in ["Running", "Pending"] {
        pod["status"]["phase"] = json!(phase);
        same::<Pod>(&pod, |cluster, object| drop(cluster.upsert_pod_in(object, None)));
    }
    assert_eq!(group_of(&decode(pod.to_string().as_bytes()).unwrap()), Some("native"));
    for member in both::<MemberPod>(&pod) {
        assert_eq!(member.native_group.as_deref(), Some("native"));
    }
}

#[test]
fn every_field_of_other_objects_that_the_planner_reads_is_in_the_table() {
    same::<Node>(&maximal::node(), |cluster, object| drop(cluster.upsert_node(object)));
    same::<PodDisruptionBudget>(&maximal::budget(), |cluster, object| drop(cluster.upsert_budget(object)));
    same::<PriorityClass>(&maximal::priority_class(), |cluster, object| {
        cluster.upsert_class(object);
    });
    let mut namespace = maximal::of::<Namespace>();
    let annotations = json!({keys::ANNOTATION_NEVER_EVICT: "true"});
    let more = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "annotations": annotations}});
    set(&mut namespace, &more);
    same::<Namespace>(&namespace, |cluster, object| {
        cluster.upsert_namespace(object);
    });
}

#[test]
fn every_field_of_volumes_that_the_planner_reads_is_in_the_table() {
    let mut volume = maximal::of::<PersistentVolume>();
    let zone = json!({"topology.kubernetes.io/zone": "east", "failure-domain.beta.kubernetes.io/region": "r"});
    let spec = json!({"volumeMode": "Block", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "3Gi"},
        "storageClassName": "local", "volumeAttributesClassName": null});
    let more = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"labels": zone},
        "spec": spec, "status": {"phase": "Available"}});
    set(&mut volume, &more);
    // Taken, being deleted, and free.
    for more in [
        json!({}),
        json!({"spec": {"claimRef": null}}),
        json!({"metadata": {"deletionTimestamp": null}, "spec": {"claimRef": null}}),
    ] {
        set(&mut volume, &more);
        same::<PersistentVolume>(&volume, |cluster, object| {
            cluster.upsert_volume(object);
        });
    }
    let mut claim = maximal::of::<PersistentVolumeClaim>();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    let metadata = json!({"annotations": {"volume.kubernetes.io/selected-node": "n1"}, "ownerReferences": [owner]});
    let spec = json!({"volumeMode": "Block", "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": "3Gi"}}});
    let more = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec,
        "status": {"phase": "Bound"}});
    set(&mut claim, &more);
    same::<PersistentVolumeClaim>(&claim, |cluster, object| {
        cluster.upsert_claim(object);
    });
    let mut class = maximal::of::<StorageClass>();
    let more =
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": "WaitForFirstConsumer"});
    set(&mut class, &more);
    same::<StorageClass>(&class, |cluster, object| {
        cluster.upsert_storage_class(object);
    });
    let mut driver = maximal::of::<CSIDriver>();
    set(&mut driver, &json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver"}));
    same::<CSIDriver>(&driver, |cluster, object| {
        cluster.upsert_csi_driver(object);
    });
    let mut node = maximal::of::<CSINode>();
    set(&mut node, &json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}));
    same::<CSINode>(&node, |cluster, object| {
        cluster.upsert_csi_node(object);
    });
}

#[test]
fn every_field_of_devices_that_the_planner_reads_is_in_the_table() {
    let selectors = json!([{"cel": {"expression": "device.driver == \"gpu.example.com\""}}]);
    let kind = |kind: &str, name: &str| json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "ml"}});
    let mut class = kind("DeviceClass", "gpus");
    class["spec"] =
        json!({"selectors": selectors, "config": [{"opaque": {}}], "extendedResourceName": "example.com/gpu"});
    same::<DeviceClass>(&class, |cluster, object| {
        cluster.upsert_device_class(object);
    });
    let device = |more: &Value| {
        let mut device = json!({"name": "gpu-0", "attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "1Gi"}}});
        set(&mut device, more);
        device
    };
    for more in [
        json!({}),
        json!({"taints": [{"key": "k"}]}),
        json!({"consumesCounters": [{"counterSet": "c"}]}),
        json!({"bindingConditions": ["ready"]}),
        json!({"allowMultipleAllocations": true}),
    ] {
        for (field, value) in [
            ("nodeName", json!("n1")),
            ("perDeviceNodeSelection", json!(true)),
            ("sharedCounters", json!([{"name": "c"}])),
        ] {
            let mut slice = kind("ResourceSlice", "n1-gpus");
            slice["spec"] = json!({"driver": "gpu.example.com", "nodeName": "n2", "devices": [device(&more)],
                "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 1}});
            slice["spec"][field] = value;
            same::<ResourceSlice>(&slice, |cluster, object| {
                cluster.upsert_resource_slice(object);
            });
        }
    }
    let exactly = |more: &Value| {
        let mut exactly =
            json!({"deviceClassName": "gpus", "selectors": selectors, "allocationMode": "ExactCount", "count": 3});
        set(&mut exactly, more);
        exactly
    };
    for more in [json!({}), json!({"adminAccess": true}), json!({"capacity": {"requests": {"memory": "1Gi"}}})] {
        let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "adminAccess": more.get("adminAccess").is_some()});
        for constraints in [json!([]), json!([{"matchAttribute": "a/b"}])] {
            let mut claim = kind("ResourceClaim", "train-0-gpu");
            claim["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "train-0", "uid": "u", "controller": true}]);
            claim["spec"] = json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly(&more)}], "constraints": constraints}});
            claim["status"] = json!({"allocation": {"devices": {"results": [result]}, "nodeSelector": {}},
                "reservedFor": [{"resource": "pods", "name": "train-0", "uid": "u"}], "devices": [{"driver": "x"}]});
            same::<ResourceClaim>(&claim, |cluster, object| {
                cluster.upsert_resource_claim(object);
            });
        }
    }
}

#[test]
fn every_field_of_groups_that_the_planner_reads_is_in_the_table() {
    for policy in [json!({"gang": {"minCount": 3}, "basic": null}), json!({"basic": {}, "gang": null})] {
        let mut group = maximal::own::<PodGroup>("PodGroup");
        // The operator counts finished members, which the command line does not read.
        set(&mut group, &json!({"spec": {"schedulingPolicy": policy}}));
        group["status"]["finished"] = json!({});
        same::<PodGroup>(&group, |cluster, object| drop(cluster.upsert_group(object)));
    }
    for row in &kinds::NATIVE_GROUPS {
        let mut metadata = maximal::own::<PodGroup>("PodGroup")["metadata"].take();
        metadata["labels"] = json!({});
        let spec = json!({"disruptionMode": {"all": {}}, "priorityClassName": "high", "priority": 7});
        let group = json!({"apiVersion": row.api_version, "kind": row.kind, "metadata": metadata, "spec": spec});
        same::<NativeGroup>(&group, |cluster, object| drop(cluster.upsert_native_group(object)));
    }
}

#[test]
fn plans_and_templates_are_read_completely() {
    let preemption = maximal::own::<Preemption>("Preemption");
    let [whole, trimmed, in_snapshots] = thrice::<Preemption>(&preemption);
    assert_eq!((&whole.spec, &whole.status), (&trimmed.spec, &trimmed.status));
    assert_eq!(whole.metadata.creation_timestamp, trimmed.metadata.creation_timestamp);
    assert_eq!(whole.spec, in_snapshots.spec);
    let mut workload = maximal::own::<Workload>("Workload");
    let [whole, trimmed, in_snapshots] = thrice::<Workload>(&workload);
    assert_eq!(whole.status, trimmed.status);
    for spec in [&trimmed.spec, &in_snapshots.spec] {
        assert_eq!(whole.spec.pod_group_templates, spec.pod_group_templates);
    }
    workload["metadata"]["annotations"] = json!({"note": "x".repeat(1000)});
    let [_, trimmed] = both::<Workload>(&workload);
    assert_eq!(trimmed.metadata.annotations, None);
    assert_eq!(trimmed.metadata.owner_references, whole.metadata.owner_references);
}

#[test]
fn fields_that_no_program_reads_are_dropped() {
    let pod = maximal::pod();
    let [_, trimmed] = both::<Pod>(&pod);
    assert_eq!((&trimmed.metadata.managed_fields, &trimmed.metadata.finalizers), (&None, &None));
    assert!(!trimmed.metadata.annotations.as_ref().unwrap().contains_key("key"), "an annotation of a user");
    let spec = trimmed.spec.unwrap();
    let container = &spec.containers[0];
    assert_eq!((&container.env, &container.command, &container.liveness_probe), (&None, &None, &None));
    assert!(container.image.is_some(), "the operator's hash of the template reads it");
    assert!(spec.volumes.unwrap().iter().all(|volume| volume.secret.is_none() && volume.config_map.is_none()));
    let types: Vec<String> = trimmed.status.unwrap().conditions.unwrap().into_iter().map(|c| c.type_).collect();
    assert_eq!(types, ["PodScheduled", "Ready", "PodResizePending", "DisruptionTarget"]);
    let in_snapshots = decode(pod.to_string().as_bytes()).unwrap();
    for (path, is_kept) in [
        ("/spec/containers/0/resources/limits", true),
        ("/spec/containers/0/image", false),
        ("/spec/securityContext", false),
        ("/metadata/resourceVersion", false),
    ] {
        assert_eq!(in_snapshots.pointer(path).is_some(), is_kept, "{path}");
    }
}

/// Returns the number of values in an object.
fn values(object: &Value) -> usize {
    match object {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

#[test]
fn every_field_of_the_table_exists() {
    fn unknown(field: &giveway_cluster::objects::fields::Field, object: &Value, path: &str, found: &mut Vec<String>) {
        let object = object.as_array().and_then(|items| items.first()).unwrap_or(object);
        for field in field.fields.iter().filter(|field| !["none", "schedulingGroup"].contains(&field.name)) {
            let path = format!("{path}.{}", field.name);
            match object.get(field.name) {
                Some(value) => unknown(field, value, &path, found),
                None => found.push(path),
            }
        }
    }
    let rows: [(&KindFields, Value); 5] = [
        (&kinds::POD, maximal::pod()),
        (&kinds::NODE, maximal::node()),
        (&kinds::PRIORITY_CLASS, maximal::priority_class()),
        (&kinds::BUDGET, maximal::budget()),
        (&kinds::PREEMPTION, maximal::own::<Preemption>("Preemption")),
    ];
    for (row, object) in rows {
        assert!(values(&object) > 20, "{object}");
        let mut found = Vec::new();
        unknown(row.object(), &object, row.kind, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
