//! `make bench-node`: the time from `kubectl apply` of a gang to its last running container on an empty and on a full real node,
//! with Giveway as the chart installs it and with the in-tree group preemption.

use super::Rate;
use super::side::{HIGH, LOW, Side};
use super::table::machine;
use crate::cluster::Shape;
use crate::dev::progress;
use crate::node::WORKLOAD;
use crate::wait;
use crate::world::World;
use anyhow::{Result, anyhow};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Pods of a gang: the number of pods with [`CPU`] that fit on the node beside Giveway, one less than without Giveway.
const SIZE: usize = 4;
const CPU: &str = "440m";
/// Deadline of every wait.
const LIMIT: Duration = Duration::from_secs(120);

/// Options of the benchmark.
#[derive(Args, Clone, Debug)]
pub struct NodeOptions {
    /// Number of measurements of each case.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
}

/// Measures both sides and prints the table.
///
/// # Errors
/// If no real node can run here or a gang does not start in time.
pub async fn bench(options: &NodeOptions) -> Result<()> {
    let mut lines = Vec::new();
    for side in [Side::Giveway, Side::InTree] {
        progress(&format!("a real node with {}", side.name()));
        let world = side.start_with(World::builder().real_node(), Rate::Default).await?;
        for (case, full) in [("an empty node", false), ("a full node", true)] {
            let mut times = Vec::new();
            for _ in 0..options.rounds {
                times.push(round(&world, side, full).await?);
            }
            times.sort();
            let (median, worst) = (times[times.len() / 2].as_secs_f64(), times[times.len() - 1].as_secs_f64());
            lines.push(format!("| {case} | {} | {median:.1} s | {worst:.1} s |", side.name()));
        }
    }
    println!("\n{}\n\n| gang of {SIZE} × {CPU} CPU on | by | median | worst |\n|---|---|---|---|", machine());
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Measures one gang and deletes it. On a full node a gang of lower priority runs before.
async fn round(world: &World, side: Side, full: bool) -> Result<Duration> {
    if full {
        let low = gang(side, "low", LOW)?;
        submit(world, &low).await?;
        all_run(world, "low").await?;
    }
    let high = gang(side, "high", HIGH)?;
    let start = Instant::now();
    submit(world, &high).await?;
    all_run(world, "high").await?;
    let took = start.elapsed();
    clear(world, side).await?;
    Ok(took)
}

fn gang(side: Side, name: &str, class: &str) -> Result<Value> {
    let group = side.group(name, SIZE, class);
    let mut items: Vec<Value> = group.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    for index in 0..SIZE {
        let shape = Shape {
            priority_class: Some(class.to_owned()),
            resources: BTreeMap::from([("cpu".to_owned(), Quantity(CPU.to_owned()))]),
            labels: BTreeMap::from([("gang".to_owned(), name.to_owned())]),
            grace_seconds: Some(5),
            ..Shape::default()
        };
        let mut pod = side.pod(&format!("{name}-{index}"), shape, Some(name))?;
        let requests = json!({"requests": {"cpu": CPU}});
        pod["spec"]["containers"] =
            json!([{"name": "main", "image": WORKLOAD, "imagePullPolicy": "Never", "resources": requests}]);
        items.push(pod);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

async fn submit(world: &World, manifest: &Value) -> Result<()> {
    world.apply(&manifest.to_string()).await.map(drop).map_err(|error| anyhow!(error))
}

/// Waits until every container of a gang runs.
async fn all_run(world: &World, gang: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(world.client(), "default");
    let selector = ListParams::default().labels(&format!("gang={gang}"));
    let runs = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        containers.is_some_and(|all| all.iter().all(|c| c.state.as_ref().is_some_and(|state| state.running.is_some())))
    };
    wait::until(&format!("every container of {gang} runs"), LIMIT, async || {
        let all = pods.list(&selector).await.map_err(|error| error.to_string())?.items;
        let running = all.iter().filter(|pod| runs(pod)).count();
        if running == SIZE { Ok(()) } else { Err(format!("{running} of {} run", all.len())) }
    })
    .await?;
    Ok(())
}

/// Deletes the gangs and waits until their objects are removed.
async fn clear(world: &World, side: Side) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(world.client(), "default");
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let groups = side.kind().map(|kind| format!("{}.{}", kind.plural, kind.group)).unwrap_or_default();
    let kinds = format!("pods,{groups}");
    world.kubectl(&["delete", &groups, "--all", "--wait=false"]).await.map_err(|error| anyhow!(error))?;
    wait::until("the node is empty", LIMIT, async || {
        let left = world.kubectl(&["get", &kinds, "-o", "name"]).await?;
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    })
    .await?;
    Ok(())
}
