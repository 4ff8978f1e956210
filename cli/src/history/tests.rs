use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-11-22T12:00:00Z";

/// Returns Preemptions in which a gang of namespace `ml` preempts a group of `batch` and a single pod of `web`, and
/// later a pod of `web` preempts one pod of the gang.
fn stored() -> Vec<Preemption> {
    let pods = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"name": name, "uid": format!("u-{name}"), "node": "n1"})).collect()
    };
    let objects = json!([
        {
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "b-2"},
            "spec": {
                "strategy": "least-cost", "part": 1, "parts": 1, "placements": [],
                "preemptor": {"kind": "Pod", "namespace": "web", "name": "vip", "uid": "u-vip", "priority": 2000},
                "victims": [{"kind": "PodGroup", "namespace": "ml", "name": "train", "priority": 1000, "pods": pods(&["train-0", "train-1"])}],
                "cost": {"budgetViolations": 0, "victimPods": 2, "victimGroups": 1}
            },
            "status": {"state": "Evicting", "plannedAt": "2026-11-22T11:59:30Z", "message": "Evicting 2 pods, so that 1 pod fits."}
        },
        {
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "a-1"},
            "spec": {
                "strategy": "least-cost", "part": 1, "parts": 1,
                "placements": [{"pod": "train-0", "uid": "u", "node": "n1"}, {"pod": "train-1", "uid": "v", "node": "n1"}],
                "preemptor": {"kind": "PodGroup", "namespace": "ml", "name": "train", "uid": "u-train", "priority": 1000},
                "victims": [
                    {"kind": "PodGroup", "namespace": "batch", "name": "nightly", "priority": 10, "owner": {"apiGroup": "batch", "kind": "Job", "name": "nightly"}, "pods": pods(&["nightly-0", "nightly-1"])},
                    {"kind": "Pod", "namespace": "web", "name": "web-a", "priority": 0, "pods": pods(&["web-a"])}
                ],
                "cost": {"budgetViolations": 0, "victimPods": 3, "victimGroups": 1}
            },
            "status": {
                "state": "Completed", "plannedAt": "2026-11-22T11:00:00Z", "finishedAt": "2026-11-22T11:00:09Z",
                "message": "2 of 2 pods of the plan were bound."
            }
        },
        {
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "c-3"},
            "spec": {
                "strategy": "least-cost", "part": 1, "parts": 2, "placements": [], "victims": [],
                "preemptor": {"kind": "Pod", "namespace": "web", "name": "other", "uid": "u", "priority": 1},
                "cost": {"budgetViolations": 0, "victimPods": 1, "victimGroups": 0}
            }
        }
    ]);
    serde_json::from_value(objects).unwrap()
}

fn lines(about: &HistoryScope) -> Vec<String> {
    let table = History::new(stored(), about).table(about, NOW.parse().unwrap(), None, false);
    // The width of the columns is tested with the table.
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn one(target: Preemptor) -> HistoryScope {
    HistoryScope::One(target)
}

const HEAD: &str = "AGE PREEMPTOR PRIORITY PODS VICTIMS STATE PREEMPTION";
const LEFT_OUT: &str = "Note: Preemption c-3 is left out: not every part of the plan was stored (1 of 2).";

#[test]
fn a_wide_table_has_end_and_message_and_names_are_arguments_of_kubectl() {
    let history = History::new(stored(), &HistoryScope::All);
    let table = history.table(&HistoryScope::All, NOW.parse().unwrap(), None, true);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head.join(" "), format!("{HEAD} FINISHED MESSAGE"));
    let names = "preemption.scheduling.giveway.dev/a-1\npreemption.scheduling.giveway.dev/b-2\n";
    assert_eq!(history.names(), names);
}

#[test]
fn all_stored_preemptions_are_listed_the_oldest_first() {
    assert_eq!(
        lines(&HistoryScope::All),
        [
            HEAD,
            "60m podgroup/ml/train 1000 3 podgroup/batch/nightly, pod/web/web-a Completed a-1",
            "30s pod/web/vip 2000 2 podgroup/ml/train Evicting b-2",
            LEFT_OUT,
        ]
    );
    assert_eq!(lines(&HistoryScope::Namespace("batch".into())).len(), 3);
    assert_eq!(
        lines(&HistoryScope::Namespace("none".into())),
        ["No preemption that is kept concerns namespace none.", LEFT_OUT]
    );
}

