//! Budgets that hold (KEP-3280), each with the disruption controller's own status and never a patched one.
//!
//! Several scenes share a control plane, side by side. Each has a namespace and nodes of its own. At the end the oracle
//! judges all of them at once: what every pod went for, and how many healthy pods its budgets had left then.

pub mod duels;
pub mod races;
pub mod rounds;
pub mod stories;

use super::{MINUTE, SCHEDULED};
use giveway_crds::condition;
use giveway_tests::audit::budgets::{Judgement, Worst};
use giveway_tests::audit::{History, OPERATOR, Promises, Removal};
use giveway_tests::cluster::{
    BudgetBuilder, DeploymentBuilder, FillBuilder, Group, GroupBuilder, Kit, NodesBuilder, PodBuilder, PodHandle,
    Shaped,
};
use giveway_tests::wait::wait_for;
use giveway_tests::world::{World, WorldBuilder};
use kube::Client;

/// The user who evicts beside Giveway.
const OTHER: &str = "somebody-else";
/// The label of a scene's nodes.
const POOL: &str = "pool";

/// A world whose budgets are watched from the beginning. The guarded classes have priority 100 and the name of their
/// threshold, `guarded-1000`; those of preemptors have the name of their priority, `urgent-999`.
struct Stage {
    world: World,
    /// Somebody else who evicts.
    other: Client,
}

impl Stage {
    async fn build(world: WorldBuilder, thresholds: &[i32], priorities: &[i32]) -> Self {
        let world = world.start().await;
        world.class("plain", 100).managed().create().await;
        for threshold in thresholds {
            world.class(&format!("guarded-{threshold}"), 100).threshold(*threshold).managed().create().await;
        }
        for priority in priorities {
            world.class(&format!("urgent-{priority}"), *priority).managed().create().await;
        }
        Self { other: world.client_of(OTHER).await, world }
    }

    async fn scene(&self, name: &str) -> Scene {
        Scene { kit: self.world.namespace(name).await, name: name.to_owned() }
    }

    /// What both witnesses prove, at rest. Fails when a promise was broken.
    async fn judge(&self, promises: &Promises) -> (Judgement, History) {
        self.world.check(promises).await;
        (self.world.judgement(promises).await, self.world.audit().await)
    }
}

/// A namespace and nodes of its own.
struct Scene {
    kit: Kit,
    name: String,
}

impl Scene {
    async fn nodes(&self, count: usize, cpus: u32) -> Vec<String> {
        self.more_nodes(&self.name, count, cpus).await
    }

    async fn more_nodes(&self, prefix: &str, count: usize, cpus: u32) -> Vec<String> {
        NodesBuilder::new(self.kit.clone(), count).cpus(cpus).prefix(prefix).label(POOL, &self.name).create().await
    }

    /// Pods with label `app=web` on every free place of these nodes.
    async fn web(&self, class: &str, nodes: &[String]) -> Vec<PodHandle> {
        self.web_on("web", class, nodes).await
    }

    /// The same, with names that begin otherwise.
    async fn web_on(&self, prefix: &str, class: &str, nodes: &[String]) -> Vec<PodHandle> {
        let fill = FillBuilder::new(self.kit.clone(), nodes).prefix(prefix).priority(class);
        fill.label("app", "web").singles().await
    }

    fn deployment(&self, name: &str, class: &str, replicas: usize) -> DeploymentBuilder {
        DeploymentBuilder::new(self.kit.clone(), name, replicas).priority(class).node_selector(POOL, &self.name)
    }

    /// A budget for the pods with label `app=web`.
    fn budget(&self, name: &str) -> BudgetBuilder {
        BudgetBuilder::new(self.kit.clone(), name).matching("app", "web")
    }

    fn pod(&self, name: &str, class: &str) -> PodBuilder {
        PodBuilder::new(self.kit.clone(), name).priority(class).node_selector(POOL, &self.name)
    }

    fn gang(&self, name: &str, class: &str, size: usize) -> GroupBuilder {
        GroupBuilder::new(self.kit.clone(), name, size).priority(class).node_selector(POOL, &self.name)
    }

    /// The requests of Giveway to remove pods of this scene, refused ones too.
    fn requests<'a>(&self, history: &'a History) -> Vec<&'a Removal> {
        let mine = |removal: &&Removal| removal.user == OPERATOR && removal.pod.0 == self.name;
        history.removals.iter().filter(mine).collect()
    }

    fn worst(&self, judgement: &Judgement, budget: &str) -> Worst {
        judgement.worst[&(self.name.clone(), budget.to_owned())]
    }
}

/// Waits until a pod was told that no plan helps it; returns why.
async fn told_no(pod: &PodHandle) -> String {
    pod.wait_event_like("Unschedulable", MINUTE).await
}

/// Waits until a group tells that no plan helps it; returns why.
async fn group_told_no(group: &Group) -> String {
    wait_for(&format!("group {} tells that nothing helps it", group.name), MINUTE, async || {
        let conditions = group.get().await.status.unwrap_or_default().conditions;
        let Some(found) = condition::find(&conditions, SCHEDULED) else { return Err("it tells nothing".to_owned()) };
        let told = found.reason.starts_with("Unschedulable");
        if told { Ok(found.message.clone()) } else { Err(format!("{}: {}", found.reason, found.message)) }
    })
    .await
}
