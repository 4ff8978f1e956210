//! The sentences of admission that are made in the crate `giveway_crds`, because the operator or the plugin says them, too, or
//! because they follow from its table of kinds. Rejections of labels and settings are in the entries of `pods`.

use super::{Entry, warning};
use giveway_crds::kinds::job::Additions;
use giveway_crds::kinds::templates::grouped;
use giveway_crds::kinds::traps::obstacle;
use giveway_crds::kinds::warnings::warnings;
use giveway_crds::kinds::{GangSettings, KINDS, OwnerKind, classes};
use giveway_crds::lending::RequestedPriority;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::{Class, Classes};
use serde_json::{Value, json};

/// Returns the classes `low` (10) and `high` (1000).
fn known() -> Classes {
    let mut known = Classes::default();
    for (name, value) in [("low", 10), ("high", 1000)] {
        known.upsert(Class {
            name: name.to_owned(),
            value,
            global_default: false,
            scheduler_policy: PreemptionPolicy::PreemptLowerPriority,
            managed: false,
            managed_policy: None,
            threshold: None,
        });
    }
    known
}

fn row(kind: &str) -> &'static OwnerKind {
    KINDS.iter().find(|row| row.kind == kind).unwrap()
}

/// Returns the sentences.
pub fn entries() -> Vec<Entry> {
    [of_priorities(), of_obstacles(), of_classes(), of_jobs(), of_others()].concat()
}

fn of_priorities() -> Vec<Entry> {
    let known = known();
    let group =
        |class_name: Option<&'static str>, priority: i32| RequestedPriority { group: "train", class_name, priority };
    let below =
        |group: RequestedPriority<'_>, class: &str, priority: i32| group.refusal(class, priority, &known).unwrap();
    vec![
        warning(
            "lending::refusal",
            [
                below(group(Some("high"), 1000), "low", 10),
                below(group(Some("high"), 1000), "", 0),
                below(group(None, 0), "scavenger", -10),
                below(group(Some("high"), 2000), "high", 1000),
                below(group(Some("deleted"), 1000), "low", 10),
            ],
        ),
        warning("lending::warning", [group(Some("low"), 10).warning("high", 1000).unwrap()]),
    ]
}

/// Returns the rejection of a gang of this kind that never starts.
fn never_starts(kind: &str, owner: &Value) -> String {
    let (row, asked) = (row(kind), GangSettings { gang: Some(true), min_count: None });
    obstacle(row, owner, &grouped(row, owner, true, &asked)).unwrap().refusal()
}

fn of_obstacles() -> Vec<Entry> {
    let leader = |annotations: Value, policy: &str| {
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"startupPolicy": policy, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {}}},
        })
    };
    let exclusive = json!({"leaderworkerset.sigs.k8s.io/exclusive-topology": "zone"});
    let job = json!({"name": "workers", "template": {"spec": {"parallelism": 2, "completions": 2, "template": {}}}});
    let set = json!({
        "metadata": {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "zone"}},
        "spec": {"replicatedJobs": [job]},
    });
    vec![warning(
        "traps::obstacle",
        [
            never_starts("StatefulSet", &json!({"spec": {"template": {}}})),
            never_starts("LeaderWorkerSet", &leader(json!({}), "LeaderReady")),
            never_starts("LeaderWorkerSet", &leader(exclusive, "LeaderCreated")),
            never_starts("JobSet", &set),
        ],
    )]
}

fn of_classes() -> Vec<Entry> {
    let pods = |class: &str| json!({"metadata": {}, "spec": {"priorityClassName": class}});
    let owner =
        json!({"spec": {"leaderWorkerTemplate": {"leaderTemplate": pods("high"), "workerTemplate": pods("low")}}});
    let row = row("LeaderWorkerSet");
    let named = classes::named(row, &owner, &grouped(row, &owner, true, &GangSettings::default()));
    vec![
        warning("classes::warning", [classes::warning(&named, &known()).unwrap()]),
        warning("classes::warning_below", [classes::warning_below(&named, "train-0", 1000, &known()).unwrap()]),
    ]
}

/// Returns the only warning about a gang of this kind.
fn warned(kind: &str, spec: &Value) -> String {
    let (row, owner) = (row(kind), json!({ "spec": spec }));
    let templates = grouped(row, &owner, true, &GangSettings::default());
    let found = warnings(row, &owner, &templates, &Classes::default(), Additions::default());
    let [warning] = found.try_into().unwrap();
    warning
}

/// Returns the only warning about a Job of this many pods with these fields.
fn job(size: i64, fields: &Value) -> String {
    let mut spec = json!({"parallelism": size, "completions": size, "template": {"spec": {"restartPolicy": "Never"}}});
    json_patch::merge(&mut spec, fields);
    warned("Job", &spec)
}

fn of_jobs() -> Vec<Entry> {
    let rules = |rules: Value| json!({"podFailurePolicy": {"rules": rules}});
    let disruption = |action: &str| json!([{"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]}]);
    let exit = json!([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}]);
    let mut fewer = rules(disruption("Ignore"));
    fewer["completions"] = Value::Null;
    vec![
        warning("job::warnings, no rule that ignores disruptions", [0, 1, 2].map(|size| job(size, &json!({})))),
        warning(
            "job::warnings, other limits and pods that are restarted",
            [
                job(2, &json!({"backoffLimitPerIndex": 1})),
                job(2, &json!({"backoffLimit": 3, "template": {"spec": {"restartPolicy": "OnFailure"}}})),
            ],
        ),
        warning(
            "job::warnings, a rule with another action",
            [
                job(2, &rules(disruption("FailJob"))),
                job(2, &rules(disruption("FailIndex"))),
                job(2, &rules(disruption("Count"))),
                job(2, &rules(exit)),
            ],
        ),
        warning("job::warnings, a long back-off", [job(4, &rules(disruption("Ignore"))), job(16, &fewer)]),
    ]
}

fn of_others() -> Vec<Entry> {
    let launcher = json!({"mpiReplicaSpecs": {"Launcher": {"template": {}}, "Worker": {"template": {}}}});
    let deadline = |seconds: i64| {
        let torch = json!({"Worker": {"template": {}}});
        warned("PyTorchJob", &json!({"runPolicy": {"activeDeadlineSeconds": seconds}, "pytorchReplicaSpecs": torch}))
    };
    vec![
        warning("warnings::of_launcher", [warned("MPIJob", &launcher)]),
        warning("warnings::of_deadlines", [0, 1, 3600].map(deadline)),
    ]
}
