//! A real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and kwok for
//! nodes and kubelets.
//!
//! Several control planes can run side by side. A started one is ready. Its processes and files are removed when it is dropped,
//! also after a panic, Ctrl-C or `kill -9` of the program that started it.

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
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use foundation::Foundation;
use guard::Guard;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ObjectMeta, PostParams};
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
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::Duration;
use store::Store;

/// Deadline for a program to become ready. It is generous because the machine may be busy.
const READY: Duration = Duration::from_secs(90);

/// File with the applied manifests of the chart.
const REMEMBERED: &str = "remembered.yaml";

/// A running control plane.
pub struct ControlPlane {
    // The fields are dropped in this order: processes, then the guard, which removes the directory, then the ports.
    processes: BTreeMap<String, Process>,
    machine: Option<Machine>,
    guard: Guard,
    ports: Arc<Block>,
    directory: PathBuf,
    pki: Arc<Pki>,
    server: String,
    client: Client,
    kubernetes: Version,
    /// The saved states; `None` if no later test reuses this control plane.
    foundation: Option<Foundation>,
    /// The state to which it was restored.
    state: State,
    /// Processes that no later test can use, because this test stopped or restarted them or has options of its own for them.
    own: BTreeSet<String>,
    passed: bool,
    interrupted: bool,
}

