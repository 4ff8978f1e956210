//! A machine for a control plane and a node, made of namespaces: network, mounts, processes and cgroups.
//!
//! Kubelets mount file systems, container runtimes leave processes behind, and kube-proxy changes iptables. In a machine the
//! kernel undoes all of this: when the first process of the machine ends, its other processes are killed, and its rules and
//! mounts are removed. The guard removes the rest: a directory, empty cgroups and the host's end of a link.
//!
//! Tested with cgroups of version 1. Version 2 is implemented in `init.sh` and `cgroups.rs` but was not tested.

mod cgroups;

use super::guard::Guard;
use super::machine_entry::MachineEntry;
use super::process::{Process, Program};
use crate::wait;
use anyhow::{Context as _, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ENTER: &str = include_str!("enter.sh");
const INIT: &str = include_str!("init.sh");
const CONNECT: &str = include_str!("connect.sh");

/// Deadline for the start of a machine.
const READY: Duration = Duration::from_secs(20);

/// A running machine. It ends with all its processes when the value is dropped.
pub struct Machine {
    _holder: Process,
    entry: MachineEntry,
    address: Ipv4Addr,
}

impl Machine {
    /// Starts a machine with its files below this directory.
    ///
    /// # Errors
    /// If this program may not create namespaces or cgroups, or `unshare`, `nsenter` (util-linux) or `ip` (iproute2) is missing.
    pub(super) async fn start(directory: &Path, guard: &Guard) -> Result<Self> {
        let folder = directory.join("machine");
        fs::create_dir_all(&folder)?;
        let name = directory.file_name().unwrap_or(OsStr::new("giveway")).to_string_lossy().into_owned();
        let cgroups = cgroups::create(&name)?;
        cgroups.iter().for_each(|cgroup| guard.cgroup(cgroup));
        fs::write(folder.join("cgroups"), lines(&cgroups))?;
        let program = Program {
            name: "machine".to_owned(),
            path: PathBuf::from("/bin/sh"),
            args: ["-c", ENTER, "giveway-enter", &folder.display().to_string(), INIT].map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            directory: directory.to_path_buf(),
        };
        let mut holder = Process::spawn(program, guard, None)?;
        let ready = folder.join("ready");
        let started = wait::until("the machine has started", READY, async || {
            if let Some(status) = holder.exited() {
                return Ok(Err(anyhow!("the machine has ended ({status}):\n{}", holder.log_tail(10))));
            }
            if ready.exists() { Ok(Ok(())) } else { Err(format!("{} is missing", ready.display())) }
        });
        started.await??;
        let first = only_child(holder.pid())?;
        let (host, address) = addresses();
        let link = format!("gw{:x}", u32::from(address) & 0x3f_ffff);
        guard.link(&link);
        let said = Command::new("/bin/sh")
            .args(["-c", CONNECT, "giveway-connect", &first.to_string(), &link])
            .args([host.to_string(), address.to_string()])
            .output()
            .context("starting /bin/sh")?;
        if !said.status.success() {
            bail!("connecting the machine with the host: {}", String::from_utf8_lossy(&said.stderr).trim());
        }
        Ok(Self { _holder: holder, entry: MachineEntry::new(first, folder), address })
    }

    /// Returns the address of the machine for the host.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns the entry for programs.
    pub fn entry(&self) -> MachineEntry {
        self.entry.clone()
    }
}

fn lines(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("{}\n", path.display())).collect()
}

fn only_child(pid: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    children.trim().parse().with_context(|| format!("process {pid} has the children {children:?} and not one"))
}

/// Returns two addresses of a /30 network, the host's and the machine's. They are in the shared address space of carriers, which
/// private networks and the internet do not use, and very likely unique on this host.
fn addresses() -> (Ipv4Addr, Ipv4Addr) {
    let random = u32::try_from(RandomState::new().hash_one(0) >> 44).unwrap_or_default();
    let net = u32::from(Ipv4Addr::new(100, 64, 0, 0)) + (random << 2);
    (Ipv4Addr::from(net + 1), Ipv4Addr::from(net + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_machine_get_the_two_addresses_of_one_small_net() {
        for _ in 0..1000 {
            let (host, machine) = addresses();
            assert_eq!(host.octets()[0], 100);
            assert!((64..128).contains(&host.octets()[1]), "{host}");
            assert_eq!((u32::from(host) % 4, u32::from(machine)), (1, u32::from(host) + 1));
        }
    }
}
