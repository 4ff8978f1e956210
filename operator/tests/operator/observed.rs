//! What administrators see of the operator itself: its metrics, and a dump of its state.

use crate::departures::{database, preempt, set_budget};
use crate::driven::{Answer, Driven, Kind, gang, running};
use giveway_operator::messages::command::Command;
use serde_json::{Value, json};
use std::time::Duration;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns a cluster in which PodGroup `a` of two pods fills the only node, and gang `train` of one pod preempts it.
fn preempting() -> Driven {
    let mut driven = Driven::new(&[]);
    driven.node("n1", 2);
    driven.apply(Kind::Group, gang("a", 2, 10));
    for name in ["a-0", "a-1"] {
        driven.apply(Kind::Pod, running(name, 10, "n1", Some("a")));
    }
    driven.submit(gang("train", 1, 1_000), 2);
    driven.settle();
    assert_eq!(driven.evicted(), ["a-0", "a-1"]);
    driven
}

/// Returns the entry of a section whose field has this value.
fn entry(section: &Value, field: &str, value: &str) -> Value {
    let entries = section["entries"].as_array().unwrap();
    let found = entries.iter().find(|entry| entry[field] == value);
    found.unwrap_or_else(|| panic!("{value} is not in {section:#}")).clone()
}

/// Expects lines in the metrics.
fn expect_metrics(driven: &Driven, lines: &[&str]) {
    let metrics = driven.metrics();
    for line in lines {
        assert!(metrics.lines().any(|there| there == *line), "{line} is not in:\n{metrics}");
    }
}

/// Returns the samples of plans that evicted pods and did not bind.
fn evicted_not_bound(driven: &Driven) -> Vec<String> {
    let metrics = driven.metrics();
    let samples = metrics.lines().filter(|line| line.starts_with("giveway_operator_evicted_not_bound_total{"));
    samples.map(str::to_owned).collect()
}

#[test]
fn a_dump_names_the_plan_its_preemptor_and_its_victims_and_what_it_waits_for() {
    let mut driven = preempting();
    driven.run(seconds(5));
    let dump = driven.dump();
    let names: Vec<&str> = dump.keys().map(String::as_str).collect();
    assert_eq!(names, ["departures", "operator", "plans", "waiting"]);
    let plans = &dump["plans"];
    assert_eq!((&plans["total"], &plans["leftOut"]), (&json!(1), &json!(0)));
    let plan = entry(plans, "preemptor", "podgroup/default/train");
    assert_eq!(plan["name"], json!(driven.plans()[0].metadata.name));
    assert_eq!(plan["units"], json!(["podgroup/default/a"]));
    let numbers = ["priority", "ageSeconds", "members", "bound", "victims", "evicted", "terminated", "refused"];
    assert_eq!(numbers.map(|field| plan[field].as_i64()), [1_000, 5, 1, 0, 2, 2, 0, 0].map(Some), "{plan:#}");
    let words = ["cause", "state", "stored", "waitsFor"].map(|field| plan[field].as_str().unwrap());
    assert_eq!(words, ["Preemptor", "WaitingForVictims", "WaitingForVictims", "Victims"]);
}

