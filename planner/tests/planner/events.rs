//! A model that heard of every step knows what one knows that heard of the last state only.

use crate::common::*;
use giveway_planner::{Cluster, Decision};
use serde_json::json;

/// Everything that can be asked of a model about its pods.
fn seen(cluster: &Cluster) -> Vec<String> {
    let mut list: Vec<String> = cluster
        .pods()
        .map(|pod| format!("{} {} {:?} {:?}", pod.key, cluster.effective_priority(pod), pod.node, pod.phase))
        .collect();
    for node in ["a", "b", "gone"] {
        list.push(format!("{node}: {:?}", cluster.pods_on(node).map(|pod| pod.key.to_string()).collect::<Vec<_>>()));
    }
    list.push(format!("unbound: {:?}", cluster.unbound().map(|pod| pod.key.to_string()).collect::<Vec<_>>()));
    for preemptor in [for_pod("p"), for_group("g")] {
        list.push(match decide(cluster, &preemptor) {
            Decision::Preempt(plan) => {
                format!("{preemptor}: {:?} {:?} {:?}", plan.victims, plan.placements, plan.awaited)
            }
            other => format!("{preemptor}: {other:?}"),
        });
    }
    list
}

#[test]
fn an_updated_pod_counts_as_if_it_had_been_created_so() {
    let budget = budget("b", "web", 1);
    let stages = |name: &str, group: Option<&str>| {
        let new = pod(name).label("app", "web").priority(3);
        let new = group.map_or(new.clone(), |group| new.group(group));
        let bound = new.clone().on("a").set("/status/phase", json!("Pending"));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let runs = new.clone().on("a").set("/status/conditions", ready);
        let started = runs.clone().set("/status/startTime", json!("2026-01-01T00:00:00Z"));
        [
            new.clone(),
            new.clone().nominated("b"),
            bound,
            runs.clone(),
            started,
            runs.clone().threshold(50),
            new.clone().on("gone"),
            runs.clone().terminating(),
            new.clone().on("a").set("/status/phase", json!("Failed")),
            new,
        ]
    };
    for group in [None, Some("whole"), Some("single"), Some("unknown")] {
        let base = [
            node("a", 2),
            node("b", 1),
            gang("whole", 2, 1).whole(),
            gang("single", 2, 1),
            pod("whole-0").group("whole").priority(2).on("b"),
            pod("p").priority(9),
            gang("g", 8, 2),
            pod("g-0").group("g"),
            pod("g-1").group("g"),
            budget.clone(),
        ];
        let mut updated = cluster(&base);
        for (step, stage) in stages("x", group).iter().enumerate() {
            add(&mut updated, stage);
            let mut fresh = cluster(&base);
            add(&mut fresh, stage);
            assert_eq!(seen(&updated), seen(&fresh), "{group:?}, step {step}");
        }
        updated.remove_pod(&key("x"));
        assert_eq!(seen(&updated), seen(&cluster(&base)), "{group:?}");
    }
}
