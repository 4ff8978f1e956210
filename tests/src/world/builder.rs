//! How a world is started.

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
use tokio::sync::Mutex;

/// How a world is started.
#[derive(Clone, Debug, Default)]
pub struct WorldBuilder {
    options: Options,
    settings: Settings,
    bare: bool,
    real_node: bool,
    controllers: Vec<Controller>,
    unjudged: bool,
}

impl WorldBuilder {
    /// Without Giveway: nothing but Kubernetes.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Without Giveway, and with the in-tree group preemption.
    #[must_use]
    pub fn in_tree(mut self) -> Self {
        self.options.in_tree = true;
        self.bare()
    }

    /// With Kubernetes' own groups (`scheduling.k8s.io`) and the in-tree preemption for them, beside Giveway.
    #[must_use]
    pub fn native_groups(mut self) -> Self {
        self.options.in_tree = true;
        self
    }

    /// With an etcd and an API server of its own, which end with it.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.options.fresh = true;
        self
    }

    /// On a control plane of this version.
    #[must_use]
    pub fn kubernetes(mut self, version: Version) -> Self {
        self.options.kubernetes = version;
        self
    }

    /// With a real node, and Giveway on it from the chart as its users install it. Needs root; see [`node::check`].
    #[must_use]
    pub fn real_node(mut self) -> Self {
        self.real_node = true;
        self.options.own_machine = true;
        self
    }

    /// With these real controllers that are not Kubernetes' own; those that are built.
    #[must_use]
    pub fn controllers(mut self, which: &[Controller]) -> Self {
        self.controllers.extend(which);
        self
    }

    /// For programs that measure or show something: the world may end without the oracle, and shares nothing.
    #[must_use]
    pub fn unjudged(mut self) -> Self {
        self.unjudged = true;
        self.fresh()
    }

    /// One more flag of the API server, which is its own then.
    #[must_use]
    pub fn server_flag(mut self, flag: &str) -> Self {
        self.options.server_args.push(flag.to_owned());
        self
    }

    /// One more flag of kube-controller-manager.
    #[must_use]
    pub fn controller_flag(mut self, flag: &str) -> Self {
        self.options.controller_args.push(flag.to_owned());
        self
    }

    /// Client limits of kube-scheduler: requests a second, and burst.
    #[must_use]
    pub fn scheduler_rate(mut self, rate: u32, burst: u32) -> Self {
        self.options.scheduler_rate = Some((rate, burst));
        self
    }

    /// Keeps everything in this directory instead of a temporary one.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.options.directory = Some(directory.to_path_buf());
        self
    }

    /// One more flag of the operator.
    #[must_use]
    pub fn operator_flag(mut self, flag: &str) -> Self {
        self.settings.operator_flags.push(flag.to_owned());
        self
    }

    /// The operator reaches the API server through a proxy; see [`World::proxy`].
    #[must_use]
    pub fn proxy(mut self) -> Self {
        self.settings.proxy = true;
        self
    }

    /// One more flag of the webhook.
    #[must_use]
    pub fn webhook_flag(mut self, flag: &str) -> Self {
        self.settings.webhook_flags.push(flag.to_owned());
        self
    }

    /// One more value of the chart, as `key=value`.
    #[must_use]
    pub fn helm_value(mut self, value: &str) -> Self {
        self.settings.helm_values.push(value.to_owned());
        self
    }

    /// The operator makes the webhook's certificate, as the chart has it by default.
    #[must_use]
    pub fn operator_certificates(mut self) -> Self {
        self.settings.certificates = Certificates::Operator;
        self
    }

    /// With the Giveway before this one; see [`World::upgrade_chart`].
    #[must_use]
    pub fn predecessor(mut self) -> Self {
        self.settings.edition = Edition::Predecessor;
        self
    }

    /// Starts it all and waits until it is ready.
    ///
    /// # Panics
    /// Something does not become ready.
    pub async fn start(self) -> World {
        match self.try_start().await {
            Ok(world) => world,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Starts it all and waits until it is ready.
    ///
    /// # Errors
    /// Something does not become ready.
    pub async fn try_start(mut self) -> Result<World> {
        if self.real_node {
            node::check().map_err(|why| anyhow!(why))?;
        }
        let state = if self.bare || self.real_node { State::Bare } else { self.settings.state() };
        let plane = ControlPlane::start(self.options.clone(), state).await?;
        let judged = AtomicBool::new(self.unjudged || self.bare);
        let log = Mutex::new(log::Reader::new(&plane.audit_log()));
        let mut world = World {
            kit: Kit::new(plane.client()),
            chronicler: None,
            protected: self.protected(),
            ends: giveway::Ends::default(),
            giveway: None,
            controllers: Controllers::default(),
            node: None,
            judged,
            log,
            plane,
        };
        if let Err(error) = self.install(&mut world).await {
            // There is nothing to judge, and the error is what counts.
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
            // A lease that runs out soon: tests kill operators and wait for the next one. A busy machine has to be able to renew it.
            let lease = "--lease-duration-seconds";
            if !self.settings.operator_flags.iter().any(|flag| flag.starts_with(lease)) {
                self.settings.operator_flags.push(format!("{lease}=8"));
            }
            world.giveway = Some(Giveway::install(&mut world.plane, &self.settings).await?);
        }
        if !self.bare && !self.unjudged {
            world.chronicler = Some(Chronicler::start(world.client()).await);
        }
        world.controllers = Controllers::start(&world.plane, &self.controllers).await?;
        Ok(())
    }
}

impl World {
    /// A control plane with Giveway.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A control plane without Giveway.
    pub async fn bare() -> Self {
        Self::builder().bare().start().await
    }

    /// More choices.
    ///
    /// # Panics
    /// The environment chooses a version of Kubernetes that is not known.
    pub fn builder() -> WorldBuilder {
        let kubernetes = Version::chosen().unwrap_or_else(|error| panic!("{error:#}"));
        WorldBuilder { options: Options { kubernetes, ..Options::default() }, ..WorldBuilder::default() }
    }
}
