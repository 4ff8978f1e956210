//! How often the operator writes the status of a group.

use crate::MINUTE;
use giveway_tests::cluster::Shaped;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_fills_is_written_when_it_is_made_and_when_it_runs() {
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
    // Two each; on a machine that is busy the pods of some groups take longer to start than numbers gather.
    assert!(writes <= 3 * groups.len(), "{:?}", history.statuses);
    world.check_promises().await;
}
