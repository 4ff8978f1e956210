//! Builder of worlds.

use super::World;
use crate::audit::{Chronicler, log};
use crate::cluster::Kit;
use crate::control_plane::{ControlPlane, Options, State, Version};
use crate::controllers::{Controller, Controllers};
use crate::giveway::{self, Certificates, Edition, Giveway, Settings};
use crate::node::{self, Node};
use anyhow::{Result, anyhow};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, OnceCell};

/// Settings of a world.
#[derive(Clone, Debug, Default)]
pub struct WorldBuilder {
    options: Options,
    settings: Settings,
    bare: bool,
    real_node: bool,
    controllers: Vec<Controller>,
    without_oracle: bool,
}

impl WorldBuilder {
    /// Starts Kubernetes without Giveway.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Starts Kubernetes with the in-tree group preemption and without Giveway.
    #[must_use]
    pub fn in_tree(mut self) -> Self {
        self.options.in_tree = true;
        self.bare()
    }

    /// Enables the native groups of Kubernetes (`scheduling.k8s.io`) and the in-tree preemption for them, beside Giveway.
    #[must_use]
    pub fn native_groups(mut self) -> Self {
        self.options.in_tree = true;
        self
    }

    /// Starts a new etcd and API server, which no other test uses.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.options.fresh = true;
        self
    }

    /// Sets the version of Kubernetes.
    #[must_use]
    pub fn kubernetes(mut self, version: Version) -> Self {
        self.options.kubernetes = version;
        self
    }

    /// Starts a real node and installs Giveway on it with the chart. Needs root; see [`node::check`].
    #[must_use]
    pub fn real_node(mut self) -> Self {
        self.real_node = true;
        self.options.own_machine = true;
        self
    }

    /// Starts these third-party controllers, as far as they are built.
    #[must_use]
    pub fn controllers(mut self, which: &[Controller]) -> Self {
        self.controllers.extend(which);
        self
    }

    /// Permits the world to end without a check by the oracle, for benchmarks and demonstrations. The control plane is not
    /// reused.
    #[must_use]
    pub fn without_oracle(mut self) -> Self {
        self.without_oracle = true;
        self.fresh()
    }

    /// Adds a flag of the API server, which is then not shared with other tests.
    #[must_use]
    pub fn server_flag(mut self, flag: &str) -> Self {
        self.options.server_args.push(flag.to_owned());
        self
    }

    /// Adds a flag of kube-controller-manager.
    #[must_use]
    pub fn controller_flag(mut self, flag: &str) -> Self {
        self.options.controller_args.push(flag.to_owned());
        self
    }

    /// Sets the client limits of kube-scheduler: requests per second, and burst.
    #[must_use]
    pub fn scheduler_rate(mut self, rate: u32, burst: u32) -> Self {
        self.options.scheduler_rate = Some((rate, burst));
        self
    }

    /// Sets the configuration of kube-scheduler, without `apiVersion`, `kind` and `clientConnection`. The operator reads the same file.
    #[must_use]
    pub fn scheduler_config(mut self, config: serde_json::Value) -> Self {
        self.options.scheduler_config = Some(config);
        self
    }

    /// Keeps all files in this directory instead of a temporary one.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.options.directory = Some(directory.to_path_buf());
        self
    }

    /// Adds a flag of the operator.
    #[must_use]
    pub fn operator_flag(mut self, flag: &str) -> Self {
        self.settings.operator_flags.push(flag.to_owned());
        self
    }

    /// Puts a proxy between the operator and the API server; see [`World::proxy`].
    #[must_use]
    pub fn proxy(mut self) -> Self {
        self.settings.proxy = true;
        self
    }

    /// Adds a flag of the webhook.
    #[must_use]
    pub fn webhook_flag(mut self, flag: &str) -> Self {
        self.settings.webhook_flags.push(flag.to_owned());
        self
    }

    /// Adds a value of the chart, as `key=value`.
    #[must_use]
    pub fn helm_value(mut self, value: &str) -> Self {
        self.settings.helm_values.push(value.to_owned());
        self
    }

    /// Lets the operator create the webhook's certificate, which is the default of the chart.
    #[must_use]
    pub fn operator_certificates(mut self) -> Self {
        self.settings.certificates = Certificates::Operator;
        self
    }

    /// Installs the previous version of Giveway; see [`World::upgrade_chart`].
    #[must_use]
    pub fn predecessor(mut self) -> Self {
        self.settings.edition = Edition::Predecessor;
        self
    }

    /// Starts the world and waits until it is ready.
    ///
    /// # Panics
    /// If a process does not become ready.
    pub async fn start(self) -> World {
        match self.try_start().await {
            Ok(world) => world,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Starts the world and waits until it is ready.
    ///
    /// # Errors
    /// If a process does not become ready.
    pub async fn try_start(mut self) -> Result<World> {
        if self.real_node {
            node::check().map_err(|why| anyhow!(why))?;
        }
        let state = if self.bare || self.real_node { State::Bare } else { self.settings.state() };
        let plane = ControlPlane::start(self.options.clone(), state).await?;
        let judged = AtomicBool::new(self.without_oracle || self.bare);
        let log = Mutex::new(log::Reader::new(&plane.audit_log()));
        let mut world = World {
            kit: Kit::new(plane.client()),
            chronicler: None,
            protected: self.protected(),
            ends: giveway::Ends::default(),
            giveway: None,
            controllers: Controllers::default(),
            denials: OnceCell::new(),
            node: None,
            judged,
            log,
            plane,
        };
        if let Err(error) = self.install(&mut world).await {
            // The world that failed to start needs no check by the oracle.
            world.judged.store(true, Ordering::Relaxed);
            return Err(error);
        }
        Ok(world)
    }

    fn protected(&self) -> Vec<String> {
        let flags = self.settings.operator_flags.iter();
        let lists = flags.filter_map(|flag| flag.strip_prefix("--protected-namespaces="));
        lists.flat_map(|list| list.split(',')).map(str::to_owned).collect()
    }

    async fn install(&mut self, world: &mut World) -> Result<()> {
        if self.real_node {
            world.node = Some(Node::start(&world.plane).await?);
            if !self.bare {
                giveway::install_release(&world.plane, &self.settings.helm_values).await?;
            }
        } else if !self.bare {
            // The lease is short because tests kill operators and wait for the next leader, but long enough to be renewed on a
            // busy machine.
            let lease = "--lease-duration-seconds";
            if !self.settings.operator_flags.iter().any(|flag| flag.starts_with(lease)) {
                self.settings.operator_flags.push(format!("{lease}=8"));
            }
            if self.options.scheduler_config.is_some() {
                let file = world.plane.scheduler_config();
                self.settings.operator_flags.push(format!("--scheduler-config={}", file.display()));
            }
            world.giveway = Some(Giveway::install(&mut world.plane, &self.settings).await?);
        }
        if !self.bare && !self.without_oracle {
            world.chronicler = Some(Chronicler::start(world.client()).await);
        }
        world.controllers = Controllers::start(&world.plane, &self.controllers).await?;
        Ok(())
    }
}

impl World {
    /// Starts a control plane with Giveway.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Starts a control plane without Giveway.
    pub async fn bare() -> Self {
        Self::builder().bare().start().await
    }

    /// Returns a builder of a world.
    ///
    /// # Panics
    /// If the environment sets an unknown version of Kubernetes.
    pub fn builder() -> WorldBuilder {
        let kubernetes = Version::chosen().unwrap_or_else(|error| panic!("{error:#}"));
        WorldBuilder { options: Options { kubernetes, ..Options::default() }, ..WorldBuilder::default() }
    }
}
