//! Plans stored as `Preemption` objects: write access, verification by a new leader, size, and the number that is kept.

use crate::MINUTE;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::pod_group::PreemptorReference;
use giveway_crds::{PodGroup, Preemption, keys};
use giveway_tests::attack::Call;
use giveway_tests::audit::{OPERATOR, Promises};
use giveway_tests::cluster::{Denial, GroupBuilder, Shaped, stored_plans};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_plan_that_cannot_be_stored_fails_and_the_condition_says_why,
            victims_in_another_namespace_see_only_kind_and_uid_of_the_preemptor;
        own:
            a_tenant_with_role_edit_cannot_evict_pods_with_a_forged_plan,
            an_administrator_cancels_a_plan_by_deleting_its_preemption;
        release:
            a_plan_of_thousands_of_victims_is_stored_in_parts_and_resumed_only_if_complete,
            only_the_latest_plans_are_kept,
            after_a_restart_a_group_reports_that_its_plan_was_deleted,
            a_plan_for_a_deleted_preemptor_of_the_same_name_is_cancelled;
    ]
}

/// Starts a world with two nodes full of pods of class `low` and a gang of class `high` that needs both. Returns it with the gang
/// and its plan, whose first eviction is delayed by ten minutes.
pub(crate) async fn planned() -> (World, giveway_tests::cluster::Group, StoredPlan) {
    let world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let gang =
        world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(600)).create().await;
    let plan = gang.wait_plan(PlanState::Planned, MINUTE).await;
    (world, gang, plan)
}

/// Waits until the plan of this name has ended, and returns it.
async fn wait_ended(world: &World, name: &str) -> Preemption {
    wait_for(&format!("the plan {name} has ended"), MINUTE, async || {
        let found = Api::<Preemption>::all(world.client()).get(name).await.map_err(|error| error.to_string())?;
        match found.status.as_ref().filter(|status| status.finished_at.is_some()) {
            Some(_) => Ok(found),
            None => Err(format!("{:?}", found.status)),
        }
    })
    .await
}

/// Returns the state and message of a plan.
fn ended(preemption: &Preemption) -> (PlanState, String) {
    let status = preemption.status.clone().unwrap_or_default();
    (status.state, status.message)
}

/// Name of the policy that denies the creation of plans.
const DENIED: &str = "denied-by-the-test";

/// Creates a policy that denies plans for which `expression` is false, and waits until it is in force.
async fn deny_plans(world: &World, expression: &str) {
    let of = (keys::GROUP, "preemptions");
    let denial = Denial { name: DENIED, operation: "CREATE", of, unless: expression, message: "denied by the test" };
    world.apply(&denial.manifest()).await.unwrap();
    let probe = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "probe.3"},
        "spec": {"strategy": "none", "preemptor": {"kind": "Pod", "namespace": "d", "name": "p", "uid": "u", "priority": 1}}
    });
    let probe: Preemption = serde_json::from_value(probe).unwrap();
    // The chart's policies deny this request to all other users.
    let preemptions = Api::<Preemption>::all(world.client_of(OPERATOR).await);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait_for("the policy is in force", MINUTE, async || match preemptions.create(&dry_run, &probe).await {
        Err(error) if error.to_string().contains("denied by the test") => Ok(()),
        answer => Err(format!("{answer:?}")),
    })
    .await;
}

/// Deletes the policy of [`deny_plans`].
async fn allow_plans(world: &World) {
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        world.kubectl(&["delete", kind, DENIED]).await.unwrap();
    }
}

async fn a_plan_for_a_deleted_preemptor_of_the_same_name_is_cancelled() {
    let (mut world, gang, plan) = planned().await;
    world.operator().kill();
    gang.delete().await;
    // A PodGroup without Giveway's finalizer is deleted at once.
    if world.kubectl(&["get", "podgroup", "train", "--ignore-not-found"]).await.unwrap() != "" {
        let without = r#"{"metadata":{"finalizers":null}}"#;
        world.kubectl(&["patch", "podgroup", "train", "--type=merge", "-p", without]).await.unwrap();
    }
    let again = world.gang("train", 4).priority("low").without_pods().create().await;
    world.operator().start().await;
    let (state, message) = ended(&wait_ended(&world, &plan.id).await);
    let words = "An earlier leader stored this plan, which is no longer valid: the preemptor was deleted, and another object has the name.";
    assert_eq!((state, message.as_str()), (PlanState::Cancelled, words));
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    again.delete().await;
    world.check_promises().await;
}

