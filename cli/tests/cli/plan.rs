//! `plan` on files: exact outputs.
use crate::common::{Printed, giveway, giveway_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TRAINING: [&str; 7] = ["plan", "-f", "training.yaml", "--snapshot", "cluster.yaml", "-n", "research"];

fn training(more: &[&str], columns: Option<&str>) -> String {
    let args = [&TRAINING[..], &["--strategy", "kep5710"], more].concat();
    let printed = giveway_with(&args, columns, "");
    assert_eq!((printed.status, printed.err.as_str()), (Some(0), ""));
    printed.out
}

#[track_caller]
fn golden(name: &str, printed: &str) {
    let path = crate::common::data().with_file_name("golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, printed).unwrap();
    }
    assert_eq!(printed, std::fs::read_to_string(&path).unwrap(), "{name}; UPDATE_GOLDEN=1 writes it again");
}

#[test]
fn a_plan_as_a_table_names_victims_owners_and_what_each_loses() {
    golden("training.txt", &training(&[], None));
}

#[test]
fn a_table_fits_a_narrow_terminal() {
    let text = training(&[], Some("60"));
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    golden("training-60.txt", &text);
}

#[test]
fn explain_says_how_the_plan_was_found_and_why_each_victim_is_evicted() {
    let text = training(&["--explain"], None);
    assert!(text.contains("How it was found (kep5710)\n  - "), "{text}");
    let why = "  - podgroup/research/nightly: Its priority 10 is below 1000, and the capacity of 4 of its 4 pods is \
               needed; all its pods are disrupted together.\n";
    assert!(text.contains(why), "{text}");
}

/// A plan for pods of class high with two CPUs each, on `cluster.yaml`.
fn pods(names: &[&str], more: &[&str]) -> Printed {
    let pod = |name: &&str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{priorityClassName: high, \
             containers: [{{name: c, resources: {{requests: {{cpu: '2'}}}}}}]}}}}"
        )
    };
    let manifest = names.iter().map(pod).collect::<Vec<_>>().join("\n---\n");
    let printed = giveway_with(&[&["plan", "-f", "-", "--snapshot", "cluster.yaml"], more].concat(), None, &manifest);
    assert_eq!((printed.status, printed.err.as_str()), (Some(0), ""));
    printed
}

#[test]
fn explain_gives_reasons_for_the_victims_and_then_for_the_units_that_stay() {
    let text = pods(&["p"], &["--explain"]).out;
    let end = "  - 1 other unit of a priority below 1000 has no pod on the nodes of the placement.\n  - \
               pod/shop/web-7d9f-b: Its priority 0 is below 1000, and its capacity is needed.\n  - \
               pod/shop/web-7d9f-a stays: The preemptor fits on node n2 beside it once the victims have terminated.\n";
    assert!(text.ends_with(end), "{text}");
    let answer = pods(&["p"], &["-o", "json"]).json();
    assert_eq!(
        answer["notEvicted"],
        json!([{"kind": "Pod", "namespace": "shop", "name": "web-7d9f-a", "priority": 0,
            "why": "The preemptor fits on node n2 beside it once the victims have terminated."}])
    );
    let last = answer["trace"].as_array().unwrap().last().unwrap();
    assert_eq!(last, "1 other unit of a priority below 1000 has no pod on the nodes of the placement.");
}

#[test]
fn explain_names_single_changes_that_would_make_a_gang_fit() {
    let manifest = std::fs::read_to_string(crate::common::data().join("training.yaml")).unwrap();
    let manifest = manifest.replace("minCount: 6", "minCount: 9").replace(": 6\n", ": 9\n");
    let args = ["plan", "-f", "-", "--snapshot", "cluster.yaml", "-n", "research", "-o", "json"];
    let answer = giveway_with(&args, None, &manifest).json();
    assert_eq!((&answer["schedulable"], answer.get("changes")), (&json!(false), None));
    let answer = giveway_with(&[&args[..], &["--explain"]].concat(), None, &manifest).json();
    let words = "With minCount 8 instead of 9, it would preempt 6 pods (1 whole group) of priority 10 and below, 0 budget violations.";
    assert_eq!(answer["changes"][0], words, "{answer:#}");
}

#[test]
fn a_victim_of_a_later_decision_is_not_evicted_by_the_first_one() {
    let answer = pods(&["p", "q"], &["-o", "json"]).json();
    assert_eq!(answer["victimPods"], json!(["shop/web-7d9f-b", "shop/web-7d9f-a"]));
    assert_eq!(answer["decisions"][0]["notEvicted"][0]["name"], "web-7d9f-a");
    assert_eq!((&answer["decisions"][1]["notEvicted"], &answer["notEvicted"]), (&json!([]), &json!([])));
}

