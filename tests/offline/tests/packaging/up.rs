//! `packaging/up.sh` and `packaging/try.sh`, which `make kind-up`, `make k3s-up` and `make minikube-up` run.

use super::{Machine, Run};
use giveway_tests::paths;
use std::path::PathBuf;

/// Every program that the scripts call for kind with docker.
const KIND: [&str; 5] = ["docker", "kind", "kubectl", "helm", "kubectl-giveway"];

fn script() -> PathBuf {
    paths::repository().join("packaging/up.sh")
}

/// Runs `packaging/up.sh` with these arguments. A wait that does not succeed at once fails.
fn up(machine: &Machine, args: &[&str]) -> Run {
    machine.run(&script(), args, &[("TRY_SECONDS", "0")])
}

/// Expects that `packaging/up.sh kind` fails, with these texts in its output: what is wrong, and what to do.
fn fails(machine: &Machine, texts: &[&str]) -> Run {
    let run = up(machine, &["kind"]);
    assert!(!run.passed, "{}", run.output);
    for text in texts {
        assert!(run.output.contains(text), "{text:?} is not in:\n{}", run.output);
    }
    run
}

#[test]
fn on_kind_it_builds_loads_and_installs_and_runs_the_example() {
    let machine = Machine::with(&KIND);
    let run = up(&machine, &["kind"]);
    assert!(run.passed, "{}", run.output);
    let state = machine.path("state/kind-giveway").display().to_string();
    let images = [
        ("giveway-operator", "giveway-operator"),
        ("giveway-webhook", "giveway-webhook"),
        ("giveway-cli", "kubectl-giveway"),
    ];
    let built = images.map(|(image, program)| {
        format!(
            "docker build --build-arg PROGRAM={program} --tag ghcr.io/giveway/{image}:{} .",
            env!("CARGO_PKG_VERSION")
        )
    });
    assert_eq!(run.calls_of("docker build"), built);
    let loaded = images.map(|(image, _)| format!("kind load image-archive --name giveway {state}/{image}.tar"));
    assert_eq!(run.calls_of("kind load"), loaded);
    let created = run.calls_of("kind create");
    assert!(
        created[0].starts_with("kind create cluster --name giveway --image kindest/node:v1.34.0@sha256:"),
        "{created:?}"
    );
    assert!(created[0].contains(&format!(" --kubeconfig {state}/kubeconfig ")), "{created:?}");
    let installed = run.calls_of("helm install giveway helm --namespace giveway-system --create-namespace --wait");
    assert!(
        installed[0].ends_with("--set image.repository=ghcr.io/giveway --set image.pullPolicy=Never"),
        "{installed:?}"
    );
    let order =
        ["docker build", "kind create", "kind load", "helm install", "kubectl giveway check", "kubectl patch node one"];
    let first = order.map(|words| run.calls.iter().position(|call| call.starts_with(words)));
    assert!(first.is_sorted() && first[0].is_some(), "{order:?} is not the order of {:#?}", run.calls);
    let gang = run.calls.iter().position(|call| call == "kubectl apply -f examples/try/gang.yaml");
    let plan = run.calls.iter().position(|call| call == "kubectl giveway plan -f examples/try/gang.yaml -o json");
    assert!(plan.is_some() && plan < gang, "the gang is created after its victims were read: {:#?}", run.calls);
    for text in ["The gang runs after ", "make kind-down ", &format!("export KUBECONFIG={state}/kubeconfig")] {
        assert!(run.output.contains(text), "{text:?} is not in:\n{}", run.output);
    }
}

#[test]
fn the_platforms_differ_only_in_how_clusters_are_created_and_images_loaded() {
    let common = ["docker", "kubectl", "helm", "kubectl-giveway"];
    let calls = |platform: &str, tool: &str, options: &[(&str, &str)]| {
        let machine = Machine::with(&[&common[..], &[tool]].concat());
        let run = machine.run(&script(), &[platform], &[&[("TRY_SECONDS", "0")][..], options].concat());
        assert!(run.passed, "{}", run.output);
        let state = machine.path(&format!("state/{platform}-")).display().to_string();
        let (own, others): (Vec<String>, Vec<String>) = (run.calls.iter())
            .map(|call| call.replace(&state, "STATE-"))
            .partition(|call| call.starts_with(&format!("{tool} ")));
        (own, others)
    };
    let (_, kind) = calls("kind", "kind", &[]);
    let (k3d, k3s) = calls("k3s", "k3d", &[]);
    assert_eq!(k3s, kind);
    assert_eq!(
        k3d[..4],
        [
            "k3d cluster list giveway",
            "k3d cluster create giveway --image rancher/k3s:v1.34.1-k3s1 --kubeconfig-update-default=false --wait --timeout 180s",
            "k3d kubeconfig write giveway --output STATE-giveway/kubeconfig",
            "k3d image import STATE-giveway/giveway-operator.tar --cluster giveway",
        ]
    );
    let (minikube, others) = calls("minikube", "minikube", &[("CLUSTER", "mine"), ("KUBERNETES", "v1.35.0")]);
    assert_eq!(others.len(), kind.len());
    assert_eq!(
        minikube[..3],
        [
            "minikube profile list --light -o json",
            "minikube start --profile mine --kubernetes-version v1.35.0 --driver docker --wait all",
            "minikube image load --profile mine STATE-mine/giveway-operator.tar",
        ]
    );
}

