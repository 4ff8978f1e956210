//! Traces: one per preemption, from the admission of its pods until they are bound, with the same id in the log.

use crate::MINUTE;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::Shaped;
use giveway_tests::collector::Collector;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::Value;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_preemption_is_one_trace_and_the_log_has_its_id;
    ]
}

/// Returns the value of an attribute as text.
fn attribute(attributes: &Value, key: &str) -> String {
    let found = attributes.as_array().into_iter().flatten().find(|attribute| attribute["key"] == key);
    match found.map(|attribute| &attribute["value"]) {
        Some(Value::Object(value)) => value.values().next().map(|v| v.to_string().replace('"', "")).unwrap_or_default(),
        other => format!("{other:?}"),
    }
}

/// Returns start and end of a span in ns since the epoch.
fn times(span: &Value) -> [u64; 2] {
    ["startTimeUnixNano", "endTimeUnixNano"].map(|time| span[time].as_str().unwrap().parse().unwrap())
}

async fn a_preemption_is_one_trace_and_the_log_has_its_id() {
    let collector = Collector::start().await.unwrap();
    let mut world = World::builder().operator_flag(&format!("--traces-endpoint={}", collector.url())).start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(3).create().await;
    world.fill(&nodes).priority("low").singles().await;
    // A gang that fits has no trace.
    let free = world.nodes(1).cpus(1).prefix("free").create().await;
    world.gang("small", 1).priority("high").create().await.wait_bound(MINUTE).await;
    assert_eq!(free.len(), 1);
    let gang = world.gang("train", 3).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    let spans = wait_for("the collector has the trace", MINUTE, async || {
        let spans = collector.spans();
        if spans.is_empty() { Err("it has no spans".to_owned()) } else { Ok(spans) }
    })
    .await;
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    let stages = ["waiting for a plan", "planned", "evicting", "waiting for victims", "ungating"];
    assert_eq!((names[0], &names[1..]), ("preemption", &stages[..]));
    let [root, stages @ ..] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(attribute(&root["resource"], "service.name"), "giveway-operator");
    let about = &root["attributes"];
    let keys =
        ["giveway.plan", "k8s.namespace.name", "giveway.preemptor.name", "giveway.victim_pods", "giveway.outcome"];
    let wanted = [plan.id.as_str(), "default", "train", "3", "Completed"];
    assert_eq!(keys.map(|key| attribute(about, key)), wanted);
    let mut end = times(root)[0];
    for stage in stages {
        assert_eq!((&stage["traceId"], &stage["parentSpanId"]), (&root["traceId"], &root["spanId"]), "{stage}");
        assert_eq!(times(stage)[0], end, "each stage starts when the previous one ends");
        end = times(stage)[1];
    }
    assert_eq!(end, times(root)[1]);
    let log = std::fs::read_to_string(world.operator().log()).unwrap();
    let id = root["traceId"].as_str().unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(id)).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line.contains(&plan.id)), "{lines:?}");
    world.check_promises().await;
}
