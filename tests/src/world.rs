//! A control plane, Giveway on it, builders, waiters and the oracle: all that a test needs, in one value.

use crate::audit::budgets::{Judgement, judge};
use crate::audit::{Chronicler, History, Promises, log, rest, unanswered};
use crate::cluster::{
    BudgetBuilder, ClassBuilder, FillBuilder, GroupBuilder, Kit, NodesBuilder, PodBuilder, stored_plans, tidy,
};
use crate::control_plane::process::tail;
use crate::control_plane::{ControlPlane, Options, Version, kubeconfig};
use crate::controllers::{Controller, Controllers};
use crate::giveway::{self, Certificates, Edition, Giveway, Settings};
use crate::node::{self, Node};
use crate::paths;
use crate::proxy::Proxy;
use anyhow::{Result, anyhow};
use giveway_crds::plan::StoredPlan;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// How long a cluster may take to come to rest.
const TO_REST: Duration = Duration::from_secs(60);
/// How long the audit log may be behind.
const LOG: Duration = Duration::from_secs(20);

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
        let plane = ControlPlane::start(self.options.clone()).await?;
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
        if let Err(error) = self.furnish(&mut world).await {
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

    async fn furnish(&mut self, world: &mut World) -> Result<()> {
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
            world.giveway = Some(Giveway::install(&world.plane, &self.settings).await?);
        }
        if !self.bare && !self.unjudged {
            world.chronicler = Some(Chronicler::start(world.client()).await);
        }
        world.controllers = Controllers::start(&world.plane, &self.controllers).await?;
        Ok(())
    }
}

/// A running cluster. When it is dropped nothing is left of it; when the test fails, its logs are kept under
/// `target/e2e` first.
pub struct World {
    /// The second witness. Ends before the API server does: whoever watches one that is gone tries again and again.
    chronicler: Option<Chronicler>,
    giveway: Option<Giveway>,
    controllers: Controllers,
    kit: Kit,
    node: Option<Node>,
    /// Namespaces in which the operator was told to evict nobody.
    protected: Vec<String>,
    /// How operators ended that the test had started beside.
    ends: giveway::Ends,
    /// Whether the oracle was asked.
    judged: AtomicBool,
    log: Mutex<log::Reader>,
    plane: ControlPlane,
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

    /// A client with every right.
    pub fn client(&self) -> Client {
        self.kit.client.clone()
    }

    /// A client of another user, with every right, that tries nothing twice.
    ///
    /// # Panics
    /// The certificate cannot be made.
    pub async fn client_of(&self, user: &str) -> Client {
        self.plane.client_of(user).await.unwrap()
    }

    /// A client of a user in these groups, with the rights that they were given, that tries nothing twice.
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

    /// Runs helm as the administrator; returns what it printed, or what it said when it failed.
    ///
    /// # Errors
    /// helm failed.
    pub async fn helm(&self, args: &[&str]) -> Result<String, String> {
        giveway::helm(&self.plane.kubeconfig(), args).await.map_err(|error| format!("{error:#}"))
    }

    /// The operator, to kill and start.
    ///
    /// # Panics
    /// The world has no Giveway, or it runs as pods.
    pub fn operator(&mut self) -> &mut giveway::Daemon {
        &mut self.giveway.as_mut().expect("this world has Giveway").operator
    }

    /// The proxy between the operator and the API server, aimed at the operator that runs now.
    ///
    /// # Panics
    /// The world was started without one.
    pub fn proxy(&self) -> &Proxy {
        let giveway = self.giveway.as_ref().expect("this world has Giveway");
        let proxy = giveway.proxy.as_ref().expect("this world has a proxy");
        proxy.aim_at(giveway.operator.pid());
        proxy
    }

    /// The operator and the proxy before it, at the same time.
    ///
    /// # Panics
    /// The world was started without a proxy.
    pub fn operator_and_proxy(&mut self) -> (&mut giveway::Daemon, &Proxy) {
        let giveway = self.giveway.as_mut().expect("this world has Giveway");
        (&mut giveway.operator, giveway.proxy.as_ref().expect("this world has a proxy"))
    }

