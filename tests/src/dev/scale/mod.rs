//! `make bench-scale`: memory and times of Giveway on a large cluster.
//!
//! The control plane consists of etcd and an API server only: no controller or kubelet changes what the cluster was filled with. The first
//! run of a size fills a cluster through the API server and keeps the files of its etcd in `target/scale`; each run starts with a copy
//! of them, so that it measures the same cluster.

mod fill;
mod measure;
mod objects;
mod process;
mod table;

use super::bench::machine;
use super::progress;
use anyhow::{Result, ensure};
use clap::Args;

/// Options of the benchmark.
#[derive(Args, Clone, Copy, Debug)]
pub struct ScaleOptions {
    /// How many nodes the cluster has.
    #[arg(long, default_value_t = 5000)]
    pub nodes: usize,
    /// How many pods run on them.
    #[arg(long, default_value_t = 100_000)]
    pub pods: usize,
    /// How many PodGroups the pods belong to.
    #[arg(long, default_value_t = 2000)]
    pub groups: usize,
}

/// Numbers of objects.
#[derive(Clone, Copy, Debug)]
struct Size {
    nodes: usize,
    pods: usize,
    groups: usize,
}

impl Size {
    /// Returns the number of pods, of one CPU each, with which a node is full.
    fn pods_per_node(self) -> usize {
        self.pods.div_ceil(self.nodes)
    }

    fn pods_per_group(self) -> usize {
        self.pods.div_ceil(self.groups)
    }

    /// Returns the memory in MiB that an operator may need, by the formula of `docs/high-availability.md`.
    fn operator_memory(self) -> f64 {
        let kibibytes = 2.5 * self.pods as f64 + 12.0 * self.nodes as f64 + 25.0 * self.groups as f64;
        40.0 + kibibytes / 1024.0
    }

    /// Returns the memory in MiB that a webhook may need, by the formula of `docs/high-availability.md`.
    fn webhook_memory(self) -> f64 {
        let kibibytes = 0.4 * self.pods as f64 + 2.0 * self.groups as f64;
        20.0 + kibibytes / 1024.0
    }
}

/// Measures and prints the table. Returns true if the daemons need at most the memory that `docs/high-availability.md` says; times are not judged,
/// because they depend on the machine and on what else it does.
///
/// # Errors
/// If a number is not possible, a process does not start or an object is rejected.
pub async fn scale(options: ScaleOptions) -> Result<bool> {
    let ScaleOptions { nodes, pods, groups } = options;
    ensure!(nodes > 0 && groups > 0 && pods >= groups, "there must be nodes and groups, and a pod of each group");
    let size = Size { nodes, pods, groups };
    ensure!(size.pods_per_node() <= 200, "a node can run at most 200 pods: {nodes} nodes are too few");
    let etcd = fill::filled(size).await?;
    let results = measure::measure(size, etcd).await?;
    println!("\n{}\n\n{results}", machine());
    Ok(results.needs_little_memory())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_largest_cluster_is_within_the_goals() {
        let size = Size { nodes: 5000, pods: 100_000, groups: 2000 };
        assert!(size.operator_memory() <= 400.0 && size.webhook_memory() <= 64.0);
        assert!(Size { pods: 60_000, ..size }.operator_memory() <= 300.0);
    }
}
