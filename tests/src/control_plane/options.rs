//! Options of a control plane.

use super::Version;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Names of the programs for which a test can set options.
pub(super) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(super) const SCHEDULER: &str = "kube-scheduler";

/// Options of a control plane. The defaults are those of a stock cluster.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Version of API server, controller manager and scheduler.
    pub kubernetes: Version,
    /// Whether to enable the in-tree group preemption (feature gate `GenericWorkload` and `scheduling.k8s.io/v1beta1`).
    pub in_tree: bool,
    /// Client limits of kube-scheduler: requests per second, and burst. `None` stands for its defaults (50 and 100).
    pub scheduler_rate: Option<(u32, u32)>,
    /// Configuration of kube-scheduler in JSON, without `apiVersion`, `kind` and `clientConnection`. `None` stands for none.
    pub scheduler_config: Option<serde_json::Value>,
    /// Additional arguments of the API server.
    pub server_args: Vec<String>,
    /// Additional arguments of kube-controller-manager.
    pub controller_args: Vec<String>,
    /// Whether to start a new control plane and not to reuse it for other tests.
    pub fresh: bool,
    /// Whether to run all processes in a machine of their own (namespaces; needs root), which a real node can join.
    pub own_machine: bool,
    /// Whether to run only etcd and the API server.
    pub storage_only: bool,
    /// Files of an etcd with which a copy of it starts; `None` stands for an empty one.
    pub etcd_data: Option<PathBuf>,
    /// Directory of all files; `None` stands for a temporary directory. It is removed at the end unless the control plane is
    /// detached.
    pub directory: Option<PathBuf>,
}

impl Options {
    /// Checks that this version supports the options, because a program exits at an unknown flag.
    ///
    /// # Errors
    /// If it does not support one of them.
    pub(super) fn check(&self) -> Result<()> {
        if self.in_tree && !self.kubernetes.has_groups() {
            bail!("Kubernetes {} has no in-tree group preemption", self.kubernetes);
        }
        if self.own_machine && self.kubernetes != Version::NEWEST {
            bail!("the real node has version {} of Kubernetes, not {}", Version::NEWEST, self.kubernetes);
        }
        Ok(())
    }

    /// Returns true if the control plane may be shared with earlier and later tests.
    pub(super) fn is_reusable(&self) -> bool {
        let as_usual = !self.fresh && !self.in_tree && !self.own_machine && !self.storage_only;
        as_usual && self.server_args.is_empty() && self.etcd_data.is_none() && self.directory.is_none()
    }

    /// Returns the processes for which this test has options of its own, which no other test can use.
    pub(super) fn own_controllers(&self) -> impl Iterator<Item = &'static str> {
        let scheduler = self.scheduler_rate.is_some() || self.scheduler_config.is_some();
        let own = [(CONTROLLER_MANAGER, !self.controller_args.is_empty()), (SCHEDULER, scheduler)];
        own.into_iter().filter(|(_, own)| *own).map(|(name, _)| name)
    }

    /// Returns the flag of API server, controller manager and scheduler that enables the in-tree group preemption.
    pub(super) fn feature_gates(&self) -> Option<String> {
        self.in_tree.then(|| "--feature-gates=GenericWorkload=true".to_owned())
    }
}
