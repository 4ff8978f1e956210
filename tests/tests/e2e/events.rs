//! Events about what a group waits for: one per reason on the owner, and one on each gated pod.

use crate::MINUTE;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_owner_and_each_gated_pod_get_one_event_per_wait_reason;
    ]
}

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {scheduling.giveway.dev/gang: "true"}
spec:
  parallelism: 6
  completions: 6
  template:
    spec:
      priorityClassName: low
      restartPolicy: Never
      containers: [{name: main, image: "none.invalid/none", resources: {requests: {cpu: "1"}}}]
"#;

/// Returns reason and message of the events about what the group waits for, by kind and name of the object.
async fn events_of_group(world: &World) -> BTreeMap<String, Vec<String>> {
    let events = world.kubectl(&["get", "events", "--output", "json"]).await.unwrap();
    let events: Value = serde_json::from_str(&events).unwrap();
    let mut messages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in events["items"].as_array().unwrap() {
        let (about, note) = (&event["involvedObject"], event["message"].as_str().unwrap_or_default());
        if note.starts_with("Pod group train is pending: ") {
            let object = format!("{}/{}", about["kind"].as_str().unwrap(), about["name"].as_str().unwrap());
            messages.entry(object).or_default().push(format!("{}: {note}", event["reason"].as_str().unwrap()));
        }
    }
    messages
}

async fn the_owner_and_each_gated_pod_get_one_event_per_wait_reason(world: &World) {
    world.class("low", 10).managed().create().await;
    world.nodes(1).cpus(4).create().await;
    world.apply(JOB).await.unwrap();
    let all = wait_for("the Job and each of its pods have an event", MINUTE, async || {
        let events = events_of_group(world).await;
        let pods = events.keys().filter(|object| object.starts_with("Pod/")).count();
        if pods == 6 && events.contains_key("Job/train") { Ok(events) } else { Err(format!("{events:?}")) }
    })
    .await;
    let last = all["Job/train"].last().unwrap();
    assert!(last.starts_with("Unschedulable: Pod group train is pending: 6 pods needed, 4 fit now."), "{last}");
    // More capacity that does not suffice changes the numbers but not the reason, so no further event is written.
    world.nodes(1).cpus(1).prefix("small").create().await;
    wait_for("the group's status has the new numbers", MINUTE, async || {
        let groups = world.kubectl(&["get", "podgroups.scheduling.giveway.dev", "train", "--output", "yaml"]).await?;
        if groups.contains("6 pods needed, 5 fit now.") { Ok(()) } else { Err(groups) }
    })
    .await;
    for (object, notes) in events_of_group(world).await {
        let reasons: BTreeSet<&str> = notes.iter().filter_map(|note| note.split(": ").next()).collect();
        let once = if object.starts_with("Pod/") { notes.len() == 1 } else { notes.len() == reasons.len() };
        assert!(once, "{object}: {notes:?}");
    }
    world.kubectl(&["delete", "job", "train", "--cascade=foreground"]).await.unwrap();
    world.check_promises().await;
}
