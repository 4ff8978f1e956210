//! The sides of the comparison: how each is started, and the form of its groups and pods.

use super::Rate;
use crate::cluster::Shape;
use crate::world::{World, WorldBuilder};
use anyhow::Result;
use giveway_crds::keys;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// Priority class of the pods that fill the cluster.
pub(super) const LOW: &str = "low";
/// Priority class of the gang.
pub(super) const HIGH: &str = "high";

/// The component that preempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Giveway,
    InTree,
    /// No preemption: kube-scheduler binds as many pods without groups to free nodes, which is a lower bound of the time.
    Free,
}

impl Side {
    pub(super) const ALL: [Self; 3] = [Self::Giveway, Self::InTree, Self::Free];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Giveway => "giveway",
            Self::InTree => "in-tree",
            Self::Free => "free",
        }
    }

    /// Starts a control plane with the priority classes.
    pub(super) async fn start(self, rate: Rate) -> Result<World> {
        self.start_with(World::builder(), rate).await
    }

    /// Like [`Side::start`], with other settings of the world.
    pub(super) async fn start_with(self, mut builder: WorldBuilder, rate: Rate) -> Result<World> {
        if rate == Rate::Raised {
            builder = builder.scheduler_rate(1000, 1000);
        }
        let builder = match self {
            Self::Giveway => builder.operator_flag("--lease-duration-seconds=15"),
            Self::InTree => builder.in_tree(),
            Self::Free => builder.bare(),
        };
        let world = builder.without_oracle().try_start().await?;
        for (name, value) in [(LOW, 10), (HIGH, 1000)] {
            let class = world.class(name, value);
            let class = if self == Self::Giveway { class.managed() } else { class };
            class.create().await;
        }
        Ok(world)
    }

    /// Returns the kind `PodGroup` of this side, if it has groups.
    pub(super) fn kind(self) -> Option<ApiResource> {
        let (group, version) = match self {
            Self::Giveway => (keys::GROUP, "v1alpha1"),
            Self::InTree => ("scheduling.k8s.io", "v1beta1"),
            Self::Free => return None,
        };
        Some(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, "PodGroup"), "podgroups"))
    }

    /// Returns a PodGroup with `minCount` `size` whose pods are disrupted together, if this side has groups.
    pub(super) fn group(self, name: &str, size: usize, class: &str) -> Option<DynamicObject> {
        let mode = match self {
            Self::Giveway => json!("PodGroup"),
            Self::InTree => json!({ "all": {} }),
            Self::Free => return None,
        };
        let spec = json!({
            "schedulingPolicy": { "gang": { "minCount": size } },
            "disruptionMode": mode,
            "priorityClassName": class,
        });
        Some(DynamicObject::new(name, &self.kind()?).data(json!({ "spec": spec })))
    }

    /// Returns a pod, which is a member of `group` if one is given. It is untyped because the types have no
    /// `spec.schedulingGroup`.
    pub(super) fn pod(self, name: &str, mut shape: Shape, group: Option<&str>) -> Result<Value> {
        if let (Self::Giveway, Some(group)) = (self, group) {
            shape.labels.insert(keys::LABEL_POD_GROUP.to_owned(), group.to_owned());
        }
        let mut pod = serde_json::to_value(shape.pod(name))?;
        if let (Self::InTree, Some(group)) = (self, group) {
            pod["spec"]["schedulingGroup"] = json!({ "podGroupName": group });
        }
        Ok(pod)
    }
}
