//! The planner's benchmarks: `cargo bench -p giveway-planner [-- NAME...]` prints a table.
//!
//! "cold" is the first decision on a model that was just built, "warm" a decision after one pod event (the event is
//! part of the time). The ratio is to a small clean-room copy of the in-tree method, measured in the same run on the
//! same cluster. `STRATEGY=kep5710` measures another strategy than the default. Nothing here fails because it is slow.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark may panic")]

mod around;
mod baseline;
mod events;
mod generate;
mod measure;
mod rescue;

use baseline::{Baseline, asks};
use generate::{Gang, HIGH, LARGE, Shape, TEAM};
use giveway_planner::{Cluster, Context, Decision, ObjectKey, Preemptor, Strategy, plan};
use measure::{Row, Samples, Timer, Took, milliseconds, print_header, resident};
use std::time::{Duration, Instant};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let run = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.eq_ignore_ascii_case(w));
    print_header();
    if run("load") {
        load();
    }
    if ["S1", "S2", "S3", "S6", "S7"].iter().any(|name| run(name)) {
        let cluster = generate::large(LARGE);
        if run("S1") {
            s1(&cluster, "S1", "gang of 1,000 x 2 GPU, 200 budgets");
        }
        if run("S2") {
            s2(&cluster);
        }
        if run("S3") {
            s3(&cluster);
        }
        if run("S6") {
            s6(&cluster);
        }
        if run("S7") {
            s7(cluster);
        }
    }
    if run("S5") {
        let cluster = generate::large(Shape { budgets: 2000, guaranteed: true, ..LARGE });
        s1(&cluster, "S5", "S1 with 2,000 budgets, half of them guaranteed");
    }
    if run("S8") {
        s8();
    }
    if ["W1", "W2", "W3", "W4", "Q1"].iter().any(|name| run(name)) {
        let cluster = generate::large(LARGE);
        around::gangs(&cluster, run);
        if run("Q1") {
            around::hopeless(&cluster);
        }
    }
    if run("B") {
        around::bounded(&generate::large(LARGE));
    }
    if run("T1") {
        around::racks();
    }
    if run("W5") {
        around::equal_victims();
    }
    if run("E1") {
        events::row();
    }
    if run("C") {
        rescue::rows();
    }
}

/// The strategy named in the variable `STRATEGY`, or the default.
fn strategy() -> Strategy {
    std::env::var("STRATEGY").map_or_else(|_| Strategy::default(), |name| Strategy::parse(&name).expect("a strategy"))
}

/// By how much the variable `ROUNDS` multiplies the rounds, for a profiler.
fn many() -> usize {
    std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// Decides, and says in one word what came out.
fn decide(cluster: &Cluster, preemptor: &Preemptor) -> (Decision, Took) {
    let context = Context { strategy: strategy(), ..Context::default() };
    let timer = Timer::start();
    let decision = plan(cluster, preemptor, &context);
    (decision, timer.took())
}

fn outcome(decision: &Decision) -> String {
    match decision {
        Decision::Preempt(plan) => format!("{} evicted", plan.cost.victim_pods),
        Decision::Fits { placements, .. } => format!("{} fit", placements.len()),
        Decision::Unschedulable(why) => format!("{why}"),
        other => format!("{other:?}"),
    }
}

/// The first decision on copies of a model.
fn cold(cluster: &Cluster, preemptor: &Preemptor, rounds: usize) -> (Samples, String) {
    let mut samples = Samples::default();
    let mut said = String::new();
    for _ in 0..rounds * many() {
        let copy = cluster.clone();
        let (decision, time) = decide(&copy, preemptor);
        samples.push(time);
        said = outcome(&decision);
    }
    (samples, said)
}

/// Decisions, each after a pod came or went.
fn warm(cluster: &mut Cluster, preemptor: &Preemptor, rounds: usize) -> Samples {
    let mut samples = Samples::default();
    let context = Context { strategy: strategy(), ..Context::default() };
    decide(cluster, preemptor);
    for round in 0..rounds * many() {
        let name = format!("event-{:03}", round / 2);
        let pod = generate::on(generate::pod("team-00", &name, 100, &[("cpu", "1")]), round / 2 * 7 % 1000);
        let timer = Timer::start();
        if round % 2 == 0 {
            cluster.upsert_pod(&pod).unwrap();
        } else {
            cluster.remove_pod(&ObjectKey::new("team-00", name.as_str()));
        }
        plan(cluster, preemptor, &context);
        samples.push(timer.took());
    }
    samples
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn row<'a>(name: &'a str, what: &'a str, goal: &'a str) -> Row<'a> {
    Row { name, what, goal }
}