#[test]
fn a_plan_as_a_graph_is_a_digraph() {
    golden("training.dot", &training(&["-o", "dot"], None));
}

#[test]
fn json_and_yaml_say_the_same() {
    let json: Value = serde_json::from_str(&training(&["-o", "json"], None)).unwrap();
    let yaml: Value = serde_yaml_ng::from_str(&training(&["-o", "yaml"], None)).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["victims"][0]["loses"], json!({"pods": 4, "of": 4, "unit": "PodGroup/nightly"}));
    assert_eq!(json["victims"][0]["owner"], "Job/nightly");
    assert_eq!(json["victims"][1]["owner"], "Deployment/web");
    assert_eq!(json["cost"]["victimPods"], 6);
}

#[test]
fn no_colour_is_printed_where_output_is_no_terminal() {
    assert!(!training(&[], None).contains('\u{1b}'));
}

#[test]
fn a_manifest_and_a_snapshot_are_read_from_standard_input() {
    let manifest = std::fs::read_to_string(crate::common::data().join("training.yaml")).unwrap();
    let args = ["plan", "-f", "-", "--snapshot", "cluster.yaml", "-n", "research", "--strategy", "kep5710"];
    assert_eq!(giveway_with(&args, None, &manifest).out, training(&[], None));
}

#[test]
fn every_kind_with_a_pod_template_becomes_the_pods_that_its_controller_makes() {
    let answer = giveway(&["plan", "-f", "kinds.yaml", "--snapshot", "roomy.yaml", "-o", "json"]).json();
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for placement in answer["placements"].as_array().unwrap() {
        let name = placement["pod"].as_str().unwrap();
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-').to_owned();
        *made.entry(base).or_default() += 1;
    }
    let wanted = [
        ("default/report-planned", 2),
        ("default/serve-leader", 2),
        ("default/serve-worker", 4),
        ("default/set-driver", 1),
        ("default/set-workers", 4),
        ("default/single", 1),
        ("default/torch-master", 1),
        ("default/torch-worker", 2),
        ("default/web", 2),
    ];
    assert_eq!(made, wanted.into_iter().map(|(name, count)| (name.to_owned(), count)).collect());
    assert_eq!(answer["message"], "Of 19 decisions, 19 fit now.");
    assert_eq!(
        answer["notes"],
        json!(["CronJob default/report is planned as one run of it.", "Not looked at: 1 ConfigMap."])
    );
}

#[test]
fn admission_is_applied_in_memory_class_limits_and_group() {
    // The pods name no class and no requests: both follow, from their group and from their limits.
    let answer: Value = serde_json::from_str(&training(&["-o", "json"], None)).unwrap();
    assert_eq!((&answer["priority"], &answer["preemptor"]), (&json!(1000), &json!("podgroup/research/training")));
    assert_eq!(answer["placements"].as_array().unwrap().len(), 6);
}

#[test]
fn a_pod_of_a_group_that_does_not_exist_stays_gated() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {scheduling.giveway.dev/pod-group: none}}, \
               spec: {containers: [{name: c}]}}";
    let answer = giveway_with(&["plan", "-f", "-", "--snapshot", "roomy.yaml", "-o", "json"], None, pod).json();
    assert_eq!((&answer["schedulable"], &answer["reason"]), (&json!(false), &json!("PodGroupNotFound")));
    assert_eq!(answer["message"], "PodGroup default/none does not exist: its pods stay gated until it does.");
}

