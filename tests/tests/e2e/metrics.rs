//! The metrics of operator and webhook during and after a preemption.

use crate::MINUTE;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::Shaped;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_signal_makes_the_operator_write_its_state_to_its_log;
        own:
            preemptions_and_pending_groups_are_counted_with_their_labels;
        release:
            promtool_accepts_the_metrics_of_both_daemons;
    ]
}

/// Waits until the metrics of the operator contain all these lines.
async fn wait_metrics(world: &World, what: &str, lines: &[&str]) {
    wait_for(what, MINUTE, async || {
        let metrics = world.operator_metrics().await;
        let missing = lines.iter().find(|line| !metrics.lines().any(|there| there == **line));
        missing.map_or(Ok(()), |line| Err(format!("{line} is not in:\n{metrics}")))
    })
    .await;
}

async fn preemptions_and_pending_groups_are_counted_with_their_labels() {
    let mut world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let gang = world.gang("train", 4).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    gang.wait_plan(PlanState::Completed, MINUTE).await;
    let counted = [
        r#"giveway_operator_evictions_total{preemptor_class="high",victim_class="low",cause="plan",way="eviction"} 4"#,
        r#"giveway_operator_plans_total{outcome="Completed"} 1"#,
        r#"giveway_operator_group_submitted_to_bound_seconds_count{class="high"} 1"#,
        r#"giveway_operator_planned_to_bound_seconds_count{preemptor_class="high"} 1"#,
        "giveway_operator_leader 1",
        "giveway_operator_gated_pods 0",
        r#"giveway_operator_preemptions_in_flight{cause="Preemptor",stage="WaitingForVictims"} 0"#,
        r#"giveway_operator_queue_depth{queue="evictions"} 0"#,
        r#"giveway_operator_queue_depth{queue="inputs"} 0"#,
        "giveway_operator_statuses_waiting 0",
        "# TYPE giveway_operator_evictions_total counter",
    ];
    wait_metrics(&world, "the preemption is counted", &counted).await;
    // The gang needs more than the cluster has, and its class has no victims of lower priority.
    let patient = world.gang("patient", 20).priority("low").create().await;
    let waiting =
        [r#"giveway_operator_waiting_groups{reason="Unschedulable",class="low"} 1"#, "giveway_operator_gated_pods 20"];
    wait_metrics(&world, "a pending group is counted", &waiting).await;
    for pod in &patient.pods {
        pod.delete().await;
    }
    patient.delete().await;
    let none_pending = [
        r#"giveway_operator_waiting_groups{reason="Unschedulable",class="low"} 0"#,
        r#"giveway_operator_oldest_waiting_group_age_seconds{class="low"} 0"#,
        "giveway_operator_gated_pods 0",
    ];
    wait_metrics(&world, "no group is pending", &none_pending).await;

    let operator = world.operator_metrics().await;
    for start in [
        r#"giveway_operator_build_info{version=""#,
        r#"giveway_operator_api_request_duration_seconds_count{verb="create"} "#,
        r#"giveway_operator_api_requests_total{verb="patch",code="200"} "#,
        "giveway_operator_pass_duration_seconds_count ",
        r#"giveway_operator_watch_event_age_seconds{kind="Pod"} "#,
        "process_resident_memory_bytes ",
    ] {
        assert!(operator.lines().any(|line| line.starts_with(start)), "{start} is not in:\n{operator}");
    }
    let (_, webhook) = world.webhook().http("/metrics").await.unwrap();
    let expiry = "giveway_webhook_certificate_expiry_timestamp_seconds ";
    let expiry = webhook.lines().find_map(|line| line.strip_prefix(expiry)).expect("the certificate's end");
    assert!(expiry.parse::<f64>().unwrap() > 1.7e9, "{expiry}");
    world.check_promises().await;
}

async fn a_signal_makes_the_operator_write_its_state_to_its_log(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").singles().await;
    // The plan is delayed, so it is in flight for as long as the test needs it.
    let gang =
        world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(600)).create().await;
    let plan = gang.wait_plan(PlanState::Planned, MINUTE).await;
    let in_flight = [r#"giveway_operator_preemptions_in_flight{cause="Preemptor",stage="Planned"} 1"#];
    wait_metrics(world, "the plan is counted", &in_flight).await;
    let dump = world.operator_dump().await;
    let operator = &dump["operator"];
    assert_eq!((operator["leader"]["term"].as_str(), operator["mode"].as_str()), (Some(&*plan.term), Some("enforce")));
    assert!(operator["watches"]["Pod"]["eventAgeSeconds"].is_u64(), "{operator:#}");
    let plans = &dump["plans"];
    let entries = plans["entries"].as_array().unwrap();
    let shown = entries.iter().find(|entry| entry["name"] == *plan.id).unwrap_or_else(|| panic!("{plans:#}"));
    let words = ["preemptor", "state", "stored", "waitsFor"].map(|field| shown[field].as_str().unwrap_or("-"));
    let train = format!("podgroup/{}/train", plan.preemptor.namespace);
    assert_eq!(words, [&*train, "Planned", "Planned", "PreemptionDelay"], "{shown:#}");
    let numbers = ["members", "victims", "evicted"].map(|field| shown[field].as_u64());
    assert_eq!(numbers, [Some(4), Some(4), Some(0)], "{shown:#}");
    for pod in &gang.pods {
        pod.delete().await;
    }
    gang.delete().await;
    let ended = [r#"giveway_operator_preemptions_in_flight{cause="Preemptor",stage="Planned"} 0"#];
    wait_metrics(world, "no plan is in flight", &ended).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn promtool_accepts_the_metrics_of_both_daemons() {
    let mut world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let gang = world.gang("train", 4).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    gang.wait_plan(PlanState::Completed, MINUTE).await;
    world.gang("patient", 20).priority("low").create().await;
    // The metrics of a preemption and of a pending group have samples.
    let counted = [
        r#"giveway_operator_evictions_total{preemptor_class="high",victim_class="low",cause="plan",way="eviction"} 4"#,
        r#"giveway_operator_plans_total{outcome="Completed"} 1"#,
        r#"giveway_operator_waiting_groups{reason="Unschedulable",class="low"} 1"#,
    ];
    wait_metrics(&world, "the preemption and the pending group are counted", &counted).await;
    check_with_promtool(&world.operator_metrics().await);
    let (_, webhook) = world.webhook().http("/metrics").await.unwrap();
    check_with_promtool(&webhook);
    world.check_promises().await;
}

/// Fails if `promtool check metrics` reports an error in what was scraped.
fn check_with_promtool(metrics: &str) {
    let mut promtool = Command::new(paths::promtool().unwrap());
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{metrics}", String::from_utf8_lossy(&output.stderr));
}
