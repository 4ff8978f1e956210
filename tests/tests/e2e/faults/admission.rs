//! The webhook is killed again and again while members are created: nobody slips through.

use super::PATIENCE;
use crate::{MINUTE, SCHEDULED};
use giveway_tests::World;
use giveway_tests::cluster::Shaped as _;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            no_member_slips_through_while_the_webhook_is_killed_again_and_again;
    ]
}

async fn no_member_slips_through_while_the_webhook_is_killed_again_and_again() {
    let mut world = World::start().await;
    let nodes = world.nodes(1).cpus(10).create().await;
    let group = world.gang("train", 12).without_pods().create().await;
    let kit = world.kit();
    // As an owner does: each member is tried again until it is there.
    let owner = async {
        let mut refusals = 0;
        for number in 0..12 {
            wait_for(&format!("member {number} is created"), PATIENCE, async || {
                let member = giveway_tests::cluster::PodBuilder::new(kit.clone(), &format!("train-{number}"));
                member.label(giveway_crds::keys::LABEL_POD_GROUP, "train").try_create().await.map(drop).map_err(
                    |error| {
                        refusals += 1;
                        error.to_string()
                    },
                )
            })
            .await;
        }
        refusals
    };
    let killer = async {
        for _ in 0..6 {
            world.webhook().kill();
            tokio::time::sleep(Duration::from_millis(300)).await;
            world.webhook().start().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let (refusals, ()) = tokio::join!(owner, killer);
    assert!(refusals > 0, "the webhook was away while members were created");
    // There is room for ten: nobody has started, and all do when there is room for twelve.
    assert_eq!(world.audit().await.bindings.len(), 0);
    world.nodes(1).cpus(2).prefix("more").create().await;
    group.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    wait_for("all members are bound", MINUTE, async || {
        let bound = world.audit().await.bindings.len();
        if bound == 12 { Ok(()) } else { Err(format!("{bound} are, on {nodes:?} and another node")) }
    })
    .await;
    world.check_promises().await;
}
