//! `still_fits`: a decision is checked again against the cluster as it is.

use crate::common::*;
use giveway_planner::{Cluster, Context, Placement, Reservation, SmolStr, still_fits};
use std::collections::BTreeSet;

fn placement(pod: &str, node: &str) -> Placement {
    Placement { pod: key(pod), uid: format!("uid-{pod}").into(), node: node.into() }
}

fn check(cluster: &Cluster, placements: &[Placement], victims: &[&str]) -> Result<(), String> {
    let victims: BTreeSet<SmolStr> = victims.iter().map(|name| format!("uid-{name}").into()).collect();
    still_fits(cluster, placements, 10, &Context::default(), &victims)
}

#[test]
fn placements_fit_together_once_the_victims_have_terminated() {
    let all = [node("a", 2), pod("x").on("a"), pod("y").on("a").terminating(), pod("p"), pod("q")];
    let cluster = cluster(&all);
    let both = [placement("p", "a"), placement("q", "a")];
    assert_eq!(check(&cluster, &both, &["x", "y"]), Ok(()));
    let problem = "Pod default/q does not fit on node a any more: insufficient cpu.";
    assert_eq!(check(&cluster, &both, &["x"]), Err(problem.to_owned()), "a terminating pod is still there");
}

#[test]
fn a_resource_that_no_node_offers_is_named_also_if_a_pod_that_requests_it_is_nominated() {
    let all = [node("a", 2), pod("p").asks("example.com/unknown", "1"), pod("q")];
    let mut cluster = cluster(&all);
    let problem = "Pod default/p does not fit on node a any more: insufficient example.com/unknown.";
    assert_eq!(check(&cluster, &[placement("p", "a")], &[]), Err(problem.to_owned()));
    cluster.reserve("uid-p", "a", Reservation::Started(50));
    assert_eq!(still_fits(&cluster, &[placement("q", "a")], 10, &Context::default(), &BTreeSet::new()), Ok(()));
}

#[test]
fn a_member_that_is_bound_to_its_node_is_fine_and_counts_once() {
    let cluster = cluster(&[node("a", 2), pod("p").on("a"), pod("q")]);
    assert_eq!(check(&cluster, &[placement("p", "a"), placement("q", "a")], &[]), Ok(()));
}

#[test]
fn a_member_that_is_deleted_bound_elsewhere_or_leaving_is_named() {
    let all = [node("a", 2), node("b", 1), pod("p").on("b"), pod("q").terminating()];
    let cluster = cluster(&all);
    for (name, problem) in [
        ("p", "Pod default/p is bound to node b instead of a."),
        ("q", "Pod default/q is terminating or has ended."),
        ("r", "Pod default/r does not exist any more."),
    ] {
        assert_eq!(check(&cluster, &[placement(name, "a")], &[]), Err(problem.to_owned()));
    }
}

#[test]
fn a_node_that_is_deleted_cordoned_or_tainted_is_named() {
    let cordoned = node("cordoned", 1).set("/spec/unschedulable", true.into());
    let taint = serde_json::json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let tainted = node("tainted", 1).set("/spec/taints", taint);
    let cluster = cluster(&[cordoned, tainted, pod("p")]);
    for (name, problem) in [
        ("gone", "Node gone, planned for pod default/p, does not exist any more."),
        ("cordoned", "Pod default/p does not fit on node cordoned any more: the node is unschedulable."),
        ("tainted", "Pod default/p does not fit on node tainted any more: the node has the untolerated taint {k: v}."),
    ] {
        assert_eq!(check(&cluster, &[placement("p", name)], &[]), Err(problem.to_owned()));
    }
}

#[test]
fn reservations_of_equal_or_higher_priority_count() {
    let mut cluster = cluster(&[node("a", 1), pod("p").priority(10), pod("r").priority(10)]);
    let mut check = |priority| {
        cluster.reserve("uid-r", "a", Reservation::Started(priority));
        still_fits(&cluster, &[placement("p", "a")], 10, &Context::default(), &BTreeSet::new())
    };
    assert!(check(10).unwrap_err().ends_with("insufficient cpu."));
    assert_eq!(check(9), Ok(()));
}
