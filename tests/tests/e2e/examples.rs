//! The examples that need only the controllers of Kubernetes. `make test-kinds` runs the others.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_tests::cluster::Shaped;
use giveway_tests::example::{Example, evicted_by_group, path, wait_bound, wait_group};
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::process::Command;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_job_preempts_and_is_preempted_as_a_whole,
            the_stateful_set_preempts_and_is_preempted_as_a_whole,
            the_gang_of_the_readme_preempts_single_background_pods,
            the_deployment_preempts_whole_groups_and_its_budget_holds,
            each_job_of_a_chain_preempts_whole_groups_only_when_it_starts,
            the_example_of_kind_up_preempts_four_pods_on_one_node,
            the_policy_example_limits_the_priority_by_namespace;
    ]
}

async fn apply(world: &World, file: &str) {
    world.kubectl(&["apply", "-f", &path(file)]).await.unwrap();
}

async fn the_job_preempts_and_is_preempted_as_a_whole(world: &World) {
    let selector = "batch.kubernetes.io/job-name=train";
    let example = Example { file: "2-gang.yaml", selector, groups: 1, size: 16 };
    example.preempts_and_is_preempted(world, async |world| wait_group(world, "train", 16, "Job/train").await).await;
    assert_eq!(world.kubectl(&["get", "job/train", "-o", "jsonpath={.status.failed}"]).await.unwrap(), "");
    world.check_promises().await;
}

async fn the_stateful_set_preempts_and_is_preempted_as_a_whole(world: &World) {
    let example = Example { file: "7-statefulset.yaml", selector: "app=db", groups: 1, size: 3 };
    example.preempts_and_is_preempted(world, async |world| wait_group(world, "db", 3, "StatefulSet/db").await).await;
    world.check_promises().await;
}

async fn the_gang_of_the_readme_preempts_single_background_pods(world: &World) {
    world.nodes(20).cpus(8).create().await;
    apply(world, "1-background.yaml").await;
    wait_bound(world, "app=background", 160).await;
    apply(world, "2-gang.yaml").await;
    wait_bound(world, "batch.kubernetes.io/job-name=train", 16).await;
    assert_eq!(world.audit().await.evicted().len(), 16);
    world.check_promises().await;
}

