//! How often the operator writes the status of a group, and what becomes of an older one.

use crate::{MINUTE, SCHEDULED};
use giveway_crds::PodGroup;
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::Shaped;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_fills_is_written_when_it_is_made_when_it_is_placed_and_when_it_runs() {
    let world = World::start().await;
    world.class("low", 10).managed().create().await;
    let nodes = world.nodes(16).cpus(8).create().await;
    let groups = world.fill(&nodes).priority("low").whole().groups_of(8).await;
    assert_eq!(groups.len(), 16);
    for group in &groups {
        wait_for("the status counts every pod that runs", MINUTE, async || {
            let counts = group.get().await.status.and_then(|status| status.pods).unwrap_or_default();
            if (counts.scheduled, counts.running) == (8, 8) { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await;
    }
    let history = world.audit().await;
    let writes: usize = history.statuses.values().sum();
    // On a machine that is busy some groups take longer to fill than numbers may gather.
    assert!(writes <= 3 * groups.len() + groups.len() / 2, "{:?}", history.statuses);
    world.check_promises().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_status_that_lands_late_is_put_right() {
    let world = World::start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(1).cpus(2).create().await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_running(MINUTE).await;
    gang.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    let right = |status: &giveway_crds::PodGroupStatus| {
        (status.scheduled.as_deref(), status.conditions.is_empty()) == (Some("2/2"), false)
    };
    wait_for("the status is right", MINUTE, async || {
        let status = gang.get().await.status.unwrap_or_default();
        if right(&status) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    // Nobody else may: it is as if an earlier write of the operator's landed late.
    let groups: Api<PodGroup> = Api::default_namespaced(world.client_of(OPERATOR).await);
    let old = Patch::Merge(json!({"status": {"scheduled": "9/9", "conditions": []}}));
    groups.patch_status("train", &PatchParams::default(), &old).await.unwrap();
    wait_for("the status is right again", MINUTE, async || {
        let status = gang.get().await.status.unwrap_or_default();
        if right(&status) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    gang.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.check_promises().await;
}