    /// One more operator, which is not started yet.
    ///
    /// # Panics
    /// The API server does not answer.
    pub async fn another_operator(&self, flags: &[&str]) -> giveway::Daemon {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut other = giveway::another_operator(&self.plane, &flags).await.unwrap();
        other.tell(&self.ends);
        other
    }

    /// Stops the operator where it is (SIGSTOP), or lets it go on.
    ///
    /// # Panics
    /// It does not run.
    pub fn frozen_operator(&self, frozen: bool) {
        self.giveway.as_ref().expect("this world has Giveway").operator.freeze(frozen);
    }

    /// The operator's metrics.
    ///
    /// # Panics
    /// The world has no Giveway, or the operator does not answer.
    pub async fn operator_metrics(&self) -> String {
        self.operator_says("/metrics").await.1
    }

    /// What the operator answers on this path of its metrics address: status and text.
    ///
    /// # Panics
    /// The world has no Giveway, or the operator does not answer.
    pub async fn operator_says(&self, path: &str) -> (u16, String) {
        self.giveway.as_ref().expect("this world has Giveway").operator.http(path).await.unwrap()
    }

    /// Upgrades the kinds and the chart to those of this checkout; the daemons go on as they are.
    ///
    /// # Panics
    /// A manifest is refused.
    pub async fn upgrade_chart(&self) {
        let giveway = self.giveway.as_ref().expect("this world has Giveway");
        giveway.upgrade_chart(&self.plane).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Replaces the daemons by those of this checkout.
    ///
    /// # Panics
    /// One does not become ready.
    pub async fn upgrade_daemons(&mut self) {
        let giveway = self.giveway.as_mut().expect("this world has Giveway");
        giveway.upgrade_daemons().await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// The webhook, to kill and start.
    ///
    /// # Panics
    /// The world has no Giveway.
    pub fn webhook(&mut self) -> &mut giveway::Daemon {
        &mut self.giveway.as_mut().expect("this world has Giveway").webhook
    }

    /// Fake nodes.
    pub fn nodes(&self, count: usize) -> NodesBuilder {
        NodesBuilder::new(self.kit(), count)
    }

    /// A priority class.
    pub fn class(&self, name: &str, value: i32) -> ClassBuilder {
        ClassBuilder::new(self.kit(), name, value)
    }

    /// A PodGroup and its pods, all of which it needs.
    pub fn gang(&self, name: &str, size: usize) -> GroupBuilder {
        GroupBuilder::new(self.kit(), name, size)
    }

    /// A single pod.
    pub fn pod(&self, name: &str) -> PodBuilder {
        PodBuilder::new(self.kit(), name)
    }

    /// Groups or single pods on every free place of these nodes.
    pub fn fill<S: AsRef<str>>(&self, nodes: &[S]) -> FillBuilder {
        FillBuilder::new(self.kit(), nodes)
    }

    /// A PodDisruptionBudget.
    pub fn budget(&self, name: &str) -> BudgetBuilder {
        BudgetBuilder::new(self.kit(), name)
    }

    /// Creates a namespace; builders that are given the kit create in it.
    ///
    /// # Panics
    /// It is refused.
    pub async fn namespace(&self, name: &str) -> Kit {
        self.kit.new_namespace(name).await
    }

    /// `kubectl apply -f crds/`, on a control plane without Giveway.
    ///
    /// # Panics
    /// The API server refuses one of the CRDs.
    pub async fn install_crds(&self) {
        giveway::install_crds(&self.plane).await.unwrap();
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

    /// Runs kubectl as the administrator; returns what it printed, or what it said when it failed.
    ///
    /// # Errors
    /// kubectl failed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        let output = giveway::kubectl(&self.plane.kubeconfig(), args).await.map_err(|error| format!("{error:#}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// A kubeconfig of this ServiceAccount.
    ///
    /// # Panics
    /// There is no such account.
    pub async fn account(&self, namespace: &str, name: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", name, "-n", namespace]).await.unwrap();
        let file = self.plane.directory().join(format!("{name}.kubeconfig"));
        kubeconfig::write(&file, &self.plane.kubeconfig_with_token(name, token.trim())).unwrap();
        file
    }

    /// `kubectl apply` of a manifest; returns what it printed, or why it was refused.
    ///
    /// # Errors
    /// The manifest was refused.
    pub async fn apply(&self, manifest: &str) -> Result<String, String> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().map_err(|error| error.to_string())?;
        fs::write(file.path(), manifest).map_err(|error| error.to_string())?;
        self.kubectl(&["apply", "-f", &file.path().display().to_string()]).await
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

    /// What the audit log tells so far.
    ///
    /// # Panics
    /// The log cannot be read.
    pub async fn audit(&self) -> History {
        let mut history = unanswered::history_of(self.caught_up().await.lines());
        let mut gone = unanswered::perhaps_removed(&history);
        if !gone.is_empty() {
            // What the log does not tell of a request that a killed process left, the pod does.
            let pods = Api::<Pod>::all(self.client()).list(&ListParams::default()).await.unwrap();
            for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                gone.remove(&pod.uid().unwrap_or_default());
            }
            unanswered::accept(&mut history, &gone);
        }
        history
    }

    /// The audit log as far as it goes now, and at least up to everything that was answered before this call.
    ///
    /// # Panics
    /// The log cannot be read.
    pub async fn audit_lines(&self) -> Vec<log::Line> {
        self.caught_up().await.lines().to_vec()
    }

    async fn caught_up(&self) -> MutexGuard<'_, log::Reader> {
        let mut log = self.log.lock().await;
        log.catch_up(&self.kit.client, LOG).await.unwrap();
        log
    }

    /// Leaves the oracle out, for a test that writes with the operator's own token: what it finds would be the test's doing.
    pub fn writes_as_the_operator(&self) {
        self.judged.store(true, Ordering::Relaxed);
    }

    /// Makes room for the next test: deletes what this one made in the default namespace, its classes and its fake nodes.
    ///
    /// # Panics
    /// Something cannot be deleted.
    pub async fn tidy(&self) {
        tidy(&self.kit).await;
    }

    /// Checks every promise, once the cluster has come to rest: to be called at the end of each test. A world with Giveway that
    /// was not asked fails when it is dropped.
    ///
    /// # Panics
    /// One was broken.
    pub async fn check_promises(&self) {
        self.check(&Promises::new()).await;
    }

    /// Checks the promises as configured.
    ///
    /// # Panics
    /// One was broken.
    pub async fn check(&self, promises: &Promises) {
        let mut broken = self.broken(promises).await;
        if broken.is_empty() {
            return;
        }
        let plans = stored_plans(&self.kit.client).await.unwrap_or_default();
        let concerned = |plan: &&StoredPlan| broken.iter().any(|sentence| sentence.contains(&plan.preemptor.name));
        let told = |plan: &StoredPlan| {
            let victims = plan.victims.iter().flat_map(|unit| &unit.pods).map(|pod| pod.name.as_str());
            let (victims, state) = (victims.collect::<Vec<_>>().join(", "), plan.state.as_str());
            format!("Plan {} for {} to evict {victims}: {state}. {}", plan.id, plan.preemptor.name, plan.message)
        };
        let plans: Vec<String> = plans.iter().filter(concerned).map(told).collect();
        broken.extend(plans);
        panic!("promises were broken:\n  {}", broken.join("\n  "));
    }

    /// The promises that were broken, as a sentence each, once the cluster has come to rest.
    ///
    /// # Panics
    /// The log cannot be read.
    pub async fn broken(&self, promises: &Promises) -> Vec<String> {
        self.judged.store(true, Ordering::Relaxed);
        let mut broken = Vec::new();
        // Without an operator nothing comes to rest.
        let runs = self.giveway.as_ref().is_none_or(|giveway| giveway.operator.pid().is_some());
        if runs && let Err(left) = rest::reached(&self.kit.client, &self.audit().await, TO_REST).await {
            broken.push(left.to_string());
        }
        let promises = promises.clone().protecting(self.protected.iter().cloned());
        let judgement = self.judgement(&promises).await;
        broken.extend(promises.broken(&self.audit().await));
        broken.extend(judgement.broken);
        broken
    }

    /// What both witnesses prove about budgets so far. Where the second one missed something, because the test interrupted etcd or the
    /// API server, nothing is judged, and the output of the test says so.
    ///
    /// # Panics
    /// The watches do not catch up, or the log cannot be read.
    pub async fn judgement(&self, promises: &Promises) -> Judgement {
        let Some(chronicler) = &self.chronicler else { return Judgement::default() };
        let chronicle = chronicler.read().await;
        if !chronicle.gap {
            return judge(&chronicle, &self.audit().await, promises);
        }
        let gap = "the watch of pods and budgets broke off, and what happened meanwhile is not known";
        if self.plane.interrupted() {
            println!("budgets are not judged: {gap}");
            return Judgement::default();
        }
        Judgement { broken: vec![gap.to_owned()], ..Judgement::default() }
    }

    /// Promise 7: no daemon has ended by itself, and none has panicked; as a sentence each.
    fn ended(&mut self) -> Vec<String> {
        let mut told = self.controllers.ended();
        let daemons = self.giveway.iter_mut().flat_map(|giveway| [&mut giveway.operator, &mut giveway.webhook]);
        for daemon in daemons {
            let name = daemon.program().name.clone();
            if let Some(status) = daemon.exited() {
                told.push(format!("{name} has ended by itself ({status})"));
            }
        }
        told.append(&mut self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        // Also those of operators that the test started beside.
        for log in logs(self.plane.directory()) {
            let name = log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let panics = text.lines().filter(|line| name.starts_with("giveway-") && line.contains("panicked at"));
            told.extend(panics.map(|line| format!("{name}: {line}")));
        }
        told
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
        self.plane.lasts();
    }
}

/// Keeps the logs of a failed test and prints the end of those that matter most.
fn report(plane: &ControlPlane) {
    let name = plane.directory().file_name().unwrap_or_default();
    let kept = paths::repository().join("target/e2e").join(name);
    let mut copied = Vec::new();
    if fs::create_dir_all(&kept).is_ok() {
        copied = copy_logs(plane.directory(), &kept);
    }
    eprintln!("\nthe logs of this test are in {}: {}", kept.display(), copied.join(", "));
    for daemon in ["giveway-operator", "giveway-operator-2", "giveway-webhook"] {
        let log = plane.directory().join("logs").join(format!("{daemon}.log"));
        if log.exists() {
            eprintln!("--- the end of {daemon}.log:\n{}", tail(&log, 30));
        }
    }
}

/// The logs of every process.
fn logs(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory.join("logs")).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn copy_logs(from: &Path, to: &Path) -> Vec<String> {
    let files = logs(from).chain([from.join("audit.log"), from.join("giveway.yaml")]);
    let named = files.filter_map(|file| Some((file.file_name()?.to_string_lossy().into_owned(), file.clone())));
    named
        .chain(pod_logs(&from.join("node/pods")))
        .filter_map(|(name, file)| fs::copy(&file, to.join(&name)).ok().map(|_| name))
        .collect()
}

/// The logs of containers on a real node, which lie in POD/CONTAINER/RESTARTS.log, and names for their copies.
fn pod_logs(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let containers = entries(folder.to_path_buf()).flat_map(entries);
    let logs = containers.flat_map(entries).filter_map(|file| {
        let name = file.strip_prefix(folder).ok()?.display().to_string();
        Some((name.replace('/', "."), file))
    });
    logs.collect()
}
