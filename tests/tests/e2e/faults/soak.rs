//! A random load in several namespaces at once, while calls fail, admission rejects some for seconds, and the operator is killed repeatedly.
//!
//! `GIVEWAY_SOAK_SECONDS` sets the duration (default: 60), `GIVEWAY_SEED` the seed.

use super::scenes::{Scenario, Scene};
use super::{PATIENCE, kill_and_start, seed, stage};
use futures::future::join_all;
use giveway_crds::Preemption;
use giveway_crds::preemption::PreemptionStatus;
use giveway_tests::audit::History;
use giveway_tests::cluster::Kit;
use giveway_tests::denials::{Denials, Rule};
use giveway_tests::giveway::Daemon;
use giveway_tests::proxy::{Fault, Script, no_faults};
use giveway_tests::random::Random;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_random_load_completes_while_the_operator_is_killed_repeatedly;
    ]
}

/// Number of namespaces that are used concurrently.
const SLOTS: usize = 4;
/// The scenarios. Each lasts long enough to be observed by an operator between two kills.
const SCENARIOS: [Scenario; 3] = [Scenario::Preemption, Scenario::Departure(20), Scenario::Budget];
/// One of this number of operators leads for [`LEADS_FOR`] before it is killed; the others are killed at a random time. Without
/// this rule, on a busy machine, no operator might lead during the 20 s in which a pod preempted by kube-scheduler is
/// terminating.
const LEADS_EVERY: usize = 4;
const LEADS_FOR: Duration = Duration::from_secs(2);
/// Percentage of calls with a fault.
const PERCENT: usize = 4;
/// HTTP codes of a webhook's denial.
const CODES: [u16; 6] = [400, 403, 409, 429, 500, 503];
/// Interval at which bans are ended. A pod whose eviction was rejected is left out for ten minutes, and the load needs each victim.
const LIFT: Duration = Duration::from_secs(2);

async fn a_random_load_completes_while_the_operator_is_killed_repeatedly() {
    let seconds = std::env::var("GIVEWAY_SOAK_SECONDS").ok().map_or(60, |text| text.parse().expect("a number"));
    let (seed, until) = (seed(), Instant::now() + Duration::from_secs(seconds));
    println!("seed {seed}, {seconds} s");
    let mut world = stage().await;
    world.proxy().play(faults(seed));
    let client = world.client();
    let denials = Denials::start(world.plane().pki(), client.clone()).await.unwrap();
    let (rounds, kit) = (AtomicUsize::new(0), world.kit());
    let load = join_all((0..SLOTS).map(|slot| run(&kit, seed, slot, until, &rounds)));
    let (operator, proxy) = world.operator_and_proxy();
    let kill = async {
        let (mut random, mut kills) = (Random::new(seed, SLOTS, 0), 0_usize);
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(random.below(2500) as u64)).await;
            if kills % LEADS_EVERY == 0 {
                wait_leader(operator).await;
                tokio::time::sleep(LEADS_FOR).await;
            }
            kill_and_start(operator, &client).await;
            kills += 1;
        }
        // The scenes in progress have to complete without further faults.
        proxy.play(no_faults());
        kills
    };
    let deny = deny(&denials, seed, until);
    let (_, kills, denied) = tokio::select! {
        done = async { tokio::join!(load, kill, deny) } => done,
        () = lift_bans(&kit.client) => unreachable!("it never ends"),
    };
    let history = world.audit().await;
    let rounds = rounds.load(Ordering::Relaxed);
    println!(
        "seed {seed}: {rounds} rounds, {kills} kills, {denied} denied calls, {} evictions, {} pods bound",
        history.evicted().len(),
        history.bindings.len()
    );
    println!("calls: {:?}", world.proxy().tally());
    assert!(rounds >= SLOTS, "{rounds} rounds");
    assert!(denied > 0, "no call was denied");
    world.check_promises().await;
}

/// Waits until this operator leads.
async fn wait_leader(operator: &mut Daemon) {
    wait_for("the operator leads", PATIENCE, async || {
        let (_, metrics) = operator.http("/metrics").await.map_err(|error| error.to_string())?;
        if metrics.contains("\ngiveway_operator_leader 1\n") {
            Ok(())
        } else {
            Err("the metric giveway_operator_leader is not 1".to_owned())
        }
    })
    .await;
}

/// Plays one scene after the other in a slot until the deadline.
async fn run(kit: &Kit, seed: u64, slot: usize, until: Instant, rounds: &AtomicUsize) {
    let mut round = 0;
    while Instant::now() < until {
        let mut random = Random::new(seed, slot, round);
        let scenario = SCENARIOS[random.below(SCENARIOS.len())];
        let scene = Scene::set(kit, &format!("slot-{slot}-{round}"), scenario).await;
        scene.play().await;
        scene.rest(&History::default()).await;
        scene.clear().await;
        round += 1;
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lets a webhook deny calls of the operator for some seconds at a time, of one kind and with one code, until the deadline. Returns the number
/// of denied calls.
async fn deny(denials: &Denials, seed: u64, until: Instant) -> usize {
    let (mut random, mut denied) = (Random::new(seed, SLOTS + 2, 0), 0);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(random.below(6_000) as u64)).await;
        let rules = [
            Rule::evictions(),
            Rule::pod_updates(),
            Rule::pod_statuses(),
            Rule::preemptions(),
            Rule::preemption_statuses(),
            Rule::pod_group_statuses(),
            Rule::events(),
        ];
        let (which, code) = (random.below(rules.len()), CODES[random.below(CODES.len())]);
        let denial = denials.deny(rules[which].clone().saying(code, "not today")).await;
        tokio::time::sleep(Duration::from_millis(1_000 + random.below(4_000) as u64)).await;
        denial.end().await;
        denied += denial.denied().len();
    }
    denied
}

/// Deletes the Preemptions of ended plans that have bans, at intervals, as an administrator does who has repaired the cause. Never ends.
async fn lift_bans(client: &Client) {
    let preemptions = Api::<Preemption>::all(client.clone());
    loop {
        tokio::time::sleep(LIFT).await;
        for preemption in preemptions.list(&ListParams::default()).await.unwrap() {
            let has_bans = |status: &PreemptionStatus| !status.bans.is_empty() && !status.state.in_flight();
            if preemption.status.as_ref().is_none_or(|status| !has_bans(status)) {
                continue;
            }
            match preemptions.delete(&preemption.name_any(), &DeleteParams::default()).await {
                Ok(_) => {}
                // The limits of the history may have deleted it.
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => panic!("deleting a Preemption: {error}"),
            }
        }
    }
}

/// Returns a script that injects every kind of fault at random.
fn faults(seed: u64) -> Script {
    let mut random = Random::new(seed, SLOTS + 1, 0);
    let kinds = [
        Fault::Answer(409),
        Fault::Answer(429),
        Fault::Answer(500),
        Fault::Answer(503),
        Fault::Delay(Duration::from_millis(300)),
        Fault::LoseAnswer,
    ];
    Box::new(move |call| {
        if call.lease() {
            Fault::None
        } else if call.watch {
            if random.percent(50) { Fault::CutAfter(Duration::from_millis(500)) } else { Fault::None }
        } else if random.percent(PERCENT) {
            kinds[random.below(kinds.len())]
        } else {
            Fault::None
        }
    })
}
