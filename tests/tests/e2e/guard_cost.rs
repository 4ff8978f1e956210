//! The cost of denials by the guard, measured with kube-scheduler: attempts, the rate at which other pods are bound, memory.
//!
//! `make bench-guard` runs the benchmarks and prints the figures. Tests check attempts and memory but not time, because other
//! tests run on the same machine.

use crate::MINUTE;
use crate::guard::{REFUSED, classes, metric, service, service_in};
use futures::StreamExt as _;
use giveway_tests::cluster::{Kit, PodHandle, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release_shared:
            a_denied_preemption_is_retried_a_few_times_per_minute;
        release:
            the_maximum_of_delayed_denials_displaces_no_review_and_uses_little_memory;
        bench:
            a_delayed_denial_barely_slows_the_scheduler,
            many_delayed_denials_slow_the_scheduler_but_do_not_stop_it;
    ]
}

/// Number of pods without a relation to the guard.
const UNRELATED: usize = 200;
/// Largest value of `--guard-max-delayed`. Victims of one namespace may use half of it.
const MOST_HELD: usize = 200;
/// Metric that counts the denials that are being delayed.
const HELD_NOW: &str = "giveway_webhook_guard_delayed_denials";
/// Number of preemptors that are denied at the same time.
const CROWD: usize = 100;
const CONCURRENCY: usize = 16;

/// Creates a pool that is full of `count` guarded pods, and a pool with free capacity for all other pods.
async fn stage(world: &World, count: usize) -> Vec<Pod> {
    classes(world).await;
    world.nodes(count / 4).cpus(4).label("pool", "guarded").create().await;
    world.nodes(10).prefix("free").cpus(64).label("pool", "free").create().await;
    service(world, count, count).await
}

/// Creates a preemptor that fits in the guarded pool only.
async fn preemptor(world: &World, name: &str) -> PodHandle {
    world.pod(name).priority("high").node_selector("pool", "guarded").create().await
}

/// Creates the unrelated pods, waits until all are bound and removes them. Returns the pods bound per second, from the first
/// creation to the last binding.
async fn binding_rate(world: &World, round: &str) -> f64 {
    let Kit { client, namespace } = world.namespace(&format!("unrelated-{round}")).await;
    let api = kube::Api::<Pod>::namespaced(client, &namespace);
    let pods = (0..UNRELATED).map(|n| {
        let mut pod = world.pod(&format!("u-{n:03}")).resource("cpu", "100m").node_selector("pool", "free").build();
        pod.metadata.namespace = Some(namespace.clone());
        pod
    });
    let start = Instant::now();
    let create = futures::stream::iter(pods).map(|pod| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &pod).await.unwrap() }
    });
    create.buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await;
    wait_for("all unrelated pods are bound", MINUTE, async || {
        let waiting = ListParams::default().fields("spec.nodeName=");
        let waiting = api.list(&waiting).await.map_err(|error| error.to_string())?.items.len();
        if waiting == 0 { Ok(()) } else { Err(format!("{waiting} are pending")) }
    })
    .await;
    let rate = UNRELATED as f64 / start.elapsed().as_secs_f64();
    api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await.unwrap();
    wait_for("the unrelated pods are removed", MINUTE, async || {
        let left = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} exist")) }
    })
    .await;
    rate
}

/// Returns the higher rate of two rounds, because the machine runs other work.
async fn best_rate(world: &World, round: &str) -> f64 {
    binding_rate(world, &format!("{round}-1")).await.max(binding_rate(world, &format!("{round}-2")).await)
}

/// Returns denials per minute, counted for this time.
async fn attempts_per_minute(world: &mut World, time: Duration) -> f64 {
    let (before, start) = (metric(world, REFUSED).await, Instant::now());
    tokio::time::sleep(time).await;
    let refused = metric(world, REFUSED).await - before;
    refused as f64 * 60.0 / start.elapsed().as_secs_f64()
}

async fn a_denied_preemption_is_retried_a_few_times_per_minute(world: &mut World) {
    stage(world, 8).await;
    let vip = preemptor(world, "vip").await;
    vip.wait_event("GuaranteedBudget", MINUTE).await;
    let attempts = attempts_per_minute(world, Duration::from_secs(25)).await;
    assert!((1.0..=20.0).contains(&attempts), "{attempts} attempts per minute while denials are delayed by 8 s");
    vip.delete().await;
    vip.wait_removed(MINUTE).await;
    world.check_promises().await;
}

async fn a_delayed_denial_barely_slows_the_scheduler() {
    // The webhook is restarted below; kube-scheduler must not preempt meanwhile.
    let mut world = World::builder().helm_value("guard.failurePolicy=Fail").start().await;
    stage(&world, 8).await;
    let quiet = best_rate(&world, "quiet").await;
    let vip = preemptor(&world, "vip").await;
    vip.wait_event("GuaranteedBudget", MINUTE).await;
    let attempts = attempts_per_minute(&mut world, Duration::from_secs(25)).await;
    let delayed = best_rate(&world, "delayed").await;

    world.webhook().terminate().await;
    world.webhook().flag("--guard-delay-seconds=0");
    world.webhook().start().await;
    let hasty = attempts_per_minute(&mut world, Duration::from_secs(10)).await;
    let at_once = best_rate(&world, "at-once").await;

    // Deleting the preemptor ends kube-scheduler's attempts, and with them the growth of the audit log.
    vip.delete().await;
    vip.wait_removed(MINUTE).await;
    println!(
        "guard: attempts per minute for one denied preemptor: {attempts:.0} delayed by 8 s, {hasty:.0} without delay"
    );
    println!(
        "guard: {UNRELATED} unrelated pods: {quiet:.0} per second without denials, {delayed:.0} ({:.2}) with delayed denials, {at_once:.0} ({:.2}) with immediate denials",
        delayed / quiet,
        at_once / quiet
    );
    // Each attempt waits 8 s for its answer, also on a slow machine; both cases are there to see that the delay is the cause.
    assert!((1.0..=15.0).contains(&attempts) && hasty > 2.0 * attempts, "{attempts} delayed, {hasty} without delay");
    world.check_promises().await;
}