async fn the_deployment_preempts_whole_groups_and_its_budget_holds(world: &World) {
    world.class("background", 10).managed().create().await;
    world.class("important", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(3).create().await;
    world.fill(&nodes).prefix("filler").priority("background").whole().groups_of(3).await;
    let before = world.audit().await;
    apply(world, "8-deployment-with-budget.yaml").await;
    wait_bound(world, "app=api", 6).await;
    let now = world.audit().await;
    let evicted: Vec<(String, usize)> = evicted_by_group(&now, &before).into_iter().collect();
    assert_eq!(evicted, [("filler-000".to_owned(), 3), ("filler-001".to_owned(), 3)]);
    wait_for("the budget allows one disruption", MINUTE, async || {
        let allowed = world.kubectl(&["get", "pdb/api", "-o", "jsonpath={.status.disruptionsAllowed}"]).await?;
        if allowed == "1" { Ok(()) } else { Err(allowed) }
    })
    .await;
    let gang = world.gang("train", 2).priority("important").create().await;
    let words = "pods of budget default/api, which allows 1 more disruption to preemptors below 5000.";
    expect_condition(&gang, INITIALLY_SCHEDULED, "False UnschedulableGuaranteedBudget", words).await;
    assert_eq!(evicted_by_group(&world.audit().await, &now).len(), 0);
    world.check_promises().await;
}

/// Returns the kubectl arguments of each container of the Job `chain`, in the order in which its pod runs them.
async fn steps(world: &World) -> Vec<Vec<String>> {
    let text = world.kubectl(&["get", "job/chain", "-o", "jsonpath={.spec.template.spec}"]).await.unwrap();
    let spec: Value = serde_json::from_str(&text).unwrap();
    let containers = ["initContainers", "containers"].into_iter().flat_map(|kind| spec[kind].as_array().unwrap());
    let args = containers.map(|container| serde_json::from_value(container["args"].clone()).unwrap());
    args.collect()
}

/// Sets the phase of a Job's pods to `Succeeded`, as a kubelet does when their containers have ended.
async fn set_succeeded(world: &World, job: &str) {
    let selector = format!("batch.kubernetes.io/job-name={job}");
    let names = world.kubectl(&["get", "pods", "-l", &selector, "-o", "name"]).await.unwrap();
    let done = json!({"status": {"phase": "Succeeded"}}).to_string();
    for pod in names.lines() {
        world.kubectl(&["patch", pod, "--subresource=status", "--type=merge", "-p", &done]).await.unwrap();
    }
}

async fn each_job_of_a_chain_preempts_whole_groups_only_when_it_starts(world: &World) {
    world.class("background", 10).managed().create().await;
    let nodes = world.nodes(1).resource("cpu", "4500m").create().await;
    world.fill(&nodes).prefix("filler").priority("background").whole().groups_of(2).await;
    let before = world.audit().await;
    apply(world, "9-chain-of-jobs.yaml").await;
    let of = |job: &str| format!("batch.kubernetes.io/job-name={job}");
    wait_bound(world, &of("prepare"), 2).await;
    wait_bound(world, &of("chain"), 1).await;
    let evicted = evicted_by_group(&world.audit().await, &before);
    assert_eq!(
        evicted.values().copied().collect::<Vec<_>>(),
        [2],
        "Jobs that have not started preempt no pod: {evicted:?}"
    );
    let mut running = "prepare";
    for step in steps(world).await {
        // Runs kubectl with the rights of the ServiceAccount of the pod.
        let mut args = vec!["--as=system:serviceaccount:default:chain"];
        args.extend(step.iter().map(String::as_str));
        match step[0].as_str() {
            "wait" => {
                assert_eq!(step.last().unwrap(), &format!("job/{running}"));
                set_succeeded(world, running).await;
            }
            _ => running = if step[1] == "job/fit" { "fit" } else { "report" },
        }
        world.kubectl(&args).await.unwrap();
        if step[0] == "patch" {
            let size = if running == "fit" { 4 } else { 1 };
            wait_bound(world, &of(running), size).await;
            wait_group(world, running, size, &format!("Job/{running}")).await;
        }
    }
    assert_eq!(running, "report");
    let evicted = evicted_by_group(&world.audit().await, &before);
    assert_eq!(evicted.values().copied().collect::<Vec<_>>(), [2, 2], "{evicted:?}");
    world.check_promises().await;
}

/// Runs `packaging/try.sh` as an administrator, with the plugin on the PATH, and returns its exit status and its output.
async fn try_example(world: &mut World, args: &[&str]) -> (bool, String) {
    let programs =
        [paths::control_plane_program("kubectl").unwrap(), paths::giveway_program("kubectl-giveway").unwrap()];
    let mut path: Vec<PathBuf> = programs.iter().filter_map(|program| program.parent().map(PathBuf::from)).collect();
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(paths::repository().join("packaging/try.sh"));
    command.args(args).env("KUBECONFIG", world.plane().kubeconfig()).env("HOME", world.plane().directory());
    let output = command.env("PATH", std::env::join_paths(path).unwrap()).output().await.unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

async fn the_example_of_kind_up_preempts_four_pods_on_one_node(world: &mut World) {
    world.nodes(1).cpus(8).create().await;
    let (passed, said) = try_example(world, &[]).await;
    assert!(passed, "{said}");
    for words in [
        "It fits once its victims have terminated: 4 pods",
        "The gang runs after ",
        "train   PodGroup   4     4           4 ",
        "Completed",
    ] {
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    }
    let evicted = world.audit().await.evicted_names();
    assert!(evicted.len() == 4 && evicted.iter().all(|pod| pod.contains("background-")), "{evicted:?}");
    let (passed, said) = try_example(world, &["remove"]).await;
    assert!(passed, "{said}");
    let slots = ["get", "nodes", "-o", "jsonpath={.items[*].status.allocatable.example\\.com/slot}"];
    assert_eq!(world.kubectl(&slots).await.unwrap(), "");
    world.check_promises().await;
}

/// Creates a pod of this class in a dry run.
async fn run_pod(world: &World, namespace: &str, class: &str) -> Result<String, String> {
    let overrides = format!(r#"--overrides={{"spec":{{"priorityClassName":"{class}"}}}}"#);
    world.kubectl(&["run", "probe", "--image=pause", "--dry-run=server", "-n", namespace, &overrides]).await
}

async fn the_policy_example_limits_the_priority_by_namespace(world: &World) {
    world.class("modest", 1000).managed().create().await;
    world.class("highest", 1001).managed().create().await;
    for namespace in ["team", "ml"] {
        world.kubectl(&["create", "namespace", namespace]).await.unwrap();
    }
    world.kubectl(&["label", "namespace", "ml", "example.com/high-priority=true"]).await.unwrap();
    apply(world, "policies/priority-by-namespace.yaml").await;
    let words = "spec.priorityClassName: Forbidden: priority 1001 is above 1000, the highest of namespace team; an administrator \
                 allows more with the label example.com/high-priority: \"true\" of the namespace";
    wait_for("the policy is in force", MINUTE, async || match run_pod(world, "team", "highest").await {
        Err(said) if said.contains(words) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    for (namespace, class) in [("team", "modest"), ("ml", "highest")] {
        wait_for("the pod is admitted", MINUTE, async || run_pod(world, namespace, class).await).await;
    }
    let group = |namespace: &str| {
        json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": namespace},
            "spec": {"priorityClassName": "highest", "schedulingPolicy": {"gang": {"minCount": 2}}}
        })
        .to_string()
    };
    let denied = world.apply(&group("team")).await.unwrap_err();
    assert!(denied.contains(words), "{denied}");
    world.apply(&group("ml")).await.unwrap();
    world.kubectl(&["delete", "gpg", "gang", "-n", "ml"]).await.unwrap();
    world.kubectl(&["delete", "-f", &path("policies/priority-by-namespace.yaml")]).await.unwrap();
    world.check_promises().await;
}
