//! Runs the webhook as a process against a stub of the API server, and reads its resource usage from the kernel.

use super::client::Client;
use super::stub::{self, Objects};
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Time limit of every step.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed when this is dropped.
pub struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        Path::new("/proc").join(self.0.id().to_string()).join(name)
    }

    fn status(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(self.file("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        let kib: usize = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap();
        kib * 1024
    }

    /// Returns the resident memory in bytes.
    pub fn resident(&self) -> usize {
        self.status("VmRSS")
    }

    /// Returns the maximum resident memory in bytes since [`Self::forget_peak`].
    pub fn peak(&self) -> usize {
        self.status("VmHWM")
    }

    #[allow(dead_code, reason = "for the tests of memory")]
    pub fn forget_peak(&self) {
        std::fs::write(self.file("clear_refs"), "5").unwrap();
    }

    /// Returns the used CPU time, in user mode and in the kernel.
    #[allow(dead_code, reason = "for the benchmark")]
    pub fn cpu(&self) -> (Duration, Duration) {
        let stat = std::fs::read_to_string(self.file("stat")).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let mut ticks = fields.split(' ').skip(11).map(|ticks| ticks.parse::<u64>().unwrap());
        // The kernel reports hundredths of a second to user space on every architecture.
        let mut time = || Duration::from_millis(ticks.next().unwrap() * 10);
        (time(), time())
    }
}

/// Address of a server, and the CA certificate that clients trust.
#[derive(Clone, Debug)]
pub struct Place {
    pub address: SocketAddr,
    pub authority: CertificateDer<'static>,
}

/// A running webhook.
pub struct Webhook {
    pub process: Process,
    pub place: Place,
    _directory: TempDir,
}

/// Writes a certificate for `localhost` with its key, and returns it.
pub fn write_pair(directory: &Path) -> CertificateDer<'static> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), pair.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
    pair.cert.der().clone()
}

/// Returns an unused local address.
pub fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Webhook {
    /// Starts the binary and waits until it is ready.
    pub async fn start(objects: Objects) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = write_pair(directory.path());
        let (address, metrics, server) = (free_address(), free_address(), stub::start(objects).await);
        let kubeconfig = directory.path().join("kubeconfig");
        let config = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: c, user: {{}}}}], contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}"
        );
        std::fs::write(&kubeconfig, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_giveway-webhook"));
        command.env("KUBECONFIG", kubeconfig).env_remove("HTTP_PROXY").env_remove("http_proxy").stderr(Stdio::null());
        command.arg("--tls-directory").arg(directory.path());
        command.args([format!("--address={address}"), format!("--metrics-address={metrics}")]);
        // Large reviews take long in a build without optimisation.
        command.arg("--timeout-seconds=30");
        let process = Process::start(&mut command);
        let place = Place { address, authority };
        wait_ready(&place).await;
        Self { process, place, _directory: directory }
    }
}

/// Waits until `/readyz` returns 200.
pub async fn wait_ready(place: &Place) {
    let ready = async {
        loop {
            if let Ok(mut client) = Client::connect(place).await
                && let Ok((200, _)) = client.send("GET", "/readyz", b"").await
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("not ready in time");
}
