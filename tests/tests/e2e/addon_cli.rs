//! `kubectl giveway` and critical add-ons: `plan` predicts their victims, and `why` explains what an add-on waits for.

use crate::MINUTE;
use crate::cli::{Reader, without_running_times};
use giveway_crds::keys;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{Kit, PodBuilder, PodHandle, Shaped, stored_plans};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use serde_json::Value;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            plan_predicts_the_victims_of_a_critical_add_on_and_why_explains_each_step;
    ]
}

/// Seconds that a fake pod takes to terminate. It stays terminating until the test deletes it with grace period 0.
const UNTIL_DELETED: &str = "600";

fn addon(world: &World, name: &str) -> PodBuilder {
    let kit = Kit { namespace: "kube-system".to_owned(), ..world.kit() };
    PodBuilder::new(kit, name).annotation(keys::ANNOTATION_CRITICAL, "true").tolerate(keys::TAINT_CRITICAL)
}

/// Creates a pod with a termination grace period of an hour and waits until it runs.
async fn create_slow_pod(world: &World, node: &str) -> PodHandle {
    let key = giveway_tests::cluster::GRACE_SECONDS;
    let mut pod = world.pod("slow").cpu(2).on(node).annotation(key, UNTIL_DELETED).build();
    pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(3600);
    let pod = world.kit().api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    let handle = PodHandle::new(world.kit(), &pod);
    handle.wait_running(MINUTE).await;
    handle
}

/// Waits until `kubectl giveway why` prints all of these parts about a pod, and returns what it printed.
async fn why(reader: &Reader, pod: &str, namespace: &str, parts: &[&str]) -> String {
    wait_for(&format!("why pod/{pod} prints all expected parts"), MINUTE, async || {
        let page = reader.giveway(&["why", &format!("pod/{pod}"), "-n", namespace]).await.ok().to_owned();
        match parts.iter().find(|part| !page.contains(**part)) {
            None => Ok(page),
            Some(part) => Err(format!("{part} is not in:\n{page}")),
        }
    })
    .await
}

async fn wait_plan_completed(world: &World, pod: &PodHandle) {
    wait_for(&format!("the latest plan of pod {} is completed", pod.name), MINUTE, async || {
        let plans = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let newest =
            plans.into_iter().rfind(|plan| plan.preemptor.uid == pod.uid).ok_or("no plan has this preemptor")?;
        if newest.state == PlanState::Completed { Ok(()) } else { Err(newest.message) }
    })
    .await;
}

