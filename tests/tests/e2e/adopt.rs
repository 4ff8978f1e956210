//! `kubectl giveway adopt` and `release` either replace a PriorityClass completely, or the next run completes the change.

use crate::MINUTE;
use crate::cli::{Printed, giveway, run};
use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD, LABEL_CLASS_CHANGE};
use giveway_tests::audit::log;
use giveway_tests::cluster::Shaped;
use giveway_tests::giveway::NAMESPACE;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use std::collections::BTreeMap;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_release_with_closed_output_is_completed_and_exits_with_1,
            giveway_preempts_for_an_adopted_class_and_release_restores_the_class;
        own:
            the_uninstall_hook_may_release_every_class;
        release_shared:
            the_next_run_completes_an_interrupted_run_without_loss,
            a_run_killed_at_any_time_loses_no_class;
        release:
            without_the_webhook_no_class_is_deleted_and_a_deleted_class_is_recreated_afterwards;
    ]
}

fn classes(world: &World) -> Api<PriorityClass> {
    Api::all(world.client())
}

fn records(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.client(), NAMESPACE)
}

/// Returns the names of the ConfigMaps that record an uncompleted change of a class.
async fn remaining_records(world: &World) -> Vec<String> {
    let list = records(world).list(&ListParams::default().labels(LABEL_CLASS_CHANGE)).await.unwrap();
    list.items.into_iter().filter_map(|map| map.metadata.name).collect()
}

/// Writes the record that a run of `adopt` or `release` writes before it deletes the class.
async fn write_record(world: &World, change: &str, class: &PriorityClass) {
    let name = class.metadata.name.clone().unwrap();
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("giveway-class-{name}")),
            labels: Some(BTreeMap::from([(LABEL_CLASS_CHANGE.to_owned(), change.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("class".to_owned(), serde_json::to_string(class).unwrap())])),
        ..ConfigMap::default()
    };
    records(world).create(&PostParams::default(), &map).await.unwrap();
}

/// Leaves the state of a run that was killed after it deleted the class and before it recreated it.
async fn interrupt(world: &World, change: &str, class: &PriorityClass) {
    write_record(world, change, class).await;
    let name = class.metadata.name.clone().unwrap();
    classes(world).delete(&name, &DeleteParams::default()).await.unwrap();
}

fn annotation<'a>(class: &'a PriorityClass, key: &str) -> Option<&'a str> {
    class.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