#[test]
fn a_group_is_made_from_the_template_of_a_workload_that_its_pods_name() {
    let manifest = "
{apiVersion: scheduling.giveway.dev/v1alpha1, kind: Workload, metadata: {name: w}, spec: {podGroupTemplates: [
  {name: t, schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 2, template: {metadata: {labels: {
  scheduling.giveway.dev/workload: w, scheduling.giveway.dev/pod-group-template: t}},
  spec: {containers: [{name: c, resources: {requests: {cpu: '2'}}}]}}}}";
    let args = ["plan", "-f", "-", "--snapshot", "cluster.yaml", "-o", "json"];
    let answer = giveway_with(&args, None, manifest).json();
    assert_eq!((&answer["preemptor"], &answer["priority"]), (&json!("podgroup/default/w-t"), &json!(1000)));
    assert_eq!(answer["victimPods"].as_array().unwrap().len(), 2, "{answer:#}");
}

/// Two pods of one zone, whose group is created from a template with this policy.
fn zoned(policy: &str, more: &[&str]) -> Printed {
    constrained(policy, "[{key: zone}]", more)
}

/// Two pods, whose group is created from a template with this policy and these domains.
fn constrained(policy: &str, topology: &str, more: &[&str]) -> Printed {
    let manifest = format!(
        "
{{apiVersion: scheduling.giveway.dev/v1alpha1, kind: Workload, metadata: {{name: w}}, spec: {{podGroupTemplates: [
  {{name: t, schedulingPolicy: {policy}, schedulingConstraints: {{topology: {topology}}}, priorityClassName: high}}]}}}}
---
{{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, spec: {{parallelism: 2, template: {{metadata: {{labels: {{
  scheduling.giveway.dev/workload: w, scheduling.giveway.dev/pod-group-template: t}}}},
  spec: {{containers: [{{name: c, resources: {{requests: {{cpu: '2'}}}}}}]}}}}}}}}"
    );
    giveway_with(&[&["plan", "-f", "-", "--snapshot", "cluster.yaml"], more].concat(), None, &manifest)
}

#[test]
fn a_group_in_one_zone_gets_its_name_and_with_explain_the_cost_of_the_others() {
    let answer = zoned("{gang: {minCount: 2}}", &["-o", "json"]).json();
    assert_eq!(answer["domain"], json!({"key": "zone", "value": "b"}), "{answer:#}");
    let table = zoned("{gang: {minCount: 2}}", &["--explain"]).out;
    for part in ["It fits in zone=b once its victims have terminated: ", "\n  - zone=b: 2 members, 2 pods"] {
        assert!(table.contains(part), "{part} is not in:\n{table}");
    }
    // A domain that can only be more expensive is not searched, but counted.
    assert!(table.contains("\n  - zone=a: ") || table.contains("not searched"), "{table}");
}

#[test]
fn a_basic_group_cannot_ask_for_a_domain() {
    let printed = zoned("{basic: {}}", &[]);
    let why = "spec.schedulingConstraints.topology[0].key: Invalid value: \"zone\": cannot be used with schedulingPolicy \
               `basic`, whose pods are not gated: use schedulingPolicy `gang`";
    assert!(printed.err.contains(why), "{}", printed.err);
    assert_eq!(printed.status, Some(2));
}

#[test]
fn manifests_that_the_api_server_rejects_are_rejected() {
    for (topology, why) in [
        ("[{key: zone}, {key: rack}]", "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"),
        ("[{key: my zone}]", "spec.schedulingConstraints.topology[0].key: Invalid value: \"my zone\": must be the key"),
    ] {
        let printed = constrained("{gang: {minCount: 2}}", topology, &[]);
        assert!(printed.err.contains(why), "{}", printed.err);
        assert_eq!(printed.status, Some(2));
    }
}

#[test]
fn a_pod_of_a_class_that_is_not_managed_is_left_to_the_scheduler_and_the_plan_says_so() {
    let pod = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: plain}, value: 500}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priorityClassName: plain, containers: [
  {name: c, resources: {requests: {cpu: '2'}}}]}}";
    let answer = giveway_with(&["plan", "-f", "-", "--snapshot", "cluster.yaml", "-o", "json"], None, pod).json();
    assert_eq!(answer["preemptionNeeded"], true);
    let note =
        "Priority class plain is not managed by Giveway: kube-scheduler preempts for it, and may choose other victims.";
    assert_eq!(answer["notes"], json!([note]));
}

#[test]
fn completion_scripts_are_printed_for_four_shells() {
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef kubectl-giveway"),
        ("fish", "complete -c"),
        ("powershell", "Register-"),
    ] {
        let printed = giveway(&["completion", shell]);
        assert_eq!(printed.status, Some(0));
        assert!(printed.out.contains(part), "{shell}");
        for command in ["plan", "capacity", "why", "snapshot", "adopt", "release", "check", "mode", "cleanup"] {
            assert!(printed.out.contains(command), "{shell} does not complete {command}");
        }
    }
}

/// `p` of priority 9 with claim `data` is pending; nodes `a` and `b` are full.
fn with_volumes(more: &str) -> Printed {
    let node = |name: &str| {
        format!(
            "{{kind: Node, apiVersion: v1, metadata: {{name: {name}, labels: {{host: {name}}}}}, \
             status: {{allocatable: {{cpu: '1', pods: '9'}}}}}}"
        )
    };
    let pod = |name: &str, spec: &str| {
        format!(
            "{{kind: Pod, apiVersion: v1, metadata: {{name: {name}, namespace: default, uid: {name}}}, spec: {{{spec}, \
             containers: [{{name: c, resources: {{requests: {{cpu: '1'}}}}}}]}}}}"
        )
    };
    let claim = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]";
    let items = [
        node("a"),
        node("b"),
        pod("low-a", "nodeName: a, priority: 0"),
        pod("low-b", "nodeName: b, priority: 0"),
        pod("p", &format!("priority: 9, {claim}")),
    ];
    let list = format!("{{kind: List, apiVersion: v1, items: [{}{more}]}}", items.join(", "));
    giveway_with(&["plan", "--snapshot", "-", "--for", "pod/p", "-o", "json"], None, &list)
}

