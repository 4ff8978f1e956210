//! A: requests of a hostile tenant, or unfortunate ones. No decision may take longer than 100 ms of CPU time.

use crate::generate::{self, GROUP_LABEL, HIGH, LARGE, TEAM, group, label, on, pod};
use crate::measure::Timer;
use giveway_planner::{Cluster, Context, Decision, ObjectKey, Preemptor, Reservation, SmolStr, plan, spared};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn with(mut pod: Pod, more: &Value) -> Pod {
    let mut spec = serde_json::to_value(pod.spec.unwrap()).unwrap();
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod.spec = Some(serde_json::from_value::<PodSpec>(spec).unwrap());
    pod
}

fn gang(cluster: &mut Cluster, size: usize, priority: i32, asks: &[&[(&str, &str)]], more: &Value) -> Preemptor {
    gang_in(cluster, "wide", size, priority, asks, more, &json!({}))
}

fn gang_in(
    cluster: &mut Cluster,
    name: &str,
    size: usize,
    priority: i32,
    asks: &[&[(&str, &str)]],
    more: &Value,
    constraints: &Value,
) -> Preemptor {
    let mut g = group(TEAM, name, priority, size, "Pod");
    if constraints.get("topology").is_some() {
        g.spec.scheduling_constraints = serde_json::from_value(constraints.clone()).unwrap();
    }
    cluster.upsert_group(&g).unwrap();
    for member in 0..size {
        let built = pod(TEAM, &format!("{name}-{member:05}"), priority, asks[member % asks.len()]);
        let built = label(label(built, GROUP_LABEL, name), "gang", name);
        let built = label(built, "batch.kubernetes.io/job-completion-index", &member.to_string());
        cluster.upsert_pod(&with(built, more)).unwrap();
    }
    Preemptor::Group(ObjectKey::new(TEAM, name))
}

/// Reserves capacity of as many nodes for the pods of namespace `flight`.
fn reserve(cluster: &mut Cluster, nodes: usize) {
    for number in 0..nodes {
        let uid = format!("00000000-0000-flight-f-{number:05}");
        cluster.reserve(&uid, &generate::node_name(number), Reservation::Started(HIGH));
    }
}

fn ask(name: &str, what: &str, cluster: &Cluster, preemptor: &Preemptor, context: &Context) {
    let copy = cluster.clone();
    let timer = Timer::start();
    let decision = plan(&copy, preemptor, context);
    let cold = timer.took();
    let mut copy = copy;
    let mut warm = Vec::new();
    for round in 0..2 {
        let event = on(pod("team-00", "attack-event", 100, &[("cpu", "1")]), 7);
        if round == 0 {
            copy.upsert_pod(&event).unwrap();
        } else {
            copy.remove_pod(&ObjectKey::new("team-00", "attack-event"));
        }
        let timer = Timer::start();
        plan(&copy, preemptor, context);
        warm.push(timer.took().cpu.unwrap_or(0.0) * 1000.0);
    }
    let warm = warm.into_iter().fold(f64::MAX, f64::min);
    let mut why = String::new();
    if let Decision::Preempt(found) = &decision {
        let timer = Timer::start();
        let list = spared(&copy, preemptor, context, found);
        let _ = std::hint::black_box(&list);
        why = format!("{:8.1} ms", timer.took().cpu.unwrap_or(0.0) * 1000.0);
    }
    let ms = cold.cpu.unwrap_or(0.0) * 1000.0;
    let said: String = crate::outcome(&decision).chars().take(110).collect();
    println!(
        "| {name:5} | {what:70} | cold {ms:9.1} ms | warm {warm:9.1} ms | not evicted {why:>11} | {} {said}",
        if ms > 100.0 || warm > 100.0 { "OVER" } else { "    " }
    );
}

fn budget(namespace: &str, name: &str, selector: &Value, allowed: i32) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    }))
    .unwrap()
}

fn anti(terms: Value) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn uids(cluster: &Cluster, most: usize, wanted: impl Fn(&giveway_planner::model::Pod) -> bool) -> BTreeSet<SmolStr> {
    cluster.pods().filter(|pod| pod.bound() && wanted(pod)).take(most).map(|pod| pod.uid.clone()).collect()
}

