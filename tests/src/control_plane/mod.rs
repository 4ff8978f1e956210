//! A real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
//! kwok as nodes and kubelets.
//!
//! Promises: several can run side by side; a started one is ready; everything it started and wrote is gone when it is
//! dropped, also after a panic, Ctrl-C or `kill -9` of the program that started it.

mod door;
mod guard;
pub mod kubeconfig;
mod machine;
pub mod options;
pub mod pki;
pub mod ports;
pub mod process;
mod programs;
mod reuse;
mod store;
mod version;

pub use door::Door;
pub use machine::Machine;
pub use options::Options;
pub use process::{Process, Program};
pub use version::Version;

use crate::wait;
use anyhow::{Context as _, Result, anyhow, bail};
use guard::Guard;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use kubeconfig::Credentials;
use pki::Pki;
use programs::Ports;
use reuse::{Foundation, Idle};
use std::collections::BTreeMap;
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

/// A running control plane.
pub struct ControlPlane {
    // Order matters for dropping: processes first, then the guard, which removes the directory.
    processes: BTreeMap<String, Process>,
    machine: Option<Machine>,
    guard: Guard,
    directory: PathBuf,
    pki: Arc<Pki>,
    server: String,
    client: Client,
    kubernetes: Version,
    /// What a later test could get; `None` where none should.
    foundation: Option<Foundation>,
    lasts: bool,
    interrupted: bool,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready for use by its administrator.
    ///
    /// # Errors
    /// A program is missing, or does not become ready; the message holds the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| drop(rustls::crypto::aws_lc_rs::default_provider().install_default()));
        options.check()?;
        if reuse::shares(&options)
            && let Some(idle) = reuse::take(options.kubernetes)
        {
            match Self::go_on(idle, &options).await {
                Ok(plane) => return Ok(plane),
                Err(error) => {
                    eprintln!("another API server is started, because that of an earlier test is no good: {error:#}")
                }
            }
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Self::start_once(&options).await {
                Err(error) if attempts < 5 && format!("{error:#}").contains("address already in use") => {}
                other => return other,
            }
        }
    }

    async fn start_once(options: &Options) -> Result<Self> {
        let directory = match &options.directory {
            Some(directory) => {
                fs::create_dir_all(directory)?;
                directory.canonicalize()?
            }
            None => tempfile::Builder::new().prefix("giveway-").tempdir()?.keep(),
        };
        let guard = Guard::start(&directory)?;
        let [etcd, etcd_peer, api] = ports::free()?;
        let ports = Ports { etcd, etcd_peer, api };
        let machine = if options.own_machine { Some(Machine::start(&directory, &guard).await?) } else { None };
        let address = machine.as_ref().map(Machine::address);
        let server = format!("https://{}:{api}", address.unwrap_or(Ipv4Addr::LOCALHOST));
        let pki = Arc::new(Pki::generate()?);
        let admin = write_credentials(&directory, &pki, &server, address)?;
        let client = kubeconfig::client(admin).await?;
        let (processes, kubernetes) = (BTreeMap::new(), options.kubernetes);
        let (foundation, lasts, interrupted) = (None, false, false);
        let mut plane = Self {
            processes,
            machine,
            guard,
            directory,
            pki,
            server,
            client,
            kubernetes,
            foundation,
            lasts,
            interrupted,
        };
        plane.run(programs::etcd(&plane.directory, ports)?)?;
        plane.run(programs::api_server(&plane.directory, ports, options, address)?)?;
        plane.wait_for_api_server().await?;
        if reuse::shares(options) {
            plane.foundation = Some(Foundation::of(Store::at(ports.etcd)?).await?);
        }
        plane.people_it(options).await?;
        Ok(plane)
    }

    /// With the etcd and the API server of a test that has ended.
    async fn go_on(idle: Idle, options: &Options) -> Result<Self> {
        let Idle { processes, guard, directory, pki, server, kubernetes, foundation } = idle;
        let client = kubeconfig::client(kubeconfig::read(&directory.join("kubeconfig"))?).await?;
        let (machine, lasts, interrupted) = (None, false, false);
        let foundation = Some(foundation);
        let mut plane = Self {
            processes,
            machine,
            guard,
            directory,
            pki,
            server,
            client,
            kubernetes,
            foundation,
            lasts,
            interrupted,
        };
        plane.check_alive()?;
        if let Some(foundation) = &plane.foundation {
            foundation.restore(&plane.client).await?;
        }
        reuse::sweep(&plane.directory)?;
        plane.people_it(options).await?;
        Ok(plane)
    }

    /// Starts those who work with the API server.
    async fn people_it(&mut self, options: &Options) -> Result<()> {
        self.run(programs::controller_manager(&self.directory, options)?)?;
        self.run(programs::scheduler(&self.directory, options)?)?;
        self.run(programs::kwok(&self.directory)?)?;
        self.wait_for_controllers().await
    }

    /// As the next test gets it: the same etcd and API server, with nothing of this one.
    ///
    /// # Errors
    /// They serve only one test, or cannot be put back as they were.
    pub async fn renewed(mut self) -> Result<Self> {
        let options = Options { kubernetes: self.kubernetes, ..Options::default() };
        let idle = self.retire().context("this control plane serves nobody else")?;
        Self::go_on(idle, &options).await
    }

    /// What a later test can go on with, if it can; everything else ends.
    fn retire(&mut self) -> Option<Idle> {
        let foundation = self.foundation.take()?;
        self.processes.retain(|name, _| reuse::LASTING.contains(&name.as_str()));
        Some(Idle {
            processes: std::mem::take(&mut self.processes),
            guard: self.guard.clone(),
            directory: self.directory.clone(),
            pki: Arc::clone(&self.pki),
            server: self.server.clone(),
            kubernetes: self.kubernetes,
            foundation,
        })
    }

    /// Says that the test ended well, so that another one may go on with etcd and API server.
    pub(crate) fn lasts(&mut self) {
        self.lasts = true;
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
        Spawner { guard: self.guard.clone(), door: self.machine.as_ref().map(Machine::door) }
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

    /// A test may have done anything to this process.
    fn touched(&mut self, name: &str) {
        if reuse::LASTING.contains(&name) {
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
        if self.lasts
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
    door: Option<Door>,
}

impl Spawner {
    /// Starts a program.
    ///
    /// # Errors
    /// See [`Process::spawn`].
    pub fn spawn(&self, program: Program) -> Result<Process> {
        Process::spawn(program, &self.guard, self.door.as_ref())
    }
}

fn first_dead(processes: &mut BTreeMap<String, Process>) -> Option<String> {
    processes.iter_mut().find_map(|(name, process)| {
        let status = process.exited()?;
        Some(format!("{name} has ended ({status}); the end of its log:\n{}", process.log_tail(15)))
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
