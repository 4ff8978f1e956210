//! What can be asked of a control plane.

use super::Version;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Names of programs that a test can have with options of its own.
pub(super) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(super) const SCHEDULER: &str = "kube-scheduler";

/// How to start a control plane; the default is what a stock cluster looks like.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Of API server, controller manager and scheduler.
    pub kubernetes: Version,
    /// Turn on the in-tree group preemption (feature gate `GenericWorkload` and `scheduling.k8s.io/v1beta1`), to
    /// compare with.
    pub in_tree: bool,
    /// Client limits of kube-scheduler, requests a second and burst; its own defaults (50 and 100) when absent.
    pub scheduler_rate: Option<(u32, u32)>,
    /// More arguments of the API server.
    pub server_args: Vec<String>,
    /// More arguments of kube-controller-manager.
    pub controller_args: Vec<String>,
    /// Use no other test's control plane, and leave this one to none.
    pub fresh: bool,
    /// Run everything in a machine of its own (namespaces; needs root), so that a real node can join.
    pub own_machine: bool,
    /// Where to keep everything; a temporary directory when absent. It is removed in the end, unless the control
    /// plane is detached.
    pub directory: Option<PathBuf>,
}

impl Options {
    /// Whether this version can do what is asked of it: a flag that a program does not know would end it.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn check(&self) -> Result<()> {
        if self.in_tree && !self.kubernetes.has_groups() {
            bail!("Kubernetes {} has no in-tree group preemption to turn on", self.kubernetes);
        }
        if self.own_machine && self.kubernetes != Version::NEWEST {
            bail!("the real node is one of Kubernetes {}, not of {}", Version::NEWEST, self.kubernetes);
        }
        Ok(())
    }

    /// Whether the control plane may be that of an earlier test, and become that of a later one.
    pub(super) fn is_reusable(&self) -> bool {
        !self.fresh && !self.in_tree && self.server_args.is_empty() && !self.own_machine && self.directory.is_none()
    }

    /// The processes for which this test has options of its own, so that no other test can share them.
    pub(super) fn own_controllers(&self) -> impl Iterator<Item = &'static str> {
        let scheduler = self.scheduler_rate.is_some();
        let own = [(CONTROLLER_MANAGER, !self.controller_args.is_empty()), (SCHEDULER, scheduler)];
        own.into_iter().filter(|(_, own)| *own).map(|(name, _)| name)
    }

    /// The flag that turns the in-tree group preemption on, for each of the three programs that know it.
    pub(super) fn feature_gates(&self) -> Option<String> {
        self.in_tree.then(|| "--feature-gates=GenericWorkload=true".to_owned())
    }
}