#[test]
fn another_version_of_kubernetes_is_found_by_its_tag() {
    let machine = Machine::with(&KIND);
    let run = machine.run(&script(), &["kind"], &[("TRY_SECONDS", "0"), ("KUBERNETES", "1.33.4")]);
    assert!(
        run.passed && run.calls_of("kind create")[0].contains(" --image kindest/node:v1.33.4 "),
        "{:#?}",
        run.calls
    );
}

#[test]
fn without_docker_it_uses_podman_and_kind_uses_it_too() {
    let machine = Machine::with(&["podman", "kind", "kubectl", "helm", "kubectl-giveway"]);
    let machine = machine.answering("\"kind create \"*", "echo \"provider $KIND_EXPERIMENTAL_PROVIDER\" >>\"$CALLS\"");
    let run = up(&machine, &["kind"]);
    assert!(run.passed && run.calls_of("podman build").len() == 3, "{}", run.output);
    assert_eq!(run.calls_of("provider"), ["provider podman"]);
}

#[test]
fn down_deletes_the_cluster_and_its_folder() {
    let machine = Machine::with(&["kind"]);
    let run = up(&machine, &["kind", "down"]);
    let kubeconfig = machine.path("state/kind-giveway/kubeconfig").display().to_string();
    assert!(run.passed, "{}", run.output);
    assert_eq!(run.calls, [format!("kind delete cluster --name giveway --kubeconfig {kubeconfig}")]);
    assert!(!machine.path("state/kind-giveway").exists());
}

#[test]
fn a_missing_program_is_named_with_the_page_that_explains_its_installation() {
    for (missing, page) in
        [("kind", "https://kind.sigs.k8s.io/"), ("kubectl", "https://kubernetes.io/"), ("helm", "https://helm.sh/")]
    {
        let others: Vec<&str> = KIND.into_iter().filter(|name| *name != missing).collect();
        let run = fails(&Machine::with(&others), &[&format!("There is no {missing}."), &format!("Install it: {page}")]);
        assert_eq!(run.calls, [""; 0], "{missing}");
    }
    let run = fails(
        &Machine::with(&["kind", "kubectl", "helm"]),
        &[
            "There is no docker, podman or nerdctl, which builds the images.",
            "Install one of docker, podman and nerdctl",
        ],
    );
    assert_eq!(run.calls, [""; 0]);
}

#[test]
fn a_container_daemon_that_does_not_run_is_named_with_how_to_start_it() {
    let machine = Machine::with(&KIND).answering("\"docker info\"", "exit 1");
    fails(&machine, &["No tool for containers runs: `docker info` fails.", "sudo systemctl start docker"]);
}

#[test]
fn k3d_needs_docker() {
    let machine = Machine::with(&["podman", "k3d", "kubectl", "helm"]);
    let run = up(&machine, &["k3s"]);
    let said =
        "k3d needs docker, and only podman runs.\n  Start docker, or run `make kind-up`, which works with podman.";
    assert!(!run.passed && run.output.contains(said), "{}", run.output);
}

#[test]
fn an_existing_cluster_is_not_used() {
    let machine = Machine::with(&KIND).answering("\"kind get clusters\"", "echo giveway; exit 0");
    let run =
        fails(&machine, &["There is a cluster giveway already.", "`make kind-down`", "`make kind-up CLUSTER=other`"]);
    assert!(run.calls_of("docker build").is_empty() && run.calls_of("kind create").is_empty(), "{:#?}", run.calls);
}