/// Bound single pods, 30 a node, all in one namespace.
fn one_namespace(nodes: usize, each: usize, cpu: &str, priority: impl Fn(usize) -> i32) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..nodes {
        cluster.upsert_node(&generate::node(number)).unwrap();
    }
    for number in 0..nodes * each {
        let built = pod(TEAM, &format!("job-{number:06}"), priority(number), &[("cpu", cpu)]);
        cluster.upsert_pod(&on(built, number % nodes)).unwrap();
    }
    cluster
}

/// 8 single-GPU pods a node, groups of `size` scattered over the cluster.
fn scattered(size: usize, cpus: usize) -> Cluster {
    let mut cluster = Cluster::default();
    let nodes = LARGE.nodes;
    for number in 0..nodes {
        cluster.upsert_node(&generate::node(number)).unwrap();
    }
    let places = nodes * 8;
    let groups = places / size;
    let priority = |g: usize| i32::try_from(g * 7919 % 50).unwrap() * 10;
    for place in 0..places {
        let (g, member) = (place % groups, place / groups);
        let name = format!("train-{g:05}");
        // Scattered: a step that is coprime with the number of places.
        let node = (place * 7919 % places) / 8;
        let built =
            pod("team-00", &format!("{name}-{member:04}"), priority(g), &[("cpu", "4"), ("nvidia.com/gpu", "1")]);
        cluster.upsert_pod(&label(on(built, node), GROUP_LABEL, &name)).unwrap();
    }
    for number in 0..cpus {
        let built = pod("team-01", &format!("web-{number:06}"), priority(number), &[("cpu", "2")]);
        cluster.upsert_pod(&on(built, number % nodes)).unwrap();
    }
    for g in 0..groups {
        cluster.upsert_group(&group("team-00", &format!("train-{g:05}"), priority(g), size, "PodGroup")).unwrap();
    }
    cluster
}

