//! Tests of the harness: control planes work, the audit log is read correctly, and nothing is left behind.

use futures::{StreamExt as _, stream};
use giveway_tests::audit::{ADMIN, How, SCHEDULER};
use giveway_tests::control_plane::{ControlPlane, Options, State};
use giveway_tests::giveway::{Giveway, Settings, run_kubectl};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::{Shaped as _, World};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_audit_log_records_bindings_and_deletions,
            the_oracle_recognizes_preemptions_by_kube_scheduler,
            a_budget_counts_pods_without_a_controller,
            two_control_planes_run_side_by_side_and_are_removed_completely,
            a_reused_control_plane_has_no_objects_of_the_previous_test,
            a_control_plane_ends_when_its_starter_is_killed;
        release:
            two_hundred_worlds_start_four_at_a_time;
    ]
}

/// Columns that identify objects: name and label `team`.
const COLUMNS: &str = "custom-columns=NAME:.metadata.name,LABELS:.metadata.labels.team";
const LIMIT: Duration = Duration::from_secs(30);

async fn the_audit_log_records_bindings_and_deletions() {
    let world = World::bare().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    world.class("low", 10).create().await;

    let placed = world.pod("placed").cpu(1).priority("low").create().await;
    assert!(nodes.contains(&placed.wait_bound(LIMIT).await));
    placed.wait_running(LIMIT).await;
    let quick = world.pod("quick").cpu(1).on(&nodes[0]).create().await;
    let slow = world.pod("slow").cpu(1).on(&nodes[1]).grace_seconds(3).create().await;

    placed.delete().await;
    placed.wait_removed(LIMIT).await;
    quick.delete().await;
    quick.wait_removed(Duration::from_secs(10)).await;
    let deleted = Instant::now();
    slow.delete().await;
    slow.wait_removed(LIMIT).await;
    let took = deleted.elapsed();
    assert!(took > Duration::from_millis(1500), "a pod with a grace period of 3 s was removed after {took:?}");
    assert!(took < Duration::from_secs(10), "a pod with a grace period of 3 s was removed only after {took:?}");

    let audit = world.audit().await;
    let removed = audit.removed_by(ADMIN);
    let removals: Vec<(&str, &str, How)> =
        removed.iter().map(|removal| (removal.pod.1.as_str(), removal.uid.as_str(), removal.how)).collect();
    assert_eq!(
        removals,
        [
            ("placed", placed.uid.as_str(), How::Delete),
            ("quick", quick.uid.as_str(), How::Delete),
            ("slow", slow.uid.as_str(), How::Delete)
        ]
    );
    assert_eq!(audit.bindings.len(), 1, "kube-scheduler bound one pod: {:?}", audit.bindings);
    assert_eq!((audit.bindings[0].user.as_str(), audit.bindings[0].uid.as_str()), (SCHEDULER, placed.uid.as_str()));
    assert_eq!(audit.effective_priority(&placed.uid), Some(10));
    world.check_promises().await;
}

async fn the_oracle_recognizes_preemptions_by_kube_scheduler() {
    let world = World::bare().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    world.class("low", 10).create().await;
    world.class("high", 100).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    assert_eq!(low.len(), 2);

    let high = world.pod("high").priority("high").create().await;
    assert_eq!(high.wait_bound(LIMIT).await, nodes[0]);

    let audit = world.audit().await;
    let victims = audit.removed_by(SCHEDULER);
    assert_eq!(victims.len(), 1, "{victims:?}");
    assert!(low.iter().any(|pod| pod.uid == victims[0].uid), "{victims:?}");
    assert!(audit.evicted().is_empty(), "Giveway is not installed");
}

async fn a_budget_counts_pods_without_a_controller() {
    let world = World::bare().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).label("app", "web").singles().await;
    world.budget("web").matching("app", "web").min_available(3).create_allowing(1).await;
}

async fn two_control_planes_run_side_by_side_and_are_removed_completely() {
    let bare = || World::builder().bare().fresh().start();
    let (mut one, mut two) = tokio::join!(bare(), bare());
    let directories = [one.plane().directory().to_owned(), two.plane().directory().to_owned()];
    let pids: Vec<u32> = one.plane().processes().chain(two.plane().processes()).map(|process| process.pid()).collect();
    assert_eq!(pids.len(), 10);
    one.nodes(1).create().await;
    two.nodes(2).create().await;
    let count = async |world: &World| world.kubectl(&["get", "nodes", "-o", "name"]).await.unwrap().lines().count();
    assert_eq!((count(&one).await, count(&two).await), (1, 2));
    one.plane().check_alive().unwrap();
    two.plane().check_alive().unwrap();

    drop(one);
    drop(two);
    for pid in pids {
        assert!(!alive(pid), "process {pid} still runs");
    }
    for directory in directories {
        assert!(!directory.exists(), "{} still exists", directory.display());
    }
}

