//! Rows for critical add-ons: easy ones, ones with constraints on other nodes, and clusters built to be hard.

use crate::generate::{self, LARGE, TEAM};
use crate::measure::{Row, Samples, Timer};
use giveway_planner::rescue::{Rescue, Terms, rescue};
use giveway_planner::{Cluster, Context, ObjectKey};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// No decision for an add-on may take longer.
const GOAL: &str = "100 ms";

fn outcome(found: &Rescue) -> String {
    match found {
        Rescue::Evict(found) => format!(
            "step {}, {} evicted; {}",
            found.step.number(),
            found.plan.cost.victim_pods,
            found.plan.trace.last().map(String::as_str).unwrap_or_default()
        ),
        Rescue::Hopeless(why) => why.to_string(),
        other => format!("{other:?}"),
    }
}

/// An add-on with this in its specification.
fn addon(asks: &[(&str, &str)], more: Value) -> Pod {
    let mut pod = serde_json::to_value(generate::pod(TEAM, "dns-0", 0, asks)).unwrap();
    pod["metadata"]["annotations"] = json!({"scheduling.giveway.dev/critical-addon": "true"});
    pod["metadata"]["labels"] = json!({"app": "dns"});
    for (field, value) in more.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn measure(name: &str, what: &str, cluster: &Cluster, pod: &Pod) {
    let mut cluster = cluster.clone();
    cluster.upsert_pod(pod).unwrap();
    let key = ObjectKey::new(TEAM, "dns-0");
    let terms = Terms { namespaces: [TEAM.to_owned()].into(), stranded: false };
    let (mut samples, mut said) = (Samples::default(), String::new());
    for _ in 0..5 {
        let copy = cluster.clone();
        let timer = Timer::start();
        let found = rescue(&copy, &key, &terms, &Context::default());
        samples.push(timer.took());
        said = outcome(&found);
    }
    Row { name, what, goal: GOAL }.print("cold", &samples, None, &said);
}

/// Every node full of pods that are all different, each with a budget of its own that allows one of three.
fn different(nodes: usize, pods: usize) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..nodes {
        cluster.upsert_node(&generate::node(number)).unwrap();
        for index in 0..pods {
            let (cpu, memory) = (format!("{}m", 96_000 / pods + index), format!("{}Mi", 1000 + number % 7 + index * 3));
            let name = format!("p{index:03}-{number:05}");
            let mut pod =
                generate::on(generate::pod("team-00", &name, 0, &[("cpu", &cpu), ("memory", &memory)]), number);
            let grace = if index % 3 == 0 { 0 } else { 30 };
            pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(grace);
            cluster.upsert_pod(&pod).unwrap();
        }
    }
    cluster
}

/// Prints the rows.
pub(crate) fn rows() {
    let large = generate::large(LARGE);
    let zone = |key: &str, app: &str| json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "dns"}}}]});
    let apart = |key: &str, app: &str| json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [zone(key, app)]}}});
    let one = [("cpu", "1"), ("memory", "200Gi")];
    measure("C1", "an add-on of 1 CPU that fits", &large, &addon(&[("cpu", "1")], json!({})));
    measure("C2", "one of 8 GPU", &large, &addon(&[("nvidia.com/gpu", "8")], json!({})));
    measure("C3", "one of 96 CPU", &large, &addon(&[("cpu", "96")], json!({})));
    measure("C4", "one of 8 GPU, spread over zones", &large, &addon(&[("nvidia.com/gpu", "8")], spread));
    let kubernetes = "kubernetes.io/hostname";
    measure(
        "C5",
        "one of 8 GPU, apart from itself",
        &large,
        &addon(&[("nvidia.com/gpu", "8")], apart(kubernetes, "dns")),
    );
    let zones = apart("topology.kubernetes.io/zone", "pod");
    measure("C6", "one of 8 GPU, apart from others by zone", &large, &addon(&[("nvidia.com/gpu", "8")], zones));
    let hard = different(5000, 30);
    measure("C7", "150,000 different pods, one of 40 CPU", &hard, &addon(&[("cpu", "40")], json!({})));
    measure("C8", "150,000 different pods, one that fits nowhere", &hard, &addon(&[("cpu", "97")], json!({})));
    measure("C9", "the same, one of 1 CPU and 200 GiB", &hard, &addon(&one, json!({})));
    let mut grouped = generate::large(LARGE);
    grouped.upsert_group(&generate::group("team-00", "everywhere", 0, 1, "PodGroup")).unwrap();
    for number in 0..LARGE.nodes {
        let mut pod = generate::on(generate::pod("team-00", &format!("e-{number:05}"), 0, &[("cpu", "1")]), number);
        let label = ("scheduling.giveway.dev/pod-group".to_owned(), "everywhere".to_owned());
        pod.metadata.labels.get_or_insert_default().extend([label]);
        grouped.upsert_pod(&pod).unwrap();
    }
    measure("C11", "C2 with a whole group on all nodes", &grouped, &addon(&[("nvidia.com/gpu", "8")], json!({})));
    measure("C12", "the same, one that fits nowhere", &grouped, &addon(&[("nvidia.com/gpu", "9")], json!({})));
    let few = different(20, 100);
    measure("C10", "20 nodes of 100 different pods, 48 CPU", &few, &addon(&[("cpu", "48")], json!({})));
}
