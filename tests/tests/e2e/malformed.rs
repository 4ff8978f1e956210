//! Invalid objects that were stored while admission was down: the operator reports them and handles all others.

use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_group_of_an_unknown_class_has_a_condition_and_does_not_affect_others;
        own:
            an_unreadable_group_is_counted_and_does_not_affect_others;
    ]
}

/// Deletes all webhook configurations of Giveway.
async fn remove_webhooks(world: &World) {
    world.kubectl(&["delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all"]).await.unwrap();
}

async fn a_group_of_an_unknown_class_has_a_condition_and_does_not_affect_others(world: &World) {
    world.class("high", 1000).managed().create().await;
    world.nodes(1).cpus(4).create().await;
    remove_webhooks(world).await;
    let manifest = "apiVersion: scheduling.giveway.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: broken}\nspec:\n  schedulingPolicy: {gang: {minCount: 2}}\n  priorityClassName: missing\n";
    wait_for("the group is stored without admission", MINUTE, async || world.apply(manifest).await).await;
    let broken = world.gang("broken", 2).without_group();
    let message = broken.wait_condition(INITIALLY_SCHEDULED, "False", "SchedulerError", MINUTE).await;
    assert!(message.contains("no PriorityClass with name missing was found"), "{message}");
    let mut good = world.gang("good", 2).priority("high").create_group().await;
    good.add_pods(2).await;
    good.wait_bound(MINUTE).await;
    good.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.check_promises().await;
}

async fn an_unreadable_group_is_counted_and_does_not_affect_others() {
    let mut world = World::start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(1).cpus(4).create().await;
    remove_webhooks(&world).await;
    // A CRD without validation accepts invalid objects, as an older version of the CRD might have.
    let open = r#"[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema","value":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}]"#;
    world.kubectl(&["patch", "crd", "podgroups.scheduling.giveway.dev", "--type=json", "-p", open]).await.unwrap();
    let manifest = "apiVersion: scheduling.giveway.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: unreadable}\nspec:\n  schedulingPolicy: {gang: {minCount: three}}\n";
    wait_for("the unreadable group is stored", MINUTE, async || world.apply(manifest).await).await;
    wait_for("the unreadable group is counted", MINUTE, async || {
        let (_, metrics) = world.operator().http("/metrics").await.map_err(|e| e.to_string())?;
        let line = metrics
            .lines()
            .find(|l| l.starts_with("giveway_operator_unreadable_objects_total") && l.contains("PodGroup"));
        line.filter(|l| !l.ends_with(" 0")).map(|_| ()).ok_or_else(|| "not in the metrics".to_owned())
    })
    .await;
    let log = std::fs::read_to_string(world.operator().log()).unwrap();
    assert!(log.contains("object cannot be used; it is skipped") && log.contains("default/unreadable"), "{log}");
    let mut good = world.gang("good", 2).priority("high").create_group().await;
    good.add_pods(2).await;
    good.wait_bound(MINUTE).await;
    world.check_promises().await;
}
