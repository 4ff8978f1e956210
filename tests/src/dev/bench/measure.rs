//! One run: a new control plane, a full cluster and a gang.

use super::lay::{self, Member};
use super::rows::Row;
use super::side::{HIGH, Side};
use super::{Rate, lay::selector};
use crate::world::World;
use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, future};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the gang, its group and its unit.
const GANG: &str = "gang";
/// Deadline for the gang to be bound.
const LIMIT: Duration = Duration::from_secs(600);

/// Result of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Time from the first request of the submission to the binding of the last member; `None` if the deadline has passed.
    pub(super) time: Option<Duration>,
    /// Pods that were evicted.
    pub(super) evicted: usize,
    /// Number of partially disrupted groups.
    pub(super) partially_disrupted: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            Some(time) => write!(f, "{:.1} s", time.as_secs_f64())?,
            None => write!(f, "not bound in {} s", LIMIT.as_secs())?,
        }
        if self.evicted > 0 {
            write!(f, ", {} evicted", self.evicted)?;
        }
        if self.partially_disrupted > 0 {
            write!(f, ", {} partially disrupted", self.partially_disrupted)
        } else {
            Ok(())
        }
    }
}

/// Measures one row on one side once.
///
/// # Errors
/// If a process does not start or a request is rejected.
pub(super) async fn measure(row: &Row, side: Side, rate: Rate, logs: Option<&Path>, round: usize) -> Result<Outcome> {
    let mut world = side.start(rate).await?;
    lay::fill(&world, side, row).await?;
    let time = submit(&world, side, row).await?;
    let lost = lay::lost(&world, side, row).await?;
    if let Some(logs) = logs {
        world.keep_logs(&logs.join(format!("{}-{}-{}-{round}", row.name, rate.name(), side.name())))?;
    }
    world.plane().check_alive()?;
    Ok(Outcome { time, evicted: lost.pods, partially_disrupted: lost.partially_disrupted })
}

/// Submits the gang and waits until it is bound.
async fn submit(world: &World, side: Side, row: &Row) -> Result<Option<Duration>> {
    let api: Api<Pod> = Api::namespaced(world.client(), "default");
    let mut seen = watcher(api, watcher::Config::default().labels(&selector(GANG))).boxed();
    loop {
        match seen.next().await.context("the watch ended")?? {
            Event::InitDone => break,
            Event::Init => {}
            other => bail!("pods of the gang existed before it was submitted: {other:?}"),
        }
    }
    let pods = (0..row.gang).map(|index| {
        let shape = Member { class: HIGH, cpus: row.cpus, unit: GANG, node: None }.shape();
        side.pod(&format!("{GANG}-{index}"), shape, Some(GANG))
    });
    let pods = lay::objects(pods.collect::<Result<_>>()?)?;
    let start = Instant::now();
    let submission = async {
        if let (Some(kind), Some(group)) = (side.kind(), side.group(GANG, row.gang, HIGH)) {
            lay::create(world, &kind, vec![group]).await?;
        }
        lay::create(world, &lay::pod_kind(), pods).await
    };
    let bound = async {
        let mut bound = BTreeSet::new();
        while bound.len() < row.gang {
            let event = seen.next().await.context("the watch ended")?;
            // The stream restarts an interrupted watch itself.
            let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
            if pod.spec.and_then(|spec| spec.node_name).is_some_and(|node| !node.is_empty()) {
                bound.extend(pod.metadata.uid);
            }
        }
        anyhow::Ok(start.elapsed())
    };
    match tokio::time::timeout(LIMIT, future::try_join(submission, bound)).await {
        Ok(result) => result.map(|((), time)| Some(time)),
        Err(_) => Ok(None),
    }
}
