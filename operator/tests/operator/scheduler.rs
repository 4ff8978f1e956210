//! A kube-scheduler that is slow, or does not bind a pod.

use crate::driven::{Driven, Kind, gang, member, running};
use giveway_crds::condition::types::SCHEDULED;
use giveway_crds::plan::PlanState;
use serde_json::{Value, json};
use std::time::Duration;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns the states of the stored plans.
fn states(driven: &Driven) -> Vec<PlanState> {
    driven.plans().into_iter().filter_map(|plan| plan.status).map(|status| status.state).collect()
}

#[test]
fn a_slow_scheduler_fails_no_plan() {
    const GANGS: usize = 40;
    let mut driven = Driven::new(&[]);
    for number in 0..GANGS {
        let node = format!("n{number:02}");
        driven.node(&node, 1);
        driven.apply(Kind::Pod, running(&format!("low-{number:02}"), 10, &node, None));
        driven.submit_for(&node, &format!("train-{number:02}"), 1_000);
    }
    driven.settle();
    driven.terminate();
    driven.settle();
    let mut told = String::new();
    for bound in 0..GANGS {
        let nominated = driven.nominated();
        assert_eq!(nominated.len(), GANGS - bound, "every gang keeps its placement: {:#?}", driven.stored());
        driven.bind_pod(&nominated[0]);
        driven.run(seconds(2));
        if bound == 20 {
            told = driven.condition("train-39", SCHEDULED);
        }
    }
    let waits = "Waits for kube-scheduler, which binds ";
    assert!(told.starts_with("False Releasing: ") && told.contains(waits), "{told}");
    assert_eq!(states(&driven), vec![PlanState::Completed; GANGS], "{:#?}", driven.stored());
    assert_eq!(driven.evicted().len(), GANGS);
}

/// Returns a gated member of gang `train` that Job `train` made from a template with this image.
fn of_job(name: &str, image: &str) -> Value {
    let mut pod = member(name, 1_000, "train", 1);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-job", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([job]);
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod
}

/// Returns a cluster in which a pod of lower priority fills each of these nodes, and gang `train` of one pod is pending.
fn pending_gang(nodes: &[&str]) -> Driven {
    let mut driven = Driven::new(&[]);
    for node in nodes {
        driven.node(node, 1);
        driven.apply(Kind::Pod, running(&format!("low-{node}"), 10, node, None));
    }
    driven.apply(Kind::Group, gang("train", 1, 1_000));
    driven.apply(Kind::Pod, of_job("train-0", "train:1"));
    driven.settle();
    driven
}

/// Lets the victims terminate, rejects the binding of the pod, and lets a replacement of the victim take the node. Returns the node.
fn reject(driven: &mut Driven, pod: &str) -> String {
    driven.terminate();
    driven.settle();
    let node = driven.nominated_node(pod).expect("the pod is nominated");
    driven.reject_binding(pod, "binding denied by policy");
    let replacement = format!("low-{node}-{}", driven.second());
    driven.apply(Kind::Pod, running(&replacement, 10, &node, None));
    driven.settle();
    node
}

#[test]
fn a_pod_whose_binding_is_rejected_is_banned_also_if_its_placement_is_taken_at_once() {
    let mut driven = pending_gang(&["n1"]);
    reject(&mut driven, "train-0");
    let failed = driven.stored();
    assert!(failed[0].starts_with("Preemptor Failed: The scheduler could not bind every released pod: "), "{failed:?}");
    assert!(failed[0].ends_with("kube-scheduler says of pod train-0: binding denied by policy"), "{failed:?}");
    let told = |driven: &Driven| {
        let condition = driven.condition("train", SCHEDULED);
        assert!(condition.contains("No pod is evicted for pod train-"), "{condition}");
        assert!(
            condition.contains(" on node n1 until ") && condition.contains("binding denied by policy"),
            "{condition}"
        );
    };
    driven.run(seconds(120));
    told(&driven);
    assert_eq!(driven.evicted(), ["low-n1"]);
    // The next leader, and the pod that replaces the banned one.
    driven.next_leader();
    driven.run(seconds(120));
    driven.delete(Kind::Pod, "train-0");
    driven.apply(Kind::Pod, of_job("train-1", "train:1"));
    driven.run(seconds(120));
    told(&driven);
    assert_eq!(driven.evicted(), ["low-n1"]);
    // Another template.
    driven.delete(Kind::Pod, "train-1");
    driven.apply(Kind::Pod, of_job("train-2", "train:2"));
    driven.run(seconds(120));
    assert_eq!(driven.evicted().len(), 2, "{:#?}", driven.stored());
}

#[test]
fn after_a_second_node_no_pod_is_evicted_on_any_node_for_an_hour() {
    let mut driven = pending_gang(&["n1", "n2", "n3"]);
    let first = reject(&mut driven, "train-0");
    driven.run(seconds(10));
    let second = reject(&mut driven, "train-0");
    assert_ne!(first, second, "the planner chose another node");
    let bans = |driven: &Driven| -> Vec<Option<String>> {
        let plans = driven.plans().into_iter().filter_map(|plan| plan.status);
        plans.flat_map(|status| status.bans).map(|ban| ban.node).collect()
    };
    let mut expected = vec![None, Some(first), Some(second)];
    let mut stored = bans(&driven);
    expected.sort();
    stored.sort();
    assert_eq!(stored, expected);
    driven.run(seconds(60));
    driven.next_leader();
    driven.run(seconds(3_400));
    assert_eq!(driven.evicted().len(), 2);
    let condition = driven.condition("train", SCHEDULED);
    assert!(condition.contains("No pod is evicted for pod train-0 on any node until "), "{condition}");
    driven.run(seconds(200));
    assert_eq!(driven.evicted().len(), 3, "the bans have ended: {:#?}", driven.stored());
}

#[test]
fn a_ban_ends_when_its_preemption_is_deleted() {
    let mut driven = pending_gang(&["n1"]);
    reject(&mut driven, "train-0");
    driven.run(seconds(60));
    assert_eq!(driven.evicted().len(), 1);
    let plans: Vec<String> = driven.plans().into_iter().filter_map(|plan| plan.metadata.name).collect();
    plans.iter().for_each(|plan| driven.delete(Kind::Preemption, plan));
    driven.run(seconds(10));
    assert_eq!(driven.evicted().len(), 2);
}

#[test]
fn a_pod_that_is_bound_at_last_is_not_banned_any_more() {
    let mut driven = pending_gang(&["n1"]);
    let node = reject(&mut driven, "train-0");
    // The replacement ends, and this time the binding is permitted.
    driven.pods_on(&node).iter().for_each(|pod| driven.delete(Kind::Pod, pod));
    driven.run(seconds(5));
    driven.bind();
    driven.run(seconds(1));
    assert_eq!(driven.bound("train"), ["train-0"]);
    // Later the gang is replaced.
    driven.delete(Kind::Pod, "train-0");
    driven.apply(Kind::Pod, running("low-again", 10, &node, None));
    driven.apply(Kind::Pod, of_job("train-1", "train:1"));
    driven.run(seconds(10));
    assert_eq!(driven.evicted().len(), 2, "{}", driven.condition("train", SCHEDULED));
}