impl ControlPlane {
    /// Starts a control plane or reuses an idle one, restores this state if it is saved, and waits until the control plane is
    /// ready.
    ///
    /// # Errors
    /// If a program is missing or does not become ready; the message has the end of its log.
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
                    eprintln!("a new control plane is started, because an idle one cannot be reused: {error:#}")
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
        if let Some(data) = &options.etcd_data {
            copy_directory(data, &plane.directory.join("etcd"))?;
        }
        plane.run(programs::etcd(&plane.directory, &plane.ports)?)?;
        plane.run(programs::api_server(&plane.directory, &plane.ports, options, address)?)?;
        plane.wait_for_api_server().await?;
        if reuse::shares(options) {
            plane.foundation = Some(Foundation::remember_bare(Store::at(plane.ports.etcd())?).await?);
        }
        if options.storage_only {
            plane.create_default_account().await?;
        } else {
            plane.start_controllers(options).await?;
        }
        statistics::count(statistics::Started::ControlPlane);
        Ok(plane)
    }

    /// Reuses the control plane of a test that has ended.
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

    /// Starts the processes other than etcd and API server that do not run.
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

    /// Returns the state to which it was restored for this test.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the ports of this control plane.
    pub fn ports(&self) -> &Block {
        &self.ports
    }

    /// Saves the contents of etcd as the state with Giveway, if later tests can reuse this control plane.
    ///
    /// # Errors
    /// If the contents keep changing.
    pub async fn remember_giveway(&mut self) -> Result<()> {
        if let Some(foundation) = &mut self.foundation {
            foundation.remember_giveway().await?;
            fs::copy(self.manifests(), self.directory.join(REMEMBERED))?;
            self.state = State::Giveway;
        }
        Ok(())
    }

    /// Returns true if a later test can use this control plane while all of its processes keep running.
    ///
    /// # Errors
    /// If the test stopped, restarted or reconfigured one of the processes.
    pub fn is_reusable(&self) -> Result<bool> {
        let own: Vec<&str> = self.own.iter().map(String::as_str).collect();
        anyhow::ensure!(
            own.is_empty(),
            "the test stopped or reconfigured {}: it needs a world of its own (`own`)",
            own.join(", ")
        );
        Ok(self.foundation.is_some())
    }

    /// Empties the logs of all programs and the audit log. The programs append to them.
    ///
    /// # Errors
    /// If a log cannot be written.
    pub fn empty_logs(&self) -> Result<()> {
        reuse::empty_logs(&self.directory)
    }

    /// Restores the contents of etcd while Giveway's daemons keep running. Returns true if admission configuration or quotas were
    /// restored.
    ///
    /// # Errors
    /// If no state is saved or a process keeps writing.
    pub async fn restore(&self) -> Result<bool> {
        let foundation = self.foundation.as_ref().context("no state of this control plane is saved")?;
        foundation.restore(self.state, &self.client, true).await
    }

    /// Returns the control plane for the next test, without the objects of this one.
    ///
    /// # Errors
    /// If it cannot be reused or restored.
    pub async fn renewed(mut self, state: State) -> Result<Self> {
        let options = Options { kubernetes: self.kubernetes, ..Options::default() };
        let idle = self.retire().context("this control plane cannot be reused")?;
        Self::reuse(idle, &options, state).await
    }

    /// Returns the parts that a later test can use, and ends all others.
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

    /// Marks the test as passed, so that another test may reuse this control plane.
    pub(crate) fn passed(&mut self) {
        self.passed = true;
    }

    /// Returns true if a test may have interrupted etcd or the API server, and with them all watches.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns a client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client of another user with all rights, which does not retry requests.
    ///
    /// # Errors
    /// If the certificate cannot be created.
    pub async fn client_of(&self, user: &str) -> Result<Client> {
        self.client_in(user, &["system:masters"]).await
    }

    /// Returns a client of a user in these groups, with the rights that RBAC grants them. It does not retry requests.
    ///
    /// # Errors
    /// If the certificate cannot be created.
    pub async fn client_in(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let identity = self.pki.client(user, groups)?;
        let credentials = Credentials::Certificate(&identity);
        kubeconfig::impatient_client(kubeconfig::build(&self.server, &self.pki.ca(), user, &credentials)).await
    }

    /// Returns the directory with kubeconfigs, logs and the audit log.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the applied manifests of the chart.
    pub fn manifests(&self) -> PathBuf {
        self.directory.join("giveway.yaml")
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Returns the path of the audit log, which has JSON lines.
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    /// Returns the certificate authority of this control plane.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// Returns the URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns a kubeconfig of a client with a bearer token.
    pub fn kubeconfig_with_token(&self, user: &str, token: &str) -> kube::config::Kubeconfig {
        kubeconfig::build(&self.server, &self.pki.ca(), user, &Credentials::Token(token))
    }

    /// Writes the kubeconfig of a user in these groups to a file of the directory. Returns its path.
    ///
    /// # Errors
    /// If the certificate cannot be created or the file cannot be written.
    pub fn kubeconfig_of(&self, user: &str, groups: &[&str], file: &str) -> Result<PathBuf> {
        let path = self.directory.join(file);
        let identity = self.pki.client(user, groups)?;
        let credentials = Credentials::Certificate(&identity);
        kubeconfig::write(&path, &kubeconfig::build(&self.server, &self.pki.ca(), user, &credentials))?;
        Ok(path)
    }

    /// Returns the machine of the control plane, if it has one.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// Returns a spawner of programs that run in the same machine and end with this control plane.
    pub fn spawner(&self) -> Spawner {
        Spawner { guard: self.guard.clone(), entry: self.machine.as_ref().map(Machine::entry) }
    }

    /// Returns the path of kube-scheduler's configuration, which a test has set.
    pub fn scheduler_config(&self) -> PathBuf {
        programs::scheduler_config(&self.directory)
    }

    /// Returns one of the control plane's own processes, such as `kube-scheduler`.
    pub fn process(&mut self, name: &str) -> Option<&mut Process> {
        self.touched(name);
        self.processes.get_mut(name)
    }

    /// Returns all of the control plane's own processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// Kills one of the processes (SIGKILL) and restarts it with the same command line.
    ///
    /// # Errors
    /// If the process does not exist or cannot be started.
    pub fn restart(&mut self, name: &str) -> Result<()> {
        self.touched(name);
        let mut old = self.processes.remove(name).ok_or_else(|| anyhow!("no process is called {name}"))?;
        old.kill();
        self.run(old.program().clone())
    }

    /// Detaches all processes, so that they keep running after this value is dropped and the program has ended.
    pub fn detach(&mut self) {
        self.guard.keep();
        self.processes.values_mut().for_each(Process::detach);
    }

    /// Records that the test may have stopped or changed this process.
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

    /// Creates the ServiceAccount of pods, which kube-controller-manager creates otherwise, unless it exists.
    async fn create_default_account(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let metadata = ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        wait::until("the default ServiceAccount exists", READY, async || {
            match accounts.create(&PostParams::default(), &account).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                // The API server creates the namespace after it is ready.
                Err(error) => Err(error.to_string()),
            }
        })
        .await?;
        Ok(())
    }

    async fn wait_for_controllers(&mut self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let processes = &mut self.processes;
        let ready = wait::until("kube-controller-manager has created the default ServiceAccount", READY, async || {
            if let Some(dead) = first_dead(processes) {
                return Ok(Err(dead));
            }
            match accounts.get_opt("default").await {
                Ok(Some(_)) => Ok(Ok(())),
                Ok(None) => Err("the ServiceAccount does not exist".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        ready.await?.map_err(|dead| anyhow!(dead))
    }

    /// Checks that every process of the control plane is alive.
    ///
    /// # Errors
    /// If a process has ended; the message has its name and the end of its log.
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

/// Starts programs that end at the latest with a control plane.
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

/// Writes all keys, certificates and kubeconfigs. Returns the administrator's kubeconfig.
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

/// Writes a file with mode 0600.
///
/// # Errors
/// If the file cannot be written.
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

/// Copies a directory. A directory that exists already is replaced.
///
/// # Errors
/// If a file cannot be copied.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().context("running cp")?;
    ensure!(status.success(), "copying {} to {} failed", from.display(), to.display());
    Ok(())
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}
