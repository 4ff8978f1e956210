//! Guaranteed PodDisruptionBudgets (KEP-3280). The disruption controller computes the status of every budget; no test patches it.
//!
//! Several scenes run concurrently on one control plane. Each has a namespace and nodes of its own. At the end the oracle checks
//! all scenes at once: the cause of every eviction, and how many healthy pods the budgets of the evicted pod had left.

pub mod duels;
pub mod races;
pub mod rounds;
pub mod stories;

use super::{INITIALLY_SCHEDULED, MINUTE};
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

/// Name of a user other than Giveway that evicts pods.
const OTHER: &str = "other-user";
/// Label key of a scene's nodes; the value is the name of the scene.
const POOL: &str = "pool";

/// World for scenes with budgets. Classes with a threshold have priority 100 and are named by their threshold (`guarded-1000`);
/// classes of preemptors are named by their priority (`urgent-999`).
struct Stage {
    world: World,
    /// Client of the user [`OTHER`].
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

    /// Checks the promises and returns what the oracle found. Panics if a promise was broken.
    async fn judge(&self, promises: &Promises) -> (Judgement, History) {
        self.world.check(promises).await;
        (self.world.judgement(promises).await, self.world.audit().await)
    }
}

/// One scenario, with a namespace and nodes of its own.
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

    /// Fills the free capacity of these nodes with pods labelled `app=web`.
    async fn web(&self, class: &str, nodes: &[String]) -> Vec<PodHandle> {
        self.web_on("web", class, nodes).await
    }

    /// Like [`Scene::web`], with another prefix of the pod names.
    async fn web_on(&self, prefix: &str, class: &str, nodes: &[String]) -> Vec<PodHandle> {
        let fill = FillBuilder::new(self.kit.clone(), nodes).prefix(prefix).priority(class);
        fill.label("app", "web").singles().await
    }

    fn deployment(&self, name: &str, class: &str, replicas: usize) -> DeploymentBuilder {
        DeploymentBuilder::new(self.kit.clone(), name, replicas).priority(class).node_selector(POOL, &self.name)
    }

    /// Returns a builder for a budget that selects the pods labelled `app=web`.
    fn budget(&self, name: &str) -> BudgetBuilder {
        BudgetBuilder::new(self.kit.clone(), name).matching("app", "web")
    }

    fn pod(&self, name: &str, class: &str) -> PodBuilder {
        PodBuilder::new(self.kit.clone(), name).priority(class).node_selector(POOL, &self.name)
    }

    fn gang(&self, name: &str, class: &str, size: usize) -> GroupBuilder {
        GroupBuilder::new(self.kit.clone(), name, size).priority(class).node_selector(POOL, &self.name)
    }

    /// Returns the eviction and deletion requests of Giveway for pods of this scene, including refused ones.
    fn requests<'a>(&self, history: &'a History) -> Vec<&'a Removal> {
        let mine = |removal: &&Removal| removal.user == OPERATOR && removal.pod.0 == self.name && !removal.dry_run;
        history.removals.iter().filter(mine).collect()
    }

    fn worst(&self, judgement: &Judgement, budget: &str) -> Worst {
        judgement.worst[&(self.name.clone(), budget.to_owned())]
    }
}

/// Waits for an event on the pod that no plan exists for it, and returns the message.
async fn wait_pod_unschedulable(pod: &PodHandle) -> String {
    pod.wait_event_like("Unschedulable", MINUTE).await
}

/// Waits until the condition of the group says that no plan exists for it, and returns the message.
async fn wait_group_unschedulable(group: &Group) -> String {
    wait_for(&format!("PodGroup {} is reported as unschedulable", group.name), MINUTE, async || {
        let conditions = group.get().await.status.unwrap_or_default().conditions;
        let Some(found) = condition::find(&conditions, INITIALLY_SCHEDULED) else {
            return Err(format!("no condition {INITIALLY_SCHEDULED}"));
        };
        let unschedulable = found.reason.starts_with("Unschedulable");
        if unschedulable { Ok(found.message.clone()) } else { Err(format!("{}: {}", found.reason, found.message)) }
    })
    .await
}
