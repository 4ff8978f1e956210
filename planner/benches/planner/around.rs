//! Gangs with inter-pod constraints, with members of different classes, or in large numbers: rows W1 to W5 and Q1.

use crate::baseline::asks;
use crate::generate::{self, GROUP_LABEL, Gang, HIGH, LARGE, Shape, TEAM, group, label, pod};
use crate::measure::{Samples, Timer};
use crate::rivals::RivalQuestion;
use crate::{Event, Measured, cold, outcome, row, warm};
use giveway_planner::{Cluster, Context, ObjectKey, Preemptor, plan};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

/// The spec of a pod with more in it.
fn with(mut pod: Pod, more: &Value) -> Pod {
    let mut spec = serde_json::to_value(pod.spec.unwrap()).unwrap();
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod.spec = Some(serde_json::from_value::<PodSpec>(spec).unwrap());
    pod
}

/// A gang of 64 whose members request these GPUs in turn.
fn add_gang(cluster: &mut Cluster, name: &str, gpus: &[&str], more: &Value) -> Preemptor {
    cluster.upsert_group(&group(TEAM, name, HIGH, 64, "Pod")).unwrap();
    for member in 0..64 {
        let asks = [("cpu", "8"), ("nvidia.com/gpu", gpus[member % gpus.len()])];
        let built = pod(TEAM, &format!("{name}-{member:05}"), HIGH, &asks);
        let built = label(label(built, GROUP_LABEL, name), "gang", name);
        cluster.upsert_pod(&with(built, more)).unwrap();
    }
    Preemptor::Group(ObjectKey::new(TEAM, name))
}

fn measure(cluster: &mut Cluster, preemptor: &Preemptor, name: &str, what: &str, goals: (&str, &str), shape: Shape) {
    // The rivals know neither spread nor affinity nor members of several kinds.
    let question = RivalQuestion::gang(HIGH, 64, asks(8, 2));
    Measured { name, what, goals, rounds: (5, 20), shape }.print(cluster, preemptor, question);
}

/// A gang spread over three zones, on a copy of this cluster.
pub(crate) fn spread(large: &Cluster, name: &str, goals: (&str, &str), shape: Shape) {
    let like = json!({"matchLabels": {"gang": "wide"}});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": like}]});
    let mut cluster = large.clone();
    let preemptor = add_gang(&mut cluster, "wide", &["2"], &spread);
    measure(&mut cluster, &preemptor, name, "gang of 64 x 2 GPU spread over 3 zones", goals, shape);
}

/// W1 to W3, on copies of S1's cluster.
pub(crate) fn gangs(large: &Cluster, run: impl Fn(&str) -> bool) {
    let like = json!({"matchLabels": {"gang": "wide"}});
    if run("W1") {
        spread(large, "W1", ("60 ms", "6 ms"), LARGE);
    }
    if run("W2") {
        let affinity = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": like, "topologyKey": ZONE}]}}});
        let mut cluster = large.clone();
        let preemptor = add_gang(&mut cluster, "wide", &["2"], &affinity);
        measure(&mut cluster, &preemptor, "W2", "gang of 64 x 2 GPU in one zone by affinity", ("60 ms", "6 ms"), LARGE);
    }
    if run("W3") {
        let mut cluster = large.clone();
        let preemptor = add_gang(&mut cluster, "wide", &["1", "2", "8"], &json!({}));
        measure(&mut cluster, &preemptor, "W3", "gang of 64 of 1, 2 and 8 GPU", ("30 ms", "4 ms"), LARGE);
    }
    if run("W4") {
        let repels = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": ZONE}]}}});
        let mut cluster = large.clone();
        cluster.upsert_pod(&with(pod("stranger", "repels", 0, &[("cpu", "1")]), &repels)).unwrap();
        crate::s1(&cluster, "W4", "S1 with a stranger's pod that repels all", LARGE);
    }
}

/// W5: many equal victims on every node.
pub(crate) fn equal_victims() {
    let mut cluster = Cluster::default();
    for number in 0..LARGE.nodes {
        let mut node = generate::node(number);
        let offers = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        offers.get_mut("cpu").unwrap().0 = "16".to_owned();
        cluster.upsert_node(&node).unwrap();
        for at in 0..16 {
            let built = pod("team-00", &format!("job-{number:05}-{at:02}"), 10, &[("cpu", "1")]);
            cluster.upsert_pod(&generate::on(built, number)).unwrap();
        }
    }
    cluster.upsert_pod(&pod(TEAM, "one", HIGH, &[("cpu", "8")])).unwrap();
    let preemptor = Preemptor::Pod(ObjectKey::new(TEAM, "one"));
    let what = "one pod of 8 CPU, nodes of 16 equal pods of 1 CPU";
    let (samples, said) = cold(&cluster, &preemptor, 3);
    row("W5", what, "20 ms").print("cold", &samples, None, &said);
    let samples = warm(&mut cluster, &preemptor, &Event::Gentle, 20);
    row("W5", what, "0.5 ms").print("warm", &samples, None, &said);
}

