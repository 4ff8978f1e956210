//! Detects what a real node leaves behind on the machine that it ran on.

use giveway_tests::wait::wait_for;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The state of this machine that a kubelet, a container runtime and kube-proxy change.
#[derive(Debug, PartialEq)]
pub struct Traces {
    links: BTreeSet<String>,
    mounts: BTreeSet<String>,
    rules: String,
    named_networks: BTreeSet<String>,
    settings: Vec<String>,
    foreign_processes: BTreeSet<String>,
}

impl Traces {
    /// Reads the current state.
    pub fn look() -> Self {
        let lines = |text: String| text.lines().map(str::to_owned).collect();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            links: lines(run("ip", &["-brief", "link", "show"])),
            mounts: lines(read("/proc/self/mountinfo")),
            rules: ["iptables", "ip6tables"]
                .map(|program| run(program, &["--list-rules"]) + &run(program, &["--table", "nat", "--list-rules"]))
                .concat(),
            named_networks: names("/run/netns").collect(),
            settings: ["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"]
                .map(|setting| read(&format!("/proc/sys/{setting}")))
                .to_vec(),
            foreign_processes: foreign_processes(),
        }
    }
}

/// Directory and cgroups of one node, read while it runs.
pub struct Belongings {
    directory: PathBuf,
    cgroups: Vec<PathBuf>,
}

impl Belongings {
    /// Returns the belongings of the node whose control plane has this directory.
    pub fn of(directory: &Path) -> Self {
        let cgroups = fs::read_to_string(directory.join("machine/cgroups")).unwrap();
        Self { directory: directory.to_owned(), cgroups: cgroups.lines().map(PathBuf::from).collect() }
    }

    /// Returns the number of cgroups of containers below those of the node.
    pub fn containers(&self) -> usize {
        self.cgroups.iter().map(|cgroup| names(&cgroup.join("k8s.io").display().to_string()).count()).sum()
    }

    fn left(&self) -> Vec<&Path> {
        let all = self.cgroups.iter().chain([&self.directory]);
        all.filter(|path| path.exists()).map(PathBuf::as_path).collect()
    }
}

/// Waits until all belongings of a node are removed and the machine is in its previous state.
///
/// # Panics
/// If something remains after the deadline.
pub async fn wait_removed(before: &Traces, node: &Belongings) {
    wait_for("the node is removed completely", Duration::from_secs(15), async || {
        let (left, now) = (node.left(), Traces::look());
        if left.is_empty() && now == *before { Ok(()) } else { Err(format!("{left:?}\n{now:#?}\nbefore: {before:#?}")) }
    })
    .await;
}

/// Returns the processes in another network namespace than this program, such as those of a node and its containers.
fn foreign_processes() -> BTreeSet<String> {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = network("self");
    let others = names("/proc").filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    others.filter(|pid| network(pid).is_some_and(|other| Some(other) != own)).collect()
}

fn names(folder: &str) -> impl Iterator<Item = String> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
