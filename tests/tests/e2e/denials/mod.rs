//! Other people's admission rejects calls of the operator, before or after the first eviction: which pods are evicted, what the reader
//! sees, and how it ends.

pub mod bindings;
pub mod evictions;
pub mod gates;
pub mod objects;

use crate::MINUTE;
use giveway_crds::keys::GATE;
use giveway_tests::cluster::{Group, PodHandle, Shaped as _, scheduling_gates, stored_plans};
use giveway_tests::denials::{Rule, WEBHOOK};
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The words of policies and webhooks.
const WORDS: &str = "the change board is closed";

/// Creates the managed classes `low`, `middle` and `high`.
async fn create_classes(world: &World) {
    for (name, priority) in [("low", 10), ("middle", 20), ("high", 1000)] {
        world.class(name, priority).managed().create().await;
    }
}

/// Creates the classes and a node that two pods of class `low` fill.
async fn fill_node(world: &World) -> Vec<PodHandle> {
    create_classes(world).await;
    let nodes = world.nodes(1).cpus(2).create().await;
    world.fill(&nodes).priority("low").singles().await
}

/// Creates the classes and two nodes for two pods each. Pods `precious-000` and so on have the lowest priority and are the first choice;
/// pods `other-000` and so on fill the remaining capacity. Returns the precious pods.
async fn fill_nodes_with_precious(world: &World, count: usize) -> Vec<PodHandle> {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(2).create().await;
    let mut precious = Vec::new();
    for number in 0..count {
        let pod = world.pod(&format!("precious-{number:03}")).priority("low").on(&nodes[0]);
        precious.push(pod.create().await);
    }
    world.fill(&nodes).prefix("other").priority("middle").singles().await;
    precious
}

/// Waits until a condition of the group has all of these words.
async fn wait_words(gang: &Group, words: &[&str]) {
    wait_for(&format!("a condition of PodGroup {} has the words {words:?}", gang.name), MINUTE, async || {
        let conditions = gang.get().await.status.unwrap_or_default().conditions;
        let said: Vec<String> = conditions.into_iter().map(|condition| condition.message).collect();
        let has_all = |message: &String| words.iter().all(|word| message.contains(word));
        if said.iter().any(has_all) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

/// Waits until the message of a `Preemption` or an event `EvictionRefused` of the victim has these words.
async fn wait_reported(world: &World, victim: &PodHandle, words: &[&str]) {
    let what = format!("a Preemption or an event of pod {} has the words {words:?}", victim.name);
    wait_for(&what, MINUTE, async || {
        let plans = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let events = victim.events().await.into_iter().filter(|event| event.reason == "EvictionRefused");
        let said = plans.into_iter().map(|plan| plan.message).chain(events.map(|event| event.message));
        let said: Vec<String> = said.collect();
        let has_all = |message: &String| words.iter().all(|word| message.contains(word));
        if said.iter().any(has_all) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

/// Expects that no pod was evicted and that every member has its scheduling gate.
async fn expect_no_eviction_and_all_gates(world: &World, gang: &Group) {
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for member in gang.members().await.unwrap() {
        assert!(scheduling_gates(&member).iter().any(|gate| gate == GATE), "{:?} is ungated", member.metadata.name);
    }
}

/// Expects that exactly this number of pods was evicted, all with a name that begins with `prefix`.
async fn expect_evicted(world: &World, count: usize, prefix: &str) {
    let evicted = world.audit().await.evicted_names();
    assert!(evicted.len() == count && evicted.iter().all(|name| name.starts_with(prefix)), "{evicted:?}");
}

/// Expects that no pod is evicted while this rule is in force, that the condition has its words, and that the gang is bound afterwards.
async fn evicts_nothing_until_it_ends(world: &World, rule: Rule) {
    fill_node(world).await;
    let denial = world.deny(rule.saying(403, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    wait_words(&gang, &[WEBHOOK, WORDS]).await;
    expect_no_eviction_and_all_gates(world, &gang).await;
    denial.end().await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}