#[test]
fn the_tenth_plan_of_a_second_comes_after_its_ninth() {
    let numbered = |name: &str| {
        let mut plan = stored().swap_remove(0);
        plan.metadata.name = Some(name.to_owned());
        plan
    };
    let history = History::new(["pre-1-10", "pre-1-9", "pre-1-2"].map(numbered).to_vec(), &HistoryScope::All);
    let order: Vec<&str> = history.items.iter().map(|row| row.preemption.as_str()).collect();
    assert_eq!(order, ["pre-1-2", "pre-1-9", "pre-1-10"]);
}

#[test]
fn a_group_is_listed_as_preemptor_and_as_victim() {
    assert_eq!(
        lines(&one(Preemptor::Group(ObjectKey::new("ml", "train")))),
        [
            HEAD,
            "60m podgroup/ml/train 1000 3 podgroup/batch/nightly, pod/web/web-a Completed a-1",
            "30s pod/web/vip 2000 2 podgroup/ml/train: train-0, train-1 Evicting b-2",
            LEFT_OUT,
        ]
    );
    let roles: Vec<Option<HistoryRole>> = History::new(stored(), &one(Preemptor::Group(ObjectKey::new("ml", "train"))))
        .items
        .iter()
        .map(|r| r.role)
        .collect();
    assert_eq!(roles, [Some(HistoryRole::Preemptor), Some(HistoryRole::Victim)]);
}

#[test]
fn of_a_pod_only_its_own_part_of_a_plan_is_listed_with_the_preemptor() {
    assert_eq!(
        lines(&one(Preemptor::Pod(ObjectKey::new("batch", "nightly-1")))),
        [HEAD, "60m podgroup/ml/train 1000 1 podgroup/batch/nightly: nightly-1 Completed a-1", LEFT_OUT]
    );
    assert_eq!(
        lines(&one(Preemptor::Pod(ObjectKey::new("web", "missing"))))[0],
        "No preemption that is kept concerns pod/web/missing."
    );
    // The pod is a member of a group that was placed and later preempted.
    assert_eq!(lines(&one(Preemptor::Pod(ObjectKey::new("ml", "train-0")))).len(), 4);
}

#[test]
fn programs_get_names_times_and_every_victim() {
    let about = one(Preemptor::Pod(ObjectKey::new("web", "web-a")));
    let json = serde_json::to_value(History::new(stored(), &about)).unwrap();
    assert_eq!(
        json["items"],
        json!([{
            "cause": "Preemptor",
            "preemption": "a-1", "plannedAt": "2026-11-22T11:00:00Z", "finishedAt": "2026-11-22T11:00:09Z",
            "state": "Completed", "message": "2 of 2 pods of the plan were bound.", "role": "victim", "pods": 1,
            "strategy": "least-cost",
            "preemptor": {"kind": "PodGroup", "namespace": "ml", "name": "train", "uid": "u-train", "priority": 1000},
            "victims": [{
                "kind": "Pod", "namespace": "web", "name": "web-a", "priority": 0, "violatesBudget": false,
                "pods": [{"name": "web-a", "uid": "u-web-a", "node": "n1"}],
            }],
        }])
    );
}

#[test]
fn a_plan_for_a_critical_add_on_is_marked_as_one() {
    let mut stored = stored();
    stored[0].spec.strategy = "critical-addon".into();
    stored[0].spec.critical_addon = Some(StoredRescue { step: 2, taint: true });
    let history = History::new(stored, &HistoryScope::Namespace("web".into()));
    let table = history.table(&HistoryScope::All, NOW.parse().unwrap(), None, false);
    let row = table.lines().find(|line| line.contains("b-2")).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(row, "30s pod/web/vip (critical add-on, step 2) 2000 2 podgroup/ml/train Evicting b-2");
    let json = serde_json::to_value(&history).unwrap();
    assert_eq!(json["items"][1]["strategy"], "critical-addon");
    assert_eq!(json["items"][1]["criticalAddon"], json!({"step": 2, "taint": true}));
    assert_eq!(json["items"][0].get("criticalAddon"), None);
}
