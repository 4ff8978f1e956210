//! Deterministic simulation: the real arbiter of the operator in one thread, with a simulated API server and a simulated
//! clock. A seed determines all events: workloads, deletions, cordons, failed calls, process crashes and watch lag. `make simulation SEED=7
//! CASES=1` runs one seed.

mod breakers;
mod calls;
mod evictions;
mod excuses;
mod faults;
mod floors;
mod halves;
mod mutants;
mod object;
mod owners;
mod plot;
mod process;
mod replica;
mod rest;
mod scheduler;
mod server;
mod trace;
mod world;

use clap::Parser as _;
use giveway_crds::plan::Cause;
use giveway_operator::config::Config;
use giveway_tests::audit::Removal;
use giveway_tests::random::Random;
use plot::LIMITED;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{World, outages, rates};

/// The default number of seeds.
const CASES: u64 = floors::SEEDS;
/// The default first seed.
const SEED: u64 = 1;

/// The number of events in all simulations, by kind.
#[derive(Default)]
struct Sum {
    count: BTreeMap<&'static str, usize>,
    faults: BTreeMap<&'static str, usize>,
}

impl Sum {
    fn add(&mut self, other: Self) {
        for (what, number) in other.count {
            *self.count.entry(what).or_default() += number;
        }
        for (kind, number) in other.faults {
            *self.faults.entry(kind).or_default() += number;
        }
    }
}

/// Runs one simulation. Returns a message for each breach, and the trace.
fn simulate(seed: u64, config: &Config, start: Instant, sum: &mut Sum) -> (Vec<String>, String) {
    let mut world = World::new(seed, &limited(seed, config), start);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    let mut broken = std::mem::take(&mut world.broken);
    if ran.is_err() {
        broken.push("it panicked".to_owned());
    }
    let history = rest::history(&world);
    let (limited, outlasted) = (rates::judge(&world, &history), outages::judge(&world, &history));
    if broken.is_empty() {
        broken = rest::broken(&world, &history);
        broken.extend(limited.broken);
        broken.extend(outlasted.broken);
    }
    let evicting = history.plans.iter().map(|plan| &plan.plan.id).collect::<std::collections::BTreeSet<_>>().len();
    let departed = |cause: Cause| world.departed.get(cause.as_str()).copied().unwrap_or(0);
    let evicted = history.evicted();
    let cause = |removal: &Removal| history.plan_of(removal).map(|record| record.plan.cause);
    let for_addons = evicted.iter().filter(|removal| cause(removal) == Some(Cause::CriticalAddon)).count();
    let judged = excuses::judged(&world, &history);
    let excused = judged.iter().filter(|(_, reason)| reason.is_some()).count();
    for (what, number) in [
        ("preemptors judged", judged.len() - excused),
        ("preemptors excused", excused),
        ("partially scheduled gangs evicted", world.halves.taken_down),
        ("gangs evicted that were scheduled, which nothing stored showed", world.halves.unknown),
        ("pods evicted with a pod that kube-scheduler preempted", departed(Cause::MemberPreempted)),
        ("pods evicted of partially scheduled gangs", departed(Cause::PartiallyScheduled)),
        ("pods evicted after a cancelled plan", departed(Cause::PartiallyDisrupted)),
        ("pods evicted for critical add-ons", for_addons),
        ("delayed plans that were replaced", world.delays.renewed),
        ("gangs that start beside a delayed plan", world.delays.meanwhile),
        ("plans that outlast a short outage", outlasted.judged),
        ("interrupted evictions of PodGroups", world.interruptions.count),
        ("units under a limit", limited.judged),
        ("evictions that count and do not wait", limited.others),
        ("calls", world.calls),
        ("denied calls", world.denials.count),
        ("plans that evict", evicting),
        ("evictions", evicted.len()),
        ("bindings", history.bindings.len()),
        ("simulated minutes", (world.now / 60_000) as usize),
        ("lines of trace", world.trace.len()),
    ] {
        *sum.count.entry(what).or_default() += number;
    }
    for (kind, number) in &world.faults.count {
        *sum.faults.entry(*kind).or_default() += number;
    }
    (broken, format!("{}{}", world.trace, rest::picture(&world)))
}

/// Returns the flags of the operator.
fn config() -> Config {
    let timeout = format!("--partially-scheduled-timeout={}s", halves::TIMEOUT / 1_000);
    Config::parse_from(["giveway-operator", "--critical-addons=false", &timeout])
}

/// Limits the number of evictions per minute in one seed of five, in the cluster or in the only namespace. There the operator also evicts for
/// critical add-ons.
fn limited(seed: u64, config: &Config) -> Config {
    if !seed.is_multiple_of(LIMITED) {
        return config.clone();
    }
    let most = u32::try_from(3 + Random::new(seed, 8, 0).below(6)).ok();
    let in_cluster = seed.is_multiple_of(2 * LIMITED);
    Config {
        evictions_per_minute_per_cluster: most.filter(|_| in_cluster),
        evictions_per_minute_per_namespace: most.filter(|_| !in_cluster),
        critical_addons: true,
        // The only namespace of the simulation.
        critical_addons_namespaces: vec!["default".to_owned()],
        critical_addons_after: Duration::from_secs(5),
        ..config.clone()
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn every_seed_keeps_the_promises() {
    let config = config();
    let (seed, cases) = (from_environment("SEED"), from_environment("CASES"));
    let first = seed.unwrap_or(SEED);
    let cases = cases.unwrap_or(if seed.is_some() { 1 } else { CASES });
    let (start, all) = (Instant::now(), from_environment("ALL").is_some());
    let (next, found, sum) = (AtomicU64::new(first), Mutex::new(BTreeMap::new()), Mutex::new(Sum::default()));
    // Each thread takes the next seed. After the first breach no new seed begins; ALL=1 continues.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let mut own = Sum::default();
                while all || found.lock().unwrap().is_empty() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + cases {
                        break;
                    }
                    let (broken, trace) = simulate(seed, &config, start, &mut own);
                    if !broken.is_empty() || cases == 1 {
                        found.lock().unwrap().insert(seed, (broken, trace));
                    }
                }
                sum.lock().unwrap().add(own);
            });
        }
    });
    let (sum, found) = (sum.into_inner().unwrap(), found.into_inner().unwrap());
    if let Some((_, trace)) = found.values().next() {
        println!("{trace}");
    }
    let breaches: Vec<u64> =
        found.iter().filter(|(_, (broken, _))| !broken.is_empty()).map(|(seed, _)| *seed).collect();
    for seed in &breaches {
        println!("seed {seed}: {}", found[seed].0.join("; "));
    }
    println!("{cases} seeds from {first} in {:.1} s: {:?}", start.elapsed().as_secs_f32(), sum.count);
    println!("faults: {:?}", sum.faults);
    assert!(breaches.is_empty(), "promises were broken: replay with `make simulation SEED={}`", breaches[0]);
    let little = floors::too_little([&sum.count, &sum.faults], cases);
    assert!(little.is_empty(), "too few events happened: {}", little.join("; "));
}

#[test]
fn a_seed_has_the_same_trace_every_time() {
    let config = config();
    for seed in 1..6 {
        let mut traces = (0..2).map(|_| simulate(seed, &config, Instant::now(), &mut Sum::default()).1);
        assert_eq!(traces.next(), traces.next(), "seed {seed}");
    }
}
