//! Services with guaranteed budgets: during a drain of their node, and while they are not ready.

use crate::gang::Gang;
use crate::pods::{Member, group};
use crate::{LIMIT, URGENT, create_classes};
use giveway_crds::condition::types;
use giveway_tests::World;
use giveway_tests::wait::wait_for;
use std::collections::BTreeSet;

/// Creates a Deployment of two pods with a readiness probe and threshold 5000, waits until it is ready, and creates its budget.
async fn create_service(world: &World, cpu: &str, min_available: i32) {
    world.class("web", 10).managed().threshold(5000).create().await;
    let manifest = format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      priorityClassName: web
      terminationGracePeriodSeconds: 2
      containers:
      - name: main
        image: giveway.test/workload:1
        imagePullPolicy: Never
        args: [--serve=8080]
        readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1, failureThreshold: 1}}
        resources: {{requests: {{cpu: {cpu}}}}}
"
    );
    world.apply(&manifest).await.unwrap();
    world.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await.unwrap();
    world.budget("web").matching("app", "web").min_available(min_available).create_allowing(2 - min_available).await;
}

/// Returns the names of the service's pods.
async fn pods(world: &World) -> BTreeSet<String> {
    let names = world.kubectl(&["get", "pods", "--selector=app=web", "-o", "name"]).await.unwrap();
    names.lines().map(|line| line.trim_start_matches("pod/").to_owned()).collect()
}

/// Waits until the budget's status counts `healthy` pods and `allowed` disruptions.
async fn wait_budget(world: &World, healthy: u32, allowed: u32) {
    let wanted = format!("{healthy} healthy, {allowed} allowed");
    wait_for(&format!("the budget counts {wanted}"), LIMIT, async || {
        let path = "jsonpath={.status.currentHealthy} healthy, {.status.disruptionsAllowed} allowed";
        let said = world.kubectl(&["get", "pdb", "web", "-o", path]).await?;
        if said == wanted { Ok(()) } else { Err(said) }
    })
    .await;
}

pub async fn a_drain_respects_a_guaranteed_budget_and_no_pod_is_placed_on_the_node(world: &mut World) {
    create_classes(world).await;
    create_service(world, "100m", 2).await;
    let before = pods(world).await;
    let drain = ["drain", "real", "--pod-selector=app=web", "--timeout=8s"];
    let refusal = world.kubectl(&drain).await.unwrap_err();
    assert!(refusal.contains("would violate the pod's disruption budget"), "{refusal}");
    assert_eq!(pods(world).await, before);
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    let message = urgent.group.wait_condition(types::INITIALLY_SCHEDULED, "False", "Unschedulable", LIMIT).await;
    assert!(message.starts_with("4 pods needed, 0 fit now."), "{message}");
    world.kubectl(&["patch", "pdb", "web", "--type=merge", "-p", "{\"spec\":{\"minAvailable\":1}}"]).await.unwrap();
    wait_budget(world, 2, 1).await;
    // The budget allows one disruption, and the replacement pod has no node, so the second pod is not evicted.
    let refusal = world.kubectl(&drain).await.unwrap_err();
    assert!(refusal.contains("would violate the pod's disruption budget"), "{refusal}");
    assert_eq!(pods(world).await.intersection(&before).count(), 1);
    world.kubectl(&["uncordon", "real"]).await.unwrap();
    urgent.wait_ready(world, 4).await;
    world.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await.unwrap();
}

pub async fn pods_of_an_unready_service_are_not_evicted(world: &mut World) {
    create_classes(world).await;
    create_service(world, "800m", 1).await;
    let before = pods(world).await;
    let set_ready = async |path: &str| {
        for pod in &before {
            let url = format!("/api/v1/namespaces/default/pods/{pod}:8080/proxy{path}");
            // A pod that is not ready answers with 503, which kubectl reports as an error.
            drop(world.kubectl(&["get", "--raw", &url]).await);
        }
    };
    set_ready("/ready/off").await;
    // The budget covers unready pods only after its status counts them as unhealthy.
    wait_budget(world, 0, 0).await;
    let member = Member { group: Some("urgent"), class: URGENT, cpu: "600m", ..Member::default() };
    world.apply(&(group("urgent", URGENT, 1) + &member.manifest("urgent"))).await.unwrap();
    let urgent = world.gang("urgent", 1).without_group();
    let budget = "UnschedulableGuaranteedBudget";
    let message = urgent.wait_condition(types::INITIALLY_SCHEDULED, "False", budget, LIMIT).await;
    assert!(message.contains("budget"), "{message}");
    assert_eq!(pods(world).await, before, "no pod was evicted");
    set_ready("/ready/on").await;
    wait_for("the pod is ready", LIMIT, async || {
        world.kubectl(&["wait", "pod/urgent", "--for=condition=Ready", "--timeout=1s"]).await
    })
    .await;
    assert_eq!(pods(world).await.intersection(&before).count(), 1, "one pod was evicted, as the budget allows");
}