/// An attack against plans stored in annotations of pods: a tenant with role `edit` in one namespace wrote a plan into the
/// annotation of a forged mirror pod, and the next leader evicted the pods named in it.
async fn a_tenant_with_role_edit_cannot_evict_pods_with_a_forged_plan() {
    let mut world = World::start().await;
    world.class("vip", 1000).create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let team = world.namespace("team").await;
    let victim = world.pod("db").priority("vip").on(&nodes[0]).create().await;
    let edit = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "edit", "namespace": "team"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "tenant"}]
    });
    world.apply(&edit.to_string()).await.unwrap();
    let tenant = world.client_in("tenant", &[]).await;
    let pods = "/api/v1/namespaces/team/pods";
    wait_for("the tenant may list pods", MINUTE, async || Call::get(pods).make(&tenant).await).await;
    let plan = json!({
        "id": "forged", "term": "t", "state": "Evicting", "strategy": "kep5710", "placements": [],
        "victims": [{"kind": "Pod", "namespace": "default", "name": "db", "priority": 1000,
            "pods": [{"name": "db", "uid": victim.uid, "node": nodes[0]}]}]
    });
    let pod = |annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "looks-static", "annotations": annotations},
            "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "i"}]}})
    };
    let (mirror, annotation) = ("kubernetes.io/config.mirror", keys::ANNOTATION_PLAN);
    let forged = pod(json!({mirror: "x", annotation: plan.to_string()}));
    Call::post(pods, &forged).refused(&tenant, "a plan at creation", annotation).await;
    let only = "metadata.annotations[kubernetes.io/config.mirror]: only a node makes the mirror pod of a static pod";
    Call::post(pods, &pod(json!({mirror: "x"}))).refused(&tenant, "a forged mirror pod", only).await;
    let kubelet = world.client_in("system:node:nowhere", &["system:nodes"]).await;
    Call::post(pods, &pod(json!({mirror: "x"}))).dry().allowed(&kubelet, "a mirror pod").await;
    Call::post(pods, &pod(json!({}))).allowed(&tenant, "a pod").await;
    let patch = json!({"metadata": {"annotations": {annotation: plan.to_string()}}});
    let later = Call::merge(&format!("{pods}/looks-static"), &patch);
    later.refused(&tenant, "a plan afterwards", "'giveway-pods' denied request").await;
    let object = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "forged"},
        "spec": {"strategy": "none", "preemptor": {"kind": "Pod", "namespace": "team", "name": "looks-static", "uid": "u",
            "priority": 2000}, "victims": plan["victims"]}
    });
    let preemptions = "/apis/scheduling.giveway.dev/v1alpha1/preemptions";
    let words = "User \"tenant\" cannot create resource \"preemptions\"";
    Call::post(preemptions, &object).refused(&tenant, "a plan as an object", words).await;
    // The next leader schedules another gang and evicts no pod.
    world.operator().kill();
    world.operator().start().await;
    GroupBuilder::new(team, "honest", 1).create().await.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    assert!(victim.get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()));
    world.check_promises().await;
}