async fn a_reused_control_plane_has_no_objects_of_the_previous_test() {
    let mut plane = ControlPlane::start(Options::default(), State::Bare).await.unwrap();
    let all = "namespaces,nodes,priorityclasses,customresourcedefinitions,clusterroles,clusterrolebindings,\
               validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,\
               validatingadmissionpolicybindings,apiservices,resourcequotas,pods,configmaps,serviceaccounts";
    let everything = async |plane: &ControlPlane| {
        let rows = run_kubectl(&plane.kubeconfig(), &["get", all, "-A", "--no-headers", "-o", COLUMNS]).await.unwrap();
        let words = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
        rows.lines().map(words).collect::<BTreeSet<String>>()
    };
    // A new kube-controller-manager creates its ServiceAccounts one after the other.
    let mut seen = (BTreeSet::new(), Instant::now());
    let before = wait_for("no object was added for 2 s", LIMIT, async || {
        let now = everything(&plane).await;
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        if seen.1.elapsed() > Duration::from_secs(2) {
            Ok(seen.0.clone())
        } else {
            Err("an object was added".to_owned())
        }
    })
    .await;
    let directory = plane.directory().to_owned();

    let giveway = Giveway::install(&mut plane, &Settings::default()).await.unwrap();
    let installed = everything(&plane).await;
    for args in [
        "create namespace other",
        "create quota pods --hard=pods=0",
        "create priorityclass high --value=1000",
        "label namespace default team=a",
        "delete clusterrole edit",
    ] {
        run_kubectl(&plane.kubeconfig(), &args.split(' ').collect::<Vec<_>>()).await.unwrap();
    }
    let changed = everything(&plane).await;
    assert!(["other <none>", "default a"].iter().all(|row| changed.contains(*row)), "{changed:?}");
    drop(giveway);

    let mut plane = plane.renewed(State::Bare).await.unwrap();
    assert_eq!(plane.directory(), directory, "the same etcd and API server");
    let as_in = async |plane: &ControlPlane, wanted: &BTreeSet<String>| {
        wait_for("all objects are as before", LIMIT, async || {
            let now = everything(plane).await;
            if now == *wanted { Ok(()) } else { Err(format!("{:?}", now.symmetric_difference(wanted))) }
        })
        .await;
    };
    as_in(&plane, &before).await;
    let audit = std::fs::read_to_string(plane.audit_log()).unwrap();
    assert!(!audit.contains("giveway-operator"), "the audit log has entries of the previous test: {audit}");
    Giveway::install(&mut plane, &Settings::default()).await.expect("Giveway can be installed again");
    let mut plane = plane.renewed(State::Giveway).await.unwrap();
    as_in(&plane, &installed).await;
    Giveway::install(&mut plane, &Settings::default())
        .await
        .expect("its daemons start without the chart being applied");
}

async fn a_control_plane_ends_when_its_starter_is_killed() {
    let program = env!("CARGO_BIN_EXE_giveway-dev");
    let mut holder = Command::new(program).arg("hold").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let (directory, pids) = line.trim().split_once(' ').expect("the holder prints a directory and process ids");
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() == 5 && pids.iter().all(|pid| alive(*pid)), "{line}");

    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_for("all processes and the directory are removed", LIMIT, async || {
        let left: Vec<&u32> = pids.iter().filter(|pid| alive(**pid)).collect();
        if left.is_empty() && !Path::new(directory).exists() { Ok(()) } else { Err(format!("{left:?} {directory}")) }
    })
    .await;
}

/// Worlds do not share ports, directories or names: four worlds start at a time, every tenth on a new control plane and the
/// others on reused ones.
async fn two_hundred_worlds_start_four_at_a_time() {
    let starts = (0..200).map(async |index| {
        let builder = if index % 10 == 0 { World::builder().fresh() } else { World::builder() };
        let world = builder.try_start().await.map_err(|error| format!("world {index}: {error:#}"))?;
        world.check_promises().await;
        Ok::<(), String>(())
    });
    let ended: Vec<Result<(), String>> = stream::iter(starts).buffer_unordered(4).collect().await;
    let failed: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
    assert_eq!(failed, Vec::<String>::new());
}

/// Returns true if a process runs. A zombie process does not count.
fn alive(pid: u32) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}