#[test]
fn a_dump_shows_leadership_mode_queues_and_watches() {
    let mut driven = preempting();
    driven.switch("observe");
    driven.settle();
    let dump = driven.dump();
    let operator = &dump["operator"];
    assert_eq!(operator["leader"]["term"], "operator-00000001");
    assert_eq!((&operator["leader"]["synced"], &operator["leader"]["resumed"]), (&json!(true), &json!(true)));
    assert!(operator["leader"]["leaseSeconds"].as_u64() > Some(80_000), "{operator:#}");
    assert_eq!(operator["mode"], "observe");
    assert_eq!(operator["restraint"], "Giveway is in mode observe and evicts no pods");
    assert_eq!(operator["limits"]["evictionsPerMinutePerCluster"], Value::Null);
    assert_eq!(operator["queues"]["evictions"], json!({"depth": 0, "ageSeconds": 0}));
    assert_eq!(operator["watches"]["Node"], json!({"eventAgeSeconds": 0}));
    let watches: Vec<&str> = operator["watches"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(watches.len(), 19, "one for each kind: {watches:?}");
    assert_eq!(dump["plans"]["time"], operator["time"], "the sections belong together");
}

#[test]
fn a_dump_tells_for_what_a_preemptor_without_a_plan_waits() {
    let mut driven = preempting();
    driven.submit(gang("large", 1, 1_000), 100);
    driven.settle();
    let waiting = entry(&driven.dump()["waiting"], "preemptor", "podgroup/default/large");
    assert_eq!((&waiting["reason"], &waiting["failures"]), (&json!("Unschedulable"), &json!(0)));
    assert!(waiting["message"].as_str().is_some_and(|message| !message.is_empty()), "{waiting:#}");
}

#[test]
fn a_departure_is_dumped_and_counted_by_its_cause_with_the_refusal() {
    let mut driven = database();
    set_budget(&mut driven, 3);
    driven.settle();
    preempt(&mut driven, "db-0");
    driven.settle();
    driven.run(seconds(5));
    let departure = entry(&driven.dump()["departures"], "podGroup", "default/db");
    let words = ["cause", "stage"].map(|field| departure[field].as_str().unwrap());
    assert_eq!(words, ["MemberPreempted", "Evicting"]);
    assert_eq!((&departure["pods"], &departure["evicted"]), (&json!(2), &json!(0)));
    assert!(departure["refused"].as_u64() > Some(0), "{departure:#}");
    assert!(departure["refusal"].as_str().unwrap().contains("needs 3 healthy pods"), "{departure:#}");
    let in_flight = r#"giveway_operator_preemptions_in_flight{cause="MemberPreempted",stage="Evicting"}"#;
    expect_metrics(&driven, &[&format!("{in_flight} 1")]);
    set_budget(&mut driven, 0);
    driven.run(seconds(12));
    assert_eq!(driven.evicted(), ["db-1", "db-2"]);
    expect_metrics(&driven, &[&format!("{in_flight} 0")]);
}

#[test]
fn plans_are_counted_by_stage_and_one_with_bound_members_is_not_fruitless() {
    let mut driven = preempting();
    driven.run(seconds(3));
    let waits = r#"giveway_operator_preemptions_in_flight{cause="Preemptor",stage="WaitingForVictims"}"#;
    expect_metrics(&driven, &[&format!("{waits} 1")]);
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.run(seconds(3));
    assert_eq!(driven.bound("train"), ["train-0"]);
    expect_metrics(&driven, &[&format!("{waits} 0")]);
    assert_eq!(evicted_not_bound(&driven), Vec::<String>::new());
}

#[test]
fn a_plan_that_evicted_pods_for_members_that_are_not_bound_is_counted_once() {
    let mut driven = preempting();
    driven.terminate();
    // kube-scheduler neither binds the member nor reports on it. It is waited for for ten minutes.
    driven.run(seconds(650));
    assert!(driven.stored()[0].starts_with("Preemptor Failed: "), "{:?}", driven.stored());
    let counted = evicted_not_bound(&driven);
    assert!(counted.len() == 1 && counted[0].ends_with(" 1"), "{counted:?}");
}

/// The user no longer wants what the pods were evicted for, so nothing is wrong with Giveway or kube-scheduler.
#[test]
fn a_plan_for_a_deleted_preemptor_is_not_counted_as_fruitless() {
    let mut driven = preempting();
    driven.delete(Kind::Pod, "train-0");
    driven.delete(Kind::Group, "train");
    driven.run(seconds(10));
    assert!(driven.stored()[0].starts_with("Preemptor Cancelled: "), "{:?}", driven.stored());
    assert_eq!(evicted_not_bound(&driven), Vec::<String>::new());
}

#[test]
fn a_status_waits_until_its_write_is_answered() {
    let mut driven = Driven::new(&[]);
    driven.node("n1", 2);
    driven.settle();
    driven.answer(|command| match command {
        Command::WriteGroupStatus { .. } => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 1, 1_000), 100);
    driven.run(seconds(3));
    expect_metrics(&driven, &["giveway_operator_statuses_waiting 1"]);
    driven.answer(|_| Answer::Succeed);
    driven.answer_unanswered(|_| true);
    driven.run(seconds(3));
    expect_metrics(&driven, &["giveway_operator_statuses_waiting 0"]);
}
