//! The cost of delayed denials for the API server: each occupies a seat of the priority level that kube-scheduler shares with
//! kube-controller-manager.
//!
//! The figures are printed (`--nocapture`); docs/advanced/guard.md has them.

use crate::MINUTE;
use crate::guard::{announcement, as_scheduler, classes, metric, service};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use http::Request;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PatchParams, PostParams};
use serde_json::json;
use std::time::Instant;
use tokio::task::JoinSet;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            delayed_denials_leave_seats_for_kube_controller_manager;
    ]
}

/// Default priority level of kube-scheduler and kube-controller-manager.
const LEVEL: &str = "workload-high";
/// Largest number of concurrently delayed denials in this test.
const MOST: usize = 100;
/// The default of `--guard-max-delayed`; there are two webhooks by default.
const DEFAULT_HELD: usize = 30;
/// Number of pods that kube-controller-manager creates.
const REPLICAS: usize = 40;

/// Returns the sum of the API server's metrics with this name and all these labels.
async fn sum_of_metric(world: &World, name: &str, labels: &[&str]) -> f64 {
    let request = Request::get("/metrics").body(vec![]).unwrap();
    let text = world.client().request_text(request).await.unwrap();
    let lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    let meant = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    meant.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Creates a ReplicaSet and returns the milliseconds until kube-controller-manager has created its pods.
async fn replica_set(world: &World, name: &str) -> u128 {
    let sets: Api<ReplicaSet> = world.kit().api();
    let labels = json!({"app": name});
    let set = json!({
        "metadata": {"name": name},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"priorityClassName": "idle", "nodeSelector": {"pool": "nowhere"},
                "containers": [{"name": "c", "image": "registry.example/fake:1"}]},
        }},
    });
    let start = Instant::now();
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    wait_for(&format!("{REPLICAS} pods of {name} exist"), MINUTE, async || {
        let status = sets.get(name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if usize::try_from(status.replicas) == Ok(REPLICAS) { Ok(()) } else { Err(format!("{}", status.replicas)) }
    })
    .await;
    let took = start.elapsed().as_millis();
    sets.delete(name, &DeleteParams::background()).await.unwrap();
    took
}

/// Returns the median time of three ReplicaSets.
async fn median(world: &World, name: &str) -> u128 {
    let mut times = Vec::new();
    for round in 0..3 {
        times.push(replica_set(world, &format!("{name}-{round}")).await);
    }
    times.sort_unstable();
    times[1]
}

/// Returns how many requests of the level waited for a seat, and the sum of their waiting times in seconds.
async fn waits(world: &World) -> (f64, f64) {
    let name = "apiserver_flowcontrol_request_wait_duration_seconds";
    let labels = [&*format!("priority_level=\"{LEVEL}\""), "execute=\"true\""];
    (
        sum_of_metric(world, &format!("{name}_count"), &labels).await,
        sum_of_metric(world, &format!("{name}_sum"), &labels).await,
    )
}

/// Disables borrowing of seats for the level, which is the state when all other levels use their seats.
async fn disable_borrowing(world: &World) {
    let spec = r#"{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}},"spec":{"limited":{"borrowingLimitPercent":0,"lendablePercent":0}}}"#;
    let args = ["patch", "prioritylevelconfiguration", LEVEL, "--type=merge", "--patch", spec];
    world.kubectl(&args).await.unwrap();
    let level = format!("priority_level=\"{LEVEL}\"");
    wait_for("the level borrows no seats", MINUTE, async || {
        let limit = sum_of_metric(world, "apiserver_flowcontrol_current_limit_seats", &[&level]).await;
        let own = sum_of_metric(world, "apiserver_flowcontrol_nominal_limit_seats", &[&level]).await;
        if limit == own { Ok(()) } else { Err(format!("{limit} of {own}")) }
    })
    .await;
}

/// Marks and deletes `count` pods as kube-scheduler, and measures while the denials are delayed. Returns the share of the level's
/// seats that is free meanwhile.
async fn round(world: &mut World, names: &[String], count: usize, phase: &str) -> f64 {
    let (api, patch) = (world.kit().api::<Pod>(), PatchParams::default());
    for name in &names[..count] {
        api.patch_status(name, &patch, &announcement()).await.unwrap();
    }
    let scheduler: Api<Pod> = Api::default_namespaced(as_scheduler(world).await);
    let mut deletions = JoinSet::new();
    for name in &names[..count] {
        let (scheduler, name) = (scheduler.clone(), name.clone());
        deletions.spawn(async move { scheduler.delete(&name, &DeleteParams::default()).await });
    }
    let level = format!("priority_level=\"{LEVEL}\"");
    let seats = async |world: &World, name: &str| sum_of_metric(world, name, &[&level]).await;
    // Without enough seats some of the deletions do not reach the webhook.
    let most = seats(world, "apiserver_flowcontrol_current_limit_seats").await.min(count as f64);
    wait_for("the denials are delayed", MINUTE, async || {
        let now = metric(world, "giveway_webhook_guard_delayed_denials").await;
        if now as f64 >= most - 2.0 { Ok(()) } else { Err(format!("{now} of {most}")) }
    })
    .await;
    let executing = seats(world, "apiserver_flowcontrol_current_executing_seats").await;
    let limit = seats(world, "apiserver_flowcontrol_current_limit_seats").await;
    let before = waits(world).await;
    let took = median(world, &format!("{}-{count}", phase.replace(' ', "-"))).await;
    let after = waits(world).await;
    let (requests, seconds) = (after.0 - before.0, after.1 - before.1);
    println!(
        "seats, {phase}: {count} delayed: {executing} of {limit} executing; {REPLICAS} pods of a ReplicaSet in {took} ms; {requests} requests waited {:.1} ms on average",
        1000.0 * seconds / requests.max(1.0)
    );
    while let Some(done) = deletions.join_next().await {
        assert!(done.unwrap().is_err(), "the deletion of a guarded pod was permitted");
    }
    (limit - executing) / limit
}

async fn delayed_denials_leave_seats_for_kube_controller_manager() {
    // Victims of one namespace may use half of the maximum.
    let flags = ["--guard-max-delayed=200", "--guard-delay-seconds=8", "--guard-max-delay-seconds=8"];
    let mut world = flags.iter().fold(World::builder(), |builder, flag| builder.webhook_flag(flag)).start().await;
    classes(&world).await;
    world.class("idle", -10).never().create().await;
    world.nodes(MOST / 4).cpus(4).label("pool", "guarded").create().await;
    let pods = service(&world, MOST, MOST).await;
    let names: Vec<String> = pods.into_iter().filter_map(|pod| pod.metadata.name).collect();
    round(&mut world, &names, MOST, "others are idle").await;
    disable_borrowing(&world).await;
    round(&mut world, &names, 0, "others are busy").await;
    let left = round(&mut world, &names, 2 * DEFAULT_HELD, "others are busy").await;
    assert!(left > 0.3, "with the denials that two webhooks delay, {left:.2} of the seats are free");
    let left = round(&mut world, &names, MOST, "others are busy").await;
    assert!(left < 0.1, "this number of denials should occupy all seats, but {left:.2} are free");
    world.check_promises().await;
}
