//! The path of a new user: the packaged chart in an empty cluster, the steps of the quick start, an upgrade and an uninstall.

use crate::registry::{IMAGES, Registry};
use crate::{VERSION, run, shipped};
use giveway_tests::World;
use giveway_tests::giveway::{NAMESPACE, install_chart, run_hook, run_kubectl};
use giveway_tests::paths;
use giveway_tests::search::{is_documented_to_stay, objects_of_giveway};
use giveway_tests::wait::wait_for;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

const LIMIT: Duration = Duration::from_secs(120);

/// Starts helm, which waits for the Jobs of hooks; the test runs their programs meanwhile.
fn helm(world: &mut World, args: &[&str]) -> Child {
    let mut command = Command::new(paths::control_plane_program("helm").unwrap());
    let plane = world.plane();
    command.args(args).args(["--namespace", NAMESPACE, "--timeout", "120s"]);
    command.env("KUBECONFIG", plane.kubeconfig()).env("HOME", plane.directory());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

/// Waits for helm and expects it to succeed.
async fn succeeds(helm: Child) {
    let output = helm.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Pulls and unpacks every image. Returns the directory and a function that finds a program in it.
async fn unpacked() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf + Clone) {
    let registry = Registry::start().await;
    registry.push_release();
    let directory = tempfile::tempdir().unwrap();
    for (image, _) in IMAGES {
        registry.unpack(image, &directory.path().join(image));
    }
    let root = directory.path().to_path_buf();
    let find = move |program: &str| {
        let (image, program) = IMAGES.into_iter().find(|(_, its)| *its == program).expect("a program of an image");
        root.join(image).join("usr/bin").join(program)
    };
    (directory, find)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_packaged_chart_can_be_installed_upgraded_and_uninstalled_completely() {
    let (_roots, find) = unpacked().await;
    let mut world = World::builder().bare().without_oracle().start().await;
    // One node more than in the quick start, because Giveway's own pods need capacity too. Some of the gang fit without
    // evictions.
    world.nodes(21).cpus(8).create().await;
    assert_eq!(objects_of_giveway(&world).await, Vec::<String>::new(), "an empty cluster");
    let chart = shipped(&format!("giveway-{VERSION}.tgz"));
    let mut giveway = install_chart(world.plane(), &chart, &["--wait", "--timeout", "120s"], &find).await.unwrap();

    // The steps of the quick start.
    world.kubectl(&["apply", "-f", "examples/1-background.yaml"]).await.unwrap();
    world.kubectl(&["rollout", "status", "deployment/background", "--timeout=120s"]).await.unwrap();
    let kubeconfig = world.plane().kubeconfig().display().to_string();
    let cli = |args: &[&str]| run(&find("kubectl-giveway"), args, &[("KUBECONFIG", kubeconfig.as_str())]);
    let planned = cli(&["plan", "-f", "examples/2-gang.yaml"]);
    let victims =
        planned.split_once("It fits once its victims have terminated: ").and_then(|(_, rest)| rest.split_once(" pods"));
    let victims: usize = victims.and_then(|(count, _)| count.parse().ok()).unwrap_or_default();
    assert!((8..=16).contains(&victims), "{planned}");
    world.kubectl(&["apply", "-f", "examples/2-gang.yaml"]).await.unwrap();
    let state = [
        "get",
        "gpg",
        "train",
        "-o",
        "jsonpath={.status.pods.scheduled}/{.status.pods.total} {.status.preemption.state}",
    ];
    wait_for("the gang runs", LIMIT, async || {
        let said = world.kubectl(&state).await?;
        if said == "16/16 Completed" { Ok(()) } else { Err(said) }
    })
    .await;
    let sentences = [
        "16 pods have a node, 16 needed.",
        "pods of priority 10 or less were evicted for 16 pods of pod group default/train with priority 1000. 16 of 16 pods of the plan were bound.",
        "16 pods fit and start.",
    ];
    // Events are written after more urgent calls.
    wait_for("kubectl describe prints the events of the gang", LIMIT, async || {
        let described = world.kubectl(&["describe", "gpg", "train"]).await?;
        match sentences.iter().find(|words| !described.contains(**words)) {
            Some(words) => Err(format!("{words} is not in:\n{described}")),
            None => Ok(()),
        }
    })
    .await;
    let history = cli(&["history", "podgroup/train"]);
    assert!(history.contains("Completed") && history.contains(&victims.to_string()), "{history}");
    let checked = cli(&["check"]);
    for kind in ["crds", "webhook", "policies", "certificate", "operator"] {
        assert!(checked.contains(&format!("OK      {kind}")), "{kind} has not passed:\n{checked}");
    }

    let test = helm(&mut world, &["test", "giveway"]);
    let tested = run_hook(&mut world, "giveway-test", &find).await;
    succeeds(test).await;
    assert!(
        tested.contains("A gang of two pods stayed gated until both existed, and both got a node after"),
        "{tested}"
    );
    assert!(tested.contains("\n0 failed, ") && !tested.contains("is not known"), "{tested}");

    // An upgrade updates the CRDs and the changed values.
    let column = r#"[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]"#;
    let kind = "podgroups.scheduling.giveway.dev";
    world.kubectl(&["patch", "crd", kind, "--type=json", "-p", column]).await.unwrap();
    let path = chart.display().to_string();
    let upgrade = [
        "upgrade",
        "giveway",
        &path,
        "--reset-then-reuse-values",
        "--set",
        "operator.extraArgs={--evictions-per-second=400}",
    ];
    succeeds(helm(&mut world, &[&upgrade[..], &["--force-conflicts"]].concat())).await;
    let first = "jsonpath={.spec.versions[0].additionalPrinterColumns[0].name}";
    assert_eq!(world.kubectl(&["get", "crd", kind, "-o", first]).await.unwrap(), "Mode");
    let args = "jsonpath={.spec.template.spec.containers[0].args}";
    let args = world.kubectl(&["get", "deployment", "giveway-operator", "-n", NAMESPACE, "-o", args]).await.unwrap();
    assert!(args.contains("--evictions-per-second=400"), "{args}");

    // A gang that is incomplete when Giveway is uninstalled: its member stays gated.
    world.apply(LONELY).await.unwrap();
    let gates = ["get", "pod", "lonely-0", "-o", "jsonpath={.spec.schedulingGates[*].name}"];
    assert_eq!(world.kubectl(&gates).await.unwrap(), "scheduling.giveway.dev/pod-group");
    let finalizers = ["get", "gpg", "lonely", "-o", "jsonpath={.metadata.finalizers}"];
    wait_for("the group has its finalizer", LIMIT, async || {
        let said = world.kubectl(&finalizers).await?;
        if said.contains("pod-group-protection") { Ok(()) } else { Err(said) }
    })
    .await;
    cli(&["mode", "observe"]);
    let preview = cli(&["cleanup", "all", "--dry-run"]);
    for line in [
        "priorityclass/background: would be given back to kube-scheduler",
        "priorityclass/important: would be given back to kube-scheduler",
        "mutatingwebhookconfiguration/giveway: would be deleted",
        "validatingadmissionpolicy/giveway-pods: would be deleted",
        "clusterrole/giveway-operator: would be deleted",
        "deployment/giveway-webhook: would be deleted",
        "customresourcedefinition/podgroups.scheduling.giveway.dev: stays, with 2 objects",
        "pod/default/lonely-0: GATED, and no operator will remove the gate: delete it, or uninstall with uninstall.ungatePods=true",
        "podgroup/default/lonely: finalizer would be removed",
        "secret/giveway-system/giveway-webhook-ca: would be deleted",
        "lease/giveway-system/giveway-operator: would be deleted",
        "configmap/giveway-system/giveway-mode: would be deleted",
    ] {
        assert!(preview.contains(&format!("{line}\n")), "{line} is not in:\n{preview}");
    }
    assert_eq!(preview, cli(&["cleanup", "all", "--dry-run"]), "nothing was written");

    let upgrade = ["upgrade", "giveway", &path, "--reset-then-reuse-values", "--set", "uninstall.ungatePods=true"];
    succeeds(helm(&mut world, &[&upgrade[..], &["--force-conflicts"]].concat())).await;
    let uninstall = helm(&mut world, &["uninstall", "giveway"]);
    run_hook(&mut world, "giveway-uninstall", &find).await;
    // The daemons are stopped with their Deployments, as a kubelet would do.
    let deployments = ["get", "deployments", "-n", NAMESPACE, "-o", "name"];
    wait_for("the Deployments are deleted", LIMIT, async || {
        let said = world.kubectl(&deployments).await?;
        if said.is_empty() { Ok(()) } else { Err(said) }
    })
    .await;
    giveway.operator.kill();
    giveway.webhook.kill();
    let cleaned = run_hook(&mut world, "giveway-rest", &find).await;
    assert!(cleaned.contains("pod/default/lonely-0: gate removed: it starts without its group\n"), "{cleaned}");
    succeeds(uninstall).await;

    // Only the documented objects may stay: the CRDs with their objects, labels, and the namespace. Others are deleted with a
    // delay.
    wait_for("no other object of Giveway exists", LIMIT, async || {
        let left: Vec<String> =
            objects_of_giveway(&world).await.into_iter().filter(|line| !is_documented_to_stay(line)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    })
    .await;

    // The CRDs can be deleted, because no finalizer keeps their objects.
    let crds = paths::repository().join("crds").display().to_string();
    let kubeconfig = world.plane().kubeconfig();
    run_kubectl(&kubeconfig, &["delete", "-f", &crds, "--timeout=60s"]).await.unwrap();
    run_kubectl(&kubeconfig, &["delete", "namespace", NAMESPACE, "--timeout=60s"]).await.unwrap();
    run_kubectl(&kubeconfig, &["delete", "pod/lonely-0", "job/train", "--timeout=60s"]).await.unwrap();
    wait_for("no object of Giveway exists", LIMIT, async || {
        let left = objects_of_giveway(&world).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    })
    .await;
}

/// Manifest of a group with a missing member.
const LONELY: &str = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata: {name: lonely}
spec: {schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: background}
---
apiVersion: v1
kind: Pod
metadata: {name: lonely-0, labels: {scheduling.giveway.dev/pod-group: lonely}}
spec:
  priorityClassName: background
  containers: [{name: main, image: lonely, resources: {requests: {cpu: '1'}}}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_one_file_manifest_installs_everything_and_helm_takes_over_existing_crds() {
    let mut world = World::builder().bare().without_oracle().start().await;
    let file = shipped("giveway.yaml").display().to_string();
    world.kubectl(&["apply", "--server-side", "-f", &file]).await.unwrap();
    for object in ["deployment/giveway-operator", "service/giveway-webhook"] {
        world.kubectl(&["get", object, "-n", NAMESPACE]).await.unwrap();
    }
    for kind in ["job", "serviceaccount/giveway-rest", "serviceaccount/giveway-uninstall"] {
        let hooks = world.kubectl(&["get", kind, "-n", NAMESPACE, "-o", "name", "--ignore-not-found"]).await.unwrap();
        assert_eq!(hooks, "", "the manifest has no hooks of helm");
    }
    // The CRDs must be served before they are deleted, because the API server deletes a CRD slowly while it is being established.
    for kind in ["podgroups", "workloads", "preemptions"] {
        let objects = format!("{kind}.scheduling.giveway.dev");
        wait_for(&format!("{kind} are served"), LIMIT, async || world.kubectl(&["get", &objects, "-A"]).await).await;
    }
    // The commands in the first lines of the file remove all objects; `e2e` tests them with Giveway's objects in the cluster.
    for (wanted, namespace) in
        [("app.kubernetes.io/component!=crds", true), ("app.kubernetes.io/component=crds", false)]
    {
        let command = format!("#   kubectl delete -f giveway.yaml -l {wanted}\n");
        assert!(std::fs::read_to_string(&file).unwrap().contains(&command), "{command}");
        let said = world.kubectl(&["delete", "-f", &file, "-l", wanted, "--timeout=120s"]).await.unwrap();
        assert_eq!(said.contains("namespace \"giveway-system\""), namespace, "{said}");
        assert_eq!(said.contains("customresourcedefinition"), !namespace, "{said}");
    }

    // If the CRDs were applied separately, helm rejects the install and takes them over with a flag.
    world.install_crds().await;
    let chart = shipped(&format!("giveway-{VERSION}.tgz")).display().to_string();
    let install = ["install", "giveway", &chart, "--create-namespace"];
    let rejected = helm(&mut world, &install).wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&rejected.stderr);
    assert!(!rejected.status.success() && said.contains("cannot be imported into the current release"), "{said}");
    succeeds(helm(&mut world, &[&install[..], &["--take-ownership", "--force-conflicts"]].concat())).await;
    let owner = "jsonpath={.metadata.annotations.meta\\.helm\\.sh/release-name}";
    let kind = "workloads.scheduling.giveway.dev";
    assert_eq!(world.kubectl(&["get", "crd", kind, "-o", owner]).await.unwrap(), "giveway");
    // `kubectl apply -f crds/` still works after helm has taken them over.
    let again = world.kubectl(&["apply", "-f", "crds/"]).await.unwrap();
    assert!(again.contains("customresourcedefinition.apiextensions.k8s.io/workloads"), "{again}");
}

#[test]
fn plan_works_without_a_cluster() {
    let make = run(Path::new("make"), &["--silent", "demo-plan"], &[("KUBECONFIG", "/nonexistent")]);
    assert!(
        make.contains("podgroup/default/llm-train (priority 1000): It fits once its victims have terminated"),
        "{make}"
    );
    assert!(make.contains("0 budget violations"), "{make}");
}

/// GitHub names the files of a release by the last part of their path, so these names must be distinct.
#[test]
fn the_files_of_a_release_have_distinct_names() {
    let workflow = paths::repository().join(".github/workflows/release.yml");
    let workflow = std::fs::read_to_string(workflow).unwrap();
    let (_, command) = workflow.split_once("gh release create ").unwrap();
    let assets = command.lines().next().unwrap().split(' ').filter(|word| word.starts_with("target/"));
    let mut names = Vec::new();
    for asset in assets {
        assert!(!asset.contains('#'), "{asset}: the text after a # would be a label and not change the name");
        match asset.strip_suffix("/*.*") {
            Some(folder) => {
                let files = std::fs::read_dir(paths::repository().join(folder)).unwrap();
                let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
                names.extend(files.filter(|name| name.contains('.')));
            }
            None => names.push(asset.rsplit('/').next().unwrap().to_owned()),
        }
    }
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    for name in ["giveway.yaml", "krew-giveway.yaml", "SHA256SUMS"] {
        assert!(names.iter().any(|there| there == name), "{name} is not among {names:?}");
    }
}
