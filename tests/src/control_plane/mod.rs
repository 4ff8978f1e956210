//! A real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
//! kwok as nodes and kubelets.
//!
//! Promises: several can run side by side; a started one is ready; everything it started and wrote is gone when it is
//! dropped, also after a panic, Ctrl-C or `kill -9` of the program that started it.

mod foundation;
mod guard;
pub mod kubeconfig;
mod machine;
mod machine_entry;
pub mod options;
pub mod pki;
pub mod ports;
pub mod process;
mod programs;
mod reuse;
mod store;
mod version;

pub use foundation::State;
pub use machine::Machine;
pub use machine_entry::MachineEntry;
pub use options::Options;
pub use process::{Process, Program};
pub use version::Version;

use crate::{statistics, wait};
use anyhow::{Context as _, Result, anyhow, bail};
use foundation::Foundation;
use guard::Guard;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use kubeconfig::Credentials;
use pki::Pki;
use ports::Block;
use reuse::Idle;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;
use store::Store;

/// How long a program may take to become ready; generous, because a loaded machine is no failure.
const READY: Duration = Duration::from_secs(90);

/// The manifests of the state with Giveway, beside those that a test applied itself.
const REMEMBERED: &str = "remembered.yaml";

/// A running control plane.
pub struct ControlPlane {
    // Order matters for dropping: processes first, then the guard, which removes the directory, then the ports.
    processes: BTreeMap<String, Process>,
    machine: Option<Machine>,
    guard: Guard,
    ports: Arc<Block>,
    directory: PathBuf,
    pki: Arc<Pki>,
    server: String,
    client: Client,
    kubernetes: Version,
    /// The states that it can be put into; `None` where no later test gets it.
    foundation: Option<Foundation>,
    /// The state that it was put into.
    state: State,
    /// Processes that no later test gets, because this one stopped them, restarted them or has options of its own for them.
    own: BTreeSet<String>,
    passed: bool,
    interrupted: bool,
}

