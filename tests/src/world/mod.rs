//! A control plane with Giveway, builders, waits and the oracle in one value.
//!
//! [`builder`] starts a world, [`builders`] create objects in it, [`daemons`] stops and starts Giveway's processes, [`kubectl`]
//! runs kubectl and helm, [`oracle`] checks the promises, and [`logs`] keeps the logs of a failed test.

mod builder;
mod builders;
mod daemons;
mod kubectl;
mod logs;
mod oracle;

pub use builder::WorldBuilder;

use crate::audit::{Chronicler, log};
use crate::cluster::{Kit, tidy};
use crate::control_plane::ControlPlane;
use crate::controllers::Controllers;
use crate::denials::Denials;
use crate::giveway::{self, Giveway};
use crate::node::Node;
use anyhow::{Result, bail, ensure};
use kube::Client;
use logs::{copy_logs, report};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, OnceCell};

/// Longest delay of the audit log.
const LOG: Duration = Duration::from_secs(20);

/// A running cluster. Dropping it ends its processes and removes its files; if the test failed, its logs are copied to
/// `target/e2e` first.
pub struct World {
    /// The watches of pods and budgets. They end before the API server, because a watch without an API server is retried forever.
    chronicler: Option<Chronicler>,
    giveway: Option<Giveway>,
    controllers: Controllers,
    /// The webhook that denies requests, from the first rule on.
    denials: OnceCell<Denials>,
    kit: Kit,
    node: Option<Node>,
    /// Namespaces that a flag of the operator protects.
    protected: Vec<String>,
    /// Exit statuses of further operators that the test started.
    ends: giveway::Ends,
    /// Whether the oracle has checked the promises.
    judged: AtomicBool,
    log: Mutex<log::Reader>,
    plane: ControlPlane,
}

impl World {
    /// Returns a client with all rights.
    pub fn client(&self) -> Client {
        self.kit.client.clone()
    }

    /// Returns a client of another user with all rights, which does not retry requests.
    ///
    /// # Panics
    /// If the certificate cannot be created.
    pub async fn client_of(&self, user: &str) -> Client {
        self.plane.client_of(user).await.unwrap()
    }

    /// Returns a client of a user in these groups, with the rights that RBAC grants them. It does not retry requests.
    ///
    /// # Panics
    /// If the certificate cannot be created.
    pub async fn client_in(&self, user: &str, groups: &[&str]) -> Client {
        self.plane.client_in(user, groups).await.unwrap()
    }

    /// Returns the kit of the default namespace, for builders.
    pub fn kit(&self) -> Kit {
        self.kit.clone()
    }

    /// Returns the control plane.
    pub fn plane(&mut self) -> &mut ControlPlane {
        &mut self.plane
    }

    /// Returns the real node.
    ///
    /// # Panics
    /// If the world has none.
    pub fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("this world has a real node")
    }

    /// Returns the ids of all processes with their programs.
    pub fn processes(&self) -> Vec<(u32, PathBuf)> {
        let own = self.plane.processes().map(|process| (process.pid(), process.program().path.clone()));
        let daemons = self.giveway.iter().flat_map(|giveway| [&giveway.operator, &giveway.webhook]);
        own.chain(daemons.filter_map(|daemon| Some((daemon.pid()?, daemon.program().path.clone())))).collect()
    }

    /// Detaches all processes, so that they keep running after this value is dropped and the program has ended.
    pub fn detach(&mut self) {
        self.judged.store(true, Ordering::Relaxed);
        self.plane.detach();
        for daemon in self.giveway.iter_mut().flat_map(|giveway| [&mut giveway.operator, &mut giveway.webhook]) {
            daemon.detach();
        }
    }

    /// Copies the logs of every process and the audit log into this directory.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn keep_logs(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        copy_logs(self.plane.directory(), directory);
        Ok(())
    }

    /// Prepares the world for the next test: restores the contents of etcd to the state after the installation of Giveway and
    /// removes the recorded history. The processes keep running. Returns false if this control plane cannot be reused.
    ///
    /// # Errors
    /// If a daemon has ended or panicked, the test stopped or reconfigured a process or did not ask the oracle, or the contents of etcd
    /// cannot be restored.
    pub async fn next_test(&mut self) -> Result<bool> {
        let ended = self.ended();
        ensure!(ended.is_empty(), "{}", ended.join("\n"));
        ensure!(self.judged.load(Ordering::Relaxed), "the test ended without a check by the oracle");
        let mut daemons = self.giveway.iter().flat_map(|giveway| [&giveway.operator, &giveway.webhook]);
        if let Some(touched) = daemons.find(|daemon| daemon.is_touched()) {
            bail!("the test stopped or reconfigured {}: it needs a world of its own (`own`)", touched.program().name);
        }
        if !self.plane.is_reusable()? {
            return Ok(false);
        }
        if let Some(denials) = self.denials.get() {
            denials.end_all();
        }
        if self.plane.restore().await? {
            giveway::wait_for_admission(self.client()).await?;
        }
        giveway::wait_for_operator(self.client()).await?;
        self.plane.restore().await?;
        if let Some(chronicler) = &self.chronicler {
            chronicler.forget_test().await;
        }
        self.log.get_mut().catch_up(&self.kit.client, LOG).await?;
        self.plane.empty_logs()?;
        self.log.get_mut().forget_test();
        Ok(true)
    }

    /// Starts a test, which has to ask the oracle.
    pub fn begin_test(&self) {
        self.judged.store(self.giveway.is_none(), Ordering::Relaxed);
    }

    /// Marks the history so far as the set-up of the world, which is part of the history of every test.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn set_up(&mut self) -> Result<()> {
        self.log.get_mut().catch_up(&self.kit.client, LOG).await?;
        self.log.get_mut().set_up();
        Ok(())
    }

    /// Deletes the objects of a test in the default namespace, its classes and its fake nodes.
    ///
    /// # Panics
    /// If an object cannot be deleted.
    pub async fn tidy(&self) {
        tidy(&self.kit).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.chronicler = None;
        if std::thread::panicking() {
            report(&self.plane);
            return;
        }
        let ended = self.ended();
        if !ended.is_empty() {
            report(&self.plane);
            panic!("promises were broken:\n  {}", ended.join("\n  "));
        }
        assert!(
            self.judged.load(Ordering::Relaxed),
            "the test of a world with Giveway ended without a check by the oracle"
        );
        self.plane.passed();
    }
}
