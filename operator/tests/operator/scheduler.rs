//! A kube-scheduler that is slow, or does not bind a pod.

use crate::driven::{Driven, Kind, gang, member, running};
use crate::world;
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
    let mut message = String::new();
    for bound in 0..GANGS {
        let nominated = driven.nominated();
        assert_eq!(nominated.len(), GANGS - bound, "every gang keeps its placement: {:#?}", driven.stored());
        driven.bind_pod(&nominated[0]);
        driven.run(seconds(2));
        if bound == 20 {
            message = driven.condition("train-39", SCHEDULED);
        }
    }
    let waits = "The plan waits for kube-scheduler, which binds ";
    assert!(message.starts_with("False Ungating: ") && message.contains(waits), "{message}");
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
fn a_pod_is_banned_after_its_binding_was_rejected_also_if_its_placement_is_taken_at_once() {
    let mut driven = pending_gang(&["n1"]);
    reject(&mut driven, "train-0");
    let failed = driven.stored();
    assert!(failed[0].starts_with("Preemptor Failed: kube-scheduler could not bind every ungated pod: "), "{failed:?}");
    assert!(failed[0].ends_with("kube-scheduler says of pod train-0: binding denied by policy"), "{failed:?}");
    let message = |driven: &Driven| {
        let condition = driven.condition("train", SCHEDULED);
        assert!(condition.contains("No pod is evicted for pod train-"), "{condition}");
        assert!(
            condition.contains(" on node n1 until ") && condition.contains("binding denied by policy"),
            "{condition}"
        );
    };
    driven.run(seconds(120));
    message(&driven);
    assert_eq!(driven.evicted(), ["low-n1"]);
    // The next leader, and the pod that replaces the banned one.
    driven.next_leader();
    driven.run(seconds(120));
    driven.delete(Kind::Pod, "train-0");
    driven.apply(Kind::Pod, of_job("train-1", "train:1"));
    driven.run(seconds(120));
    message(&driven);
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

#[test]
fn the_next_leader_does_not_restore_a_ban_that_ended_early() {
    let mut driven = pending_gang(&["n1"]);
    let node = reject(&mut driven, "train-0");
    driven.pods_on(&node).iter().for_each(|pod| driven.delete(Kind::Pod, pod));
    driven.run(seconds(5));
    driven.bind();
    driven.run(seconds(1));
    assert_eq!(driven.bound("train"), ["train-0"]);
    let term = driven.plans()[0].status.clone().unwrap().term;
    driven.next_leader();
    driven.run(seconds(1));
    driven.delete(Kind::Pod, "train-0");
    driven.apply(Kind::Pod, running("low-again", 10, &node, None));
    driven.apply(Kind::Pod, of_job("train-1", "train:1"));
    driven.run(seconds(10));
    assert_eq!(driven.evicted().len(), 2, "{}", driven.condition("train", SCHEDULED));
    let failed = driven.plans()[0].status.clone().unwrap();
    assert_eq!((failed.state, failed.term), (PlanState::Failed, term), "nothing else of the earlier plan has changed");
    assert_eq!(failed.bans.len(), 1);
}

/// Returns a pod that kube-scheduler reported as unschedulable.
pub fn unschedulable(name: &str, priority: i32) -> Value {
    let mut pod = world::pod(name, priority, None, None);
    pod["spec"]["schedulingGates"] = json!([]);
    let message = "0/3 nodes are available: 3 Insufficient cpu.";
    pod["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]);
    pod
}

/// Lets time pass until this number of plans have failed.
fn run_until_failed(driven: &mut Driven, count: usize) {
    for _ in 0..400 {
        if states(driven).iter().filter(|state| **state == PlanState::Failed).count() == count {
            return;
        }
        driven.run(Duration::from_millis(250));
    }
    panic!("{count} plans should have failed: {:#?}", driven.stored());
}

/// Creates a pod of low priority on each node without a pod.
fn refill(driven: &mut Driven, nodes: &[&str]) {
    for node in nodes {
        if driven.pods_on(node).is_empty() {
            driven.apply(Kind::Pod, running(&format!("low-{node}-{}", driven.second()), 10, node, None));
        }
    }
}

#[test]
fn a_critical_add_on_that_is_never_bound_gives_its_turn_to_the_next_one_and_is_banned() {
    const NODES: [&str; 3] = ["n1", "n2", "n3"];
    let mut driven = Driven::new(&["--critical-addons-namespaces=default"]);
    NODES.iter().for_each(|node| driven.node(node, 1));
    refill(&mut driven, &NODES);
    driven.apply(Kind::Pod, unschedulable("stuck", 2_000_000_001));
    driven.apply(Kind::Pod, unschedulable("dns", 2_000_000_000));
    driven.apply(Kind::Pod, unschedulable("other", 0));
    driven.run(seconds(25));
    // kube-scheduler runs.
    driven.report_unbound("other", "Unschedulable", "0/3 nodes are available: 3 Insufficient memory.");
    driven.run(seconds(10));
    driven.terminate();
    driven.settle();
    assert_eq!(driven.nominated(), ["stuck"]);
    let (first, start) = (driven.nominated_node("stuck"), driven.second());
    run_until_failed(&mut driven, 1);
    let turn = driven.second() - start;
    assert!((59..=61).contains(&turn), "{turn} s");
    // Another pod takes the capacity, so that the next add-on needs a plan of its own.
    refill(&mut driven, &NODES);
    driven.run(seconds(3));
    let preemptors: Vec<String> =
        driven.plans().into_iter().filter_map(|plan| Some(plan.spec.preemptor?.name)).collect();
    assert_eq!(preemptors, ["stuck", "dns"]);
    driven.terminate();
    driven.settle();
    driven.bind_pod("dns");
    // The first one is tried on another node a minute later, and then on none, also by the next leader.
    driven.run(seconds(65));
    driven.terminate();
    driven.settle();
    let second = driven.nominated_node("stuck");
    assert!(second.is_some() && second != first, "{second:?}, and not {first:?} again");
    run_until_failed(&mut driven, 2);
    refill(&mut driven, &NODES);
    driven.run(seconds(600));
    driven.next_leader();
    driven.run(seconds(5));
    driven.report_unbound("other", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.");
    driven.run(seconds(600));
    assert_eq!(driven.evicted().len(), 3, "two for the first add-on, and one for the second: {:#?}", driven.stored());
    let message = "No pod is evicted for pod stuck on any node until ";
    assert!(driven.events.iter().any(|event| event.contains(message)), "{:#?}", driven.events);
}
