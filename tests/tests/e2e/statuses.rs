//! How often the operator writes the status of a group, and how late or misdirected writes are handled.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::PodGroup;
use giveway_tests::audit::OPERATOR;
use giveway_tests::audit::log::Line;
use giveway_tests::cluster::Shaped;
use giveway_tests::proxy::Fault;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_status_of_a_starting_group_is_written_about_three_times,
            a_late_write_of_an_old_status_is_corrected,
            writes_with_the_uid_of_a_deleted_pod_are_rejected_for_its_namesake;
        release:
            a_late_status_write_is_rejected_if_the_group_was_recreated;
    ]
}

async fn the_status_of_a_starting_group_is_written_about_three_times(world: &World) {
    world.class("low", 10).managed().create().await;
    let nodes = world.nodes(16).cpus(8).create().await;
    let groups = world.fill(&nodes).priority("low").whole().groups_of(8).await;
    assert_eq!(groups.len(), 16);
    for group in &groups {
        wait_for("the status counts all running pods", MINUTE, async || {
            let counts = group.get().await.status.and_then(|status| status.pods).unwrap_or_default();
            if (counts.scheduled, counts.ready) == (8, 8) { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await;
    }
    let history = world.audit().await;
    let writes: usize = history.statuses.values().sum();
    // On a busy machine some groups take longer to start than the operator collects changes, and are written more often.
    assert!(writes <= 3 * groups.len() + groups.len() / 2, "{:?}", history.statuses);
    world.check_promises().await;
}

async fn a_late_write_of_an_old_status_is_corrected(world: &World) {
    world.class("high", 1000).managed().create().await;
    world.nodes(1).cpus(2).create().await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_running(MINUTE).await;
    gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    let correct = |status: &giveway_crds::PodGroupStatus| {
        (status.pods.map(|pods| pods.scheduled), status.conditions.is_empty()) == (Some(2), false)
    };
    wait_for("the status is correct", MINUTE, async || {
        let status = gang.get().await.status.unwrap_or_default();
        if correct(&status) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    // A write with the operator's credentials, as if an earlier write of the operator arrived late.
    let groups: Api<PodGroup> = Api::default_namespaced(world.client_of(OPERATOR).await);
    let old = Patch::Merge(json!({"status": {"pods": {"scheduled": 9}, "conditions": []}}));
    groups.patch_status("train", &PatchParams::default(), &old).await.unwrap();
    wait_for("the status is correct again", MINUTE, async || {
        let status = gang.get().await.status.unwrap_or_default();
        if correct(&status) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.check_promises().await;
}

async fn a_late_status_write_is_rejected_if_the_group_was_recreated() {
    let world = World::builder().proxy().start().await;
    world.class("high", 1000).managed().create().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    world.proxy().play(Box::new(move |call| {
        let first = call.path.ends_with("/podgroups/train/status") && count.fetch_add(1, Ordering::Relaxed) == 0;
        if first { Fault::Delay(Duration::from_secs(4)) } else { Fault::None }
    }));
    let first = world.gang("train", 2).priority("high").create_group().await;
    let uid = first.get().await.metadata.uid;
    wait_for("a status write is in transit", MINUTE, async || {
        if calls.load(Ordering::Relaxed) > 0 { Ok(()) } else { Err("no write was sent".to_owned()) }
    })
    .await;
    first.delete().await;
    let namesake = world.gang("train", 5).priority("high").create_group().await;
    assert_ne!(namesake.get().await.metadata.uid, uid, "the second group has another UID");
    wait_for("the late status write is rejected", MINUTE, async || {
        let lines = world.audit_lines().await;
        let of_status = |line: &&Line| line.object_ref.name == "train" && line.object_ref.subresource == "status";
        let codes: Vec<u16> = lines.iter().filter(of_status).map(|line| line.response_status.code).collect();
        if codes.contains(&422) { Ok(()) } else { Err(format!("{codes:?}")) }
    })
    .await;
    let words = "5 pods needed, 0 exist.";
    expect_condition(&namesake, INITIALLY_SCHEDULED, "False WaitingForPods", words).await;
    world.check_promises().await;
}

async fn writes_with_the_uid_of_a_deleted_pod_are_rejected_for_its_namesake(world: &World) {
    world.nodes(1).cpus(2).create().await;
    let pod = world.pod("worker").create().await;
    pod.wait_running(MINUTE).await;
    let pods: Api<Pod> = Api::default_namespaced(world.client_of(OPERATOR).await);
    let before = "00000000-0000-4000-8000-000000000000";
    let parts =
        [json!({"status": {"nominatedNodeName": "node-000"}}), json!({"spec": {"activeDeadlineSeconds": 3600}})];
    for mut part in parts {
        part["metadata"] = json!({"uid": before});
        let params = PatchParams::default();
        let answer = match part.get("status") {
            Some(_) => pods.patch_status("worker", &params, &Patch::Merge(&part)).await,
            None => pods.patch("worker", &params, &Patch::Strategic(&part)).await,
        };
        let Err(kube::Error::Api(refusal)) = answer else { panic!("{answer:?}") };
        assert_eq!((refusal.code, refusal.message.contains("metadata.uid: Invalid value")), (422, true), "{refusal:?}");
    }
    world.check_promises().await;
}
