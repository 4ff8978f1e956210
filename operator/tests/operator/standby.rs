//! A standby that becomes the leader decides from the model that it has kept, and resumes what is stored. That a standby requests no call is
//! checked by every driven test.

use crate::departures::{database, own, preempt, set_budget};
use crate::driven::{Answer, Driven, Kind, gang, member, running};
use giveway_operator::messages::command::Command;
use serde_json::json;
use std::time::Duration;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[test]
fn a_standby_that_becomes_the_leader_decides_in_its_first_pass() {
    let mut driven = Driven::new(&[]);
    for node in ["n1", "n2"] {
        driven.node(node, 2);
        driven.apply(Kind::Pod, running(&format!("low-{node}"), 10, node, None));
    }
    driven.settle();
    driven.run(seconds(60));
    // The leader ends before it decides for the gang.
    driven.submit(gang("train", 2, 1_000), 2);
    driven.observe();
    driven.standby_leads();
    driven.settle();
    assert_eq!(driven.evicted(), ["low-n1", "low-n2"], "at the same time, without a list of the cluster");
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    assert_eq!(driven.bound("train").len(), 2);
    assert_eq!(driven.stored().len(), 1, "{:#?}", driven.stored());
}

#[test]
fn a_departure_is_continued_once_although_the_standby_observed_the_preemption() {
    let mut driven = database();
    set_budget(&mut driven, 0);
    driven.settle();
    driven.answer(|command| match command {
        Command::Evict(call) if !call.rehearsal && call.pod.name == "db-2" => Answer::Hold,
        _ => Answer::Succeed,
    });
    preempt(&mut driven, "db-0");
    driven.settle();
    assert_eq!(driven.evicted(), ["db-1"], "the leader ends between two evictions");
    driven.standby_leads();
    driven.answer(|_| Answer::Succeed);
    driven.settle();
    driven.run(seconds(5));
    driven.terminate();
    driven.run(seconds(5));
    assert_eq!(driven.evicted(), ["db-1", "db-2"]);
    assert_eq!(
        driven.stored(),
        ["MemberPreempted Completed: The 2 pods that this Preemption evicts have terminated."],
        "no second departure"
    );
}

#[test]
fn a_pod_that_was_preempted_and_removed_while_no_process_led_takes_its_pod_group_along() {
    let mut driven = database();
    set_budget(&mut driven, 0);
    driven.settle();
    preempt(&mut driven, "db-0");
    driven.observe();
    driven.delete(Kind::Pod, "db-0");
    driven.observe();
    driven.standby_leads();
    driven.settle();
    driven.run(seconds(5));
    assert_eq!(driven.evicted(), ["db-1", "db-2"]);
}

#[test]
fn a_preemption_on_which_an_earlier_leader_did_not_act_begins_no_departure_later() {
    let mut driven = database();
    set_budget(&mut driven, 0);
    driven.switch("observe");
    driven.settle();
    preempt(&mut driven, "db-0");
    driven.settle();
    driven.delete(Kind::Pod, "db-0");
    driven.run(seconds(80));
    driven.switch("enforce");
    driven.settle();
    driven.standby_leads();
    driven.settle();
    driven.run(seconds(5));
    assert_eq!(driven.evicted(), Vec::<&str>::new(), "{:#?}", driven.stored());
}

/// The leader ends before it has written that the gang is scheduled, and the gang loses a pod. No pod was evicted for it, so nothing that is
/// stored shows it.
#[test]
fn a_standby_that_observed_that_a_gang_was_scheduled_does_not_evict_the_rest() {
    let mut driven = Driven::new(&["--partially-scheduled-timeout=20s"]);
    driven.node("n1", 2);
    driven.node("n2", 2);
    driven.submit(gang("train", 2, 1_000), 2);
    own(&mut driven, "train-0");
    own(&mut driven, "train-1");
    driven.answer(|command| match command {
        Command::WriteGroupStatus { .. } => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.settle();
    let node = driven.nominated_node("train-1").unwrap();
    driven.bind();
    let at = jiff::Timestamp::from_second(driven.second()).unwrap().to_string();
    for pod in driven.bound("train") {
        let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]);
        driven.change(Kind::Pod, &pod, |pod| pod["status"]["conditions"] = bound).unwrap();
    }
    driven.settle();
    assert_eq!(driven.bound("train").len(), 2);
    // The replacement pod does not fit beside a pod of higher priority.
    driven.delete(Kind::Pod, "train-1");
    driven.apply(Kind::Pod, running("urgent", 2_000, &node, None));
    driven.apply(Kind::Pod, member("train-2", 1_000, "train", 2));
    own(&mut driven, "train-2");
    // The last condition that the leader has written.
    let unscheduled = json!({
        "type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "2 pods needed, 0 fit now.",
        "lastTransitionTime": at
    });
    driven.change(Kind::Group, "train", |group| group["status"] = json!({"conditions": [unscheduled]})).unwrap();
    driven.observe();
    driven.standby_leads();
    driven.answer(|_| Answer::Succeed);
    driven.settle();
    driven.run(seconds(30));
    assert_eq!(driven.evicted(), Vec::<&str>::new(), "{:#?}", driven.stored());
}
