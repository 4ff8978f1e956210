use super::World;
use giveway_cluster::objects::kinds::{NODE, POD, PREEMPTION};
use giveway_planner::{ObjectKey, Preemptor, Reservation};
use serde_json::{Value, json};

fn plan(name: &str, parts: u32, state: &str) -> Value {
    let placement = json!({"pod": "train-0", "uid": "u-train-0", "node": "n1"});
    json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": name},
        "spec": {"strategy": "least-cost", "part": 1, "parts": parts, "placements": [placement], "victims": [],
            "preemptor": {"kind": "Pod", "namespace": "ml", "name": "train-0", "uid": "u-train-0", "priority": 9},
            "cost": {"budgetViolations": 0, "victimPods": 0, "victimGroups": 0}},
        "status": {"state": state}})
}

fn pod(name: &str, node: Option<&str>) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml", "uid": format!("u-{name}")},
        "spec": {"nodeName": node, "priority": 9, "containers": [{"name": "c"}]}, "status": {"phase": "Pending"}})
}

fn preemptor() -> Preemptor {
    Preemptor::Pod(ObjectKey::new("ml", "train-0"))
}

#[test]
fn what_a_plan_reserves_ends_with_the_plan() {
    let mut world = World::of_live_cluster();
    world.put(&pod("train-0", None));
    world.put(&plan("a-1", 1, "Evicting"));
    world.update_derived(Vec::new());
    assert_eq!(world.cluster.reserved_for("u-train-0"), Some(("n1", Reservation::Started(9))));
    assert!(world.last_plan(&preemptor()).is_some());
    world.put(&plan("a-1", 1, "Completed"));
    world.update_derived(Vec::new());
    assert_eq!(world.cluster.reserved_for("u-train-0"), None);
    assert!(world.last_plan(&preemptor()).is_some(), "the plan is history");
    world.remove(&PREEMPTION, &ObjectKey::new("", "a-1"));
    world.update_derived(Vec::new());
    assert!(world.last_plan(&preemptor()).is_none());
}

#[test]
fn an_object_is_left_out_while_it_cannot_be_read_and_then_no_longer() {
    let mut world = World::of_live_cluster();
    world.put(&pod("train-0", None));
    let mut wrong = pod("train-0", None);
    wrong["spec"]["priority"] = json!("high");
    world.put(&wrong);
    world.put(&plan("a-1", 2, "Evicting"));
    world.update_derived(vec!["You may not list Nodes, so none is known.".to_owned()]);
    assert!(!world.has(&preemptor()), "what it was before does not count any more");
    assert_eq!(world.notes.len(), 3, "{:?}", world.notes);
    assert_eq!(world.notes[0], "You may not list Nodes, so none is known.");
    assert!(world.notes[1].starts_with("Left out: cluster: Pod ml/train-0: spec.priority: "), "{:?}", world.notes);
    assert!(world.notes[2].starts_with("Left out: Preemption a-1: "), "{:?}", world.notes);
    world.put(&pod("train-0", None));
    world.remove(&PREEMPTION, &ObjectKey::new("", "a-1"));
    world.update_derived(Vec::new());
    assert!(world.has(&preemptor()) && world.notes.is_empty(), "{:?}", world.notes);
}

#[test]
fn removed_nodes_and_pods_are_not_known_any_more() {
    let mut world = World::of_live_cluster();
    world.put(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}));
    world.put(&pod("train-0", Some("n1")));
    world.put(&pod("train-1", None));
    assert_eq!((world.nodes.len(), world.pending.len(), world.cluster.pods().count()), (1, 1, 2));
    for name in ["train-0", "train-1"] {
        world.remove(&POD, &ObjectKey::new("ml", name));
    }
    world.remove(&NODE, &ObjectKey::new("", "n1"));
    assert_eq!((world.nodes.len(), world.pending.len(), world.cluster.pods().count()), (0, 0, 0));
    assert_eq!(world.cluster.nodes().count(), 0);
}
