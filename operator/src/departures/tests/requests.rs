//! Requests: a pod is evicted once, whatever the causes.

use super::{at, member};
use crate::departures::requests::Requests;
use crate::messages::command::{Command, EvictCall, EvictOutcome, EvictionCause};
use crate::testing::World;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::time::{Duration, Instant};

/// Returns the eviction of a pod.
pub(super) fn call(cause: EvictionCause, pod: &str) -> EvictCall {
    EvictCall {
        priority: 100,
        cause,
        pod: ObjectKey::new("default", pod),
        uid: format!("uid-{pod}").into(),
        budgeted: false,
        may_force: true,
        grace: None,
        rehearsal: false,
        again: false,
        message: "Preempted.".into(),
        permission: tokio_util::sync::CancellationToken::new(),
    }
}

fn plan(id: &str) -> EvictionCause {
    EvictionCause::Plan { preemptor: Preemptor::Group(ObjectKey::new("default", id)), id: id.to_owned() }
}

fn uid(pod: &str) -> SmolStr {
    format!("uid-{pod}").into()
}

/// Requests evictions for a plan. Returns the pods that are evicted now; `again` if they are read before.
fn request(requests: &mut Requests, id: &str, pods: &[&str]) -> Vec<String> {
    let mut commands: Vec<Command> = pods.iter().map(|pod| Command::Evict(Box::new(call(plan(id), pod)))).collect();
    requests.admit_all(&mut commands);
    let said = |command: &Command| match command {
        Command::Evict(call) => format!("{}{}", call.pod.name, if call.again { " again" } else { "" }),
        other => format!("{other:?}"),
    };
    commands.iter().map(said).collect()
}

#[test]
fn of_two_plans_that_share_a_victim_one_evicts_it() {
    let (mut requests, now) = (Requests::default(), Instant::now());
    assert_eq!(request(&mut requests, "first", &["l1", "l2"]), ["l1", "l2"]);
    assert_eq!(request(&mut requests, "second", &["l1", "l2", "l3"]), ["l3"]);
    assert!(requests.are_in_flight_for("first") && requests.are_in_flight_for("second"));
    // The first plan has ended before its evictions were made.
    requests.answered(&uid("l1"), &EvictOutcome::Withdrawn, now);
    requests.answered(&uid("l2"), &EvictOutcome::Withdrawn, now);
    assert!(!requests.are_in_flight_for("first"));
    assert_eq!(request(&mut requests, "second", &["l1", "l2"]), ["l1", "l2"]);
}

#[test]
fn a_withdrawn_request_does_not_show_that_an_earlier_one_had_no_effect() {
    let (mut requests, now) = (Requests::default(), Instant::now());
    request(&mut requests, "first", &["l1", "l2"]);
    requests.answered(&uid("l1"), &EvictOutcome::Unanswered("no answer in time".into()), now);
    requests.answered(&uid("l2"), &EvictOutcome::Withdrawn, now);
    request(&mut requests, "first", &["l1", "l2"]);
    for pod in ["l1", "l2"] {
        requests.answered(&uid(pod), &EvictOutcome::Withdrawn, now);
    }
    assert!(requests.may_have_worked("uid-l1"), "it counts for the limits on evictions");
    assert!(!requests.may_have_worked("uid-l2"));
}

#[test]
fn a_pod_is_read_first_if_its_eviction_may_have_been_carried_out() {
    let results = [
        (EvictOutcome::Unanswered("no answer in time".into()), vec!["l1 again"]),
        (EvictOutcome::Error("etcdserver: request timed out".into()), vec!["l1 again"]),
        (EvictOutcome::Refused("0 allowed".into()), vec!["l1"]),
        (EvictOutcome::Rejected("not today".into()), vec!["l1"]),
        (EvictOutcome::Accepted, vec![]),
        (EvictOutcome::Forced, vec![]),
    ];
    for (outcome, expected) in results {
        let (mut requests, now) = (Requests::default(), Instant::now());
        assert_eq!(request(&mut requests, "first", &["l1"]), ["l1"]);
        requests.answered(&uid("l1"), &outcome, now);
        assert_eq!(request(&mut requests, "second", &["l1"]), expected, "{outcome:?}");
    }
    // A later refusal says nothing about an earlier request.
    let (mut requests, now) = (Requests::default(), Instant::now());
    request(&mut requests, "first", &["l1"]);
    requests.answered(&uid("l1"), &EvictOutcome::Unanswered("no answer in time".into()), now);
    request(&mut requests, "second", &["l1"]);
    requests.answered(&uid("l1"), &EvictOutcome::Refused("0 allowed".into()), now);
    assert_eq!(request(&mut requests, "third", &["l1"]), ["l1 again"]);
    // An earlier leader may have made requests, too.
    let mut requests = Requests::default();
    requests.resume(&ObjectKey::new("default", "l1"), "uid-l1");
    assert_eq!(request(&mut requests, "first", &["l1", "l2"]), ["l1 again", "l2"]);
}

#[test]
fn an_accepted_eviction_is_waited_for_until_the_watch_shows_it_or_for_a_minute() {
    let mut world = World::new();
    world.node("n1", 8).group("low", 2, 10, "PodGroup");
    world.pod(member("l1")).pod(member("l2"));
    let (mut requests, now) = (Requests::default(), at(Instant::now()).now);
    request(&mut requests, "first", &["l1", "l2"]);
    for pod in ["l1", "l2"] {
        requests.answered(&uid(pod), &EvictOutcome::Accepted, now);
    }
    assert!(!requests.observe(&world.model, now));
    assert_eq!(requests.accepted().collect::<Vec<_>>(), ["uid-l1", "uid-l2"]);
    world.pod(member("l2").terminating());
    assert!(!requests.observe(&world.model, now + Duration::from_secs(59)));
    assert_eq!(requests.accepted().collect::<Vec<_>>(), ["uid-l1"]);
    assert!(requests.observe(&world.model, now + Duration::from_secs(60)), "plans must be checked again");
    assert_eq!(requests.accepted().count(), 0);
    assert_eq!(request(&mut requests, "second", &["l1"]), ["l1 again"]);
    world.remove_pod("l1");
    requests.answered(&uid("l1"), &EvictOutcome::Gone, now);
    requests.observe(&world.model, now);
    assert!(!requests.is_requested("uid-l1") && !requests.are_in_flight_for("second"));
}