fn s1(cluster: &Cluster, name: &str, what: &str) {
    let mut cluster = cluster.clone();
    let gang = Gang { name: "big", priority: HIGH, size: 1000, gpus: "2", cpus: "8", apart: false };
    let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
    let mut baseline = Baseline::new(&cluster);
    let (evicted, slow) = timed(|| baseline.gang(HIGH, 1000, &asks(8, 2), false));
    let (samples, said) = cold(&cluster, &preemptor, 5);
    let goal = if name == "S1" { "cold 10 ms, 30x" } else { "1.3x S1" };
    row(name, what, goal).print("cold", &samples, Some(slow), &format!("{said} (baseline {evicted:?})"));
    let samples = warm(&mut cluster, &preemptor, 20);
    row(name, what, if name == "S1" { "warm 2 ms" } else { "1.3x S1" }).print("warm", &samples, Some(slow), &said);
}

fn s2(cluster: &Cluster) {
    let mut cluster = cluster.clone();
    cluster.upsert_pod(&generate::pod(TEAM, "one", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")])).unwrap();
    let preemptor = Preemptor::Pod(ObjectKey::new(TEAM, "one"));
    let mut baseline = Baseline::new(&cluster);
    let (evicted, slow) = timed(|| baseline.single(HIGH, &asks(8, 8)));
    let what = "one pod of 8 GPU";
    let (samples, said) = cold(&cluster, &preemptor, 3);
    row("S2", what, "").print("cold", &samples, Some(slow), &format!("{said} (baseline {evicted:?})"));
    let samples = warm(&mut cluster, &preemptor, 100);
    row("S2", what, "warm 0.2 ms").print("warm", &samples, Some(slow), &said);
}

fn s3(cluster: &Cluster) {
    let mut cluster = cluster.clone();
    let gang = Gang { name: "apart", priority: HIGH, size: 64, gpus: "8", cpus: "8", apart: true };
    let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
    let mut baseline = Baseline::new(&cluster);
    let (evicted, slow) = timed(|| baseline.gang(HIGH, 64, &asks(8, 8), true));
    let what = "gang of 64 x 8 GPU, anti-affinity on hostname";
    let (samples, said) = cold(&cluster, &preemptor, 3);
    row("S3", what, "").print("cold", &samples, Some(slow), &format!("{said} (baseline {evicted:?})"));
    let samples = warm(&mut cluster, &preemptor, 10);
    row("S3", what, "warm 5 ms").print("warm", &samples, Some(slow), &said);
}

fn s6(cluster: &Cluster) {
    let mut cluster = cluster.clone();
    let gang = Gang { name: "low", priority: 15, size: 512, gpus: "8", cpus: "8", apart: false };
    let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
    let mut baseline = Baseline::new(&cluster);
    let (evicted, slow) = timed(|| baseline.gang(15, 512, &asks(8, 8), false));
    assert_eq!(evicted, None);
    let what = "gang of 512 x 8 GPU that does not fit";
    let (samples, said) = cold(&cluster, &preemptor, 3);
    row("S6", what, "").print("cold", &samples, Some(slow), &said);
    let samples = warm(&mut cluster, &preemptor, 100);
    row("S6", what, "warm 0.1 ms").print("warm", &samples, Some(slow), "");
}

/// Every decision is carried out before the next: its victims leave the model, the pod is bound.
fn s7(mut cluster: Cluster) {
    const PREEMPTORS: usize = 10_000;
    let asks_for = [("cpu", "4"), ("nvidia.com/gpu", "1")];
    let context = Context { strategy: strategy(), ..Context::default() };
    for number in 0..PREEMPTORS {
        cluster.upsert_pod(&generate::pod(TEAM, &format!("solo-{number:05}"), HIGH, &asks_for)).unwrap();
    }
    let mut baseline = Baseline::new(&cluster);
    let (_, slow) = timed(|| baseline.single(HIGH, &asks(4, 1)));
    let limit = std::env::var("S7_LIMIT").ok().and_then(|n| n.parse().ok()).unwrap_or(PREEMPTORS);
    let (mut samples, mut evicted) = (Samples::default(), 0);
    let start = Instant::now();
    for number in 0..PREEMPTORS.min(limit) {
        let key = ObjectKey::new(TEAM, format!("solo-{number:05}"));
        let asked = Instant::now();
        let decision = plan(&cluster, &Preemptor::Pod(key), &context);
        samples.push(Took { wall: asked.elapsed(), ..Took::default() });
        let (placements, victims) = match decision {
            Decision::Preempt(plan) => (plan.placements, plan.victims),
            Decision::Fits { placements, .. } => (placements, Vec::new()),
            other => panic!("{}", outcome(&other)),
        };
        for pod in victims.iter().flat_map(|victim| &victim.pods) {
            cluster.remove_pod(&pod.key);
            evicted += 1;
        }
        let node: usize = placements[0].node.trim_start_matches("node-").parse().unwrap();
        let bound = generate::on(generate::pod(TEAM, &placements[0].pod.name, HIGH, &asks_for), node);
        cluster.upsert_pod(&bound).unwrap();
    }
    let rate = PREEMPTORS.min(limit) as f64 / start.elapsed().as_secs_f64();
    let said = format!("{rate:.0}/s with all events, {evicted} evicted");
    let what = "10,000 pods of 1 GPU, one after another";
    row("S7", what, "50 us, p99 100 us").print("one", &samples, Some(slow), &said);
}

fn s8() {
    let mut times = Vec::new();
    for nodes in [1000, 5000] {
        let mut cluster = generate::full_of_single_pods(nodes);
        let gang = Gang { name: "all", priority: HIGH, size: nodes, gpus: "8", cpus: "8", apart: false };
        let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
        let mut baseline = Baseline::new(&cluster);
        let slow = (nodes == 1000).then(|| timed(|| baseline.gang(HIGH, nodes, &asks(8, 8), false)).1);
        let (samples, mut said) = cold(&cluster, &preemptor, 5);
        times.push(samples.median().as_secs_f64());
        if let [small, large] = times[..] {
            said = format!("{said}, exponent {:.2}", (large / small).ln() / 5f64.ln());
        }
        let what = format!("{nodes} x 8 GPU full of single pods, gang of {nodes} x 8 GPU");
        row("S8", &what, if nodes == 1000 { "5 ms" } else { "20 ms, exp 1.2" }).print("cold", &samples, slow, &said);
    }
}

/// Only the model's own work is timed; the objects are made one by one and dropped. What is resident is read while the
/// first model is the only one.
fn load() {
    let before = resident();
    let (first, spent) = built();
    let memory = match (before, resident()) {
        (Some(before), Some(after)) => format!("{} MiB resident", after.saturating_sub(before) >> 20),
        _ => "memory not available".to_owned(),
    };
    drop(first);
    let mut samples = Samples::default();
    for wall in std::iter::once(spent).chain((0..2 * many()).map(|_| built().1)) {
        samples.push(Took { wall, ..Took::default() });
    }
    row("load", "model of 150,000 pods", "1.5 s, 300 MB").print("", &samples, None, &memory);
    println!("       {} per pod", milliseconds(samples.median() / 150_000));
}

/// The large cluster, and how long the model took to take it in.
fn built() -> (Cluster, Duration) {
    let mut cluster = Cluster::default();
    for number in 0..LARGE.nodes {
        cluster.upsert_node(&generate::node(number)).unwrap();
    }
    let mut spent = Duration::ZERO;
    let mut groups = Vec::new();
    generate::pods(
        LARGE,
        8,
        |pod| {
            let start = Instant::now();
            cluster.upsert_pod(&pod).unwrap();
            spent += start.elapsed();
        },
        |group| groups.push(group),
    );
    let start = Instant::now();
    for group in &groups {
        cluster.upsert_group(group).unwrap();
    }
    (cluster, spent + start.elapsed())
}
