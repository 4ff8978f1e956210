//! The planner's benchmarks: `cargo bench -p giveway-planner [-- NAME...]` prints a table.
//!
//! "cold" is the first decision on a model that was just built, "warm" a decision after one pod event (the event is part of the time). The
//! ratios are to a small clean-room copy of the in-tree method and to one that evaluates each node by itself, with as many requests, as
//! cold or as warm, in the same run on the same cluster. `STRATEGY=kep5710` measures the other strategy. A slow result does not fail the
//! run.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark may panic")]

mod around;
mod attack;
mod baseline;
mod events;
mod generate;
mod measure;
mod node_local;
mod rescue;
mod rivals;

use baseline::asks;
use generate::{Gang, HIGH, HUGE, LARGE, Shape, TEAM};
use giveway_planner::{Cluster, Context, Decision, ObjectKey, Preemptor, Strategy, plan};
use k8s_openapi::api::core::v1::Pod;
use measure::{Row, Samples, Timer, Took, milliseconds, print_header, resident};
use rivals::{RivalQuestion, Rivals};
use std::time::{Duration, Instant};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let run = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.eq_ignore_ascii_case(w));
    print_header();
    if run("load") {
        load("load", "model of 150,000 pods", "1.5 s, 300 MB", LARGE);
    }
    if ["S1", "S2", "S3", "S6", "S7"].iter().any(|name| run(name)) {
        let cluster = generate::large(LARGE);
        if run("S1") {
            s1(&cluster, "S1", "gang of 1,000 x 2 GPU, 200 budgets", LARGE);
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
        let shape = Shape { budgets: 2000, guaranteed: true, ..LARGE };
        s1(&generate::large(shape), "S5", "S1 with 2,000 budgets, half of them guaranteed", shape);
    }
    if run("S8") {
        s8();
    }
    if run("H0") {
        load("H0", "model of 500,000 pods", "400 MiB", HUGE);
    }
    if run("H1") {
        s1(&generate::large(HUGE), "H1", "S1 on 15,000 nodes and 500,000 pods", HUGE);
    }
    if run("HW1") {
        around::spread(&generate::large(HUGE), "HW1", ("100 ms", ""), HUGE);
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
    if !wanted.is_empty() && wanted.iter().any(|w| w.starts_with('X')) {
        attack::rows(run);
    }
    if run("E1") {
        events::row();
    }
    if run("E2") {
        events::large_group();
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

/// The event between two decisions.
enum Event {
    /// A small pod of high priority: hardly anything depends on it.
    Gentle,
    /// A member of a group with GPUs, under a budget.
    Member(Box<Pod>),
}

/// Decisions, each after a pod was added or removed.
fn warm(cluster: &mut Cluster, preemptor: &Preemptor, event: &Event, rounds: usize) -> Samples {
    let mut samples = Samples::default();
    let context = Context { strategy: strategy(), ..Context::default() };
    decide(cluster, preemptor);
    for round in 0..rounds * many() {
        let (pod, comes) = match event {
            Event::Gentle => {
                let built = generate::pod("team-00", &format!("event-{:03}", round / 2), 100, &[("cpu", "1")]);
                (generate::on(built, round / 2 * 7 % 1000), round % 2 == 0)
            }
            Event::Member(pod) => (Pod::clone(pod), round % 2 == 1),
        };
        let timer = Timer::start();
        if comes {
            cluster.upsert_pod(&pod).unwrap();
        } else {
            cluster.remove_pod(&ObjectKey::new(pod.metadata.namespace.unwrap(), pod.metadata.name.unwrap()));
        }
        plan(cluster, preemptor, &context);
        samples.push(timer.took());
    }
    samples
}

fn row<'a>(name: &'a str, what: &'a str, goal: &'a str) -> Row<'a> {
    Row { name, what, goal }
}

/// Measurements of one request: the first decision, one after a gentle event, and one after a member of a group was added or
/// removed.
struct Measured<'a> {
    name: &'a str,
    what: &'a str,
    /// Cold, and warm.
    goals: (&'a str, &'a str),
    /// How often, cold and warm.
    rounds: (usize, usize),
    shape: Shape,
}

impl Measured<'_> {
    fn print(&self, cluster: &mut Cluster, preemptor: &Preemptor, question: RivalQuestion) {
        let (name, what) = (self.name, self.what);
        let (samples, said) = cold(cluster, preemptor, self.rounds.0);
        let rivals = Rivals::ask(cluster, question, true, self.rounds.0);
        row(name, what, self.goals.0).print("cold", &samples, Some(&rivals), &said);
        let samples = warm(cluster, preemptor, &Event::Gentle, self.rounds.1);
        let rivals = Rivals::ask(cluster, question, false, self.rounds.1);
        row(name, what, self.goals.1).print("warm", &samples, Some(&rivals), &said);
        let member = Event::Member(Box::new(generate::guarded_member(self.shape)));
        let samples = warm(cluster, preemptor, &member, self.rounds.1);
        row(name, "the same after an event on a member under a budget", self.goals.1).print(
            "warm",
            &samples,
            Some(&rivals),
            &said,
        );
    }
}