/// Q1: a pass over gangs without hope.
pub(crate) fn hopeless(large: &Cluster) {
    let mut cluster = large.clone();
    let mut waiting = Vec::new();
    for number in 0..1000 {
        let (kind, name) = (number % 50, format!("hopeless-{number:04}"));
        let (priority, cpus) = (5 + kind % 10, (8 + kind).to_string());
        let gang = Gang { name: &name, priority, size: 200, gpus: "8", cpus: &cpus, apart: false };
        waiting.push(Preemptor::Group(gang.add_to(&mut cluster)));
    }
    let pass = |cluster: &Cluster| {
        let timer = Timer::start();
        let context = Context::default();
        let mut said = String::new();
        for preemptor in &waiting {
            said = outcome(&plan(cluster, preemptor, &context));
        }
        (timer.took(), said)
    };
    pass(&cluster);
    let mut samples = Samples::default();
    let mut last = String::new();
    for round in 0..10 {
        let name = format!("event-{:03}", round / 2);
        if round % 2 == 0 {
            cluster.upsert_pod(&generate::on(pod("team-00", &name, 100, &[("cpu", "1")]), round * 7)).unwrap();
        } else {
            cluster.remove_pod(&ObjectKey::new("team-00", name.as_str()));
        }
        let (took, said) = pass(&cluster);
        samples.push(took);
        last = said;
    }
    row("Q1", "a pass over 1,000 gangs without hope of 50 kinds", "20 ms").print("pass", &samples, None, &last);
}

/// T1: a gang that must be placed within one rack, among groups across racks.
pub(crate) fn racks() {
    const RACK: &str = "example.com/rack";
    let shape = generate::Shape { nodes: 5120, pods: 5120 * 32, budgets: 200, guaranteed: false };
    let mut cluster = generate::large_with(shape, 32, |number, node| {
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert(RACK.to_owned(), format!("rack-{:03}", number / 16));
    });
    let mut asks_for: giveway_crds::PodGroup = group(TEAM, "racked", HIGH, 64, "Pod");
    asks_for.spec.scheduling_constraints = serde_json::from_value(json!({"topology": [{"key": RACK}]})).unwrap();
    cluster.upsert_group(&asks_for).unwrap();
    for member in 0..64 {
        let asks = [("cpu", "8"), ("nvidia.com/gpu", "8")];
        let built = pod(TEAM, &format!("racked-{member:05}"), HIGH, &asks);
        cluster.upsert_pod(&label(built, GROUP_LABEL, "racked")).unwrap();
    }
    let preemptor = Preemptor::Group(ObjectKey::new(TEAM, "racked"));
    let what = "gang of 64 x 8 GPU in one of 320 racks of 16 nodes";
    let (samples, said) = cold(&cluster, &preemptor, 5);
    row("T1", what, "25 ms").print("cold", &samples, None, &said);
    let samples = warm(&mut cluster, &preemptor, &Event::Gentle, 20);
    row("T1", what, "2.5 ms").print("warm", &samples, None, &said);
}

/// B: expensive requests that every user can make. No decision may take longer than 100 ms.
pub(crate) fn bounded(large: &Cluster) {
    let like = json!({"matchLabels": {"gang": "wide"}});
    let all = json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": ZONE});
    let spread = |key: &str| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": like}]})
    };
    let together = |key: &str| {
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": like, "topologyKey": key}]}}})
    };
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [all]}}});
    let port = json!({"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "8", "nvidia.com/gpu": "2"}}}]});
    let huge = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": "8", "memory": "5Pi"}}}]});
    let host = "kubernetes.io/hostname";
    let rows = [
        ("B1", "spread over host names", spread(host)),
        ("B2", "together on one host, which is too small", together(host)),
        ("B3", "anti-affinity to all pods of a zone", apart.clone()),
        ("B4", "a port of the node", port),
        ("B5", "spread over zones, and more than any node has", {
            let mut both = spread(ZONE);
            both.as_object_mut().unwrap().extend(huge.as_object().unwrap().clone());
            both
        }),
    ];
    for (name, what, more) in rows {
        let mut cluster = large.clone();
        let preemptor = add_gang(&mut cluster, "wide", &["2"], &more);
        let (samples, said) = cold(&cluster, &preemptor, 3);
        row(name, &format!("gang of 64, {what}"), "100 ms").print("cold", &samples, None, &said);
    }
    let mut cluster = large.clone();
    cluster.upsert_pod(&generate::on(with(pod("stranger", "repels", 0, &[("cpu", "1")]), &apart), 0)).unwrap();
    let preemptor = add_gang(&mut cluster, "wide", &["2"], &json!({}));
    let (samples, said) = cold(&cluster, &preemptor, 3);
    row("B6", "gang of 64 beside a pod that repels all in its zone", "100 ms").print("cold", &samples, None, &said);
    let mut cluster = large.clone();
    cluster.upsert_group(&group(TEAM, "motley", HIGH, 1000, "Pod")).unwrap();
    for member in 0..1000 {
        let asks = [("cpu", &*format!("{}m", 4000 + member)), ("nvidia.com/gpu", "1")];
        let built = label(pod(TEAM, &format!("motley-{member:05}"), HIGH, &asks), GROUP_LABEL, "motley");
        cluster.upsert_pod(&with(built, &spread(ZONE))).unwrap();
    }
    let preemptor = Preemptor::Group(ObjectKey::new(TEAM, "motley"));
    let (samples, said) = cold(&cluster, &preemptor, 3);
    row("B7", "gang of 1,000, each of another class, spread", "100 ms").print("cold", &samples, None, &said);
    cluster
        .upsert_pod(&with(pod(TEAM, "one", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")]), &together(ZONE)))
        .unwrap();
    let (samples, said) = cold(&cluster, &Preemptor::Pod(ObjectKey::new(TEAM, "one")), 3);
    row("B8", "one pod of 8 GPU with affinity to a gang without pods", "100 ms").print("cold", &samples, None, &said);
    cluster.upsert_pod(&with(pod(TEAM, "two", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")]), &spread(host))).unwrap();
    let (samples, said) = cold(&cluster, &Preemptor::Pod(ObjectKey::new(TEAM, "two")), 3);
    row("B9", "one pod of 8 GPU with a spread over host names", "100 ms").print("cold", &samples, None, &said);
}