async fn a_release_with_closed_output_is_completed_and_exits_with_1(world: &mut World) {
    for name in ["a", "b", "c"] {
        world.class(name, 1000).managed().create().await;
    }
    let mut command = std::process::Command::new(paths::giveway_program("kubectl-giveway").unwrap());
    command.args(["release", "--all"]).env("KUBECONFIG", world.plane().kubeconfig()).env("HOME", "/nonexistent");
    let mut release =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Closes both pipes, as `| head -0` does.
    drop((release.stdout.take(), release.stderr.take()));
    let status = tokio::task::spawn_blocking(move || release.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(1));
    for name in ["a", "b", "c"] {
        let class = classes(world).get(name).await.unwrap();
        assert!(!is_managed(&class), "{class:?}");
    }
    assert_eq!(remaining_records(world).await, Vec::<String>::new());
    // `check` only reads, so it succeeds without its output.
    let mut command = std::process::Command::new(paths::giveway_program("kubectl-giveway").unwrap());
    command.args(["check"]).env("KUBECONFIG", world.plane().kubeconfig()).env("HOME", "/nonexistent");
    let mut check = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(check.stdout.take());
    let status = tokio::task::spawn_blocking(move || check.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    world.check_promises().await;
}

fn is_managed(class: &PriorityClass) -> bool {
    annotation(class, ANNOTATION_MANAGED) == Some("true") && class.preemption_policy.as_deref() == Some("Never")
}

fn expect_failure(printed: &Printed, status: i32, text: &str) {
    assert_eq!(printed.status, Some(status), "{}{}", printed.out, printed.err);
    assert!(printed.err.contains(text), "{text} is not in:\n{}", printed.err);
}

async fn giveway_preempts_for_an_adopted_class_and_release_restores_the_class(world: &mut World) {
    world.class("low", 10).managed().create().await;
    let manifest = format!(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: high\n  labels: {{team: a}}\n  annotations: {{{ANNOTATION_THRESHOLD}: \"5000\"}}\nvalue: 1000\ndescription: For what is urgent.\n"
    );
    world.apply(&manifest).await.unwrap();
    let before = classes(world).get("high").await.unwrap();

    let elsewhere = ["adopt", "high", "--giveway-namespace", "elsewhere"];
    expect_failure(
        &giveway(world, &elsewhere).await,
        1,
        "error: PriorityClass high: namespaces \"elsewhere\" not found: set --giveway-namespace to the namespace in which Giveway is installed",
    );

    let preview = giveway(world, &["adopt", "high", "--dry-run"]).await;
    let shown: PriorityClass = serde_yaml_ng::from_str(preview.ok()).unwrap();
    assert!(is_managed(&shown) && shown.metadata.uid.is_none(), "{}", preview.out);
    assert_eq!(classes(world).get("high").await.unwrap(), before, "a dry run writes nothing");

    let adopted = giveway(world, &["adopt", "high"]).await;
    assert_eq!(adopted.ok(), "priorityclass.scheduling.k8s.io/high adopted\n");
    assert!(adopted.err.contains("until it exists again, new pods that name it are rejected"), "{}", adopted.err);
    let class = classes(world).get("high").await.unwrap();
    assert!(is_managed(&class), "{class:?}");
    assert_eq!(annotation(&class, ANNOTATION_PREEMPTION_POLICY), Some("PreemptLowerPriority"));
    assert_eq!(
        (class.value, &class.description, &class.metadata.labels, annotation(&class, ANNOTATION_THRESHOLD)),
        (1000, &before.description, &before.metadata.labels, Some("5000"))
    );
    assert_eq!(remaining_records(world).await, Vec::<String>::new());
    let again = giveway(world, &["adopt", "high"]).await;
    assert_eq!(again.ok(), "priorityclass.scheduling.k8s.io/high is managed already\n");
    // The original manifest can still be applied.
    world.apply(&manifest).await.unwrap();

    let nodes = world.nodes(1).cpus(2).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let probe = world.pod("probe").priority("high").build();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait_for("admission has observed the adopted class", MINUTE, async || {
        let pod: Pod = world.kit().api().create(&dry_run, &probe).await.map_err(|error| error.to_string())?;
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let policy = annotations.get(ANNOTATION_PREEMPTION_POLICY).map(String::as_str);
        if policy == Some("PreemptLowerPriority") { Ok(()) } else { Err(format!("{annotations:?}")) }
    })
    .await;
    let vip = world.pod("vip").priority("high").create().await;
    vip.wait_bound(MINUTE).await;
    let planned = vip.wait_event("Planned", MINUTE).await;
    assert!(
        planned.contains("of priority 10 or less ") && planned.contains(" evicted for pod default/vip"),
        "{planned}"
    );

    let released = giveway(world, &["release", "high"]).await;
    assert_eq!(released.ok(), "priorityclass.scheduling.k8s.io/high released\n");
    let after = classes(world).get("high").await.unwrap();
    assert_eq!(after.preemption_policy.as_deref(), Some("PreemptLowerPriority"));
    assert_eq!(after.metadata.annotations, {
        let mut annotations = before.metadata.annotations.clone().unwrap();
        // This annotation was written by the second `kubectl apply`.
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        annotations.insert(applied.to_owned(), annotation(&after, applied).unwrap().to_owned());
        Some(annotations)
    });
    let again = giveway(world, &["release", "high"]).await;
    assert_eq!(again.ok(), "priorityclass.scheduling.k8s.io/high is not managed\n");

    let system = giveway(world, &["adopt", "system-cluster-critical"]).await;
    expect_failure(&system, 2, "a class whose name starts with system- cannot be managed");
    let unknown = giveway(world, &["adopt", "nope"]).await;
    expect_failure(&unknown, 2, "error: priorityclasses.scheduling.k8s.io \"nope\" not found");
    world.check_promises().await;
}

async fn the_next_run_completes_an_interrupted_run_without_loss(world: &mut World) {
    let usual = world.class("usual", 3).global_default().create().await;
    interrupt(world, "adopt", &usual).await;
    let check = giveway(world, &["check"]).await;
    assert_eq!(check.status, Some(1), "{}", check.out);
    assert!(check.out.contains("`kubectl giveway adopt usual` was interrupted"), "{}", check.out);
    let finished = giveway(world, &["adopt", "usual"]).await;
    assert_eq!(finished.ok(), "priorityclass.scheduling.k8s.io/usual adopted\n");
    assert!(finished.err.contains("an earlier `adopt` of PriorityClass usual was interrupted"), "{}", finished.err);
    let class = classes(world).get("usual").await.unwrap();
    assert!(is_managed(&class) && class.global_default == Some(true), "{class:?}");
    assert_eq!(remaining_records(world).await, Vec::<String>::new());

    // `adopt` and `release` keep `globalDefault`.
    for (command, managed) in [("release", false), ("adopt", true)] {
        giveway(world, &[command, "usual"]).await.ok();
        let class = classes(world).get("usual").await.unwrap();
        assert_eq!((is_managed(&class), class.global_default), (managed, Some(true)), "{command}");
    }

    // `release` completes an interrupted `adopt`.
    let batch = world.class("batch", 7).create().await;
    interrupt(world, "adopt", &batch).await;
    giveway(world, &["release", "batch"]).await.ok();
    let back = classes(world).get("batch").await.unwrap();
    assert_eq!((back.value, back.preemption_policy.as_deref()), (7, Some("PreemptLowerPriority")));
    assert_eq!(back.metadata.annotations, None);

    // If another class of this name was created meanwhile, that class is adopted and the difference is reported.
    interrupt(world, "adopt", &back).await;
    world.class("batch", 8).create().await;
    let replaced = giveway(world, &["adopt", "batch"]).await;
    replaced.ok();
    assert!(replaced.err.contains("value 8 instead of 7"), "{}", replaced.err);
    let class = classes(world).get("batch").await.unwrap();
    assert!(is_managed(&class) && class.value == 8, "{class:?}");

    // A change that a user makes between the record and the deletion of the class is not lost.
    giveway(world, &["release", "batch"]).await.ok();
    let class = classes(world).get("batch").await.unwrap();
    write_record(world, "adopt", &class).await;
    world.kubectl(&["annotate", "priorityclass", "batch", "note=kept"]).await.unwrap();
    giveway(world, &["adopt", "batch"]).await.ok();
    let class = classes(world).get("batch").await.unwrap();
    assert_eq!((is_managed(&class), annotation(&class, "note")), (true, Some("kept")));

    // Another class became the global default while this class was deleted.
    let usual = classes(world).get("usual").await.unwrap();
    interrupt(world, "release", &usual).await;
    let other = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: other}\nvalue: 4\nglobalDefault: true\n";
    // For a moment the API server still has the deleted class in its cache.
    wait_for("another class with globalDefault is accepted", MINUTE, async || world.apply(other).await).await;
    let demoted = giveway(world, &["release", "usual"]).await;
    expect_failure(
        &demoted,
        1,
        "it was released, but it is not the global default any more: PriorityClass other became that",
    );
    let class = classes(world).get("usual").await.unwrap();
    assert_eq!((is_managed(&class), class.global_default.unwrap_or(false)), (false, false));

    // Two concurrent runs.
    world.class("race", 9).create().await;
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    let config = world.plane().kubeconfig();
    let args = ["adopt", "race"];
    let (one, two) = tokio::join!(run(&program, &args, &config, None), run(&program, &args, &config, None));
    one.ok();
    two.ok();
    assert!(is_managed(&classes(world).get("race").await.unwrap()));
    assert_eq!(remaining_records(world).await, Vec::<String>::new());
    world.check_promises().await;
}

/// Kills 40 runs after different times. After each of them the class or its record exists, and the next run completes the change.
async fn a_run_killed_at_any_time_loses_no_class(world: &mut World) {
    let metadata = |class: &PriorityClass| (class.metadata.labels.clone(), class.value, class.description.clone());
    let manifest = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: killed, labels: {team: a}}\nvalue: 6\ndescription: d\n";
    world.apply(manifest).await.unwrap();
    let before = metadata(&classes(world).get("killed").await.unwrap());
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    let config = world.plane().kubeconfig();
    let started = std::time::Instant::now();
    for command in ["adopt", "release"] {
        giveway(world, &[command, "killed"]).await.ok();
    }
    let whole_run = started.elapsed() / 2;
    let mut unfinished = 0;
    for round in 0..40_u32 {
        let command = if round % 2 == 0 { "adopt" } else { "release" };
        let mut killed = tokio::process::Command::new(&program)
            .args([command, "killed"])
            .env("KUBECONFIG", &config)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Not a wait: this is the time after which the process is killed.
        let moment = whole_run * round / 40;
        let _ = tokio::time::timeout(moment, killed.wait()).await;
        killed.kill().await.unwrap();
        let recorded = !remaining_records(world).await.is_empty();
        let exists = classes(world).get_opt("killed").await.unwrap().is_some();
        assert!(recorded || exists, "round {round}: the class is lost");
        unfinished += u32::from(recorded);
        giveway(world, &[command, "killed"]).await.ok();
        let class = classes(world).get("killed").await.unwrap();
        assert_eq!((is_managed(&class), metadata(&class)), (command == "adopt", before.clone()), "round {round}");
        assert_eq!(remaining_records(world).await, Vec::<String>::new(), "round {round}");
    }
    assert!(unfinished > 0, "none of 40 runs was killed between writing the record and removing it");
    world.check_promises().await;
}

async fn without_the_webhook_no_class_is_deleted_and_a_deleted_class_is_recreated_afterwards() {
    let mut world = World::start().await;
    let before = world.class("high", 1000).create().await;
    world.webhook().kill();
    let said = giveway(&mut world, &["adopt", "high"]).await;
    expect_failure(&said, 1, "error: PriorityClass high: ");
    assert!(said.err.contains("failed calling webhook") && !said.err.contains("NOT exist"), "{}", said.err);
    assert_eq!(classes(&world).get("high").await.unwrap().metadata.uid, before.metadata.uid);
    assert_eq!(remaining_records(&world).await, Vec::<String>::new());

    interrupt(&world, "adopt", &before).await;
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    let (config, log) = (world.plane().kubeconfig(), world.plane().audit_log());
    let adopting = run(&program, &["adopt", "high"], &config, None);
    let webhook = async {
        let mut reader = log::Reader::new(&log);
        wait_for("creating the class has failed more than once", MINUTE, async || {
            reader.read_on().map_err(|error| error.to_string())?;
            let tried = reader.lines().iter().filter(|line| {
                line.verb == "create"
                    && line.object_ref.resource == "priorityclasses"
                    && line.response_status.code == 500
                    && !line.uri.contains("dryRun")
            });
            let count = tried.count();
            if count > 1 { Ok(()) } else { Err(format!("{count} attempts")) }
        })
        .await;
        world.webhook().start().await;
    };
    let (adopted, ()) = tokio::join!(adopting, webhook);
    assert_eq!(adopted.ok(), "priorityclass.scheduling.k8s.io/high adopted\n");
    assert!(is_managed(&classes(&world).get("high").await.unwrap()));
    assert_eq!(remaining_records(&world).await, Vec::<String>::new());
    world.check_promises().await;
}

async fn the_uninstall_hook_may_release_every_class() {
    // Every new class becomes managed here, so `release` must exempt the class explicitly.
    let all = World::builder().webhook_flag("--manage-new-classes").helm_value("managedPriorityClasses=all");
    let mut world = all.start().await;
    for (name, value) in [("one", 1), ("two", 2)] {
        assert!(is_managed(&world.class(name, value).create().await), "{name}");
    }
    let three = world.class("three", 3).create().await;
    interrupt(&world, "release", &three).await;

    let account = hook_account(&mut world).await;
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    let released = run(&program, &["release", "--all", "--giveway-namespace", NAMESPACE], &account, None).await;
    assert_eq!(released.ok().lines().count(), 3, "{}", released.out);
    for name in ["one", "two", "three"] {
        let class = classes(&world).get(name).await.unwrap();
        assert_eq!(class.preemption_policy.as_deref(), Some("PreemptLowerPriority"), "{name}");
        assert_eq!(annotation(&class, ANNOTATION_MANAGED), Some("false"), "{name}");
        assert_eq!(annotation(&class, ANNOTATION_PREEMPTION_POLICY), None, "{name}");
    }
    assert_eq!(remaining_records(&world).await, Vec::<String>::new());
    let nothing = run(&program, &["release", "--all"], &account, None).await;
    assert_eq!(nothing.ok(), "No PriorityClass is managed.\n");
    world.check_promises().await;
}

/// Returns a kubeconfig of the ServiceAccount of the chart's uninstall hook. The Job of the hook is not created.
async fn hook_account(world: &mut World) -> std::path::PathBuf {
    let helm = paths::control_plane_program("helm").unwrap();
    let chart = paths::repository().join("helm").display().to_string();
    let args = ["template", "giveway", &chart, "-n", NAMESPACE, "--show-only", "templates/uninstall.yaml"];
    let rendered = tokio::process::Command::new(helm).args(args).output().await.unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let manifests = String::from_utf8(rendered.stdout).unwrap();
    // The file also has another hook, which runs last.
    let (jobs, rights): (Vec<&str>, Vec<&str>) = manifests
        .split("\n---\n")
        .filter(|document| document.contains("\n  name: giveway-uninstall\n"))
        .partition(|document| document.contains("\nkind: Job\n"));
    assert_eq!((jobs.len(), rights.len()), (1, 5), "{manifests}");
    world.apply(&rights.join("\n---\n")).await.unwrap();
    world.account(NAMESPACE, "giveway-uninstall").await
}
