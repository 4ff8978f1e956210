//! `kubectl giveway`: its predictions match the later evictions, and it writes nothing to the cluster.

use crate::MINUTE;
use crate::roles::{ACCOUNTS, Account};
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::Shaped;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            plan_predicts_the_evicted_pods_and_writes_nothing,
            why_explains_what_a_gang_waits_for_and_which_preemptor_a_victim_had,
            top_shows_capacity_and_queue_as_far_as_the_user_may_see_them,
            kubectl_runs_the_plugin_with_its_own_flags;
    ]
}

/// A ServiceAccount with read rights only. Other calls are denied and appear in the audit log.
const READER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- apiGroups: ['', policy, node.k8s.io, scheduling.k8s.io, storage.k8s.io, resource.k8s.io, scheduling.giveway.dev]
  resources: [nodes, pods, namespaces, events, poddisruptionbudgets, priorityclasses, podgroups, preemptions, workloads,
    persistentvolumes, persistentvolumeclaims, storageclasses, csidrivers, csinodes, deviceclasses,
    resourceslices, resourceclaims, runtimeclasses]
  verbs: [get, list]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies]
  resourceNames: [giveway-namespaces]
  verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
";

/// Manifest of a gang: a PodGroup and a Job.
const TRAINING: &str = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 6}}, disruptionMode: PodGroup, priorityClassName: high}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 6
  completions: 6
  template:
    metadata: {labels: {scheduling.giveway.dev/pod-group: train}}
    spec:
      restartPolicy: Never
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]
";

/// Output and exit status of a program.
pub(crate) struct Printed {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) status: Option<i32>,
}

impl Printed {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }

    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.status, Some(0), "{}\n{}", self.out, self.err);
        &self.out
    }
}

/// Runs a program with this kubeconfig and, if given, this `PATH`.
pub(crate) async fn run(program: &Path, args: &[&str], kubeconfig: &Path, path: Option<OsString>) -> Printed {
    let mut command = Command::new(program);
    command.args(args).env("KUBECONFIG", kubeconfig).env_remove("COLUMNS").env("HOME", "/nonexistent");
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Printed { out: text(&output.stdout), err: text(&output.stderr), status: output.status.code() }
}

/// Runs `kubectl giveway` as a user that may only read.
pub(crate) struct Reader {
    kubeconfig: PathBuf,
    program: PathBuf,
}

impl Reader {
    pub(crate) async fn new(world: &mut World) -> Self {
        world.apply(READER).await.unwrap();
        let kubeconfig = world.account("default", "reader").await;
        Self { kubeconfig, program: paths::giveway_program("kubectl-giveway").unwrap() }
    }

    pub(crate) async fn giveway(&self, args: &[&str]) -> Printed {
        run(&self.program, args, &self.kubeconfig, None).await
    }
}

/// Runs `kubectl giveway` as the administrator.
pub(crate) async fn giveway(world: &mut World, args: &[&str]) -> Printed {
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    run(&program, args, &world.plane().kubeconfig(), None).await
}

/// Returns the reader's write requests in the audit log, denied ones included.
async fn writes(world: &mut World) -> Vec<String> {
    let lines = world.audit_lines().await;
    let mine = lines.into_iter().filter(|line| line.user.username == "system:serviceaccount:default:reader");
    mine.filter(|line| !["get", "list", "watch"].contains(&line.verb.as_str()))
        .map(|line| format!("{} {}", line.verb, line.uri))
        .collect()
}