impl ControlPlane {
    /// Starts a control plane, or takes one that another test needs no more, puts it into a state if it remembers that, and waits until
    /// it is ready for use by its administrator.
    ///
    /// # Errors
    /// A program is missing, or does not become ready; the message holds the end of its log.
    pub async fn start(options: Options, state: State) -> Result<Self> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| drop(rustls::crypto::aws_lc_rs::default_provider().install_default()));
        options.check()?;
        if reuse::shares(&options)
            && let Some(idle) = reuse::take(options.kubernetes)
        {
            match Self::reuse(idle, &options, state).await {
                Ok(plane) => return Ok(plane),
                Err(error) => {
                    eprintln!(
                        "a new control plane is started, because that of an earlier test cannot be used: {error:#}"
                    )
                }
            }
        }
        Self::start_new(&options).await
    }

    async fn start_new(options: &Options) -> Result<Self> {
        let ports = Arc::new(Block::claim()?);
        let directory = match &options.directory {
            Some(directory) => {
                fs::create_dir_all(directory)?;
                directory.canonicalize()?
            }
            None => tempfile::Builder::new().prefix("giveway-").tempdir()?.keep(),
        };
        let guard = Guard::start(&directory, &ports)?;
        let machine = if options.own_machine { Some(Machine::start(&directory, &guard).await?) } else { None };
        let address = machine.as_ref().map(Machine::address);
        let server = format!("https://{}:{}", address.unwrap_or(Ipv4Addr::LOCALHOST), ports.api_server());
        let pki = Arc::new(Pki::generate()?);
        let admin = write_credentials(&directory, &pki, &server, address)?;
        let client = kubeconfig::client(admin).await?;
        let mut plane = Self {
            processes: BTreeMap::new(),
            machine,
            guard,
            ports,
            directory,
            pki,
            server,
            client,
            kubernetes: options.kubernetes,
            foundation: None,
            state: State::Bare,
            own: BTreeSet::new(),
            passed: false,
            interrupted: false,
        };
        plane.run(programs::etcd(&plane.directory, &plane.ports)?)?;
        plane.run(programs::api_server(&plane.directory, &plane.ports, options, address)?)?;
        plane.wait_for_api_server().await?;
        if reuse::shares(options) {
            plane.foundation = Some(Foundation::remember_bare(Store::at(plane.ports.etcd())?).await?);
        }
        plane.start_controllers(options).await?;
        statistics::count(statistics::Started::ControlPlane);
        Ok(plane)
    }

    /// Goes on with the control plane of a test that has ended.
    async fn reuse(idle: Idle, options: &Options, state: State) -> Result<Self> {
        let Idle { processes, guard, ports, directory, pki, server, kubernetes, foundation } = idle;
        let client = kubeconfig::client(kubeconfig::read(&directory.join("kubeconfig"))?).await?;
        ports.reset_spare();
        let mut plane = Self {
            processes,
            machine: None,
            guard,
            ports,
            directory,
            pki,
            server,
            client,
            kubernetes,
            state: if foundation.remembers(state) { state } else { State::Bare },
            foundation: Some(foundation),
            own: BTreeSet::new(),
            passed: false,
            interrupted: false,
        };
        plane.check_alive()?;
        for name in options.own_controllers() {
            plane.processes.remove(name);
        }
        if let Some(foundation) = &plane.foundation {
            foundation.restore(plane.state, &plane.client, false).await?;
            if !plane.processes.contains_key(options::SCHEDULER) {
                foundation.forget_scheduler().await?;
            }
            if !plane.processes.contains_key(options::CONTROLLER_MANAGER) {
                foundation.forget_controller_manager().await?;
            }
        }
        reuse::sweep(&plane.directory, &plane.processes)?;
        if plane.state == State::Giveway {
            fs::copy(plane.directory.join(REMEMBERED), plane.manifests())?;
        }
        plane.start_controllers(options).await?;
        statistics::count(statistics::Started::Reused);
        Ok(plane)
    }

    /// Starts the processes beside etcd and API server, those that do not run.
    async fn start_controllers(&mut self, options: &Options) -> Result<()> {
        let programs = [
            programs::controller_manager(&self.directory, options)?,
            programs::scheduler(&self.directory, options)?,
            programs::kwok(&self.directory)?,
        ];
        for program in programs {
            if !self.processes.contains_key(&program.name) {
                self.run(program)?;
            }
        }
        self.own.extend(options.own_controllers().map(str::to_owned));
        self.wait_for_controllers().await
    }

    /// The state that it was put into when this test got it.
    pub fn state(&self) -> State {
        self.state
    }

    /// The ports that belong to this control plane.
    pub fn ports(&self) -> &Block {
        &self.ports
    }

    /// Remembers what is stored now as the state with Giveway, if later tests can get this control plane.
    ///
    /// # Errors
    /// What is stored does not settle.
    pub async fn remember_giveway(&mut self) -> Result<()> {
        if let Some(foundation) = &mut self.foundation {
            foundation.remember_giveway().await?;
            fs::copy(self.manifests(), self.directory.join(REMEMBERED))?;
            self.state = State::Giveway;
        }
        Ok(())
    }

    /// Whether a later test can get this control plane while all of its processes go on.
    ///
    /// # Errors
    /// The test stopped, restarted or reconfigured one of the processes.
    pub fn is_reusable(&self) -> Result<bool> {
        let own: Vec<&str> = self.own.iter().map(String::as_str).collect();
        anyhow::ensure!(
            own.is_empty(),
            "the test stopped or reconfigured {}: it needs a world of its own (`own`)",
            own.join(", ")
        );
        Ok(self.foundation.is_some())
    }

    /// Empties the logs of all programs, and the audit log. Programs append to them.
    ///
    /// # Errors
    /// A log cannot be written.
    pub fn empty_logs(&self) -> Result<()> {
        reuse::empty_logs(&self.directory)
    }

    /// Puts back everything that is stored, while Giveway's daemons run and go on; returns whether anything changed that decides about
    /// requests.
    ///
    /// # Errors
    /// No state is remembered, or a process goes on writing.
    pub async fn restore(&self) -> Result<bool> {
        let foundation = self.foundation.as_ref().context("no state of this control plane is remembered")?;
        foundation.restore(self.state, &self.client, true).await
    }

    /// As the next test gets it: with nothing of this one.
    ///
    /// # Errors
    /// It serves only one test, or cannot be put back as it was.
    pub async fn renewed(mut self, state: State) -> Result<Self> {
        let options = Options { kubernetes: self.kubernetes, ..Options::default() };
        let idle = self.retire().context("this control plane serves no other test")?;
        Self::reuse(idle, &options, state).await
    }

    /// What a later test gets, if it can; everything else ends.
    fn retire(&mut self) -> Option<Idle> {
        let foundation = self.foundation.take()?;
        self.processes.retain(|name, _| !self.own.contains(name));
        Some(Idle {
            processes: std::mem::take(&mut self.processes),
            guard: self.guard.clone(),
            ports: Arc::clone(&self.ports),
            directory: self.directory.clone(),
            pki: Arc::clone(&self.pki),
            server: self.server.clone(),
            kubernetes: self.kubernetes,
            foundation,
        })
    }

    /// Says that the test ended well, so that another one may get this control plane.
    pub(crate) fn passed(&mut self) {
        self.passed = true;
    }

    /// Whether a test may have interrupted etcd or the API server, and with them every watch.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// A client with every right.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client of another user, with every right, that tries nothing twice.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub async fn client_of(&self, user: &str) -> Result<Client> {
        self.client_in(user, &["system:masters"]).await
    }

    /// A client of a user in these groups, with the rights that they were given, that tries nothing twice.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub async fn client_in(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let identity = self.pki.client(user, groups)?;
        let credentials = Credentials::Certificate(&identity);
        kubeconfig::impatient_client(kubeconfig::build(&self.server, &self.pki.ca(), user, &credentials)).await
    }

    /// The directory with kubeconfigs, logs and the audit log.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The manifests of the chart, as they were applied.
    pub fn manifests(&self) -> PathBuf {
        self.directory.join("giveway.yaml")
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// The audit log, JSON lines.
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    /// The certificate authority of this control plane.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The kubeconfig of a client that has a bearer token.
    pub fn kubeconfig_with_token(&self, user: &str, token: &str) -> kube::config::Kubeconfig {
        kubeconfig::build(&self.server, &self.pki.ca(), user, &Credentials::Token(token))
    }

    /// Writes the kubeconfig of a user in these groups to a file of the directory; returns where it is.
    ///
    /// # Errors
    /// The certificate cannot be made, or the file not be written.
    pub fn kubeconfig_of(&self, user: &str, groups: &[&str], file: &str) -> Result<PathBuf> {
        let path = self.directory.join(file);
        let identity = self.pki.client(user, groups)?;
        let credentials = Credentials::Certificate(&identity);
        kubeconfig::write(&path, &kubeconfig::build(&self.server, &self.pki.ca(), user, &credentials))?;
        Ok(path)
    }

    /// The machine that the control plane has for itself, where it has one.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// Starts more programs that live and die with this control plane, in the same machine.
    pub fn spawner(&self) -> Spawner {
        Spawner { guard: self.guard.clone(), entry: self.machine.as_ref().map(Machine::entry) }
    }

    /// One of the control plane's own processes, such as `kube-scheduler`.
    pub fn process(&mut self, name: &str) -> Option<&mut Process> {
        self.touched(name);
        self.processes.get_mut(name)
    }

    /// All of the control plane's own processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// Kills one of the processes (SIGKILL) and starts it again with the same command line.
    ///
    /// # Errors
    /// There is no such process, or it cannot be started.
    pub fn restart(&mut self, name: &str) -> Result<()> {
        self.touched(name);
        let mut old = self.processes.remove(name).ok_or_else(|| anyhow!("no process is called {name}"))?;
        old.kill();
        self.run(old.program().clone())
    }

    /// Lets everything live on after this value is dropped, and after the program has ended.
    pub fn detach(&mut self) {
        self.guard.keep();
        self.processes.values_mut().for_each(Process::detach);
    }

    /// Says that the test may have done anything to this process.
    fn touched(&mut self, name: &str) {
        self.own.insert(name.to_owned());
        if reuse::STORING.contains(&name) {
            self.foundation = None;
            self.interrupted = true;
        }
    }

    fn run(&mut self, program: Program) -> Result<()> {
        let process = self.spawner().spawn(program)?;
        self.processes.insert(process.program().name.clone(), process);
        Ok(())
    }

    async fn wait_for_api_server(&mut self) -> Result<()> {
        let client = &self.client;
        let processes = &mut self.processes;
        let ready = wait::until("the API server is ready", READY, async || {
            if let Some(dead) = first_dead(processes) {
                return Ok(Err(dead));
            }
            let request = http_get("/readyz").map_err(|error| error.to_string())?;
            client.request_text(request).await.map(|_| Ok(())).map_err(|error| error.to_string())
        });
        ready.await?.map_err(|dead| anyhow!(dead))
    }

    async fn wait_for_controllers(&mut self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let processes = &mut self.processes;
        let ready = wait::until("kube-controller-manager has made the default ServiceAccount", READY, async || {
            if let Some(dead) = first_dead(processes) {
                return Ok(Err(dead));
            }
            match accounts.get_opt("default").await {
                Ok(Some(_)) => Ok(Ok(())),
                Ok(None) => Err("there is none yet".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        ready.await?.map_err(|dead| anyhow!(dead))
    }

    /// Checks that every process of the control plane is alive.
    ///
    /// # Errors
    /// One has ended; the message names it and holds the end of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        match first_dead(&mut self.processes) {
            Some(dead) => bail!(dead),
            None => Ok(()),
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if self.passed
            && let Some(idle) = self.retire()
        {
            reuse::give(idle);
        }
    }
}

/// Starts programs that are ended with a control plane, at the latest.
#[derive(Clone)]
pub struct Spawner {
    guard: Guard,
    entry: Option<MachineEntry>,
}

impl Spawner {
    /// Starts a program.
    ///
    /// # Errors
    /// See [`Process::spawn`].
    pub fn spawn(&self, program: Program) -> Result<Process> {
        Process::spawn(program, &self.guard, self.entry.as_ref())
    }
}

fn first_dead(processes: &mut BTreeMap<String, Process>) -> Option<String> {
    processes.iter_mut().find_map(|(name, process)| {
        let status = process.exited()?;
        Some(format!("{name} has ended ({status}): {}", process.first_error()))
    })
}

/// Writes every key, certificate and kubeconfig; returns the administrator's.
fn write_credentials(
    directory: &Path,
    pki: &Pki,
    server: &str,
    address: Option<Ipv4Addr>,
) -> Result<kube::config::Kubeconfig> {
    let files = directory.join("pki");
    fs::create_dir_all(&files)?;
    let names = address.map(|address| vec![address.to_string(), programs::SERVICE.to_owned()]);
    let identity = pki.server(&names.unwrap_or_default())?;
    write_private(&files.join("ca.crt"), pki.ca().as_bytes())?;
    write_private(&files.join("server.crt"), identity.certificate.as_bytes())?;
    write_private(&files.join("server.key"), identity.key.as_bytes())?;
    let token_key = pki::TokenKey::generate()?;
    write_private(&files.join("service-account.key"), token_key.private.as_bytes())?;
    write_private(&files.join("service-account.pub"), token_key.public.as_bytes())?;
    let user = |user: &str, groups: &[&str], file: &str| -> Result<kube::config::Kubeconfig> {
        let identity = pki.client(user, groups)?;
        let config = kubeconfig::build(server, &pki.ca(), user, &Credentials::Certificate(&identity));
        kubeconfig::write(&directory.join(file), &config)?;
        Ok(config)
    };
    user("system:kube-controller-manager", &[], "kube-controller-manager.kubeconfig")?;
    user("system:kube-scheduler", &[], "kube-scheduler.kubeconfig")?;
    user("kwok", &["system:masters"], "kwok.kubeconfig")?;
    user("admin", &["system:masters"], "kubeconfig")
}

/// Writes a file that only its owner can read.
///
/// # Errors
/// The file cannot be written.
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("writing {}", path.display()))?;
    file.write_all(content).with_context(|| format!("writing {}", path.display()))
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}
