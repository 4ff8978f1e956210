//! A Job whose pods are a gang survives the preemption of all its pods.

use super::{apply, field, job, wait_bound};
use crate::MINUTE;
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_job_that_a_preemption_would_fail_gets_a_warning_with_the_lines_to_add;
        own:
            enabled_kinds_need_no_label_and_their_jobs_get_a_failure_policy_in_selected_namespaces;
        release_shared:
            a_gang_of_16_completes_without_failures_after_three_preemptions;
        release:
            a_new_leader_counts_members_that_succeeded_and_were_deleted;
    ]
}

const VICTIM: &str = "batch.kubernetes.io/job-name=victim";

/// Returns a Job of 16 pods with the default `backoffLimit`. After failures the Job controller waits 10 s, doubled for each
/// failure, unless every index has a back-off of its own.
fn job_of_16(name: &str) -> Value {
    let mut job = job(name, 16, "low");
    job["spec"]["completions"] = json!(16);
    job["spec"]["backoffLimit"] = json!(6);
    job
}

async fn a_gang_of_16_completes_without_failures_after_three_preemptions(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(2).cpus(8).create().await;
    let mut victim = job_of_16("victim");
    victim["spec"]["podFailurePolicy"] =
        json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    victim["spec"]["completionMode"] = json!("Indexed");
    victim["spec"]["backoffLimitPerIndex"] = json!(1);
    apply(world, &victim).await;
    wait_bound(world, VICTIM, 16).await;
    for round in 0..3 {
        let gang = world.gang(&format!("urgent-{round}"), 16).priority("high").create().await;
        gang.wait_bound(MINUTE).await;
        for pod in &gang.pods {
            pod.delete().await;
        }
        gang.delete().await;
        wait_bound(world, VICTIM, 16).await;
    }
    let evicted = world.audit().await.evicted_names();
    assert_eq!(evicted.len(), 48, "{evicted:?}");
    assert_eq!(field(world, "job/victim", ".status.failed").await, "", "the Job counted no failure");
    // Pods of the last round may still be terminating.
    let path = "jsonpath={range .items[*]}pod/{.metadata.name} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
    let names = world.kubectl(&["get", "pods", "-l", VICTIM, "-o", path]).await.unwrap();
    let live: Vec<&str> = names.lines().filter_map(|line| line.strip_suffix(' ')).collect();
    assert_eq!(live.len(), 16, "{names}");
    for pod in live {
        let done = json!({"status": {"phase": "Succeeded"}}).to_string();
        world.kubectl(&["patch", pod, "--subresource=status", "--type=merge", "-p", &done]).await.unwrap();
    }
    wait_for("the Job is complete", MINUTE, async || {
        let path = "jsonpath={.status.succeeded} {.status.failed} {.status.conditions[?(@.type==\"Complete\")].status}";
        let text = world.kubectl(&["get", "job/victim", "-o", path]).await?;
        if text == "16  True" { Ok(()) } else { Err(text) }
    })
    .await;
    world.check_promises().await;
}