fn file(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn names(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Returns a plan without what its victims lose, which grows with every second that they run.
pub(crate) fn without_running_times(mut plan: Value) -> Value {
    for key in ["lostCoreSeconds", "lostGpuSeconds"] {
        plan["cost"].as_object_mut().unwrap().remove(key).unwrap();
    }
    plan
}

async fn full_cluster(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("mid", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(4).cpus(4).create().await;
    world.fill(&nodes[..2]).priority("low").prefix("low").whole().groups_of(4).await;
    world.fill(&nodes[2..]).priority("mid").prefix("mid").singles().await;
}

async fn plan_predicts_the_evicted_pods_and_writes_nothing(world: &mut World) {
    full_cluster(world).await;
    let reader = Reader::new(world).await;
    let directory = tempfile::tempdir().unwrap();
    let manifest = file(directory.path(), "train.yaml", TRAINING);

    let plan = reader.giveway(&["plan", "-f", &manifest, "-o", "json"]).await;
    plan.ok();
    let plan = plan.json();
    assert_eq!((&plan["schedulable"], &plan["preemptionNeeded"]), (&true.into(), &true.into()), "{plan:#}");
    assert_eq!(plan["placements"].as_array().unwrap().len(), 6, "{plan:#}");
    let table = reader.giveway(&["plan", "-f", &manifest]).await;
    assert!(
        table.ok().contains("podgroup/default/train (priority 1000): It fits once its victims have terminated"),
        "{}",
        table.out
    );
    assert_eq!(world.kubectl(&["get", "jobs,gpg", "train", "--ignore-not-found"]).await.unwrap(), "");
    assert_eq!(writes(world).await, Vec::<String>::new());

    // A snapshot of the cluster, which is some seconds younger, gives the same plan. An anonymized snapshot contains
    // no names of the cluster.
    let snapshot = directory.path().join("cluster.json").display().to_string();
    reader.giveway(&["snapshot", "-o", &snapshot]).await.ok();
    let again = reader.giveway(&["plan", "-f", &manifest, "-o", "json", "--snapshot", &snapshot]).await;
    assert_eq!(without_running_times(again.json()), without_running_times(plan.clone()));
    let hidden = reader.giveway(&["snapshot", "-o", "-", "--anonymize"]).await;
    let hidden = hidden.ok();
    assert!(!hidden.contains("low-") && !hidden.contains("\"default\""), "{hidden}");

    world.apply(TRAINING).await.unwrap();
    let gang = world.gang("train", 6).without_group();
    gang.wait_plan(PlanState::Completed, MINUTE).await;
    let evicted: BTreeSet<String> =
        world.audit().await.evicted_names().into_iter().map(|name| format!("default/{name}")).collect();
    assert_eq!(evicted, names(&plan["victimPods"]));
    assert_eq!(writes(world).await, Vec::<String>::new());
    world.check_promises().await;
}

async fn why_explains_what_a_gang_waits_for_and_which_preemptor_a_victim_had(world: &mut World) {
    full_cluster(world).await;
    let reader = Reader::new(world).await;
    // The gang does not fit even with preemption: evicting all pods below priority 20 frees 8 CPUs of 12.
    let waiting = world.gang("patient", 12).priority("mid").create().await;
    crate::expect_condition(&waiting, crate::INITIALLY_SCHEDULED, "False Unschedulable", "12 pods needed, 0 fit now.")
        .await;
    waiting.wait_event("Unschedulable", MINUTE).await;
    let page = reader.giveway(&["why", "podgroup/patient"]).await;
    for part in [
        "podgroup/default/patient",
        "State: Unschedulable",
        "12 pods needed, 0 fit now.",
        "Priority: 20 (class mid), PreemptLowerPriority",
        "What would change it",
        "- With a priority above 20, as class high has (1000), it would preempt 12 pods",
        "more nodes like node-000, it would fit without an eviction.",
        "Events",
    ] {
        assert!(page.ok().contains(part), "{part} is not in:\n{}", page.out);
    }
    let list = reader.giveway(&["why", "-A"]).await;
    assert!(list.ok().contains("podgroup/patient"), "{}", list.out);

    let gang = world.gang("train", 4).priority("high").create().await;
    gang.wait_plan(PlanState::Completed, MINUTE).await;
    let victim = world.audit().await.evicted_names().remove(0);
    let victim_group = victim.rsplit_once('-').unwrap().0.to_owned();
    let page = reader.giveway(&["why", &format!("podgroup/{victim_group}")]).await;
    for part in ["Preempted by", "podgroup/default/train (priority 1000), by Preemption ", "4 pods ("] {
        assert!(page.ok().contains(part), "{part} is not in:\n{}", page.out);
    }
    let page = reader.giveway(&["why", &format!("pod/{victim}")]).await;
    for part in ["State: Gone.", "podgroup/default/train (priority 1000)", &format!(": pod {victim}.")] {
        assert!(page.ok().contains(part), "{part} is not in:\n{}", page.out);
    }
    let page = reader.giveway(&["why", "podgroup/train"]).await;
    for part in ["State: Scheduled", "Last decision", "Completed: plan ", &format!("podgroup/default/{victim_group}")] {
        assert!(page.ok().contains(part), "{part} is not in:\n{}", page.out);
    }
    let history = reader.giveway(&["history", &format!("pod/{victim}"), "-o", "json"]).await.json();
    let [row] = history["items"].as_array().unwrap().as_slice() else { panic!("{history}") };
    assert_eq!((&row["state"], &row["role"], &row["pods"]), (&"Completed".into(), &"victim".into(), &1.into()));
    assert_eq!(
        (&row["preemptor"]["name"], &row["victims"][0]["name"]),
        (&"train".into(), &victim_group.clone().into())
    );
    let history = reader.giveway(&["history", "podgroup/train"]).await;
    let row = ["podgroup/default/train", "1000", "4", &format!("podgroup/default/{victim_group}"), "Completed"];
    let columns =
        history.ok().lines().nth(1).unwrap_or_default().split_whitespace().skip(1).take(5).collect::<Vec<_>>();
    assert_eq!(columns, row, "{}", history.out);
    let unknown = reader.giveway(&["why", "podgroup/unknown"]).await;
    assert_eq!(unknown.status, Some(2));
    assert_eq!(
        unknown.err.trim(),
        "error: podgroup/default/unknown does not exist, and no event or plan that is kept mentions it"
    );
    assert_eq!(writes(world).await, Vec::<String>::new());
    world.check_promises().await;
}

/// A PodGroup of a tenant, without pods.
const OURS: &str = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata: {name: ours, namespace: team}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
";

async fn top_shows_capacity_and_queue_as_far_as_the_user_may_see_them(world: &mut World) {
    full_cluster(world).await;
    world.apply(ACCOUNTS).await.unwrap();
    let gang = world.gang("patient", 12).priority("mid").create().await;
    crate::expect_condition(&gang, crate::INITIALLY_SCHEDULED, "False Unschedulable", "12 pods needed, 0 fit now.")
        .await;
    let shown = giveway(world, &["top", "--once"]).await;
    let line = |part: &str| {
        let line = shown.ok().lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("{part} is not in:\n{}", shown.out))
    };
    let columns = |part: &str| line(part).split_whitespace().collect::<Vec<_>>();
    assert!(line("Cluster https://").contains(", read at 20"), "{}", shown.out);
    assert!(line("RESOURCE").ends_with("COULD BE FREED FOR PRIORITY 20"), "{}", shown.out);
    // Pods below priority 20 request 8 of the 16 CPUs.
    assert_eq!(columns("cpu "), ["cpu", "16", "16", "0", "8"], "{}", shown.out);
    let queued = ["1", "default", "podgroup/patient", "20", "0/12", "Unschedulable"];
    assert_eq!(columns("podgroup/patient")[..6], queued, "{}", shown.out);
    assert!(line("podgroup/patient").contains("12 pods needed, 0 fit now. Missing 12 cpu."), "{}", shown.out);
    assert!(!shown.out.contains("note:"), "nothing is hidden from an administrator: {}", shown.out);

    world.apply(OURS).await.unwrap();
    let tenant = Account::new(world, "tenant").await;
    let shown = wait_for("the tenant sees the state of the group", MINUTE, async || {
        let shown = tenant.giveway(&["top", "-n", "team"]).await;
        let reported = |line: &str| line.contains("podgroup/ours") && line.contains("WaitingForPods");
        if shown.out.lines().any(reported) { Ok(shown.out) } else { Err(format!("{}\n{}", shown.out, shown.err)) }
    })
    .await;
    for part in [
        "so only those of namespace team are known.",
        "The chart's ClusterRole giveway-planner allows it.",
        "No node is known.",
    ] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    assert!(!shown.contains("podgroup/patient"), "{shown}");
    world.check_promises().await;
}

async fn kubectl_runs_the_plugin_with_its_own_flags(world: &mut World) {
    full_cluster(world).await;
    let reader = Reader::new(world).await;
    let kubectl = paths::control_plane_program("kubectl").unwrap();
    let path = reader.program.parent().unwrap().as_os_str().to_owned();
    let directory = tempfile::tempdir().unwrap();
    let manifest = file(directory.path(), "train.yaml", TRAINING);
    let config = reader.kubeconfig.display().to_string();
    // The kubeconfig in the flag is used; the one in the environment does not exist.
    let args = ["giveway", "plan", "--kubeconfig", &config, "--context", "giveway", "--request-timeout", "30s"];
    let args = [&args[..], &["-n", "default", "-f", &manifest]].concat();
    let nowhere = Path::new("/nonexistent/kubeconfig");
    let plan = run(&kubectl, &args, nowhere, Some(path.clone())).await;
    assert!(plan.ok().contains("podgroup/default/train (priority 1000)"), "{}", plan.out);
    let none = run(&kubectl, &["giveway", "why", "-A"], nowhere, Some(path.clone())).await;
    assert_eq!(none.status, Some(1), "{}", none.err);
    assert!(none.err.starts_with("error: kubeconfig: "), "{}", none.err);
    let context = ["giveway", "why", "-A", "--kubeconfig", &config, "--context", "nope"];
    let wrong = run(&kubectl, &context, nowhere, Some(path)).await;
    assert_eq!(wrong.status, Some(1), "{}", wrong.err);
    assert!(wrong.err.contains("nope"), "{}", wrong.err);
    world.check_promises().await;
}
