//! Evictions and bindings that an admission policy denies: other victims are chosen, or none, and the group's condition says why.

use crate::{INITIALLY_SCHEDULED, MINUTE};
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
            other_victims_are_chosen_if_a_policy_denies_an_eviction,
            no_pod_is_evicted_again_if_a_denied_victim_has_no_alternative;
        own:
            no_pod_is_evicted_again_for_a_member_that_cannot_be_bound;
    ]
}

/// Creates a policy that denies evictions of pods whose names begin with `precious`, and waits until it is in force.
async fn deny_evictions(world: &World) {
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

async fn other_victims_are_chosen_if_a_policy_denies_an_eviction(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("middle", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    // The protected pods have the lowest priority, and they are a group in mode `PodGroup`.
    world.fill(&nodes[..1]).prefix("precious").priority("low").whole().groups_of(2).await;
    world.fill(&nodes[1..]).prefix("other").priority("middle").singles().await;
    deny_evictions(world).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let mut evicted = world.audit().await.evicted_names();
    evicted.sort();
    assert!(evicted.len() == 2 && evicted.iter().all(|name| name.contains("other")), "{evicted:?}");
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert!(message.starts_with("The eviction of pod default/precious-"), "{message}");
    assert!(message.contains("was rejected: ") && message.ends_with("precious pods stay"), "{message}");
    world.check_promises().await;
}

async fn no_pod_is_evicted_again_if_a_denied_victim_has_no_alternative(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    world.fill(&nodes[..1]).prefix("precious").priority("low").singles().await;
    world.fill(&nodes[1..]).prefix("plain").priority("low").singles().await;
    deny_evictions(world).await;
    // The gang needs the capacity of all four pods.
    let gang = world.gang("train", 4).priority("high").create().await;
    let why = async || {
        let status = gang.get().await.status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == INITIALLY_SCHEDULED);
        let said = found.map(|condition| condition.message).unwrap_or_default();
        if said.contains("precious pods stay") && said.contains("4 pods needed") { Ok(said) } else { Err(said) }
    };
    wait_for("the condition names the policy", MINUTE, why).await;
    let first = world.audit().await.evicted_names();
    assert!(first.len() <= 2 && first.iter().all(|name| name.contains("plain")), "{first:?}");
    // The evicted pods are recreated, as a controller would do. The state is as before, so no pod may be evicted this time.
    for number in 0..first.len() {
        world.pod(&format!("again-{number}")).priority("low").create().await.wait_bound(MINUTE).await;
    }
    // A new node triggers another decision.
    world.nodes(1).cpus(1).prefix("small").create().await;
    wait_for("the condition counts the new node", MINUTE, async || {
        let said = why().await?;
        if said.contains("1 fits now") { Ok(()) } else { Err(said) }
    })
    .await;
    assert_eq!(world.audit().await.evicted_names(), first);
    let preemptions = giveway_tests::cluster::stored_plans(&world.client()).await.unwrap();
    assert!(preemptions.len() <= 3, "{preemptions:?}");
    gang.delete().await;
    // Evictions that were sent before the first denial was received.
    world.check(&Promises::new().excuse_unbound("train", 2)).await;
}

/// Denies the binding of pods whose names begin with `prefix`, which neither kube-scheduler nor the planner can predict, with the message
/// `PREFIX pods are not bound`. Waits until the policy is in force.
pub async fn deny_bindings(world: &World, prefix: &str, node: &str) {
    let unless = format!("!request.name.startsWith('{prefix}')");
    let message = format!("{prefix} pods are not bound");
    let denial =
        Denial { name: prefix, operation: "CREATE", of: ("", "pods/binding"), unless: &unless, message: &message };
    world.apply(&denial.manifest()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let binding = json!({"metadata": {"name": prefix}, "target": {"kind": "Node", "name": node}});
    let binding: Binding = serde_json::from_value(binding).unwrap();
    wait_for("the policy is in force", MINUTE, async || {
        match pods.create_subresource::<_, Status>("binding", prefix, &PostParams::default(), &binding).await {
            Err(kube::Error::Api(status)) if status.message.contains(&message) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn no_pod_is_evicted_again_for_a_member_that_cannot_be_bound() {
    let mut world = World::builder().operator_flag("--binding-timeout-seconds=3").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).priority("low").grace_seconds(0).singles().await;
    deny_bindings(&world, "unlucky", &nodes[0]).await;
    let gang = world.gang("unlucky", 1).priority("high").create().await;
    let scheduled = giveway_crds::condition::types::PREEMPTING;
    gang.wait_condition(scheduled, "False", "Failed", MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    // The victim is recreated, as a controller would do, and bound again. It must not be evicted a second time.
    let again = world.pod("again").priority("low").create().await;
    again.wait_bound(MINUTE).await;
    let words = wait_for("the condition says why no further pod is evicted", MINUTE, async || {
        let conditions = gang.get().await.status.unwrap_or_default().conditions;
        let message =
            giveway_crds::condition::find(&conditions, INITIALLY_SCHEDULED).map(|condition| condition.message.clone());
        let message = message.unwrap_or_default();
        if message.contains("No pod is evicted for pod unlucky-0 on node ") { Ok(message) } else { Err(message) }
    })
    .await;
    assert!(words.contains("of pod unlucky-0: ") && words.contains("unlucky pods are not bound"), "{words}");
    // The next leader knows it, too. A gang whose pods may be bound still preempts, although it is younger.
    world.operator().kill();
    world.operator().start().await;
    let lucky = world.gang("lucky", 1).priority("high").create().await;
    lucky.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names()[0], "again");
    assert_eq!(world.audit().await.evicted().len(), 2, "one for each of both gangs");
    world.check(&Promises::new().excuse_unbound("unlucky", 1)).await;
}