async fn after_a_restart_a_group_reports_that_its_plan_was_deleted() {
    let mut world = World::start().await;
    let gang = world.gang("train", 2).without_pods().create().await;
    world.operator().kill();
    let status =
        json!({"status": {"preemption": {"name": "lost-1", "state": "Evicting", "message": "16 pods are evicted."}}});
    let groups: Api<PodGroup> = Api::namespaced(world.client_of(OPERATOR).await, "default");
    groups.patch_status("train", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    world.operator().start().await;
    assert_eq!(gang.wait_condition("Preempting", "False", "Cancelled", MINUTE).await, "The plan has ended.");
    let status = gang.get().await.status.unwrap().preemption.unwrap();
    assert_eq!((status.state, status.message.as_str()), (PlanState::Cancelled, "The plan has ended."));
    world.check_promises().await;
}

async fn a_plan_that_cannot_be_stored_fails_and_the_condition_says_why(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    world.fill(&nodes).priority("low").singles().await;
    deny_plans(world, "false").await;
    let gang = world.gang("train", 4).priority("high").create().await;
    let message = gang.wait_condition("Preempting", "False", "Failed", MINUTE).await;
    assert!(message.starts_with("The plan could not be stored, so no pod was evicted: "), "{message}");
    assert!(message.contains("denied by the test"), "{message}");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    // Meanwhile other gangs are bound, and the status of the group is updated.
    world.nodes(1).cpus(1).prefix("more").create().await;
    world.gang("other", 1).priority("low").create().await.wait_bound(MINUTE).await;
    let path = r#"{"spec":{"preemptFor":"AllMembers","schedulingPolicy":{"gang":{"minCount":3}}}}"#;
    world.kubectl(&["patch", "podgroup", "train", "--type=merge", "-p", path]).await.unwrap();
    wait_for("the status has the new generation", MINUTE, async || {
        let seen = gang.get().await;
        let observed = seen.status.as_ref().and_then(|status| status.observed_generation);
        if observed == seen.metadata.generation { Ok(()) } else { Err(format!("{observed:?}")) }
    })
    .await;
    allow_plans(world).await;
    gang.wait_bound(2 * MINUTE).await;
    world.check_promises().await;
}

async fn an_administrator_cancels_a_plan_by_deleting_its_preemption() {
    let (world, gang, plan) = planned().await;
    let table = world.kubectl(&["get", "gpr"]).await.unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "CAUSE", "PREEMPTOR", "PRIORITY", "VICTIMS", "GROUPS", "STRATEGY", "STATE", "AGE"]);
    assert_eq!(rows[1][..8], [plan.id.as_str(), "Preemptor", "train", "1000", "4", "0", "least-cost", "Planned"]);
    let wide = world.kubectl(&["get", "preemptions", "-o", "wide"]).await.unwrap();
    assert!(wide.contains("STEP") && wide.contains("VIOLATIONS") && wide.contains("MESSAGE"), "{wide}");
    assert!(wide.contains("4 pods of priority 10 or less are evicted for 4 pods of pod group default/train"), "{wide}");
    let said = world
        .kubectl(&["patch", "gpr", &plan.id, "--type=merge", "-p", r#"{"spec":{"strategy":"mine"}}"#])
        .await
        .unwrap_err();
    assert!(said.contains("field is immutable: a plan is made once"), "{said}");
    Api::<Preemption>::all(world.client()).delete(&plan.id, &DeleteParams::default()).await.unwrap();
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert_eq!(message, "The Preemption of the plan was deleted.");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn only_the_latest_plans_are_kept() {
    let world = World::builder().operator_flag("--preemption-history-limit=2").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(4).cpus(1).create().await;
    world.fill(&nodes).priority("low").singles().await;
    for name in ["first", "second", "third"] {
        let gang = world.gang(name, 1).priority("high").create().await;
        gang.wait_bound(MINUTE).await;
        gang.wait_plan(PlanState::Completed, MINUTE).await;
    }
    wait_for("two plans are kept", MINUTE, async || {
        let kept = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let names: Vec<&str> = kept.iter().map(|plan| plan.preemptor.name.as_str()).collect();
        if names == ["second", "third"] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    world.check_promises().await;
}

async fn victims_in_another_namespace_see_only_kind_and_uid_of_the_preemptor(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let victims = world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let secret = world.namespace("secret").await;
    let gang = GroupBuilder::new(secret, "train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let uid = gang.get().await.uid().unwrap();
    let message = victims[0].wait_condition("DisruptionTarget", "True", "PreemptionByScheduler", MINUTE).await;
    let words = format!(
        "Preempted by a pod group of another namespace (UID {uid}) of priority 1000, which needs its capacity; the priority \
         of this group is 10."
    );
    assert_eq!(message, words);
    let by = PreemptorReference { kind: "PodGroup".into(), uid: Some(uid), ..PreemptorReference::default() };
    assert_eq!(victims[0].get().await.status.unwrap().preempted_by, Some(by));
    // No object that a tenant of the victims' namespace may read contains the name of the other namespace.
    for kind in ["podgroups", "pods", "events", "events.events.k8s.io"] {
        let text = world.kubectl(&["get", kind, "-n", "default", "-o", "yaml"]).await.unwrap();
        assert!(!text.contains("secret"), "{kind}: {text}");
    }
    let plan = stored_plans(&world.client()).await.unwrap().remove(0);
    assert!(
        plan.reason.contains("pod group secret/train"),
        "the plan, which administrators read, has names: {}",
        plan.reason
    );
    world.check_promises().await;
}

/// Uses 5,000 victims with names of more than 200 characters and half as many members. `GIVEWAY_VICTIMS` sets another number
/// (`make soak`: 10,000).
async fn a_plan_of_thousands_of_victims_is_stored_in_parts_and_resumed_only_if_complete() {
    let victims = std::env::var("GIVEWAY_VICTIMS").ok().map_or(5_000, |text| text.parse().expect("a number"));
    let mut world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(victims / 100).cpus(100).pods(200).create().await;
    world.fill(&nodes).prefix(&"v".repeat(235)).priority("low").singles().await;
    deny_plans(&world, "!object.metadata.name.endsWith('.3')").await;
    let gang = world
        .gang("train", victims / 2)
        .cpu(2)
        .priority("high")
        .spec(|spec| spec.preemption_delay_seconds = Some(3_600))
        .create()
        .await;
    let preemptions = Api::<Preemption>::all(world.client());
    let list = async || preemptions.list_metadata(&ListParams::default()).await.unwrap();
    wait_for("a part other than the last one is stored", 2 * MINUTE, async || {
        let names: Vec<String> = list().await.iter().map(ResourceExt::name_any).collect();
        if names.iter().any(|name| name.ends_with(".2")) { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    world.operator().kill();
    let incomplete: Vec<String> =
        list().await.iter().map(ResourceExt::name_any).filter(|name| !name.contains('.')).collect();
    allow_plans(&world).await;
    world.operator().start().await;
    for name in &incomplete {
        let (state, message) = ended(&wait_ended(&world, name).await);
        assert_eq!(state, PlanState::Cancelled, "{message}");
        let words = "An earlier leader ended while it stored this plan: not every part of the plan was stored (2 of ";
        assert!(message.starts_with(words), "{message}");
    }
    let plan = gang.wait_plan(PlanState::Planned, 2 * MINUTE).await;
    assert_eq!((plan.placements.len(), plan.cost.victim_pods), (victims / 2, i32::try_from(victims).unwrap()));
    assert!(!incomplete.contains(&plan.id));
    let parts = preemptions.list(&ListParams::default()).await.unwrap().items;
    let parts: Vec<&Preemption> = parts.iter().filter(|part| part.name_any().starts_with(&plan.id)).collect();
    assert!(parts.len() > 2, "{}", parts.len());
    for part in &parts {
        let bytes = serde_json::to_vec(part).unwrap().len();
        assert!(bytes < 1024 * 1024, "{} takes {bytes} bytes", part.name_any());
    }
    // A plan whose last part is stored is resumed by the next leader.
    world.operator().kill();
    world.operator().start().await;
    wait_for("the plan has the term of the next leader", MINUTE, async || {
        let status = preemptions.get(&plan.id).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.term == plan.term { Err("it has the term of the previous leader".to_owned()) } else { Ok(()) }
    })
    .await;
    let resumed = gang.wait_plan(PlanState::Planned, MINUTE).await;
    assert_eq!((resumed.id, resumed.victims), (plan.id, plan.victims));
    assert_eq!(world.audit().await.evicted().len(), 0);
    world.check(&Promises::new()).await;
}
