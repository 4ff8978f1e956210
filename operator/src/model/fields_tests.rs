//! The model of complete objects is the same as that of objects of which only the fields of the table were decoded: a field that the model
//! reads and that is not in the table makes these tests fail.

#[path = "../../../cluster/tests/maximal/mod.rs"]
mod maximal;

use crate::messages::input::{Input, Update};
use crate::model::Model;
use giveway_cluster::objects::TrimmedObject;
use giveway_crds::autoscaling::ProvisioningRequest;
use giveway_crds::native::MemberPod;
use giveway_crds::{PodGroup, Preemption, Workload, keys, mode};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Resource;
use maximal::{both, set};
use serde_json::{Value, json};

/// Checks that the model is the same after these changes of an object, whichever fields were decoded.
#[track_caller]
fn same<K: Resource + TrimmedObject>(objects: &[Value], wrap: fn(Update<K>) -> Input) {
    let [mut whole, mut trimmed] = [Model::default(), Model::default()];
    // Pods lack annotations of a class that exists.
    for model in [&mut whole, &mut trimmed] {
        model
            .apply(Input::Class(Update::Applied(Box::new(serde_json::from_value(maximal::priority_class()).unwrap()))));
    }
    let before = format!("{whole:#?}");
    for object in objects {
        let [first, second] = both::<K>(object);
        whole.apply(wrap(Update::Applied(Box::new(first))));
        trimmed.apply(wrap(Update::Applied(Box::new(second))));
        assert_eq!(format!("{whole:#?}"), format!("{trimmed:#?}"));
    }
    assert_ne!(format!("{whole:#?}"), before, "the objects are not ignored");
}

#[test]
fn every_field_of_pods_that_the_model_reads_is_in_the_table() {
    let bound = maximal::pod();
    let mut pending = bound.clone();
    let unschedulable =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]);
    pending["metadata"]["deletionTimestamp"] = Value::Null;
    pending["spec"]["nodeName"] = Value::Null;
    pending["status"]["phase"] = json!("Pending");
    pending["status"]["conditions"] = unschedulable;
    let mut started = pending.clone();
    started["spec"]["nodeName"] = json!("n1");
    let mut placeholder = pending.clone();
    placeholder["metadata"]["name"] = json!("placeholder");
    placeholder["metadata"]["uid"] = json!("2");
    placeholder["metadata"]["labels"] = json!({keys::LABEL_PLACEHOLDER: "train"});
    placeholder["metadata"]["ownerReferences"] = json!([{"apiVersion": "scheduling.giveway.dev/v1alpha1",
        "kind": "PodGroup", "name": "train", "uid": "g", "controller": true, "blockOwnerDeletion": true}]);
    let mut of_set = pending.clone();
    of_set["metadata"]["name"] = json!("serve-2-1");
    of_set["metadata"]["uid"] = json!("3");
    of_set["metadata"]["labels"] = json!({keys::LABEL_GANG: "true", keys::LABEL_POD_GROUP: "serve-2",
        "leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "2"});
    let mut unfilled = pending.clone();
    unfilled["metadata"]["name"] = json!("unfilled");
    unfilled["metadata"]["uid"] = json!("4");
    unfilled["metadata"]["annotations"] = json!({});
    unfilled["spec"]["preemptionPolicy"] = json!("Never");
    same::<MemberPod>(&[pending, started, bound, placeholder, of_set, unfilled], Input::Pod);
}

#[test]
fn every_field_of_groups_that_the_model_reads_is_in_the_table() {
    let group = maximal::own::<PodGroup>("PodGroup");
    let mut single = group.clone();
    set(&mut single, &json!({"spec": {"schedulingPolicy": {"basic": null}}}));
    same::<PodGroup>(&[group, single], Input::Group);
}

#[test]
fn every_field_of_nodes_classes_and_budgets_that_the_model_reads_is_in_the_table() {
    same::<Node>(&[maximal::node()], Input::Node);
    same::<PodDisruptionBudget>(&[maximal::budget()], Input::Budget);
    let mut class = maximal::priority_class();
    class["metadata"]["name"] = json!("other");
    same::<PriorityClass>(&[class], Input::Class);
    let mut namespace = maximal::of::<Namespace>();
    set(&mut namespace, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}));
    same::<Namespace>(&[namespace], Input::Namespace);
}

#[test]
fn every_field_of_requests_and_of_the_mode_that_the_model_reads_is_in_the_table() {
    let mut metadata = maximal::own::<PodGroup>("PodGroup")["metadata"].take();
    let owner = json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup"});
    set(&mut metadata, &json!({"labels": {keys::LABEL_PROVISIONING: "train"}, "ownerReferences": [owner]}));
    let condition = json!({"type": "Failed", "status": "True", "reason": "R", "message": "no quota",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    let request = json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": metadata,
        "spec": {"provisioningClassName": "c", "parameters": {"a": "b"},
            "podSets": [{"count": 3, "podTemplateRef": {"name": "t"}}]},
        "status": {"conditions": [condition]}});
    same::<ProvisioningRequest>(&[request], Input::Request);
    let mut map = maximal::of::<ConfigMap>();
    let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": mode::CONFIG_MAP},
        "data": {mode::KEY: "observe"}});
    set(&mut map, &more);
    same::<ConfigMap>(&[map], Input::Switch);
}

/// These objects are kept whole, so that only their readable parts are compared.
#[test]
fn the_parts_of_plans_and_workloads_that_are_read_are_in_the_table() {
    let [whole, trimmed] = both::<Preemption>(&maximal::own::<Preemption>("Preemption"));
    assert_eq!((&whole.spec, &whole.status), (&trimmed.spec, &trimmed.status));
    let [whole, trimmed] = both::<Workload>(&maximal::own::<Workload>("Workload"));
    assert_eq!((&whole.spec.pod_group_templates, &whole.status), (&trimmed.spec.pod_group_templates, &trimmed.status));
    let of = |object: &Workload| {
        let metadata = object.metadata.clone();
        (metadata.uid, metadata.generation, metadata.deletion_timestamp, metadata.owner_references)
    };
    assert_eq!(of(&whole), of(&trimmed));
}
