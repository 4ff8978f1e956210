//! The view of complete objects is the same as that of objects of which only the fields of the table of kinds were decoded.

#[path = "../../../cluster/tests/maximal/mod.rs"]
mod maximal;

use giveway_admission::rules::guard::facts::PodObject;
use giveway_admission::view::Settings;
use giveway_crds::native::NativeGroup;
use giveway_crds::{PodGroup, Workload, keys};
use giveway_webhook::view::View;
use giveway_webhook::watch::Viewed;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use maximal::{both, set};
use serde_json::{Value, json};

/// Checks that the view is the same, whichever fields of the object were decoded.
#[track_caller]
fn same<K: Viewed>(object: &Value) {
    let empty = || View::new(Settings::default());
    let [whole, trimmed] = both::<K>(object).map(|object| {
        let mut view = empty();
        object.store(&mut view);
        view
    });
    assert_ne!(whole, empty(), "the object is not ignored");
    assert_eq!(whole, trimmed);
}

#[test]
fn every_field_that_the_rules_read_is_in_the_table() {
    same::<PodGroup>(&maximal::own::<PodGroup>("PodGroup"));
    same::<Workload>(&maximal::own::<Workload>("Workload"));
    same::<PriorityClass>(&maximal::priority_class());
    same::<PodDisruptionBudget>(&maximal::budget());
    let native = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PodGroup", "metadata": {"name": "g", "namespace": "n"},
        "spec": {"disruptionMode": {"all": {}}, "priorityClassName": "high", "priority": 7}});
    same::<NativeGroup>(&native);
}

#[test]
fn every_field_of_pods_that_the_guard_reads_is_in_the_table() {
    let mut bound = maximal::pod();
    let [whole, trimmed] = both::<PodObject<true>>(&bound);
    assert!(whole.is_mirror() && trimmed.is_mirror());
    bound["metadata"]["annotations"].as_object_mut().unwrap().remove("kubernetes.io/config.mirror");
    bound["metadata"]["deletionTimestamp"] = Value::Null;
    bound["status"]["phase"] = json!("Running");
    same::<PodObject<true>>(&bound);
    let mut waiting = bound.clone();
    set(
        &mut waiting,
        &json!({"spec": {"nodeName": null, "schedulingGates": null, "schedulingGroup": {"podGroupName": "g"}},
        "status": {"phase": "Pending"}}),
    );
    waiting["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    same::<PodObject<false>>(&waiting);
    let [whole, trimmed] = both::<PodObject<true>>(&bound);
    assert_eq!((whole.is_announced(), whole.announced_by()), (trimmed.is_announced(), trimmed.announced_by()));
    assert!(trimmed.is_announced());
    bound["metadata"]["labels"] = json!({keys::LABEL_WORKLOAD: "w", keys::LABEL_TEMPLATE: "t"});
    same::<PodObject<true>>(&bound);
}