async fn a_new_leader_counts_members_that_succeeded_and_were_deleted() {
    let mut world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.nodes(1).cpus(3).create().await;
    let mut train = job("train", 3, "low");
    train["spec"]["completions"] = json!(3);
    apply(&world, &train).await;
    let selector = "batch.kubernetes.io/job-name=train";
    wait_bound(&world, selector, 3).await;
    let names = world.kubectl(&["get", "pods", "-l", selector, "-o", "name"]).await.unwrap();
    let names: Vec<&str> = names.lines().collect();
    for done in &names[..2] {
        let phase = json!({"status": {"phase": "Succeeded"}}).to_string();
        world.kubectl(&["patch", done, "--subresource=status", "--type=merge", "-p", &phase]).await.unwrap();
    }
    wait_for("Job and group have counted the succeeded pods", MINUTE, async || {
        let (counted, known) = (
            field(&world, "job/train", ".status.succeeded").await,
            field(&world, "gpg/train", ".status.finished.count").await,
        );
        if counted == "2" && known == "2" { Ok(()) } else { Err(format!("{counted} {known}")) }
    })
    .await;
    world.operator().kill();
    for done in &names[..2] {
        world.kubectl(&["delete", done]).await.unwrap();
    }
    let phase = json!({"status": {"phase": "Failed"}}).to_string();
    world.kubectl(&["patch", names[2], "--subresource=status", "--type=merge", "-p", &phase]).await.unwrap();
    world.operator().start().await;
    // The Job replaces the failed pod only, so the gang has one pod and two members that have succeeded.
    wait_for("the replacement pod is bound", 2 * MINUTE, async || {
        let path = "jsonpath={range .items[*]}pod/{.metadata.name} {.spec.nodeName}{\"\\n\"}{end}";
        let pods = world.kubectl(&["get", "pods", "-l", selector, "-o", path]).await?;
        let started = |line: &str| !names.iter().any(|name| line.starts_with(name)) && !line.ends_with(' ');
        if pods.lines().any(started) { Ok(()) } else { Err(pods) }
    })
    .await;
    world.check_promises().await;
}

async fn a_job_that_a_preemption_would_fail_gets_a_warning_with_the_lines_to_add(world: &mut World) {
    world.class("low", 10).managed().create().await;
    let file = world.plane().directory().join("job.yaml").display().to_string();
    let create = ["create", "--dry-run=server", "--warnings-as-errors", "-f", &file];
    std::fs::write(&file, job_of_16("train").to_string()).unwrap();
    let said = world.kubectl(&create).await.unwrap_err();
    let words = "spec.podFailurePolicy: each preemption of 16 pods is 16 failures, and backoffLimit is 6: add rules: [{action: \
                 Ignore, onPodConditions: [{type: DisruptionTarget}]}]";
    assert!(said.contains(words), "{said}");
    let mut named = job_of_16("train");
    named["metadata"]["labels"] = json!({});
    named["spec"]["template"]["metadata"]["labels"] = json!({giveway_crds::keys::LABEL_POD_GROUP: "mine"});
    std::fs::write(&file, named.to_string()).unwrap();
    let said = world.kubectl(&create).await.unwrap_err();
    assert!(said.contains(words), "a Job whose pod template names a group gets the warning too: {said}");
    world.check_promises().await;
}

async fn enabled_kinds_need_no_label_and_their_jobs_get_a_failure_policy_in_selected_namespaces() {
    let world = World::builder()
        .helm_value("gangs.kinds={Job}")
        .helm_value("gangs.namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=default")
        .webhook_flag("--default-pod-failure-policy")
        .webhook_flag("--default-backoff-limit-per-index")
        .start()
        .await;
    super::cluster(&world, 1).await;
    let mut plain = job("train", 2, "low");
    plain["metadata"]["labels"] = json!({});
    apply(&world, &plain).await;
    wait_bound(&world, "batch.kubernetes.io/job-name=train", 2).await;
    super::wait_group(&world, "train", 2, "Job/train").await;
    assert_eq!(field(&world, "job/train", ".spec.podFailurePolicy.rules[0].action").await, "Ignore");
    apply(&world, &plain).await;
    let mut indexed = job("indexed", 2, "low");
    indexed["spec"]["completionMode"] = json!("Indexed");
    indexed["spec"]["completions"] = json!(2);
    apply(&world, &indexed).await;
    assert_eq!(field(&world, "job/indexed", ".spec.backoffLimitPerIndex").await, "100");
    wait_bound(&world, "batch.kubernetes.io/job-name=indexed", 2).await;
    let mut elsewhere = plain.clone();
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    world.namespace("elsewhere").await;
    apply(&world, &elsewhere).await;
    let label = ".spec.template.metadata.labels.scheduling\\.giveway\\.dev/gang";
    let path = format!("jsonpath={{{label}}}");
    let there = world.kubectl(&["get", "job/train", "-n", "elsewhere", "-o", &path]).await.unwrap();
    assert_eq!(there, "", "the namespace selector excludes this namespace");
    world.check_promises().await;
}