#[test]
fn a_failed_build_creates_no_cluster() {
    let machine = Machine::with(&KIND).answering("\"docker build \"*giveway-webhook*", "exit 1");
    let run = fails(&machine, &["docker could not build the image giveway-webhook.", "docs/platforms.md, \"Offline\""]);
    assert_eq!(run.calls_of("docker build").len(), 2);
    assert!(run.calls_of("kind create").is_empty(), "{:#?}", run.calls);
}

#[test]
fn failures_of_cluster_images_chart_and_check_say_what_to_do() {
    for (call, texts) in [
        (
            "\"kind create \"*",
            ["kind could not create the cluster giveway.", "Delete what is left with `make kind-down`."],
        ),
        ("\"kind load \"*", ["The image giveway-operator could not be loaded into the cluster.", "Is the disk full?"]),
        ("\"docker create \"*", ["The plugin could not be copied from the image giveway-cli.", "`docker create`"]),
        (
            "\"helm install \"*",
            ["The chart could not be installed.", "`kubectl describe pods -n giveway-system` prints why."],
        ),
        ("\"kubectl giveway check\"", ["`kubectl giveway check` found a fault.", "docs/troubleshooting.md#checks"]),
    ] {
        let run = fails(&Machine::with(&KIND).answering(call, "exit 1"), &texts);
        assert!(run.calls_of("kubectl apply").is_empty(), "{call}: {:#?}", run.calls);
    }
}

#[test]
fn a_plugin_that_does_not_run_here_is_built_with_cargo() {
    let machine = Machine::with(&KIND).answering("\"kubectl-giveway --version\"", "exit 126");
    let run = fails(&machine, &["The plugin in the image does not run on ", "Install Rust (https://rustup.rs)"]);
    assert!(run.calls_of("helm install").is_empty(), "{:#?}", run.calls);
}

#[test]
fn a_victim_that_the_example_did_not_create_stops_it_before_the_gang_is_created() {
    let plan = "printf '{\\n  \"victimPods\": [\\n    \"giveway-try/background-a\",\\n    \"shop/web-1\"\\n  ],\\n}\\n'; exit 0";
    let machine = Machine::with(&KIND).answering("\"kubectl giveway plan \"*json", plan);
    let run = fails(
        &machine,
        &[
            "The plan evicts pods that this example did not create: shop/web-1.",
            "The gang was not created, so no pod was evicted.",
        ],
    );
    assert_eq!(run.calls_of("kubectl apply"), ["kubectl apply -f examples/try/background.yaml"]);
}

#[test]
fn a_plan_without_victims_stops_it_before_the_gang_is_created() {
    let machine = Machine::with(&KIND).answering("\"kubectl giveway plan \"*json", "echo '{}'; exit 0");
    let run = fails(&machine, &["The plan evicts no pod, so there is nothing to see.", "`packaging/try.sh remove`"]);
    assert_eq!(run.calls_of("kubectl apply"), ["kubectl apply -f examples/try/background.yaml"]);
}

#[test]
fn a_gang_that_does_not_run_in_time_is_explained_and_the_cluster_stays() {
    let machine = Machine::with(&KIND)
        .answering("\"kubectl get podgroups.scheduling.giveway.dev \"*", "printf '0/4 Planned'; exit 0");
    let run = fails(
        &machine,
        &["The gang does not run after 0 s.", "`kubectl giveway check`", "the cluster stays", "`make kind-down`"],
    );
    assert_eq!(run.calls_of("kubectl giveway why"), ["kubectl giveway why podgroup/train --namespace giveway-try"]);
    assert!(run.calls_of("kind delete").is_empty());
}

#[test]
fn background_pods_that_do_not_run_stop_it() {
    let machine = Machine::with(&KIND).answering("\"kubectl rollout \"*", "exit 1");
    let run = fails(
        &machine,
        &["The pods of deployment/background do not run after 0 s.", "`kubectl describe pods -n giveway-try`"],
    );
    assert!(run.calls_of("kubectl giveway plan").is_empty(), "{:#?}", run.calls);
}

#[test]
fn the_example_can_be_removed() {
    let machine = Machine::with(&["kubectl", "kubectl-giveway"]);
    let run = machine.run(&paths::repository().join("packaging/try.sh"), &["remove"], &[]);
    assert!(run.passed, "{}", run.output);
    assert!(run.calls[1].starts_with("kubectl delete --ignore-not-found "), "{:#?}", run.calls);
    assert!(run.calls[2].contains("\"example.com/slot\":null"), "{:#?}", run.calls);
}
