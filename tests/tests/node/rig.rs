//! Tests of the harness for real nodes: containers run, and a node is removed completely.

use crate::LIMIT;
use crate::pods::pod;
use crate::traces::{Belongings, Traces, wait_removed};
use giveway_tests::World;
use giveway_tests::giveway::run_kubectl;
use giveway_tests::wait::wait_for;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

pub async fn pods_run_and_exit_with_their_code(world: &mut World) {
    world.apply(&pod("ends", &["--end-after=0.5", "--code=7"])).await.unwrap();
    let code = "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}";
    wait_for("the pod has ended with its exit code", LIMIT, async || {
        let said = world.kubectl(&["get", "pod", "ends", "-o", code]).await?;
        if said == "Failed 7" { Ok(()) } else { Err(said) }
    })
    .await;
    let log = world.kubectl(&["logs", "ends"]).await.unwrap();
    assert_eq!(log, "started\nends with 7, having held 0 MiB\n");
}

pub async fn a_dropped_node_is_removed_completely() {
    let before = Traces::look();
    let mut world = World::builder().bare().real_node().start().await;
    let directory = world.plane().directory().to_owned();
    let node = run_a_pod(&directory).await;
    assert_ne!(Traces::look(), before, "the traces of a running node are not detected");
    drop(world);
    wait_removed(&before, &node).await;
}

pub async fn a_node_is_removed_completely_if_its_program_is_killed() {
    for signal in ["INT", "KILL"] {
        let before = Traces::look();
        let program = env!("CARGO_BIN_EXE_giveway-dev");
        // Background processes of a shell ignore SIGINT, and so do their children unless the signal is reset.
        let mut holder = Command::new("env");
        let holder = holder.args(["--default-signal=INT", program, "hold", "--real-node"]);
        let mut holder = holder.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let directory = line.split(' ').next().expect("the holder prints a directory first");
        let node = run_a_pod(Path::new(directory)).await;
        let status = Command::new("kill").args(["-s", signal, &holder.id().to_string()]).status().unwrap();
        assert!(status.success());
        let ends = format!("SIG{signal} ends the program");
        let ended = wait_for(&ends, LIMIT, async || {
            holder.try_wait().map_err(|error| error.to_string())?.ok_or_else(|| "the program runs".to_owned())
        });
        assert!(ended.await.signal().is_some(), "the program was not ended by SIG{signal}");
        wait_removed(&before, &node).await;
    }
}

/// Runs a pod on the node whose control plane has this directory, and leaves it running.
async fn run_a_pod(directory: &Path) -> Belongings {
    let manifest = directory.join("pod.yaml");
    std::fs::write(&manifest, pod("runs", &["--ignore-term"])).unwrap();
    let kubeconfig = directory.join("kubeconfig");
    run_kubectl(&kubeconfig, &["apply", "-f", &manifest.display().to_string()]).await.unwrap();
    run_kubectl(&kubeconfig, &["wait", "pod/runs", "--for=condition=Ready", "--timeout=60s"]).await.unwrap();
    let node = Belongings::of(directory);
    assert!(node.containers() > 0, "no cgroup of a container was found");
    node
}
