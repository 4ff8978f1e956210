//! `capacity` on files. In `cluster.yaml` one CPU is free on node n2, beside pods of two CPUs and one CPU of priority 0; node n1 is full
//! with the four pods of a group of priority 10 that is disrupted as a whole.
use crate::common::{data, giveway, giveway_with};
use serde_json::{Value, json};

const TRAINING: [&str; 7] = ["capacity", "-f", "training.yaml", "--snapshot", "cluster.yaml", "-n", "research"];

fn training(more: &[&str]) -> Value {
    giveway(&[&TRAINING[..], &["-o", "json"], more].concat()).json()
}

fn fit(members: usize, evicted: usize, highest: Option<i32>) -> Value {
    json!({"members": members, "evictedPods": evicted, "highestVictimPriority": highest, "budgetViolations": 0})
}

#[test]
fn the_members_of_a_gang_that_fit_are_counted_for_each_number_of_evictions() {
    let answer = training(&["--max-victims", "2"]);
    assert_eq!((&answer["preemptor"], &answer["members"]), (&json!("podgroup/research/training"), &json!(6)));
    assert_eq!((&answer["now"], &answer["afterTermination"]), (&fit(1, 0, None), &fit(1, 0, None)));
    let mut two = fit(4, 2, Some(0));
    two["maxVictims"] = json!(2);
    assert_eq!((&answer["withVictims"], &answer["atAll"]), (&two, &fit(6, 5, Some(10))), "{answer:#}");
    assert_eq!((answer.get("reason"), answer.get("message")), (None, None), "all of them fit");
}

#[test]
fn more_members_than_fit_are_explained() {
    let answer = training(&["--members", "20"]);
    assert_eq!((&answer["members"], &answer["atAll"]), (&json!(20), &fit(8, 6, Some(10))), "{answer:#}");
    assert_eq!(answer.get("withVictims"), None);
    assert_eq!(answer["reason"], "Unschedulable");
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("9 pods needed, 1 fits now. Missing 8 cpu."), "{message}");
}

#[test]
fn terminating_pods_are_counted_apart_from_victims() {
    let cluster = std::fs::read_to_string(data().join("cluster.yaml")).unwrap();
    let leaving = cluster.replace("name: web-7d9f-b,", "name: web-7d9f-b, deletionTimestamp: '2026-01-01T00:00:00Z',");
    let args =
        ["capacity", "-f", "training.yaml", "--snapshot", "-", "-n", "research", "--max-victims", "1", "-o", "json"];
    let answer = giveway_with(&args, None, &leaving).json();
    let of = |line: &str| answer[line]["members"].clone();
    assert_eq!(
        ["now", "afterTermination", "withVictims"].map(of),
        [1, 2, 4].map(|members| json!(members)),
        "{answer:#}"
    );
}

#[test]
fn pods_without_a_group_are_decided_one_after_another() {
    let deployment =
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 9, template: {spec: {
        priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}}}}";
    let args = ["capacity", "-f", "-", "--snapshot", "cluster.yaml", "--max-victims", "2", "-o", "json"];
    let answer = giveway_with(&args, None, deployment).json();
    let of = |line: &str| (answer[line]["members"].clone(), answer[line]["evictedPods"].clone());
    let wanted = [(1, 0), (1, 0), (4, 2), (8, 6)].map(|(members, evicted)| (json!(members), json!(evicted)));
    assert_eq!(["now", "afterTermination", "withVictims", "atAll"].map(of), wanted, "{answer:#}");
    assert_eq!(answer["reason"], "Unschedulable");
}

#[test]
fn the_table_names_each_limit_and_why_not_more_fit() {
    let printed = giveway(&[&TRAINING[..], &["--max-victims", "1", "--members", "9"]].concat());
    assert_eq!((printed.status, printed.err.as_str()), (Some(0), ""));
    let table = "\
podgroup/research/training (priority 1000): 9 pods are asked for.

FIT  WHEN                                 EVICTED PODS  HIGHEST PRIORITY  BUDGET VIOLATIONS
1    now                                  0             -                 0
1    after terminating pods are removed   0             -                 0
3    if at most 1 pod is evicted          1             0                 0
8    if every pod is evicted that may be  6             10                0
Not more: Unschedulable 9 pods needed, 1 fits now. Missing 8 cpu.";
    assert!(printed.out.starts_with(table), "{}", printed.out);
}

#[test]
fn a_number_of_members_needs_one_template() {
    let printed = giveway(&["capacity", "-f", "kinds.yaml", "--snapshot", "roomy.yaml", "--members", "3"]);
    let words = "error: the argument '--members' needs files with exactly one pod template, of an object with one PodGroup at most: \
                 kinds.yaml: found ";
    assert!(printed.err.starts_with(words), "{}", printed.err);
    assert_eq!(printed.status, Some(2));
    let none = giveway(&["capacity", "--snapshot", "roomy.yaml"]);
    assert!(
        none.err.contains("the following required arguments were not provided:\n  --filename <FILE>"),
        "{}",
        none.err
    );
}
