//! Decisions in flight reserve capacity: the race scenarios of KEP-4832. The preemption for `pod1` on `node1` is in progress when `pod2` is
//! decided.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Reservation};
use std::collections::BTreeSet;

/// Two nodes of 2 CPUs; `pod1` (priority 50) evicts `low-1` from `node1` and has a reservation there.
fn in_flight(pod2: Built, node1: &[Built], node2: &[Built]) -> (Cluster, Context) {
    let mut all = vec![node("node1", 2), node("node2", 2), pod("pod1").priority(50), pod("low-1").on("node1"), pod2];
    all.extend_from_slice(node1);
    all.extend_from_slice(node2);
    let mut cluster = cluster(&all);
    cluster.reserve("uid-pod1", "node1", Reservation::Started(50));
    (cluster, Context { departing: BTreeSet::from(["uid-low-1".into()]), ..Context::default() })
}

#[test]
fn equal_or_lower_priority_does_not_use_capacity_that_is_being_freed() {
    for priority in [50, 10] {
        let (cluster, context) = in_flight(
            pod("pod2").priority(priority),
            &[pod("high-1").priority(99).on("node1")],
            &[pod("high-2").priority(99).asks("cpu", "2").on("node2")],
        );
        let decision = plan(&cluster, &for_pod("pod2"), &context);
        assert!(matches!(decision, Decision::Unschedulable(_)), "{decision:?}");
    }
}

#[test]
fn a_preemptor_of_equal_or_lower_priority_is_placed_beside_the_nominated_pod() {
    let (cluster, context) = in_flight(pod("pod2").priority(50), &[pod("high-1").priority(99).on("node1")], &[]);
    match plan(&cluster, &for_pod("pod2"), &context) {
        Decision::Fits { placements, .. } => assert_eq!(placements[0].node, "node2"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn higher_priority_ignores_the_nomination() {
    let (cluster, context) = in_flight(
        pod("pod2").priority(90),
        &[pod("high-1").priority(99).on("node1")],
        &[pod("high-2").priority(99).asks("cpu", "2").on("node2")],
    );
    let plan = planned(plan(&cluster, &for_pod("pod2"), &context));
    assert_eq!(plan.victims, vec![], "what leaves for pod1 leaves for pod2 as well");
    assert_eq!(plan.awaited, [key("low-1")]);
    assert_eq!(places(&plan), ["pod2>node1"]);
}

#[test]
fn a_preemption_on_the_same_node_frees_capacity_for_both() {
    let (cluster, context) = in_flight(
        pod("pod2").priority(50),
        &[pod("low-2").on("node1")],
        &[pod("high-2").priority(99).asks("cpu", "2").on("node2")],
    );
    let plan = planned(plan(&cluster, &for_pod("pod2"), &context));
    assert_eq!(victims(&plan), ["low-2"], "the capacity of low-1 is for pod1 only");
    assert_eq!(places(&plan), ["pod2>node1"]);
}

#[test]
fn a_nomination_holds_like_a_reservation_and_the_own_one_does_not() {
    let all =
        [node("a", 1), pod("nominated").priority(50).nominated("a"), pod("p").priority(50), pod("q").priority(51)];
    let cluster = cluster(&all);
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Fits { .. }));
    assert!(matches!(decide(&cluster, &for_pod("nominated")), Decision::Fits { .. }));
}

#[test]
fn a_reservation_ends_when_its_pod_is_bound_or_deleted() {
    let fits = |objects: &[Built]| {
        let mut cluster = cluster(objects);
        cluster.reserve("uid-r", "a", Reservation::Started(50));
        matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. })
    };
    assert!(!fits(&[node("a", 1), pod("r"), pod("p")]));
    assert!(fits(&[node("a", 1), pod("p")]));
    assert!(fits(&[node("a", 1), node("b", 1), pod("r").on("b"), pod("p")]));
    assert!(fits(&[node("a", 1), pod("r").set("/metadata/uid", "another".into()), pod("p")]));
}
