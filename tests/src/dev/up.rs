//! `make up` and `make down`: a control plane for experiments.

use super::{progress, state};
use crate::World;
use anyhow::{Result, bail};
use clap::Args;

/// Options of the cluster.
#[derive(Args, Clone, Debug)]
pub struct UpOptions {
    /// How many fake nodes to create; 0 for none.
    #[arg(long, default_value_t = 20)]
    pub nodes: usize,
    /// CPUs of each node.
    #[arg(long, default_value_t = 8)]
    pub cpus: u32,
    /// GPUs (nvidia.com/gpu) of each node.
    #[arg(long, default_value_t = 0)]
    pub gpus: u32,
    /// Start without Giveway and with the in-tree group preemption, for comparison.
    #[arg(long)]
    pub in_tree: bool,
}

/// Starts a control plane with Giveway, detaches it and prints how to use it.
///
/// # Errors
/// If one is running already or a process does not start.
pub async fn up(options: &UpOptions) -> Result<()> {
    let directory = fresh_directory().await?;
    let more = if options.in_tree { "" } else { ", and Giveway" };
    progress(&format!("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok{more}"));
    let builder = World::builder().without_oracle().directory(&directory).operator_flag("--lease-duration-seconds=15");
    let builder = if options.in_tree { builder.in_tree() } else { builder };
    let mut world = builder.try_start().await?;
    if options.nodes > 0 {
        progress(&format!("creating {} nodes", options.nodes));
        world.nodes(options.nodes).cpus(options.cpus).gpus(options.gpus).create().await;
    }
    state::leave_running(&mut world)?;
    let what = if options.in_tree { "Kubernetes with its in-tree group preemption" } else { "Kubernetes with Giveway" };
    let gpus = if options.gpus > 0 { format!(" and {} GPUs", options.gpus) } else { String::new() };
    println!("\n{what} is running: {} nodes of {} CPUs{gpus}.", options.nodes, options.cpus);
    print_usage(if options.in_tree { TRY_IN_TREE } else { TRY_GIVEWAY });
    Ok(())
}

/// Returns an empty directory for a detached control plane.
///
/// # Errors
/// If one is running already.
pub(super) async fn fresh_directory() -> Result<std::path::PathBuf> {
    if state::running() > 0 {
        bail!("a control plane is running in target/up already: use it, or stop it with `make down`");
    }
    state::end().await?;
    Ok(state::directory())
}

/// Prints how to use the running cluster; `try_this` are suitable commands.
pub(super) fn print_usage(try_this: &str) {
    println!(
        "
  export KUBECONFIG=$PWD/target/up/kubeconfig        # you are the administrator
  kubectl get nodes                                  # no kubectl? alias kubectl=$PWD/target/controlplane/bin/kubectl
{try_this}  ls target/up/logs target/up/audit.log              # what every process says
  make down                                          # stops it all"
    );
}

/// Commands for a cluster with Giveway.
const TRY_GIVEWAY: &str = "  \
  kubectl apply -f examples/1-background.yaml        # fills 20 nodes of 8 CPUs with pods of low priority
  kubectl rollout status deployment/background
  kubectl apply -f examples/2-gang.yaml              # a gang of 16 pods that is more important
  kubectl get gpg -o wide; kubectl describe gpg train
";

/// Commands for a cluster with the in-tree group preemption.
const TRY_IN_TREE: &str = "  \
  kubectl explain podgroup.spec --api-version=scheduling.k8s.io/v1beta1
";

/// Stops the cluster of [`up`] and prints what was stopped.
///
/// # Errors
/// If a process does not end.
pub async fn down() -> Result<()> {
    match state::end().await? {
        0 => println!("Nothing is running."),
        count => println!("Stopped {count} processes and removed target/up."),
    }
    Ok(())
}