async fn many_delayed_denials_slow_the_scheduler_but_do_not_stop_it() {
    // Above the limit denials are immediate, and kube-scheduler would retry without a pause.
    // Victims of one namespace may use half of the limit.
    let mut world = World::builder().webhook_flag(&format!("--guard-max-delayed={}", 2 * CROWD)).start().await;
    stage(&world, CROWD).await;
    let quiet = best_rate(&world, "quiet").await;
    let vips = futures::stream::iter(0..CROWD).map(|n| {
        let pod = world.pod(&format!("vip-{n:03}")).priority("high").node_selector("pool", "guarded");
        pod.create()
    });
    vips.buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await;
    wait_for("half of the denials are delayed", MINUTE, async || {
        let delayed = metric(&mut world, HELD_NOW).await;
        if delayed >= CROWD as u64 / 2 { Ok(()) } else { Err(format!("{delayed} are delayed")) }
    })
    .await;
    let crowded = best_rate(&world, "crowd").await;
    let seconds = Duration::from_secs(20);
    let attempts = attempts_per_minute(&mut world, seconds).await;
    println!("guard: attempts per minute for {CROWD} denied preemptors: {attempts:.0}");
    println!(
        "guard: {UNRELATED} unrelated pods: {quiet:.0} per second without denials, {crowded:.0} ({:.2}) while {CROWD} preemptors are denied",
        crowded / quiet
    );
    // Denied preemptors have a higher priority, so kube-scheduler tries them first each time; their answers are delayed for this
    // reason. `make bench-guard` measures how much slower the other pods are bound; here all of them must be bound.
    assert!(crowded > 0.0 && attempts > 0.0, "{crowded} {attempts}");
    world.check_promises().await;
}

/// Returns the address of the webhook's port, and the certificate of the authority that signed its certificate.
pub(crate) fn webhook_port(world: &mut World) -> (SocketAddr, CertificateDer<'static>) {
    let args = &world.webhook().program().args;
    let address = args.iter().find_map(|arg| arg.strip_prefix("--address=")).unwrap().parse().unwrap();
    (address, CertificateDer::from_pem_slice(world.plane().pki().ca().as_bytes()).unwrap())
}

/// Returns a client that connects to the webhook directly.
pub(crate) fn webhook_client(world: &mut World) -> Client {
    let (address, authority) = webhook_port(world);
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![authority.to_vec()]);
    Client::try_from(config).unwrap()
}

/// Returns the review of kube-scheduler's deletion of this pod.
fn deletion(pod: &Pod, uid: usize) -> Request<Vec<u8>> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": format!("r-{uid}"), "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": pod.metadata.namespace, "name": pod.metadata.name, "operation": "DELETE",
            "userInfo": {"username": "system:kube-scheduler"}, "object": null, "oldObject": pod,
        },
    });
    let request = Request::post("/guard").header("content-type", "application/json");
    request.body(serde_json::to_vec(&review).unwrap()).unwrap()
}

/// All reviews come from one address at once, as those of several API servers behind one address. No pod is pending, so every
/// preemption is denied, and kube-scheduler itself asks for none.
async fn the_maximum_of_delayed_denials_displaces_no_review_and_uses_little_memory() {
    let most = format!("--guard-max-delayed={MOST_HELD}");
    let flags = [most.as_str(), "--guard-max-delay-seconds=8"];
    let mut world = flags.iter().fold(World::builder(), |builder, flag| builder.webhook_flag(flag)).start().await;
    classes(&world).await;
    world.nodes(2).cpus(4).label("pool", "guarded").create().await;
    world.nodes(1).prefix("free").cpus(64).label("pool", "free").create().await;
    let mut pods = service(&world, 4, 4).await;
    pods.extend(service_in(&world, &world.namespace("team").await, 4, 4).await);
    let client = webhook_client(&mut world);
    let mut asks = JoinSet::new();
    for n in 0..MOST_HELD {
        let (client, request) = (client.clone(), deletion(&pods[n % pods.len()], n));
        asks.spawn(async move { client.request::<serde_json::Value>(request).await });
    }
    // On a busy machine the first denials end before the last ones have started.
    wait_for("denials are delayed", MINUTE, async || {
        let delayed = metric(&mut world, HELD_NOW).await;
        if delayed >= (MOST_HELD / 2) as u64 { Ok(()) } else { Err(format!("{delayed} are delayed")) }
    })
    .await;
    // Each review of its members is answered: a rejection would end the test.
    world.gang("train", 8).create().await.wait_bound(MINUTE).await;
    while let Some(answer) = asks.join_next().await {
        let answer = answer.unwrap().unwrap();
        assert_eq!(answer["response"]["allowed"], json!(false), "{answer}");
    }
    assert_eq!(metric(&mut world, "giveway_webhook_guard_denials_delayed_total").await, MOST_HELD as u64);
    assert_eq!(metric(&mut world, "giveway_webhook_guard_immediate_denials_total").await, 0);
    let peak = world.webhook().memory("VmHWM");
    println!("guard: {MOST_HELD} concurrent denials: {peak:.0} MiB at most");
    assert!(peak < 256.0, "{peak:.0} MiB: above the webhook's memory limit in the chart");
    world.check_promises().await;
}
