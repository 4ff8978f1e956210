//! A real node beside the control plane: containerd, kubelet and kube-proxy in the control plane's machine, with images that need
//! no registry.
//!
//! It needs Linux, root and the requirements of [`check`]. All processes and files are in the control plane's machine and
//! directory and end with them; the logs of pods are kept with the other logs.

mod containerd;
mod image;
mod kube_proxy;
mod kubelet;
mod programs;
mod tar;

pub use programs::check;

use crate::control_plane::{ControlPlane, MachineEntry, Process, Spawner};
use crate::{paths, wait};
use anyhow::{Context as _, Result, anyhow, bail};
use image::Image;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// Name of the node.
pub const NAME: &str = "real";
/// Registry in the names of the images.
pub const REPOSITORY: &str = "giveway.test";
/// Image of the program `giveway-workload`.
pub const WORKLOAD: &str = "giveway.test/workload:1";

/// Deadline for a program to become ready.
const READY: Duration = Duration::from_secs(90);

/// A running node.
pub struct Node {
    kubelet: Process,
    kube_proxy: Process,
    containerd: Process,
    spawner: Spawner,
    address: Ipv4Addr,
}

impl Node {
    /// Starts a node in the machine of the control plane and waits until pods can run on it.
    ///
    /// # Errors
    /// If the control plane has no machine, or a program is missing or does not become ready.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let machine = plane.machine().context("a real node needs a control plane with a machine of its own")?;
        let (entry, address) = (machine.entry(), machine.address());
        let directory = plane.directory();
        let folder = directory.join("node");
        fs::create_dir_all(&folder)?;
        let user = format!("system:node:{NAME}");
        let kubelet = plane.kubeconfig_of(&user, &["system:nodes"], "kubelet.kubeconfig")?;
        let kubelet = kubelet::program(directory, &folder, &kubelet, NAME, address)?;
        let kube_proxy = plane.kubeconfig_of("system:kube-proxy", &[], "kube-proxy.kubeconfig")?;
        let kube_proxy = kube_proxy::program(directory, &kube_proxy, NAME)?;
        let spawner = plane.spawner();
        let mut containerd = spawner.spawn(containerd::program(directory, &folder, WORKLOAD)?)?;
        containerd::wait_ready(&entry, &folder, &mut containerd, READY).await?;
        import_images(&entry, &folder)?;
        let mut node = Self {
            kubelet: spawner.spawn(kubelet)?,
            kube_proxy: spawner.spawn(kube_proxy)?,
            containerd,
            spawner,
            address,
        };
        node.wait_for_proxy().await?;
        node.wait_ready(&Api::all(plane.client()), READY).await?;
        Ok(node)
    }

    /// Kills the kubelet. Containers keep running without it.
    pub fn stop_kubelet(&mut self) {
        self.kubelet.kill();
    }

    /// Restarts the kubelet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_kubelet(&mut self) -> Result<()> {
        self.kubelet = self.spawner.spawn(self.kubelet.program().clone())?;
        Ok(())
    }

    /// Waits until the node is ready in the API server.
    ///
    /// # Errors
    /// If the deadline has passed or a program of the node has ended.
    async fn wait_ready(&mut self, nodes: &Api<NodeObject>, limit: Duration) -> Result<()> {
        let ready = wait::until("the node is ready", limit, async || {
            if let Some(dead) = self.dead() {
                return Ok(Err(dead));
            }
            let node = nodes.get_opt(NAME).await.map_err(|error| error.to_string())?;
            match node.as_ref().and_then(readiness) {
                Some((status, _)) if status == "True" => Ok(Ok(())),
                Some((status, message)) => Err(format!("Ready={status}: {message}")),
                None => Err("the node has no condition Ready".to_owned()),
            }
        });
        match ready.await {
            Ok(ready) => ready,
            Err(error) => bail!("{error}; the end of kubelet's log:\n{}", self.kubelet.log_tail(15)),
        }
    }

    async fn wait_for_proxy(&mut self) -> Result<()> {
        let address = (self.address, kube_proxy::HEALTH);
        let ready = wait::until("kube-proxy is healthy", READY, async || {
            if let Some(dead) = self.dead() {
                return Ok(Err(dead));
            }
            match tokio::net::TcpStream::connect(address).await {
                Ok(_) => Ok(Ok(())),
                Err(error) => Err(error.to_string()),
            }
        });
        ready.await?
    }

    fn dead(&mut self) -> Option<anyhow::Error> {
        [&mut self.containerd, &mut self.kubelet, &mut self.kube_proxy].into_iter().find_map(|process| {
            let status = process.exited()?;
            let name = process.program().name.clone();
            Some(anyhow!("{name} has ended ({status}); the end of its log:\n{}", process.log_tail(15)))
        })
    }
}

/// Returns status and message of the condition `Ready`.
fn readiness(node: &NodeObject) -> Option<(String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status.clone(), ready.message.clone().unwrap_or_default()))
}

/// Creates the images of the workload, of the daemons and of the CLI, and imports them into containerd.
fn import_images(entry: &MachineEntry, folder: &Path) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let mut images = vec![(WORKLOAD.to_owned(), paths::giveway_program("giveway-workload")?)];
    for (image, program) in [
        ("giveway-operator", "giveway-operator"),
        ("giveway-webhook", "giveway-webhook"),
        ("giveway-cli", "kubectl-giveway"),
    ] {
        images.push((format!("{REPOSITORY}/{image}:{version}"), paths::giveway_program(program)?));
    }
    for (reference, program) in &images {
        let archive = folder.join("image.tar");
        // Giveway's programs have the user of the released images: with `runAsNonRoot` the kubelet starts no container as root.
        let user = if reference == WORKLOAD { "0:0" } else { "65532:65532" };
        fs::write(&archive, Image { reference, program, user }.archive()?)?;
        containerd::import(entry, folder, &archive)?;
        fs::remove_file(&archive)?;
    }
    Ok(())
}
