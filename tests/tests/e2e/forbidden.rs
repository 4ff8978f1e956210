//! Evictions that a policy forbids: the victims are spared, somebody else goes or nobody, and the reason is said.

use crate::{MINUTE, SCHEDULED};
use giveway_tests::audit::{OPERATOR, Promises};
use giveway_tests::cluster::{Denial, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            who_must_not_be_evicted_is_spared_and_others_go,
            where_nobody_else_can_go_nobody_goes_in_vain_a_second_time_and_the_group_says_why;
        own:
            a_member_that_the_scheduler_cannot_bind_costs_nobody_a_second_time;
    ]
}

/// Nobody may evict pods whose name begins with `precious`.
async fn forbid(world: &World) {
    let unless = "!request.name.startsWith('precious')";
    let denial = Denial {
        name: "precious",
        operation: "CREATE",
        of: ("", "pods/eviction"),
        unless,
        message: "precious pods stay",
    };
    world.apply(&denial.manifest()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.client_of(OPERATOR).await);
    let all = pods.list(&Default::default()).await.unwrap();
    let name =
        all.items.iter().filter_map(|pod| pod.metadata.name.as_deref()).find(|name| name.starts_with("precious"));
    let name = name.unwrap();
    let mut eviction = Eviction::default();
    eviction.metadata.name = Some(name.to_owned());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait_for("the policy is in force", MINUTE, async || {
        let answer = pods.create_subresource::<_, serde_json::Value>("eviction", name, &dry_run, &eviction).await;
        match answer {
            Err(error) if error.to_string().contains("precious pods stay") => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await;
}

async fn who_must_not_be_evicted_is_spared_and_others_go(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("middle", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    // The cheaper ones, and a group, which goes whole or not at all.
    world.fill(&nodes[..1]).prefix("precious").priority("low").whole().groups_of(2).await;
    world.fill(&nodes[1..]).prefix("other").priority("middle").singles().await;
    forbid(world).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let mut evicted = world.audit().await.evicted_names();
    evicted.sort();
    assert!(evicted.len() == 2 && evicted.iter().all(|name| name.contains("other")), "{evicted:?}");
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert!(message.starts_with("The eviction of pod default/precious-"), "{message}");
    assert!(message.contains("was refused: ") && message.ends_with("precious pods stay"), "{message}");
    world.check_promises().await;
}

async fn where_nobody_else_can_go_nobody_goes_in_vain_a_second_time_and_the_group_says_why(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    world.fill(&nodes[..1]).prefix("precious").priority("low").singles().await;
    world.fill(&nodes[1..]).prefix("plain").priority("low").singles().await;
    forbid(world).await;
    // It needs the room of all four.
    let gang = world.gang("train", 4).priority("high").create().await;
    let why = async || {
        let status = gang.get().await.status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == SCHEDULED);
        let said = found.map(|condition| condition.message).unwrap_or_default();
        if said.contains("precious pods stay") && said.contains("4 pods needed") { Ok(said) } else { Err(said) }
    };
    wait_for("the group says why it waits", MINUTE, why).await;
    let first = world.audit().await.evicted_names();
    assert!(first.len() <= 2 && first.iter().all(|name| name.contains("plain")), "{first:?}");
    // Those that went are made anew, as their owner does, and everything is as before: nobody goes this time.
    for number in 0..first.len() {
        world.pod(&format!("again-{number}")).priority("low").create().await.wait_bound(MINUTE).await;
    }
    // Something that a decision may depend on, so that it is looked at again.
    world.nodes(1).cpus(1).prefix("small").create().await;
    wait_for("it has been looked at with the new node", MINUTE, async || {
        let said = why().await?;
        if said.contains("1 fit now") { Ok(()) } else { Err(said) }
    })
    .await;
    assert_eq!(world.audit().await.evicted_names(), first);
    let preemptions = giveway_tests::cluster::stored_plans(&world.client()).await.unwrap();
    assert!(preemptions.len() <= 3, "{preemptions:?}");
    gang.delete().await;
    // Those that went before the first answer.
    world.check(&Promises::new().excuse_unbound("train", 2)).await;
}

async fn a_member_that_the_scheduler_cannot_bind_costs_nobody_a_second_time() {
    let world = World::builder().operator_flag("--release-timeout-seconds=3").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).priority("low").grace_seconds(0).singles().await;
    // Neither the scheduler nor the planner can know this before it is tried.
    let unless = "!request.name.startsWith('unlucky')";
    let denial = Denial {
        name: "unlucky",
        operation: "CREATE",
        of: ("", "pods/binding"),
        unless,
        message: "unlucky pods are not bound",
    };
    world.apply(&denial.manifest()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let node = json!({"metadata": {"name": "unlucky"}, "target": {"kind": "Node", "name": nodes[0]}});
    let node: Binding = serde_json::from_value(node).unwrap();
    wait_for("the policy is in force", MINUTE, async || {
        match pods.create_subresource::<_, Status>("binding", "unlucky", &PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.message.contains("unlucky pods are not bound") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let gang = world.gang("unlucky", 1).priority("high").create().await;
    let scheduled = giveway_crds::condition::types::PREEMPTION_PLANNED;
    gang.wait_condition(scheduled, "False", "Failed", MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    // Its owner makes it anew, and it gets its place back. Nobody takes that again.
    let again = world.pod("again").priority("low").create().await;
    again.wait_bound(MINUTE).await;
    let words = wait_for("the group says why nobody goes for it", MINUTE, async || {
        let conditions = gang.get().await.status.unwrap_or_default().conditions;
        let told = giveway_crds::condition::find(&conditions, SCHEDULED).map(|told| told.message.clone());
        let told = told.unwrap_or_default();
        if told.contains("Nobody is evicted again") { Ok(told) } else { Err(told) }
    })
    .await;
    assert!(words.contains("for pod unlucky-0, which had a place on node "), "{words}");
    assert!(
        words.contains("did not bind every released pod within 3 s and says of pod unlucky-0: ")
            && words.contains("unlucky pods are not bound"),
        "{words}"
    );
    // Those who may be bound get their room as ever.
    let lucky = world.gang("lucky", 1).priority("high").create().await;
    lucky.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names()[0], "again");
    world.check(&Promises::new().excuse_unbound("unlucky", 1)).await;
}