#[allow(clippy::too_many_lines)]
pub(crate) fn rows(run: impl Fn(&str) -> bool) {
    let none = Context::default();
    let gpu2: &[&[(&str, &str)]] = &[&[("cpu", "8"), ("nvidia.com/gpu", "2")]];
    let mixed: &[&[(&str, &str)]] =
        &[&[("cpu", "8"), ("nvidia.com/gpu", "1")], &[("cpu", "8"), ("nvidia.com/gpu", "2")]];
    let large = generate::large(LARGE);
    let like = json!({"matchLabels": {"gang": "wide"}});
    let spread = |key: &str| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": like}]})
    };
    let exclusive = |key: &str| {
        anti(json!([{"labelSelector": {"matchExpressions": [{"key": "gang", "operator": "NotIn", "values": ["wide"]}]},
        "namespaceSelector": {}, "topologyKey": key}]))
    };
    if run("X1") {
        for (name, size) in [("X1a", 8), ("X1b", 64), ("X1c", 1000)] {
            let mut c = large.clone();
            let p = gang(&mut c, size, HIGH, gpu2, &exclusive(HOST));
            ask(name, &format!("{size} x 2 GPU exclusive on their hosts (anti-affinity to all others)"), &c, &p, &none);
        }
        let mut c = large.clone();
        let terms = anti(
            json!([{"labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}, "topologyKey": HOST}]),
        );
        let p = gang(&mut c, 64, HIGH, gpu2, &terms);
        ask("X1d", "64 x 2 GPU away from app=web on their hosts", &c, &p, &none);
        let mut c = large.clone();
        c.upsert_pod(&with(
            label(pod(TEAM, "lone", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")]), "gang", "wide"),
            &exclusive(HOST),
        ))
        .unwrap();
        ask("X1e", "one pod of 8 GPU exclusive on its host", &c, &Preemptor::Pod(ObjectKey::new(TEAM, "lone")), &none);
    }
    if run("X3") {
        for (name, key) in [("X3a", ZONE), ("X3b", HOST)] {
            for leaving in [1000, 5000] {
                let mut c = large.clone();
                let p = gang(&mut c, 1000, 1, &[&[("cpu", "2"), ("nvidia.com/gpu", "1")]], &spread(key));
                // GPU pods of one priority are leaving: a large job has ended.
                let leaving_pods = uids(&c, leaving, |pod| pod.key.name.starts_with("train"));
                let context = Context { departing: leaving_pods, ..Context::default() };
                ask(name, &format!("1,000 x 1 GPU spread by {key}, {leaving} pods leaving"), &c, &p, &context);
            }
        }
        let mut c = large.clone();
        let p = gang(&mut c, 1000, 1, &[&[("cpu", "2"), ("nvidia.com/gpu", "1")]], &json!({}));
        let leaving_pods = uids(&c, 20_000, |pod| pod.key.name.starts_with("train"));
        let context = Context { departing: leaving_pods, ..Context::default() };
        ask("X3c", "1,000 x 1 GPU, 20,000 pods leaving", &c, &p, &context);
    }
    if run("X4") {
        for terms in [16, 64, 120] {
            let list: Vec<Value> = (0..terms).map(|n| json!({"labelSelector": {"matchLabels": {"app": format!("x{n}")}}, "namespaceSelector": {}, "topologyKey": HOST})).collect();
            let mut c = large.clone();
            let p = gang(&mut c, 64, HIGH, gpu2, &anti(json!(list)));
            ask("X4a", &format!("64 x 2 GPU, {terms} anti-affinity terms, all namespaces"), &c, &p, &none);
        }
        let list: Vec<Value> = (0..40).map(|_| json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "namespaceSelector": {}, "topologyKey": ZONE})).enumerate().map(|(n, mut v)| { v["labelSelector"]["matchExpressions"][0]["values"] = json!([]); v["labelSelector"]["matchLabels"] = json!({"app": "web"}); v["namespaces"] = json!([format!("n{n}")]); v }).collect();
        let mut c = large.clone();
        let more = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list}}});
        let p = gang(&mut c, 64, HIGH, gpu2, &more);
        ask("X4b", "64 x 2 GPU, 40 affinity terms, all namespaces", &c, &p, &none);
    }
    if run("X8") {
        for rules in [30, 300, 3000] {
            let list: Vec<Value> =
                (0..rules).map(|n| json!({"key": format!("k{n}"), "operator": "DoesNotExist"})).collect();
            let more = anti(
                json!([{"labelSelector": {"matchExpressions": list}, "namespaceSelector": {}, "topologyKey": HOST}]),
            );
            let mut c = large.clone();
            c.upsert_pod(&with(pod(TEAM, "lone", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")]), &more)).unwrap();
            ask(
                "X8",
                &format!("one pod of 8 GPU, one term of {rules} expressions, all namespaces"),
                &c,
                &Preemptor::Pod(ObjectKey::new(TEAM, "lone")),
                &none,
            );
        }
    }
    if run("X5") {
        for terms in [100, 1000, 5000] {
            let list: Vec<Value> = (0..terms).map(|n| json!({"matchExpressions": [{"key": HOST, "operator": "In", "values": [format!("nothing-{n}")]}]})).collect();
            let more = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list}}}});
            let mut c = large.clone();
            let p = gang(&mut c, 64, HIGH, gpu2, &more);
            ask("X5a", &format!("64 x 2 GPU, {terms} node affinity terms"), &c, &p, &none);
            let mut both = more.clone();
            both.as_object_mut().unwrap().extend(spread(ZONE).as_object().unwrap().clone());
            let mut c = large.clone();
            let p = gang(&mut c, 64, HIGH, gpu2, &both);
            ask("X5b", "the same, spread over zones", &c, &p, &none);
        }
        let tolerations: Vec<Value> =
            (0..5000).map(|n| json!({"key": format!("k{n}"), "operator": "Exists", "effect": "NoSchedule"})).collect();
        let mut c = generate::large_with(LARGE, 8, |_, node| {
            let spec = json!({"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]});
            node.spec = Some(serde_json::from_value(spec).unwrap());
        });
        let p = gang(&mut c, 64, HIGH, gpu2, &json!({"tolerations": tolerations}));
        ask("X10", "64 x 2 GPU, 5,000 tolerations, one taint on each node", &c, &p, &none);
    }
    if run("X6") {
        for budgets in [100, 500, 2000] {
            let mut c = one_namespace(5000, 8, "12", |_| 10);
            for b in 0..budgets {
                c.upsert_budget(&budget(TEAM, &format!("b-{b:05}"), &json!({}), 100_000)).unwrap();
            }
            c.upsert_pod(&pod(TEAM, "lone", HIGH, &[("cpu", "24")])).unwrap();
            ask(
                "X6a",
                &format!("one pod, 40,000 pods in one namespace under {budgets} budgets each"),
                &c,
                &Preemptor::Pod(ObjectKey::new(TEAM, "lone")),
                &none,
            );
            let p = gang(&mut c, 64, HIGH, &[&[("cpu", "12")], &[("cpu", "24")]], &json!({}));
            ask("X6b", "64 of two kinds there", &c, &p, &none);
            if budgets == 500 {
                break;
            }
        }
    }
    if run("X17") {
        for (name, pods, allowed) in [("X17a", 8, 1), ("X17b", 8, 20_000), ("X17c", 30, 1), ("X17d", 30, 75_000)] {
            let mut c = one_namespace(5000, pods, &format!("{}m", 96_000 / pods), |_| 10);
            c.upsert_budget(&budget(TEAM, "all", &json!({}), allowed)).unwrap();
            c.upsert_pod(&pod(TEAM, "lone", HIGH, &[("cpu", "24")])).unwrap();
            let p = Preemptor::Pod(ObjectKey::new(TEAM, "lone"));
            let copy = c.clone();
            let timer = Timer::start();
            let d = plan(&copy, &p, &none);
            let cold = timer.took();
            let mut copy = copy;
            copy.remove_pod(&ObjectKey::new(TEAM, "job-000100"));
            let timer = Timer::start();
            plan(&copy, &p, &none);
            let said: String = crate::outcome(&d).chars().take(100).collect();
            println!(
                "| {name} | one pod, {} pods under one budget that allows {allowed} | cold {:.1} ms | warm, a pod of it gone {:.1} ms | {said}",
                pods * 5000,
                cold.cpu.unwrap() * 1e3,
                timer.took().cpu.unwrap() * 1e3
            );
        }
    }
    if run("X7") {
        let shape = generate::Shape { budgets: 2000, guaranteed: true, ..LARGE };
        let mut c = generate::large(shape);
        let p = gang(&mut c, 64, HIGH, gpu2, &json!({}));
        for departing in [1000, 5000, 20_000] {
            let leaving_pods = uids(&c, departing, |pod| pod.key.name.starts_with("train"));
            let context = Context { departing: leaving_pods, ..Context::default() };
            ask(
                "X7a",
                &format!("64 x 2 GPU, 2,000 budgets, {departing} pods that decisions in flight evict"),
                &c,
                &p,
                &context,
            );
        }
        let exempt = uids(&c, 5000, |pod| pod.key.name.starts_with("train"));
        let context = Context { exempt, ..Context::default() };
        ask("X7b", "the same, 5,000 pods exempt", &c, &p, &context);
        for number in 0..5000 {
            c.upsert_pod(&pod("flight", &format!("f-{number:05}"), HIGH, &[("cpu", "1")])).unwrap();
        }
        reserve(&mut c, 5000);
        ask("X7c", "the same, 5,000 reservations", &c, &p, &none);
        let p = gang(&mut c, 64, HIGH, gpu2, &spread(ZONE));
        ask("X7d", "the same, spread over zones", &c, &p, &none);
    }
    if run("X13") {
        // W5: many equal victims on every node; and pods that are leaving.
        let mut c = Cluster::default();
        for number in 0..LARGE.nodes {
            let mut node = generate::node(number);
            node.status.as_mut().unwrap().allocatable.as_mut().unwrap().get_mut("cpu").unwrap().0 = "16".to_owned();
            c.upsert_node(&node).unwrap();
            for at in 0..16 {
                c.upsert_pod(&on(pod("team-00", &format!("job-{number:05}-{at:02}"), 10, &[("cpu", "1")]), number))
                    .unwrap();
            }
        }
        c.upsert_pod(&pod(TEAM, "one", HIGH, &[("cpu", "8")])).unwrap();
        let p = Preemptor::Pod(ObjectKey::new(TEAM, "one"));
        ask("X13a", "W5: one pod, 16 equal pods a node", &c, &p, &none);
        for leaving in [500, 2000, 5000] {
            let leaving_pods: BTreeSet<SmolStr> =
                (0..leaving).map(|n| format!("00000000-0000-team-00-job-{n:05}-03").into()).collect();
            let context = Context { departing: leaving_pods, ..Context::default() };
            ask("X13b", &format!("the same, {leaving} pods leave"), &c, &p, &context);
        }
        for number in 0..5000 {
            c.upsert_pod(&pod("flight", &format!("f-{number:05}"), HIGH, &[("memory", "1Gi")])).unwrap();
        }
        for held in [500, 2000, 5000] {
            reserve(&mut c, held);
            ask("X13c", &format!("the same, {held} reservations"), &c, &p, &none);
        }
    }
    if run("X12") {
        const RACK: &str = "example.com/rack";
        let shape = generate::Shape { nodes: 5120, pods: 5120 * 32, budgets: 200, guaranteed: false };
        let base = generate::large_with(shape, 32, |number, node| {
            node.metadata.labels.as_mut().unwrap().insert(RACK.to_owned(), format!("rack-{:03}", number / 16));
        });
        for (name, key, size, more) in [
            ("X12a", RACK, 64, json!({})),
            ("X12b", HOST, 4, json!({})),
            ("X12c", RACK, 64, spread(HOST)),
            ("X12d", HOST, 4, spread(HOST)),
            (
                "X12e",
                RACK,
                64,
                json!({"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": "8", "nvidia.com/gpu": "8"}}}]}),
            ),
        ] {
            let mut c = base.clone();
            let p = gang_in(
                &mut c,
                "wide",
                size,
                HIGH,
                &[&[("cpu", "8"), ("nvidia.com/gpu", "8")]],
                &more,
                &json!({"topology": [{"key": key}]}),
            );
            ask(name, &format!("{size} x 8 GPU in one {key}"), &c, &p, &none);
            for leaving in [500, 5000] {
                let leaving_pods = uids(&c, leaving, |pod| pod.key.name.ends_with('1'));
                let context = Context { departing: leaving_pods, ..Context::default() };
                ask(name, &format!("the same, {leaving} pods leave"), &c, &p, &context);
            }
        }
    }
    if run("X15") {
        for (size, cpus) in [(16, 0), (64, 0), (60, 110_000), (400, 0), (4000, 0)] {
            let base = scattered(size, cpus);
            for (name, asks, more, n) in [
                ("X15a", gpu2, json!({}), 1000),
                ("X15b", mixed, json!({}), 64),
                ("X15c", gpu2, spread(ZONE), 64),
                ("X15d", mixed, json!({}), 1000),
            ] {
                let mut c = base.clone();
                let p = gang(&mut c, n, HIGH, asks, &more);
                ask(
                    name,
                    &format!(
                        "{n} members ({} kinds, {}) among scattered groups of {size}",
                        asks.len(),
                        if more == json!({}) { "-" } else { "spread" }
                    ),
                    &c,
                    &p,
                    &none,
                );
            }
            let mut c = base.clone();
            c.upsert_pod(&pod(TEAM, "lone", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")])).unwrap();
            c.upsert_pod(&with(
                pod(TEAM, "lone-spread", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")]),
                &spread(ZONE),
            ))
            .unwrap();
            ask(
                "X15e",
                &format!("one pod of 8 GPU among scattered groups of {size}"),
                &c,
                &Preemptor::Pod(ObjectKey::new(TEAM, "lone")),
                &none,
            );
            ask("X15f", "the same, spread", &c, &Preemptor::Pod(ObjectKey::new(TEAM, "lone-spread")), &none);
        }
    }
    if run("X9") {
        let mut c = large.clone();
        for number in 0..1000 {
            let list: Vec<Value> = (0..10).map(|n| json!({"labelSelector": {"matchExpressions": [{"key": "batch.kubernetes.io/job-completion-index", "operator": "In", "values": [format!("a{number}-{n}")]}]}, "namespaceSelector": {}, "topologyKey": HOST})).collect();
            c.upsert_pod(&on(
                with(pod("stranger", &format!("s-{number:05}"), 0, &[("cpu", "1")]), &anti(json!(list))),
                number,
            ))
            .unwrap();
        }
        let p = gang(&mut c, 1000, HIGH, gpu2, &json!({}));
        ask("X9", "1,000 x 2 GPU, 1,000 strangers' pods with 10 terms on the index of members", &c, &p, &none);
    }
    if run("X11") {
        for (ports, others) in [(100, 100), (500, 500), (100, 500)] {
            let mut c = large.clone();
            let list = |from: usize, ports: usize| -> Vec<Value> {
                (0..ports).map(|n| json!({"containerPort": from + n, "hostPort": from + n})).collect()
            };
            for number in 0..5000 {
                let more = json!({"containers": [{"name": "main", "ports": list(1, others), "resources": {"requests": {"cpu": "1"}}}]});
                c.upsert_pod(&on(with(pod("stranger", &format!("s-{number:05}"), 0, &[]), &more), number)).unwrap();
            }
            let more = json!({"containers": [{"name": "main", "ports": list(20_000, ports), "resources": {"requests": {"cpu": "8", "nvidia.com/gpu": "2"}}}]});
            let p = gang(&mut c, 64, HIGH, gpu2, &more);
            ask(
                "X11",
                &format!("64 x 2 GPU with {ports} ports, a pod with {others} others on every node"),
                &c,
                &p,
                &none,
            );
        }
    }
    if run("X18") {
        // 40 label keys for each node; and a foreign pod with anti-affinity to all pods.
        let mut c = generate::large_with(LARGE, 8, |number, node| {
            let labels = node.metadata.labels.as_mut().unwrap();
            for n in 0..40 {
                labels.insert(
                    format!("feature.node.kubernetes.io/some-long-feature-name-{n:02}"),
                    format!("{}", number % 7),
                );
            }
        });
        c.upsert_pod(&on(
            with(
                pod("stranger", "repels", 0, &[("cpu", "1")]),
                &anti(json!([{"labelSelector": {}, "namespaceSelector": {}, "topologyKey": ZONE}])),
            ),
            0,
        ))
        .unwrap();
        let p = gang(&mut c, 64, HIGH, gpu2, &json!({}));
        ask("X18a", "B6 with 40 labels on each node", &c, &p, &none);
        let list: Vec<Value> = (0..100).map(|n| json!({"maxSkew": 1, "topologyKey": format!("feature.node.kubernetes.io/some-long-feature-name-{:02}", n % 40), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"gang": "wide", "x": format!("{n}")}}})).collect();
        let p = gang(&mut c, 64, HIGH, gpu2, &json!({"topologySpreadConstraints": list}));
        ask("X18b", "64 x 2 GPU with 100 spread constraints", &c, &p, &none);
        let terms: Vec<Value> = (0..60).map(|n| json!({"labelSelector": {"matchLabels": {"gang": "wide", "x": format!("{n}")}}, "topologyKey": HOST})).collect();
        let p = gang(&mut c, 64, HIGH, mixed, &anti(json!(terms)));
        ask("X18c", "64 of two kinds with 60 terms by host name", &c, &p, &none);
        let p = gang_in(
            &mut c,
            "wide",
            64,
            HIGH,
            mixed,
            &anti(json!(terms)),
            &json!({"topology": [{"key": "feature.node.kubernetes.io/some-long-feature-name-01"}]}),
        );
        ask("X18d", "the same in one of 7 domains", &c, &p, &none);
    }
    if run("X2") {
        let shape = generate::Shape { budgets: 2000, guaranteed: true, ..LARGE };
        let mut c = generate::large(shape);
        let p = gang(&mut c, 64, 480, mixed, &json!({}));
        ask("X2a", "64 of two kinds, 2,000 budgets, half guaranteed", &c, &p, &none);
        // Every pod is under a guaranteed budget of its own team.
        let mut c = Cluster::default();
        for number in 0..LARGE.nodes {
            c.upsert_node(&generate::node(number)).unwrap();
        }
        for number in 0..40_000 {
            let mut built = pod(
                TEAM,
                &format!("job-{number:06}"),
                10 + i32::try_from(number * 7919 % 3).unwrap(),
                &[("cpu", "12"), ("nvidia.com/gpu", "1")],
            );
            built.metadata.annotations.get_or_insert_default().insert(
                "scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal".to_owned(),
                "2000".to_owned(),
            );
            c.upsert_pod(&label(on(built, number / 8), "b", &format!("{}", number * 7907 % 4000))).unwrap();
        }
        for b in 0..4000 {
            c.upsert_budget(&budget(TEAM, &format!("b-{b:05}"), &json!({"matchLabels": {"b": format!("{b}")}}), 1))
                .unwrap();
        }
        for (name, asks, n, more) in [
            ("X2b", gpu2, 64, json!({})),
            ("X2c", mixed, 64, json!({})),
            ("X2d", mixed, 1000, json!({})),
            ("X2e", gpu2, 1000, json!({})),
            ("X2f", gpu2, 64, spread(ZONE)),
        ] {
            let mut copy = c.clone();
            let p = gang(&mut copy, n, HIGH, asks, &more);
            ask(
                name,
                &format!("{n} ({} kinds), 40,000 guarded pods, budgets of 10 that allow 1", asks.len()),
                &copy,
                &p,
                &none,
            );
        }
        c.upsert_pod(&pod(TEAM, "lone", HIGH, &[("cpu", "8"), ("nvidia.com/gpu", "8")])).unwrap();
        ask("X2g", "one pod of 8 GPU there", &c, &Preemptor::Pod(ObjectKey::new(TEAM, "lone")), &none);
    }
    if run("X19") {
        // Few nodes, members of several kinds, and no way: everything is tried, domain after domain.
        const RACK: &str = "example.com/rack";
        let mut c = Cluster::default();
        for number in 0..LARGE.nodes {
            let mut node = generate::node(number);
            node.metadata.labels.as_mut().unwrap().insert(RACK.to_owned(), format!("rack-{:03}", number / 8));
            if number < 8 {
                node.metadata.labels.as_mut().unwrap().insert("few".to_owned(), "yes".to_owned());
            }
            c.upsert_node(&node).unwrap();
            // 12 units on each rack, a CPU of 96 each; priorities all different.
            for at in 0..(if number % 8 < 4 { 2 } else { 1 }) {
                let built = pod(
                    "team-00",
                    &format!("job-{number:05}-{at}"),
                    i32::try_from(number % 8 * 2 + at).unwrap(),
                    &[("cpu", "40")],
                );
                c.upsert_pod(&on(built, number)).unwrap();
            }
        }
        let add = |c: &mut Cluster, name: &str, constraints: &Value, more: &Value| {
            let mut g = group(TEAM, name, HIGH, 4, "Pod");
            if constraints.get("topology").is_some() {
                g.spec.scheduling_constraints = serde_json::from_value(constraints.clone()).unwrap();
            }
            c.upsert_group(&g).unwrap();
            for member in 0..4usize {
                let cpus = ["60", "61", "62", "63"][member];
                let built = label(
                    label(pod(TEAM, &format!("{name}-{member}"), HIGH, &[("cpu", cpus)]), GROUP_LABEL, name),
                    "gang",
                    name,
                );
                let mut spec = more.clone();
                if member == 3 {
                    // The last one (the smallest is placed last) cannot be in a rack with the others.
                }
                if member == 0 {
                    let term = json!({"labelSelector": {"matchLabels": {"gang": name}}, "topologyKey": RACK});
                    spec["affinity"] =
                        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
                }
                c.upsert_pod(&with(built, &spec)).unwrap();
            }
            Preemptor::Group(ObjectKey::new(TEAM, name))
        };
        let p = add(&mut c, "few", &json!({}), &json!({"nodeSelector": {"few": "yes"}}));
        ask("X19a", "4 members of 4 kinds on 8 nodes by nodeSelector, no way, 12 units", &c, &p, &none);
        let p = add(&mut c, "racked", &json!({"topology": [{"key": RACK}]}), &json!({}));
        ask("X19b", "the same in one of 625 racks of 8 nodes", &c, &p, &none);
    }
    if run("X24") {
        let c = one_namespace(5000, 8, "12", |n| i32::try_from(n * 7919 % 50).unwrap() * 10);
        for (name, size, key, cpu) in [
            ("X24a", 64, ZONE, "24"),
            ("X24b", 1000, ZONE, "24"),
            ("X24c", 1000, HOST, "24"),
            ("X24d", 4000, ZONE, "12"),
        ] {
            let mut c = c.clone();
            let more = json!({"topologySpreadConstraints": [{"maxSkew": 5, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]});
            let p = gang(&mut c, size, HIGH, &[&[("cpu", cpu)]], &more);
            ask(
                name,
                &format!("{size} of {cpu} CPU spread by {key} with 40,000 own pods of lower priority"),
                &c,
                &p,
                &none,
            );
        }
        for (name, size) in [("X24e", 64), ("X24f", 1000)] {
            let mut c = c.clone();
            let more = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE,
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]}}});
            let p = gang(&mut c, size, HIGH, &[&[("cpu", "24")]], &more);
            ask(name, &format!("{size} of 24 CPU drawn to any of 40,000 own pods in the zone"), &c, &p, &none);
        }
    }
    if run("X22") {
        let mut c = one_namespace(5000, 30, "3", |_| 10);
        let rules = |n: usize| -> Vec<Value> {
            (0..n).map(|n| json!({"key": format!("k{n}"), "operator": "DoesNotExist"})).collect()
        };
        let timer = Timer::start();
        c.upsert_budget(&budget(TEAM, "wide", &json!({"matchExpressions": rules(3000)}), 1)).unwrap();
        println!(
            "X22a upsert of a budget with 3,000 expressions, 150,000 pods in the namespace: {:.1} ms",
            timer.took().cpu.unwrap() * 1e3
        );
        let timer = Timer::start();
        for n in 0..20 {
            c.upsert_pod(&on(pod(TEAM, &format!("new-{n}"), 1, &[("cpu", "1")]), 3)).unwrap();
        }
        println!("X22b upsert of a pod under it: {:.3} ms", timer.took().cpu.unwrap() * 1e3 / 20.0);
        c.remove_budget(&ObjectKey::new(TEAM, "wide"));
        for b in 0..5000 {
            c.upsert_budget(&budget("other", &format!("b-{b}"), &json!({"matchLabels": {"a": "b"}}), 1)).unwrap();
        }
        let timer = Timer::start();
        for n in 0..20 {
            c.upsert_pod(&on(pod("other", &format!("new-{n}"), 1, &[("cpu", "1")]), 3)).unwrap();
        }
        println!(
            "X22c upsert of a pod in a namespace with 5,000 budgets: {:.3} ms",
            timer.took().cpu.unwrap() * 1e3 / 20.0
        );
    }
    if run("X25") {
        // A group on all nodes that is disrupted together, and single pods with inter-pod constraints; and one that fits nowhere.
        let base = scattered(4000, 0);
        for (name, what, more, asks) in [
            ("X25a", "spread", spread(ZONE), vec![("cpu", "8"), ("nvidia.com/gpu", "8")]),
            (
                "X25b",
                "a port",
                json!({"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"nvidia.com/gpu": "8"}}}]}),
                vec![],
            ),
            ("X25c", "exclusive on its host", exclusive(HOST), vec![("nvidia.com/gpu", "4")]),
        ] {
            let mut c = base.clone();
            c.upsert_pod(&with(label(pod(TEAM, "lone", HIGH, &asks), "gang", "wide"), &more)).unwrap();
            ask(
                name,
                &format!("one pod, {what}, among 10 groups of 4,000"),
                &c,
                &Preemptor::Pod(ObjectKey::new(TEAM, "lone")),
                &none,
            );
        }
        for (name, n, asks, more) in [("X25d", 64, gpu2, exclusive(HOST)), ("X25e", 64, mixed, spread(HOST))] {
            let mut c = base.clone();
            let p = gang(&mut c, n, HIGH, asks, &more);
            ask(name, &format!("{n} members among 10 groups of 4,000"), &c, &p, &none);
        }
        // One guaranteed budget over all pods of a group.
        let mut c = base.clone();
        c.upsert_budget(&budget("team-00", "all", &json!({}), 5000)).unwrap();
        for (name, asks, more) in [("X25f", gpu2, json!({})), ("X25g", mixed, json!({})), ("X25h", mixed, spread(ZONE))]
        {
            let p = gang(&mut c, 64, HIGH, asks, &more);
            ask(name, "64 members among 10 groups of 4,000, one budget over 40,000 that allows 5,000", &c, &p, &none);
        }
    }
}
