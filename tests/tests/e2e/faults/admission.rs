//! The webhook is killed repeatedly while members are created: every admitted member has its scheduling gate.

use super::PATIENCE;
use crate::{INITIALLY_SCHEDULED, MINUTE};
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
            no_ungated_member_is_admitted_while_the_webhook_is_killed_repeatedly;
    ]
}

async fn no_ungated_member_is_admitted_while_the_webhook_is_killed_repeatedly() {
    let mut world = World::start().await;
    let nodes = world.nodes(1).cpus(10).create().await;
    let group = world.gang("train", 12).without_pods().create().await;
    let kit = world.kit();
    // Creates the members as a controller does: each creation is retried until it succeeds.
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
    assert!(refusals > 0, "no creation failed, so the webhook was never down while a member was created");
    // Ten of twelve members fit, so none may be bound. All are bound when twelve fit.
    assert_eq!(world.audit().await.bindings.len(), 0);
    world.nodes(1).cpus(2).prefix("more").create().await;
    group.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    wait_for("all members are bound", MINUTE, async || {
        let bound = world.audit().await.bindings.len();
        if bound == 12 { Ok(()) } else { Err(format!("{bound} of 12 are bound, on {nodes:?} and another node")) }
    })
    .await;
    world.check_promises().await;
}
