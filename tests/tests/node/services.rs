//! Services whose budgets are guaranteed, on a node that is drained, and when they are not ready.

use crate::gang::Gang;
use crate::pods::{Member, group};
use crate::{LIMIT, URGENT, classes};
use giveway_crds::condition::types;
use giveway_tests::World;
use giveway_tests::wait::wait_for;
use std::collections::BTreeSet;

/// A Deployment of two pods with a readiness probe, of a class whose budgets hold against priorities below 5000.
async fn service(world: &World, cpu: &str, min_available: i32) {
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

/// The names of the service's pods.
async fn pods(world: &World) -> BTreeSet<String> {
    let names = world.kubectl(&["get", "pods", "--selector=app=web", "-o", "name"]).await.unwrap();
    names.lines().map(|line| line.trim_start_matches("pod/").to_owned()).collect()
}

/// Waits until the budget counts so many healthy pods, and allows so many disruptions.
async fn counted(world: &World, healthy: u32, allowed: u32) {
    let wanted = format!("{healthy} healthy, {allowed} allowed");
    wait_for(&format!("the budget counts {wanted}"), LIMIT, async || {
        let path = "jsonpath={.status.currentHealthy} healthy, {.status.disruptionsAllowed} allowed";
        let said = world.kubectl(&["get", "pdb", "web", "-o", path]).await?;
        if said == wanted { Ok(()) } else { Err(said) }
    })
    .await;
}

pub async fn a_drain_waits_for_a_guarded_service_and_nobody_is_placed_on_the_node(world: &mut World) {
    classes(world).await;
    service(world, "100m", 2).await;
    let before = pods(world).await;
    let drain = ["drain", "real", "--pod-selector=app=web", "--timeout=8s"];
    let refused = world.kubectl(&drain).await.unwrap_err();
    assert!(refused.contains("would violate the pod's disruption budget"), "{refused}");
    assert_eq!(pods(world).await, before);
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    let told = urgent.group.wait_condition(types::INITIALLY_SCHEDULED, "False", "Unschedulable", LIMIT).await;
    assert!(told.starts_with("4 pods needed, 0 fit now."), "{told}");
    world.kubectl(&["patch", "pdb", "web", "--type=merge", "-p", "{\"spec\":{\"minAvailable\":1}}"]).await.unwrap();
    counted(world, 2, 1).await;
    // One goes at a time, and its successor has no node: the second stays.
    let refused = world.kubectl(&drain).await.unwrap_err();
    assert!(refused.contains("would violate the pod's disruption budget"), "{refused}");
    assert_eq!(pods(world).await.intersection(&before).count(), 1);
    world.kubectl(&["uncordon", "real"]).await.unwrap();
    urgent.wait_ready(world, 4).await;
    world.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await.unwrap();
}

pub async fn a_service_that_is_not_ready_keeps_its_pods_until_it_is(world: &mut World) {
    classes(world).await;
    service(world, "800m", 1).await;
    let before = pods(world).await;
    let tell = async |path: &str| {
        for pod in &before {
            let url = format!("/api/v1/namespaces/default/pods/{pod}:8080/proxy{path}");
            // A pod that says that it is not ready says so with 503, which kubectl reports.
            drop(world.kubectl(&["get", "--raw", &url]).await);
        }
    };
    tell("/ready/off").await;
    // Only then does the budget keep those that are not ready, too.
    counted(world, 0, 0).await;
    let member = Member { group: Some("urgent"), class: URGENT, cpu: "600m", ..Member::default() };
    world.apply(&(group("urgent", URGENT, 1) + &member.manifest("urgent"))).await.unwrap();
    let urgent = world.gang("urgent", 1).without_group();
    let budget = "UnschedulableGuaranteedBudget";
    let told = urgent.wait_condition(types::INITIALLY_SCHEDULED, "False", budget, LIMIT).await;
    assert!(told.contains("budget"), "{told}");
    assert_eq!(pods(world).await, before, "nobody was evicted");
    tell("/ready/on").await;
    wait_for("the pod is ready", LIMIT, async || {
        world.kubectl(&["wait", "pod/urgent", "--for=condition=Ready", "--timeout=1s"]).await
    })
    .await;
    assert_eq!(pods(world).await.intersection(&before).count(), 1, "one pod went, as the budget allows");
}
