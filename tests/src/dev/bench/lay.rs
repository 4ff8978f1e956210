//! Creates the full cluster of a row, equal on all sides, and counts the evicted pods afterwards.

use super::rows::{CPUS, Layout, Row};
use super::side::{LOW, Side};
use crate::cluster::Shape;
use crate::wait;
use crate::world::World;
use anyhow::{Context as _, Result};
use futures::{TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Label with the unit of a pod; it distinguishes the pods that fill the cluster from those of the gang.
const UNIT: &str = "bench.giveway.dev/unit";
/// Number of concurrent requests, also when the gang is submitted.
const CONNECTIONS: usize = 16;
/// Seed of the order in which groups are spread over the nodes.
const SEED: u64 = 42;
/// Deadline for the cluster to be complete.
const COMPLETE: Duration = Duration::from_secs(900);

/// Fills the cluster and waits until every pod runs and the controllers have finished. For the side without preemption, the nodes
/// that the gang needs stay empty.
pub(super) async fn fill(world: &World, side: Side, row: &Row) -> Result<()> {
    let nodes = world.nodes(row.nodes).cpus(CPUS).create().await;
    let full = if side == Side::Free { row.nodes.saturating_sub(row.nodes_for_gang()) } else { row.nodes };
    let fill = world.fill(&nodes[..full]);
    let (fill, size) = match row.layout {
        Layout::Singles => (fill, 1),
        Layout::Packed(size) => (fill, size),
        Layout::Spread(size) => (fill.spread(SEED), size),
    };
    let fill = fill.places().await;
    let mut groups = Vec::new();
    let mut pods = Vec::new();
    for (index, nodes) in fill.chunks_exact(size).enumerate() {
        let unit = format!("low-{index:04}");
        let group = (row.layout != Layout::Singles).then_some(unit.as_str());
        groups.extend(group.and_then(|name| side.group(name, size, LOW)));
        for (member, node) in nodes.iter().enumerate() {
            let shape = Member { class: LOW, cpus: 1, unit: &unit, node: Some(node) }.shape();
            pods.push(side.pod(&format!("{unit}-{member}"), shape, group)?);
        }
    }
    let count = pods.len();
    if let Some(kind) = side.kind() {
        create(world, &kind, groups).await?;
    }
    create(world, &pod_kind(), objects(pods)?).await?;
    let api: Api<Pod> = Api::namespaced(world.client(), "default");
    wait::until(&format!("{count} pods run"), COMPLETE, async || {
        let others = ListParams::default().fields("status.phase!=Running");
        let others = api.list_metadata(&others).await.map_err(|error| error.to_string())?.items.len();
        if others == 0 { Ok(()) } else { Err(format!("{others} do not run")) }
    })
    .await?;
    settled(world, side, size).await
}

/// Waits until the controllers of the groups have observed all pods, so that their work is not measured.
async fn settled(world: &World, side: Side, size: usize) -> Result<()> {
    let Some(kind) = side.kind() else { return Ok(()) };
    let api: Api<DynamicObject> = Api::namespaced_with(world.client(), "default", &kind);
    wait::until("every group has its finalizer and its status", COMPLETE, async || {
        let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_settled = |group: &&DynamicObject| {
            let ready = group.data.pointer("/status/pods/ready").and_then(Value::as_u64);
            let reported = side == Side::InTree || ready == u64::try_from(size).ok();
            reported && group.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
        };
        let settled = all.iter().filter(is_settled).count();
        if settled == all.len() { Ok(()) } else { Err(format!("{settled} of {} groups", all.len())) }
    })
    .await?;
    Ok(())
}

/// Properties of a pod of a row.
pub(super) struct Member<'a> {
    pub(super) class: &'a str,
    pub(super) cpus: u32,
    pub(super) unit: &'a str,
    pub(super) node: Option<&'a str>,
}

impl Member<'_> {
    pub(super) fn shape(&self) -> Shape {
        let cpus = Quantity(self.cpus.to_string());
        Shape {
            priority_class: Some(self.class.to_owned()),
            resources: BTreeMap::from([("cpu".to_owned(), cpus)]),
            labels: BTreeMap::from([(UNIT.to_owned(), self.unit.to_owned())]),
            node: self.node.map(str::to_owned),
            ..Shape::default()
        }
    }
}

/// Returns the label selector of the pods of one unit.
pub(super) fn selector(unit: &str) -> String {
    format!("{UNIT}={unit}")
}

/// Creates objects of one kind with bounded concurrency.
pub(super) async fn create(world: &World, kind: &ApiResource, objects: Vec<DynamicObject>) -> Result<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(world.client(), "default", kind);
    stream::iter(objects.into_iter().map(Ok))
        .try_for_each_concurrent(CONNECTIONS, |object| {
            let api = api.clone();
            async move {
                let name = object.metadata.name.clone().unwrap_or_default();
                api.create(&PostParams::default(), &object).await.with_context(|| format!("creating {name}"))?;
                anyhow::Ok(())
            }
        })
        .await
}

/// Returns the kind `Pod`.
pub(super) fn pod_kind() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

/// Converts pods to objects that can be created.
pub(super) fn objects(pods: Vec<Value>) -> Result<Vec<DynamicObject>> {
    pods.into_iter().map(|pod| serde_json::from_value(pod).context("a pod")).collect()
}

/// Numbers of evicted pods and of partially disrupted units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    pub(super) pods: usize,
    pub(super) partially_disrupted: usize,
}

/// Waits until no pod is terminating and counts the missing pods of those that filled the cluster.
pub(super) async fn lost(world: &World, side: Side, row: &Row) -> Result<Lost> {
    if side == Side::Free {
        return Ok(Lost::default());
    }
    let size = match row.layout {
        Layout::Singles => 1,
        Layout::Packed(size) | Layout::Spread(size) => size,
    };
    let units = row.nodes * usize::try_from(CPUS)? / size;
    let api: Api<Pod> = Api::namespaced(world.client(), "default");
    let left = wait::until("no pod is terminating", Duration::from_secs(60), async || {
        let all = api.list_metadata(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let terminating = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
        if terminating > 0 {
            return Err(format!("{terminating} are terminating"));
        }
        let mut left: BTreeMap<String, usize> = BTreeMap::new();
        for pod in all {
            let unit = pod.metadata.labels.and_then(|mut labels| labels.remove(UNIT)).unwrap_or_default();
            *left.entry(unit).or_default() += 1;
        }
        Ok(left)
    })
    .await?;
    let of_units = left.iter().filter(|(unit, _)| unit.starts_with("low-"));
    let kept: Vec<usize> = of_units.map(|(_, pods)| *pods).collect();
    Ok(Lost {
        pods: units * size - kept.iter().sum::<usize>(),
        partially_disrupted: kept.iter().filter(|pods| **pods < size).count(),
    })
}
