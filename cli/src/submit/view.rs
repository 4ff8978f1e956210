//! The world as the rules of admission look it up.

use crate::world::World;
use giveway_admission::view::{ClusterView, GroupView, Settings};
use giveway_crds::priority::Classes;
use giveway_planner::ObjectKey;
use std::borrow::Cow;

/// The objects of the cluster as admission rules look them up. The chart's settings are the defaults: they are no part of a snapshot.
pub(super) struct PlannedWorld<'a> {
    world: &'a World,
    settings: Settings,
}

impl<'a> PlannedWorld<'a> {
    /// Creates the view in which admission rules look up the objects of `world`.
    pub(super) fn new(world: &'a World) -> Self {
        Self { world, settings: Settings::default() }
    }
}

impl ClusterView for PlannedWorld<'_> {
    /// Returns the chart's settings for admission: the defaults.
    fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the PriorityClasses of the cluster.
    fn classes(&self) -> &Classes {
        self.world.cluster.classes()
    }

    /// Returns what admission reads of a PodGroup; `None` if it does not exist.
    fn group(&self, namespace: &str, name: &str) -> Option<Cow<'_, GroupView>> {
        self.world.groups.get(&ObjectKey::new(namespace, name)).map(|group| Cow::Owned(GroupView::of(group)))
    }

    /// Returns true if the Workload exists.
    fn has_workload(&self, namespace: &str, workload: &str) -> bool {
        self.world.workloads.contains_key(&ObjectKey::new(namespace, workload))
    }

    /// Returns what admission reads of a PodGroup template in a Workload; `None` if it does not exist.
    fn template(&self, namespace: &str, workload: &str, template: &str) -> Option<Cow<'_, GroupView>> {
        let workload = self.world.workloads.get(&ObjectKey::new(namespace, workload))?;
        let template = workload.spec.pod_group_templates.iter().find(|each| each.name == template)?;
        Some(Cow::Owned(GroupView::new(&template.scheduling_policy, template.priority_class_name.as_ref())))
    }
}
