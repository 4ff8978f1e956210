//! Finished members count for the barrier during the run to which they belong.

use crate::common::*;
use giveway_planner::Decision;
use serde_json::json;

/// A gang of four on a node with enough capacity, whose status records this number of finished members of these owners.
fn gang_of_four(owners: &[&str], count: i32) -> Vec<Built> {
    let remembered = json!({"owners": owners, "count": count});
    vec![node("n", 8), gang("g", 10, 4).set("/status/finished", remembered)]
}

/// A member that this controller made.
fn of(name: &str, kind: &str, owner: &str) -> Built {
    let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let reference = json!([{"apiVersion": version, "kind": kind, "name": owner, "uid": owner, "controller": true}]);
    pod(name).group("g").set("/metadata/ownerReferences", reference)
}

/// The same, which has done its work.
fn done(pod: Built) -> Built {
    pod.on("n").set("/status/phase", json!("Succeeded"))
}

/// How many members are placed, or what is missing.
fn decided(objects: &[Built]) -> Result<usize, (usize, usize)> {
    match decide(&cluster(objects), &for_group("g")) {
        Decision::Fits { placements, .. } => Ok(placements.len()),
        Decision::WaitingForPods { live, finished, min_count: 4, .. } => Err((live, finished)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_member_starts_alone_when_the_others_have_finished() {
    let mut all = gang_of_four(&[], 0);
    all.push(of("g-3", "Job", "j"));
    assert_eq!(decided(&all), Err((1, 0)), "no member has finished");
    all.extend((0..3).map(|i| done(of(&format!("g-{i}"), "Job", "j"))));
    assert_eq!(decided(&all), Ok(1));
}

#[test]
fn deleted_finished_pods_count_and_no_pod_counts_twice() {
    let mut all = gang_of_four(&["j"], 2);
    all.push(of("g-3", "Job", "j"));
    assert_eq!(decided(&all), Err((1, 2)));
    all.extend((0..2).map(|i| done(of(&format!("g-{i}"), "Job", "j"))));
    assert_eq!(decided(&all), Err((1, 2)), "both are recorded and still exist");
    all.push(done(of("g-2", "Job", "j")));
    assert_eq!(decided(&all), Ok(1), "three exist, although the status does not count the third yet");
}

#[test]
fn a_new_controller_starts_a_new_run() {
    let mut all = gang_of_four(&["monday"], 4);
    all.push(done(of("a", "Job", "monday")));
    all.push(of("g-0", "Job", "tuesday"));
    assert_eq!(decided(&all), Err((1, 0)), "tuesday's members start together");
    all.extend((1..4).map(|i| of(&format!("g-{i}"), "Job", "tuesday")));
    assert_eq!(decided(&all), Ok(4));
}

#[test]
fn controllers_of_one_run_share_what_is_remembered() {
    // As in a JobSet: the driver's Job has finished, and a worker of the other Job is recreated.
    let mut all = gang_of_four(&["driver", "workers"], 3);
    all.push(of("w-2", "Job", "workers"));
    assert_eq!(decided(&all), Ok(1));
}

#[test]
fn a_finished_member_that_is_terminating_counts_only_if_its_controller_is_a_job() {
    for (kind, expected) in [("Job", Ok(1)), ("StatefulSet", Err((1, 0)))] {
        let mut all = gang_of_four(&[], 0);
        all.push(of("g-3", kind, "o"));
        all.extend((0..3).map(|i| done(of(&format!("g-{i}"), kind, "o")).terminating()));
        assert_eq!(decided(&all), expected, "{kind}");
    }
}

#[test]
fn members_without_a_controller_count_while_their_pods_exist() {
    let mut all = gang_of_four(&[], 0);
    all.push(pod("g-3").group("g"));
    all.extend((0..3).map(|i| done(pod(&format!("g-{i}")).group("g"))));
    assert_eq!(decided(&all), Ok(1));
}

#[test]
fn a_member_that_failed_does_not_count() {
    let mut all = gang_of_four(&[], 0);
    all.push(of("g-3", "Job", "j"));
    all.extend((0..3).map(|i| of(&format!("g-{i}"), "Job", "j").on("n").set("/status/phase", json!("Failed"))));
    assert_eq!(decided(&all), Err((1, 0)));
}

#[test]
fn no_pod_is_evicted_for_finished_members() {
    let mut all = vec![node("n", 2), gang("g", 10, 4).set("/status/finished", json!({"owners": ["j"], "count": 2}))];
    all.extend([pod("low-0").on("n"), pod("low-1").on("n")]);
    all.extend((0..2).map(|i| of(&format!("g-{i}"), "Job", "j")));
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(victims(&plan).len(), 2, "two members are missing, and two of four fit");
}

#[test]
fn members_for_which_their_job_makes_others_do_not_count() {
    // A Job of 4 at a time and 10 in all: 6 may finish before fewer than 4 are left.
    let of_ten = |finished: usize, waiting: usize| {
        let mut all = vec![node("n", 8), gang("g", 10, 4).set("/status/finished", json!({"replaced": 6}))];
        all.extend((0..finished).map(|i| done(of(&format!("done-{i}"), "Job", "j"))));
        all.extend((0..waiting).map(|i| of(&format!("g-{i}"), "Job", "j")));
        decided(&all)
    };
    assert_eq!(of_ten(4, 1), Err((1, 0)), "three of the second four are missing");
    assert_eq!(of_ten(4, 4), Ok(4));
    assert_eq!(of_ten(6, 3), Err((3, 0)));
    assert_eq!(of_ten(8, 1), Err((1, 2)));
    assert_eq!(of_ten(8, 2), Ok(2), "no more come");
}

#[test]
fn spare_completions_count_also_for_finished_pods_that_were_deleted() {
    let remembered = json!({"owners": ["j"], "count": 3, "replaced": 2});
    let mut all = vec![node("n", 8), gang("g", 10, 4).set("/status/finished", remembered)];
    all.push(of("g-0", "Job", "j"));
    assert_eq!(decided(&all), Err((1, 1)));
    all.extend((1..3).map(|i| of(&format!("g-{i}"), "Job", "j")));
    assert_eq!(decided(&all), Ok(3));
}