fn s1(cluster: &Cluster, name: &str, what: &str, shape: Shape) {
    let mut cluster = cluster.clone();
    let gang = Gang { name: "big", priority: HIGH, size: 1000, gpus: "2", cpus: "8", apart: false };
    let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
    let goals = match name {
        "S1" => ("2 ms, 30x", "2 ms"),
        "H1" => ("8 ms", ""),
        _ => ("1.3x S1", "1.3x S1"),
    };
    let question = RivalQuestion::gang(HIGH, 1000, asks(8, 2));
    Measured { name, what, goals, rounds: (5, 20), shape }.print(&mut cluster, &preemptor, question);
}

fn s2(cluster: &Cluster) {
    let mut cluster = cluster.clone();
    cluster.upsert_pod(&generate::pod(TEAM, "one", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")])).unwrap();
    let preemptor = Preemptor::Pod(ObjectKey::new(TEAM, "one"));
    let question = RivalQuestion { single: true, ..RivalQuestion::gang(HIGH, 1, asks(8, 8)) };
    let measured =
        Measured { name: "S2", what: "one pod of 8 GPU", goals: ("", "0.2 ms"), rounds: (5, 100), shape: LARGE };
    measured.print(&mut cluster, &preemptor, question);
}

fn s3(cluster: &Cluster) {
    let mut cluster = cluster.clone();
    let gang = Gang { name: "apart", priority: HIGH, size: 64, gpus: "8", cpus: "8", apart: true };
    let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
    let question = RivalQuestion { apart: true, ..RivalQuestion::gang(HIGH, 64, asks(8, 8)) };
    let what = "gang of 64 x 8 GPU, anti-affinity on hostname";
    let measured = Measured { name: "S3", what, goals: ("", "5 ms"), rounds: (5, 20), shape: LARGE };
    measured.print(&mut cluster, &preemptor, question);
}

fn s6(cluster: &Cluster) {
    let mut cluster = cluster.clone();
    let gang = Gang { name: "low", priority: 15, size: 512, gpus: "8", cpus: "8", apart: false };
    let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
    let question = RivalQuestion::gang(15, 512, asks(8, 8));
    let what = "gang of 512 x 8 GPU that does not fit";
    let measured = Measured { name: "S6", what, goals: ("in-tree", "0.1 ms"), rounds: (5, 100), shape: LARGE };
    measured.print(&mut cluster, &preemptor, question);
}

/// Every decision is carried out before the next: its victims are removed from the model, and the pod is bound.
fn s7(mut cluster: Cluster) {
    const PREEMPTORS: usize = 10_000;
    let asks_for = [("cpu", "4"), ("nvidia.com/gpu", "1")];
    let context = Context { strategy: strategy(), ..Context::default() };
    for number in 0..PREEMPTORS {
        cluster.upsert_pod(&generate::pod(TEAM, &format!("solo-{number:05}"), HIGH, &asks_for)).unwrap();
    }
    let question = RivalQuestion { single: true, ..RivalQuestion::gang(HIGH, 1, asks(4, 1)) };
    let rivals = Rivals::ask(&cluster, question, false, 20);
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
    row("S7", what, "50 us, p99 100 us").print("one", &samples, Some(&rivals), &said);
}

fn s8() {
    let mut times = Vec::new();
    for nodes in [1000, 5000] {
        let mut cluster = generate::full_of_single_pods(nodes);
        let gang = Gang { name: "all", priority: HIGH, size: nodes, gpus: "8", cpus: "8", apart: false };
        let preemptor = Preemptor::Group(gang.add_to(&mut cluster));
        // The in-tree method takes minutes for the larger one.
        let question = RivalQuestion::gang(HIGH, nodes, asks(8, 8));
        let rivals = (nodes == 1000).then(|| Rivals::ask(&cluster, question, true, 5));
        let (samples, mut said) = cold(&cluster, &preemptor, 5);
        times.push(samples.median().as_secs_f64());
        if let [small, large] = times[..] {
            said = format!("{said}, exponent {:.2}", (large / small).ln() / 5f64.ln());
        }
        let what = format!("{nodes} x 8 GPU full of single pods, gang of {nodes} x 8 GPU");
        row("S8", &what, if nodes == 1000 { "5 ms" } else { "12 ms, exp 1.1" }).print(
            "cold",
            &samples,
            rivals.as_ref(),
            &said,
        );
    }
}

/// Only the model's own work is timed; the objects are made one by one and dropped. What is resident is read while the
/// first model is the only one.
fn load(name: &str, what: &str, goal: &str, shape: Shape) {
    let before = resident();
    let (first, spent) = built(shape);
    let memory = match (before, resident()) {
        (Some(before), Some(after)) => {
            let bytes = after.saturating_sub(before);
            format!("{} MiB resident, {} bytes a pod", bytes >> 20, bytes / shape.pods as u64)
        }
        _ => "memory not available".to_owned(),
    };
    drop(first);
    let mut samples = Samples::default();
    for wall in std::iter::once(spent).chain((0..2 * many()).map(|_| built(shape).1)) {
        samples.push(Took { wall, ..Took::default() });
    }
    row(name, what, goal).print("", &samples, None, &memory);
    println!("       {} per pod", milliseconds(samples.median() / u32::try_from(shape.pods).unwrap()));
}

/// A large cluster, and how long it took to build the model.
fn built(shape: Shape) -> (Cluster, Duration) {
    let mut cluster = Cluster::default();
    for number in 0..shape.nodes {
        cluster.upsert_node(&generate::node(number)).unwrap();
    }
    let mut spent = Duration::ZERO;
    let mut groups = Vec::new();
    generate::pods(
        shape,
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
