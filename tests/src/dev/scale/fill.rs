//! Fills a cluster through its API server, and keeps the files of its etcd for later runs.

use super::Size;
use super::objects::{self, BUDGETED, Pods, Write};
use crate::control_plane::{ControlPlane, Options, State, copy_directory};
use crate::{giveway, paths};
use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use kube::Client;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Number of concurrent requests.
const CONNECTIONS: usize = 32;
/// Number of connections that may break during one request: hundreds of thousands of requests meet one that the API server is closing.
const MOST_BROKEN: usize = 3;

/// Returns the directory of the files of this benchmark.
pub(super) fn directory() -> PathBuf {
    paths::repository().join("target/scale")
}

/// Returns the options of a control plane without controllers, whose etcd starts with these files. `name` is that of its directory: the one
/// of an earlier control plane may be removed late.
pub(super) fn options(name: &str, etcd_data: Option<PathBuf>) -> Options {
    Options {
        storage_only: true,
        etcd_data,
        directory: Some(directory().join(format!("{name}-{}", std::process::id()))),
        server_args: vec![
            // A log of all bodies would be larger than etcd.
            "--audit-log-path=".to_owned(),
            // It taints new nodes as not ready, and only kube-controller-manager removes the taint.
            "--disable-admission-plugins=TaintNodesByCondition".to_owned(),
        ],
        ..Options::default()
    }
}

/// Returns the files of an etcd with a cluster of this size. They are made if an earlier run has not kept them.
///
/// # Errors
/// If a process does not start or an object is rejected.
pub(super) async fn filled(size: Size) -> Result<PathBuf> {
    let kept = directory().join(format!("pools-{}-{}-{}", size.nodes, size.pods, size.groups));
    if kept.is_dir() {
        super::progress(&format!("using the cluster of an earlier run, {}", kept.display()));
        return Ok(kept);
    }
    super::progress(&format!("creating {} nodes, {} groups and {} pods", size.nodes, size.groups, size.pods));
    fs::create_dir_all(directory())?;
    let mut options = options("fill", None);
    // It would hold the two versions of each pod that are written here: 20 GiB for 80,000 pods.
    options.server_args.push("--watch-cache=false".to_owned());
    let mut plane = ControlPlane::start(options, State::Bare).await?;
    giveway::install_crds(&plane).await?;
    fill(&plane.client(), size).await?;
    plane.process("kube-apiserver").context("the API server runs")?.kill();
    let etcd = plane.process("etcd").context("etcd runs")?;
    etcd.terminate();
    etcd.wait(Duration::from_secs(60)).await.context("etcd has not ended 60 s after SIGTERM")?;
    // Renamed when it is complete, so that an interrupted copy is not used.
    let copy = kept.with_extension("partial");
    copy_directory(&plane.directory().join("etcd"), &copy)?;
    fs::rename(&copy, &kept)?;
    Ok(kept)
}

async fn fill(client: &Client, size: Size) -> Result<()> {
    for [namespace, account] in objects::namespaces() {
        create(client, namespace).await?;
        create(client, account).await?;
    }
    create(client, objects::low_class()).await?;
    create_all(client, (0..size.nodes).map(|number| objects::node(size, number))).await?;
    create_all(client, (0..size.groups).map(|number| objects::group(size, number))).await?;
    create_all(client, (0..size.groups).step_by(BUDGETED).map(objects::budget)).await?;
    let pods = Pods::new(size);
    stream::iter((0..size.pods).map(Ok))
        .try_for_each_concurrent(CONNECTIONS, |number| {
            let pods = &pods;
            async move {
                let (pod, running) = pods.pod(number);
                create(client, pod).await?;
                write(client, Method::PATCH, "application/merge-patch+json", running).await?;
                if number % 10_000 == 9_999 {
                    eprintln!("  {} pods", number + 1);
                }
                anyhow::Ok(())
            }
        })
        .await
}

/// Creates objects with bounded concurrency.
///
/// # Errors
/// If one of them is rejected.
pub(super) async fn create_all(client: &Client, objects: impl Iterator<Item = Write>) -> Result<()> {
    stream::iter(objects.map(|object| create(client, object))).buffer_unordered(CONNECTIONS).try_collect().await
}

/// Creates an object.
///
/// # Errors
/// If it is rejected.
pub(super) async fn create(client: &Client, object: Write) -> Result<()> {
    write(client, Method::POST, "application/json", object).await
}

/// Sends the request, and sends it again if the connection breaks: then it is not known whether the API server has answered, so that an
/// object that exists counts as created.
async fn write(client: &Client, method: Method, content: &str, object: Write) -> Result<()> {
    let mut broken = 0;
    loop {
        let request = Request::builder().method(&method).uri(&object.path).header("Content-Type", content);
        let request = request.body(object.body.clone().into_bytes())?;
        match client.request_text(request).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if broken > 0 && status.is_already_exists() => return Ok(()),
            Err(kube::Error::Service(_)) if broken < MOST_BROKEN => broken += 1,
            Err(error) => return Err(error).with_context(|| format!("writing to {}", object.path)),
        }
    }
}
