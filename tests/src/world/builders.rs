//! Builders for what a test creates in its world.

use super::World;
use crate::cluster::{BudgetBuilder, ClassBuilder, FillBuilder, GroupBuilder, Kit, NodesBuilder, PodBuilder};

impl World {
    /// Fake nodes.
    pub fn nodes(&self, count: usize) -> NodesBuilder {
        NodesBuilder::new(self.kit(), count)
    }

    /// A priority class.
    pub fn class(&self, name: &str, value: i32) -> ClassBuilder {
        ClassBuilder::new(self.kit(), name, value)
    }

    /// A PodGroup and its pods, all of which it needs.
    pub fn gang(&self, name: &str, size: usize) -> GroupBuilder {
        GroupBuilder::new(self.kit(), name, size)
    }

    /// A single pod.
    pub fn pod(&self, name: &str) -> PodBuilder {
        PodBuilder::new(self.kit(), name)
    }

    /// Groups or single pods on every free place of these nodes.
    pub fn fill<S: AsRef<str>>(&self, nodes: &[S]) -> FillBuilder {
        FillBuilder::new(self.kit(), nodes)
    }

    /// A PodDisruptionBudget.
    pub fn budget(&self, name: &str) -> BudgetBuilder {
        BudgetBuilder::new(self.kit(), name)
    }

    /// Creates a namespace; builders that are given the kit create in it.
    ///
    /// # Panics
    /// It is refused.
    pub async fn namespace(&self, name: &str) -> Kit {
        self.kit.new_namespace(name).await
    }
}