#[test]
fn a_volume_of_a_snapshot_pins_its_pod_and_without_it_no_pod_is_evicted() {
    let left = "No pod is evicted for it; kube-scheduler places it.";
    let old = with_volumes("").json();
    let message =
        format!("Where it can run depends on what Giveway does not know: claim data, which was not found. {left}");
    assert_eq!((&old["schedulable"], &old["message"]), (&json!(false), &json!(message)));
    let rule = "{key: host, operator: In, values: [b]}";
    let volume = format!(
        ", {{kind: PersistentVolume, apiVersion: v1, metadata: {{name: pv}}, \
         spec: {{nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{rule}]}}]}}}}}}}}"
    );
    let claim = ", {kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: data, namespace: default}, \
                 spec: {volumeName: pv}, status: {phase: Bound}}";
    let known = with_volumes(&format!("{volume}{claim}")).json();
    assert_eq!(known["placements"][0]["node"], "b", "{known}");
    assert_eq!(known["victims"].as_array().map(Vec::len), Some(1));
}

/// The groups and their sizes that a plan for these manifests is for.
fn planned(manifest: &str) -> String {
    let printed = giveway_with(&["plan", "-f", "-", "--snapshot", "cluster.yaml"], None, manifest);
    assert_eq!((printed.status, printed.err.as_str()), (Some(0), ""));
    printed.out
}

#[test]
fn one_label_on_an_owner_is_planned_as_the_groups_that_giveway_would_make() {
    let template =
        "template: {spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}}";
    let metadata = "metadata: {name: train, labels: {scheduling.giveway.dev/gang: 'true'}}";
    let job = planned(&format!(
        "{{apiVersion: batch/v1, kind: Job, {metadata}, spec: {{parallelism: 2, completions: 2, {template}}}}}"
    ));
    assert!(job.contains("podgroup/default/train"), "{job}");
    let jobs =
        format!("[{{name: workers, replicas: 2, template: {{spec: {{parallelism: 2, completions: 2, {template}}}}}}}]");
    let set = planned(&format!(
        "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, {metadata}, spec: {{replicatedJobs: {jobs}}}}}"
    ));
    assert!(
        set.contains("podgroup/default/train-workers-0") && set.contains("podgroup/default/train-workers-1"),
        "{set}"
    );
    let plain = planned(&format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: train}}, spec: {{parallelism: 2, completions: 2, {template}}}}}"
    ));
    assert!(!plain.contains("podgroup/default/train"), "{plain}");
}

#[test]
fn a_pod_that_names_its_group_is_planned_without_an_owner() {
    let group = "{apiVersion: scheduling.giveway.dev/v1alpha1, kind: PodGroup, metadata: {name: train}, \
                 spec: {schedulingPolicy: {gang: {minCount: 1}}, priorityClassName: high}}";
    let labels = "{scheduling.giveway.dev/gang: 'true', scheduling.giveway.dev/pod-group: train}";
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: copy, labels: {labels}}}, spec: {{priorityClassName: high, \
         containers: [{{name: c, resources: {{requests: {{cpu: '1'}}}}}}]}}}}"
    );
    let printed = planned(&format!("{group}\n---\n{pod}"));
    assert!(printed.contains("podgroup/default/train"), "{printed}");
}

/// A file has no present: the latest `creationTimestamp` stands for it, as in what `kubectl get` prints.
#[test]
fn lost_work_counts_in_a_file_whose_objects_say_when_they_were_created() {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}}})
    };
    let pod = |name: &str, node: Option<&str>, cpu: &str, started: &str, priority: i32| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": node, "priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": "Running", "startTime": started}})
    };
    let mut items = vec![
        node("a"),
        node("b"),
        pod("four-cores", Some("a"), "4", "2026-01-01T00:20:00Z", 0),
        pod("three-cores", Some("b"), "3", "2026-01-01T00:10:00Z", 0),
        pod("p", None, "3", "2026-01-01T01:00:00Z", 10),
    ];
    let victims = |items: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        giveway_with(&["plan", "--snapshot", "-", "--for", "pod/p", "-o", "json"], None, &list).json()["victimPods"]
            .clone()
    };
    assert_eq!(victims(&items), json!(["default/four-cores"]), "without a time the latest start decides");
    items[4]["metadata"]["creationTimestamp"] = json!("2026-01-01T01:00:00Z");
    assert_eq!(victims(&items), json!(["default/three-cores"]), "three cores for 50 minutes are less than four for 40");
}
