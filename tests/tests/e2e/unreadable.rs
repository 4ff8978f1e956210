//! Objects with `managedFields` that the client library cannot parse: a time in the year 9999, and fields nested too deeply. A
//! tenant can write them, and without a countermeasure the daemons could not list any object of that kind.

use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_tests::attack::Call;
use giveway_tests::cluster::{GroupBuilder, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use kube::Client;
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            objects_with_unreadable_managed_fields_are_still_read;
    ]
}

/// User `tenant` has role `edit` in namespace `team`.
const TENANT: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: tenant}]
";

/// Returns unparsable managed fields, each with a name.
fn poisons() -> [(&'static str, Value); 2] {
    let entry = |time: &str, fields: Value| json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let ghost = json!({"f:metadata": {"f:annotations": {"f:ghost": {}}}});
    let deep = (0..200).fold(json!({}), |inside, _| json!({"f:a": inside}));
    [("late", entry("9999-12-31T23:59:59Z", ghost)), ("deep", entry("2026-01-01T00:00:00Z", deep))]
}

/// Creates an object with these managed fields. Panics if the API server rejects it.
async fn post(tenant: &Client, path: &str, name: &str, fields: &Value, mut object: Value) {
    object["metadata"] = json!({"name": name, "managedFields": fields});
    Call::post(path, &object).make(tenant).await.unwrap();
}

fn pod(node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": node, "priorityClassName": "low", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}]}})
}

async fn objects_with_unreadable_managed_fields_are_still_read() {
    let mut world = World::start().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let node: &str = nodes[0].as_ref();
    world.class("low", 10).create().await;
    world.class("high", 1000).managed().create().await;
    let team = world.namespace("team").await;
    world.apply(TENANT).await.unwrap();
    let tenant = world.client_in("tenant", &[]).await;
    let pods = "/api/v1/namespaces/team/pods";
    wait_for("the tenant may list pods", MINUTE, async || Call::get(pods).make(&tenant).await).await;

    let giveway = "/apis/scheduling.giveway.dev/v1alpha1/namespaces/team";
    let kind = |kind: &str| json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": kind});
    for (name, fields) in &poisons() {
        post(&tenant, pods, name, fields, pod(node)).await;
        let mut group = kind("PodGroup");
        group["spec"] = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
        post(&tenant, &format!("{giveway}/podgroups"), name, fields, group).await;
        let mut workload = kind("Workload");
        workload["spec"] = json!({"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"basic": {}}}]});
        post(&tenant, &format!("{giveway}/workloads"), name, fields, workload).await;
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "none"}}}});
        post(&tenant, "/apis/policy/v1/namespaces/team/poddisruptionbudgets", name, fields, budget).await;
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        post(&tenant, "/api/v1/namespaces/team/persistentvolumeclaims", name, fields, claim).await;
    }

    // The objects are observed through watches. The pods are ordinary victims, and the capacity that they use is not counted as
    // free.
    let first = world.gang("first", 2).cpu(2).priority("high").create().await;
    first.wait_bound(MINUTE).await;
    let evicted = world.audit().await.evicted_names();
    assert_eq!(evicted.iter().filter(|name| ["late", "deep"].contains(&name.as_str())).count(), 2, "{evicted:?}");
    for pod in &first.pods {
        pod.delete().await;
    }

    // A pod whose managed fields become unparsable later, and which is then deleted, no longer uses capacity.
    for (name, fields) in &poisons() {
        let mut object = pod(node);
        object["metadata"] = json!({"name": name});
        Call::post(pods, &object).make(&tenant).await.unwrap();
        let path = format!("{pods}/{name}");
        Call::merge(&path, &json!({"metadata": {"managedFields": fields}})).make(&tenant).await.unwrap();
        Call::delete(&path).make(&tenant).await.unwrap();
    }
    let second = world.gang("second", 2).cpu(2).priority("high").create().await;
    second.wait_bound(MINUTE).await;

    // Restarted daemons list the objects.
    for (name, fields) in &poisons() {
        post(&tenant, pods, name, fields, pod("none")).await;
    }
    for daemon in [false, true] {
        let daemon = if daemon { world.webhook() } else { world.operator() };
        daemon.kill();
        daemon.start().await;
        daemon.wait_ready(MINUTE).await.unwrap();
    }
    for pod in &second.pods {
        pod.delete().await;
    }
    let third = world.gang("third", 2).cpu(2).priority("high").create().await;
    third.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    for (name, _) in &poisons() {
        Call::delete(&format!("{pods}/{name}")).make(&tenant).await.unwrap();
        let group = GroupBuilder::new(team.clone(), name, 2).without_group();
        let message = group.wait_condition(INITIALLY_SCHEDULED, "False", "WaitingForPods", MINUTE).await;
        assert_eq!(message, "2 pods needed, 0 exist.");
    }
    world.check_promises().await;
}
