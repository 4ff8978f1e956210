//! Builders of the objects that a test creates in its world.

use super::World;
use crate::cluster::{
    BudgetBuilder, ClassBuilder, DeploymentBuilder, FillBuilder, GroupBuilder, Kit, NodesBuilder, PodBuilder,
};
use crate::denials::{Denials, Enforced, Rule};
use crate::later_plugin::LaterPlugin;

impl World {
    /// Returns a builder of fake nodes.
    pub fn nodes(&self, count: usize) -> NodesBuilder {
        NodesBuilder::new(self.kit(), count)
    }

    /// Returns a builder of a priority class.
    pub fn class(&self, name: &str, value: i32) -> ClassBuilder {
        ClassBuilder::new(self.kit(), name, value)
    }

    /// Returns a builder of a gang PodGroup and its pods, with `minCount` `size`.
    pub fn gang(&self, name: &str, size: usize) -> GroupBuilder {
        GroupBuilder::new(self.kit(), name, size)
    }

    /// Returns a builder of a single pod.
    pub fn pod(&self, name: &str) -> PodBuilder {
        PodBuilder::new(self.kit(), name)
    }

    /// Returns a builder that fills the free capacity of these nodes with groups or single pods.
    pub fn fill<S: AsRef<str>>(&self, nodes: &[S]) -> FillBuilder {
        FillBuilder::new(self.kit(), nodes)
    }

    /// Returns a builder of a PodDisruptionBudget.
    pub fn budget(&self, name: &str) -> BudgetBuilder {
        BudgetBuilder::new(self.kit(), name)
    }

    /// Creates a namespace and returns a kit with which builders create objects in it.
    ///
    /// # Panics
    /// If it is rejected.
    pub async fn namespace(&self, name: &str) -> Kit {
        self.kit.new_namespace(name).await
    }

    /// Returns a builder of a Deployment.
    pub fn deployment(&self, name: &str, replicas: usize) -> DeploymentBuilder {
        DeploymentBuilder::new(self.kit(), name, replicas)
    }

    /// Denies requests by this rule, and waits until it is in force. It ends with the test at the latest.
    ///
    /// # Panics
    /// If the rule is rejected or does not come into force.
    pub async fn deny(&self, rule: Rule) -> Enforced {
        let denials = self.denials.get_or_try_init(|| Denials::start(self.plane.pki(), self.client())).await;
        denials.unwrap_or_else(|error| panic!("{error:#}")).deny(rule).await
    }

    /// Starts a mutating webhook that runs after Giveway's, and does with a pod what its annotation [`WRITES`] says.
    ///
    /// [`WRITES`]: crate::later_plugin::WRITES
    ///
    /// # Panics
    /// If the API server does not call it.
    pub async fn later_plugin(&self) -> LaterPlugin {
        LaterPlugin::start(self.plane.pki(), self.client()).await.unwrap_or_else(|error| panic!("{error:#}"))
    }
}
