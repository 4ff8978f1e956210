//! A control plane, Giveway on it, builders, waiters and the oracle: all that a test needs, in one value.
//!
//! [`builder`] starts it, [`builders`] create objects in it, [`daemons`] stops and starts Giveway's processes, [`kubectl`] is the
//! administrator's, [`oracle`] judges what happened, and [`logs`] keeps what is needed when a test has failed.

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
use crate::giveway::{self, Giveway};
use crate::node::Node;
use anyhow::{Result, bail, ensure};
use kube::Client;
use logs::{copy_logs, report};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long the audit log may be behind.
const LOG: Duration = Duration::from_secs(20);

/// A running cluster. Dropping it ends its processes and removes its files; if the test failed, its logs are copied to `target/e2e`
/// first.
pub struct World {
    /// The second witness. It ends before the API server does, because a watch without an API server is retried for ever.
    chronicler: Option<Chronicler>,
    giveway: Option<Giveway>,
    controllers: Controllers,
    kit: Kit,
    node: Option<Node>,
    /// Namespaces in which the operator must not evict, by its flags.
    protected: Vec<String>,
    /// Exit statuses of further operators that the test started.
    ends: giveway::Ends,
    /// Whether the oracle was asked.
    judged: AtomicBool,
    log: Mutex<log::Reader>,
    plane: ControlPlane,
}

impl World {
    /// A client with every right.
    pub fn client(&self) -> Client {
        self.kit.client.clone()
    }

    /// A client of another user, with every right, that retries no request.
    ///
    /// # Panics
    /// The certificate cannot be made.
    pub async fn client_of(&self, user: &str) -> Client {
        self.plane.client_of(user).await.unwrap()
    }

    /// A client of a user in these groups, with the rights that they were given, that retries no request.
    ///
    /// # Panics
    /// The certificate cannot be made.
    pub async fn client_in(&self, user: &str, groups: &[&str]) -> Client {
        self.plane.client_in(user, groups).await.unwrap()
    }

    /// What builders of one's own need.
    pub fn kit(&self) -> Kit {
        self.kit.clone()
    }

    /// The control plane.
    pub fn plane(&mut self) -> &mut ControlPlane {
        &mut self.plane
    }

    /// The real node.
    ///
    /// # Panics
    /// The world has none.
    pub fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("this world has a real node")
    }

    /// The ids of all processes with the programs that they run.
    pub fn processes(&self) -> Vec<(u32, PathBuf)> {
        let own = self.plane.processes().map(|process| (process.pid(), process.program().path.clone()));
        let daemons = self.giveway.iter().flat_map(|giveway| [&giveway.operator, &giveway.webhook]);
        own.chain(daemons.filter_map(|daemon| Some((daemon.pid()?, daemon.program().path.clone())))).collect()
    }

    /// Lets everything live on after this value is dropped, and after the program has ended.
    pub fn detach(&mut self) {
        self.judged.store(true, Ordering::Relaxed);
        self.plane.detach();
        for daemon in self.giveway.iter_mut().flat_map(|giveway| [&mut giveway.operator, &mut giveway.webhook]) {
            daemon.detach();
        }
    }

    /// Copies the logs of every process, and the audit log, into this directory.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn keep_logs(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        copy_logs(self.plane.directory(), directory);
        Ok(())
    }

    /// Becomes the world of the next test: everything that is stored is put back as it was when Giveway had been installed, and what
    /// happened so far is forgotten. All processes go on. Returns `false` where no later test gets this control plane.
    ///
    /// # Errors
    /// A daemon has ended or panicked, the test stopped or reconfigured a process, it did not ask the oracle, or what is stored cannot
    /// be put back.
    pub async fn next_test(&mut self) -> Result<bool> {
        let ended = self.ended();
        ensure!(ended.is_empty(), "{}", ended.join("\n"));
        ensure!(self.judged.load(Ordering::Relaxed), "the test ended without the oracle");
        let mut daemons = self.giveway.iter().flat_map(|giveway| [&giveway.operator, &giveway.webhook]);
        if let Some(touched) = daemons.find(|daemon| daemon.is_touched()) {
            bail!("the test stopped or reconfigured {}: it needs a world of its own (`own`)", touched.program().name);
        }
        if !self.plane.is_reusable()? {
            return Ok(false);
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

    /// Says that a test begins, which has to ask the oracle.
    pub fn begin_test(&self) {
        self.judged.store(self.giveway.is_none(), Ordering::Relaxed);
    }

    /// Says that what happened so far set the world up, and belongs to every test on it.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn set_up(&mut self) -> Result<()> {
        self.log.get_mut().catch_up(&self.kit.client, LOG).await?;
        self.log.get_mut().set_up();
        Ok(())
    }

    /// Makes room for the next test: deletes what this one made in the default namespace, its classes and its fake nodes.
    ///
    /// # Panics
    /// Something cannot be deleted.
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
        assert!(self.judged.load(Ordering::Relaxed), "this world had Giveway, and its test ended without the oracle");
        self.plane.passed();
    }
}