async fn plan_predicts_the_victims_of_a_critical_add_on_and_why_explains_each_step() {
    // The first hold-off is so long that no eviction happens before it is replaced.
    let mut world = World::builder().operator_flag("--critical-addons-after=10m").start().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let slow = create_slow_pod(&world, &nodes[0]).await;
    let reader = Reader::new(&mut world).await;
    let dns = addon(&world, "dns").cpu(2).create().await;
    dns.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let page = why(&reader, "dns", "kube-system", &["Waits for: the operator's hold-off"]).await;
    for part in [
        "Critical add-on: by its annotation scheduling.giveway.dev/critical-addon.",
        "(--critical-addons-after, usually 30s) or its turn: it is Unschedulable for ",
        "If it were decided now",
        "It fits on node node-000 once its victims have terminated: 1 pod of priority 0 and below, 0 budget \
         violations. Step 2: no PodDisruptionBudget is violated, and longer grace periods are shortened to 10 s.",
        "3600 s, cut to 10 s",
    ] {
        assert!(page.contains(part), "{part} is not in:\n{page}");
    }

    // The decision is the same on the live cluster, on a snapshot and on an anonymized snapshot.
    let plan = ["plan", "--for", "pod/dns", "-n", "kube-system", "--critical", "-o", "json"];
    let live = reader.giveway(&plan).await;
    live.ok();
    let live = without_running_times(live.json());
    assert_eq!(live["victimPods"], serde_json::json!(["default/slow"]), "{live:#}");
    let taint = format!("Node node-000 gets the taint CriticalAddonsOnly={}:NoSchedule until it is bound.", dns.uid);
    assert_eq!((&live["criticalAddon"]["step"], &live["criticalAddon"]["kept"]), (&2.into(), &taint.into()));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster.json").display().to_string();
    reader.giveway(&["snapshot", "-o", &file]).await.ok();
    let stored = reader.giveway(&[&plan[..], &["--snapshot", &file]].concat()).await.json();
    assert_eq!(without_running_times(stored), live);
    reader.giveway(&["snapshot", "-o", &file, "--anonymize"]).await.ok();
    let list: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let pods = list["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "Pod");
    let mut system = pods.filter(|pod| pod["metadata"]["namespace"] == "kube-system");
    let target = format!("pod/{}", system.next().unwrap()["metadata"]["name"].as_str().unwrap());
    let args = ["plan", "--for", &target, "-n", "kube-system", "--critical", "-o", "json", "--snapshot", &file];
    let hidden = without_running_times(reader.giveway(&args).await.json());
    assert_eq!(hidden["victims"][0]["graces"][0]["given"], 10);
    assert_eq!((&hidden["cost"], &hidden["criticalAddon"]["step"]), (&live["cost"], &2.into()));
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());

    // With a short hold-off the victim is evicted. It stays terminating until `why` has been checked.
    world.operator().kill();
    world.operator().flag("--critical-addons-after=1s");
    world.operator().start().await;
    let kept = format!("Kept: node node-000, by the taint CriticalAddonsOnly={}:NoSchedule", dns.uid);
    let parts = [
        "Last decision",
        "(critical-addon) made ",
        "For a critical add-on: Step 2: no PodDisruptionBudget is violated, and longer grace periods are shortened to 10 s.",
        &kept,
        "pod/default/slow",
        "Waits for: 1 terminating: default/slow.",
    ];
    why(&reader, "dns", "kube-system", &parts).await;
    let list = reader.giveway(&["why", "-A"]).await;
    assert!(
        list.ok().contains("pod/dns") && !list.out.contains("kube-scheduler found no feasible node"),
        "{}",
        list.out
    );
    world.kit().api::<Pod>().delete("slow", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(dns.wait_bound(MINUTE).await, "node-000");
    wait_plan_completed(&world, &dns).await;

    // After the eviction `why` explains both the add-on and its victim.
    let parts = [
        "Completed: plan ",
        "The critical add-on was bound to node node-000; 1 of 1 pod was evicted.",
        "For a critical add-on: Step 2:",
    ];
    why(&reader, "dns", "kube-system", &parts).await;
    let parts = [
        "State: Gone.",
        "pod/kube-system/dns (priority 0), a critical add-on, by Preemption ",
        "now Completed: pod slow. Step 2: no PodDisruptionBudget is violated, and longer grace periods are shortened to 10 s.",
        "a critical add-on that needs its capacity. Its grace period of 3600 s is shortened to 10 s.",
    ];
    why(&reader, "slow", "default", &parts).await;
    let history = reader.giveway(&["history", "-n", "kube-system"]).await;
    assert!(history.ok().contains("pod/kube-system/dns (critical add-on, step 2)"), "{}", history.out);
    let table = world.kubectl(&["get", "preemptions"]).await.unwrap();
    assert!(table.contains("STRATEGY") && table.contains("critical-addon"), "{table}");

    // A critical add-on that fits on no node gets the reason in its event.
    let large = addon(&world, "large").cpu(3).create().await;
    large.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    let nearest = "No node can be freed for it, so no pod is evicted. The nearest is node-000: without the 0 pods \
                   there that may be evicted it still lacks 3 cpu; 1 pod there cannot be evicted.";
    let page = why(&reader, "large", "kube-system", &["Waits for: CriticalAddonUnschedulable ("]).await;
    assert_eq!(
        page.matches(nearest).count(),
        3,
        "expected in the wait reason, in the current decision and in the event:\n{page}"
    );
    assert_eq!(world.audit().await.evicted_names(), ["slow"]);
    assert_eq!(slow.get().await, None);
    world.check_promises().await;
}
