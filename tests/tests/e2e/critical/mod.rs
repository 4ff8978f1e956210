//! Critical add-ons: which pods are evicted for them and how, and what is left unchanged.

pub mod changes;
pub mod contention;
pub mod crash;
pub mod denials;
pub mod restraint;
pub mod steps;
pub mod stranded;

use crate::MINUTE;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::{critical, keys};
use giveway_tests::cluster::{Kit, PodBuilder, PodHandle, Shaped, stored_plans};
use giveway_tests::wait::wait_for;
use giveway_tests::world::{World, WorldBuilder};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::Api;
use kube::api::{ListParams, PostParams};
use std::collections::BTreeMap;

/// Returns a builder of a world whose operator preempts for an add-on after it was `Unschedulable` for this time.
fn after(time: &str) -> WorldBuilder {
    World::builder().operator_flag(&format!("--critical-addons-after={time}"))
}

/// Returns a kit for `kube-system`, the namespace of add-ons.
fn system(world: &World) -> Kit {
    Kit { namespace: "kube-system".to_owned(), ..world.kit() }
}

/// Returns a builder of an add-on of priority 0, for which kube-scheduler does not preempt.
fn addon(world: &World, name: &str) -> PodBuilder {
    PodBuilder::new(system(world), name).annotation(keys::ANNOTATION_CRITICAL, "true").tolerate(keys::TAINT_CRITICAL)
}

/// Creates a pod with this termination grace period, which the fake kubelet terminates immediately, and waits until it runs.
async fn create_with_grace(builder: PodBuilder, seconds: i64) -> PodHandle {
    let kit = builder.kit();
    let mut pod = builder.build();
    pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(seconds);
    let pod = kit.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    let handle = PodHandle::new(kit, &pod);
    handle.wait_running(MINUTE).await;
    handle
}

/// Returns all taints with the key `CriticalAddonsOnly`, by node.
async fn taints(world: &World) -> BTreeMap<String, Vec<Taint>> {
    let nodes = Api::<Node>::all(world.client()).list(&ListParams::default()).await.unwrap();
    let ours = |node: Node| {
        let all = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let some: Vec<Taint> = all.into_iter().filter(|taint| taint.key == keys::TAINT_CRITICAL).collect();
        Some((node.metadata.name?, some)).filter(|(_, taints)| !taints.is_empty())
    };
    nodes.items.into_iter().filter_map(ours).collect()
}

/// Waits until a node has the taint of this pod, and returns the node.
async fn wait_tainted(world: &World, pod: &PodHandle) -> String {
    wait_for(&format!("a node has the taint of {}", pod.name), MINUTE, async || {
        let found = taints(world).await;
        let ours = |list: &Vec<Taint>| list.contains(&critical::taint(&pod.uid));
        let mut nodes = found.iter().filter(|(_, taints)| ours(taints)).map(|(node, _)| node.clone());
        nodes.next().ok_or_else(|| format!("{found:?}"))
    })
    .await
}

/// Waits until no node has a taint with the key `CriticalAddonsOnly`.
async fn wait_untainted(world: &World) {
    wait_for("no node has a taint CriticalAddonsOnly", MINUTE, async || {
        let found = taints(world).await;
        if found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

/// Waits until the latest plan for this pod is in this state, and returns it.
async fn wait_plan(world: &World, pod: &PodHandle, state: PlanState) -> StoredPlan {
    wait_for(&format!("the latest plan for {} is {state:?}", pod.name), MINUTE, async || {
        let plans = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let mut of_pod = plans.into_iter().filter(|plan| plan.preemptor.uid == pod.uid);
        let newest = of_pod.next_back().ok_or("no plan has this preemptor")?;
        if newest.state == state { Ok(newest) } else { Err(format!("{:?}: {}", newest.state, newest.message)) }
    })
    .await
}

/// Returns the sorted names of a plan's victims.
fn victims(plan: &StoredPlan) -> Vec<&str> {
    let mut names: Vec<&str> = plan.victims.iter().map(|unit| unit.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// Checks that no pod was evicted and no node has a taint of Giveway, and checks the promises.
async fn expect_no_eviction(world: &World) {
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    assert!(taints(world).await.is_empty());
    world.check_promises().await;
}
