//! E1: updates of the model by the events of a busy cluster, one after another. E2: events of the members of one large group.

use crate::generate::{self, GROUP_LABEL, LARGE};
use crate::measure::{Row, Samples, Took};
use giveway_planner::{Cluster, ObjectKey};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::core::v1::PodCondition;
use std::time::{Duration, Instant};

/// Every pod is created, bound, runs, and ends.
const PODS: usize = 37_500;
/// Members of a group; every second group is disrupted together.
const SIZE: usize = 8;
/// Number of pods that pass through each stage together.
const WAVE: usize = 512;

/// A pod at each of its four stages.
fn stages(number: usize) -> [Pod; 4] {
    let (team, group) = (format!("team-{:02}", number / SIZE % 20), format!("event-{:05}", number / SIZE));
    let name = format!("{group}-{:02}", number % SIZE);
    let created = generate::pod(&team, &name, 10, &[("cpu", "1"), ("memory", "2Gi")]);
    let budget = format!("budget-{:04}", number / SIZE % LARGE.budgets);
    let created = generate::label(generate::label(created, GROUP_LABEL, &group), "budget", &budget);
    let runs = generate::on(created.clone(), number * 7 % LARGE.nodes);
    let mut bound = runs.clone();
    bound.status.as_mut().unwrap().phase = Some("Pending".to_owned());
    let mut ended = runs.clone();
    ended.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    let mut ready = runs;
    let condition = PodCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..PodCondition::default() };
    ready.status.as_mut().unwrap().conditions = Some(vec![condition]);
    [created, bound, ready, ended]
}

/// Feeds all events into a cluster; returns how many they were, and how long the model took for them.
fn feed(cluster: &mut Cluster) -> (usize, Duration) {
    let (mut events, mut spent) = (0, Duration::ZERO);
    for first in (0..PODS).step_by(WAVE) {
        let wave: Vec<[Pod; 4]> = (first..(first + WAVE).min(PODS)).map(stages).collect();
        let start = Instant::now();
        for stage in 0..4 {
            for pod in &wave {
                cluster.upsert_pod(&pod[stage]).unwrap();
                events += 1;
            }
        }
        spent += start.elapsed();
    }
    (events, spent)
}

/// Measures, and prints the row.
pub(crate) fn row() {
    let mut full = generate::large(LARGE);
    for number in 0..PODS.div_ceil(SIZE) {
        let mode = if number % 2 == 0 { "PodGroup" } else { "Pod" };
        let group = generate::group(&format!("team-{:02}", number % 20), &format!("event-{number:05}"), 10, SIZE, mode);
        full.upsert_group(&group).unwrap();
    }
    let (mut samples, mut events) = (Samples::default(), 0);
    for _ in 0..3 {
        let mut cluster = full.clone();
        let (fed, wall) = feed(&mut cluster);
        samples.push(Took { wall, ..Took::default() });
        events = fed;
    }
    let best = samples.median().as_secs_f64().max(1e-9);
    #[allow(clippy::cast_precision_loss, reason = "there are not so many events")]
    let rate = events as f64 / best;
    let what = "150,000 pod events one after another, in groups under budgets";
    Row { name: "E1", what, goal: "150,000/s" }.print("", &samples, None, &format!("{rate:.0} events/s"));
}

/// Members of the large group, which is disrupted together and under a budget.
const MANY: usize = 10_000;

/// Measures events of the members of one group while all of them run, and prints the row.
pub(crate) fn large_group() {
    let mut cluster = generate::large(LARGE);
    cluster.upsert_group(&generate::group("team-00", "many", 10, MANY, "PodGroup")).unwrap();
    let member = |number: usize| {
        let created = generate::pod("team-00", &format!("many-{number:05}"), 10, &[("cpu", "1")]);
        let created = generate::label(generate::label(created, GROUP_LABEL, "many"), "budget", "budget-0000");
        let mut runs = generate::on(created, number % LARGE.nodes);
        let condition = PodCondition { type_: "Ready".into(), status: "True".into(), ..PodCondition::default() };
        let pending = runs.clone();
        runs.status.as_mut().unwrap().conditions = Some(vec![condition]);
        [pending, runs]
    };
    let members: Vec<[Pod; 2]> = (0..MANY).map(member).collect();
    let start = Instant::now();
    members.iter().for_each(|pods| _ = cluster.upsert_pod(&pods[0]).unwrap());
    let added = start.elapsed();
    let mut samples = Samples::default();
    for round in 1..=3usize {
        let start = Instant::now();
        members.iter().for_each(|pods| _ = cluster.upsert_pod(&pods[round % 2]).unwrap());
        samples.push(Took { wall: start.elapsed(), ..Took::default() });
    }
    let start = Instant::now();
    for pods in &members {
        let metadata = &pods[0].metadata;
        cluster.remove_pod(&ObjectKey::new(metadata.namespace.as_deref().unwrap(), metadata.name.as_deref().unwrap()));
    }
    let said = format!("bound in {:.0?}, removed in {:.0?}", added, start.elapsed());
    let what = "10,000 members of one group that is disrupted together become ready";
    Row { name: "E2", what, goal: "100 ms" }.print("", &samples, None, &said);
}
