//! Owners that ask for a gang, on themselves or on their pod templates, are rejected as by admission, with its words. CronJobs are
//! planned as the Jobs that they create, and pods get what their RuntimeClass gives.

use super::*;
use giveway_crds::keys::{ANNOTATION_MIN_COUNT, ANNOTATION_PROTECTED, ANNOTATION_SERVED, LABEL_GANG};
use serde_json::{Value, json};

/// Returns a manifest as a file: its name, and its text.
fn file(object: &Value) -> (String, String) {
    ("train.yaml".to_owned(), object.to_string())
}

/// Returns the error for a manifest in this world and its exit status, or `None` if the manifest can be planned.
fn said_in(mut world: World, object: &Value) -> Option<(String, u8)> {
    let error = submit(&mut world, &[file(object)], "default", None, None).err();
    let name = format!("train.yaml: {} default/train: ", object["kind"].as_str().unwrap_or_default());
    let words = |error: &CliError| error.to_string().strip_prefix(&name).map(str::to_owned);
    error.map(|error| (words(&error).unwrap_or_else(|| panic!("{error}")), error.exit_status()))
}

fn said(object: &Value) -> Option<(String, u8)> {
    said_in(World::default(), object)
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "c"}]}})
}

fn object(api_version: &str, kind: &str, gang: impl Into<Value>, spec: Value) -> Value {
    let gang: Value = gang.into();
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "train", "labels": {LABEL_GANG: gang}}, "spec": spec})
}

fn set(gang: &str, policy: &str) -> Value {
    let spec = json!({"replicas": 2, "podManagementPolicy": policy, "template": template()});
    object("apps/v1", "StatefulSet", gang, spec)
}

fn job(gang: impl Into<Value>) -> Value {
    object("batch/v1", "Job", gang, json!({"template": template()}))
}

/// Returns the notes about a manifest that can be planned.
fn noted(world: &mut World, object: &Value) -> Vec<String> {
    submit(world, &[file(object)], "default", None, None).unwrap().notes
}

const DETAIL: &str = "each pod would wait until the one before it is ready, and no pod of a gang starts before all of them \
                      fit: use";

#[test]
fn a_stateful_set_that_creates_pods_one_after_the_other_is_rejected_as_a_gang() {
    let words = format!("spec.podManagementPolicy: Invalid value: \"OrderedReady\": {DETAIL} \"Parallel\"");
    let mut silent = set("true", "OrderedReady");
    silent["spec"].as_object_mut().unwrap().remove("podManagementPolicy");
    for ordered in [&set("true", "OrderedReady"), &silent] {
        assert_eq!(said(ordered), Some((words.clone(), 2)));
    }
    let mut one = set("true", "OrderedReady");
    one["metadata"]["annotations"] = json!({ANNOTATION_MIN_COUNT: "1"});
    for fine in [&set("true", "Parallel"), &set("false", "OrderedReady"), &one] {
        assert_eq!(said(fine), None);
    }
}

#[test]
fn the_label_in_the_pod_template_alone_is_checked_as_well() {
    let words = format!("spec.podManagementPolicy: Invalid value: \"OrderedReady\": {DETAIL} \"Parallel\"");
    let mut ordered = set("true", "OrderedReady");
    ordered["metadata"]["labels"] = json!({});
    assert_eq!(said(&ordered), None, "no gang");
    ordered["spec"]["template"]["metadata"] = json!({"labels": {LABEL_GANG: "true"}});
    assert_eq!(said(&ordered), Some((words, 2)));
    ordered["spec"]["template"]["metadata"]["annotations"] = json!({ANNOTATION_MIN_COUNT: "1"});
    assert_eq!(said(&ordered), None, "one pod starts");
}

#[test]
fn a_leader_worker_set_with_workers_that_wait_for_the_leader_is_rejected_as_a_gang() {
    let set = |policy: &str| {
        let spec = json!({"startupPolicy": policy, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}});
        object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "true", spec)
    };
    let words = format!("spec.startupPolicy: Invalid value: \"LeaderReady\": {DETAIL} \"LeaderCreated\"");
    assert_eq!(said(&set("LeaderReady")), Some((words, 2)));
    assert_eq!(said(&set("LeaderCreated")), None);
}

#[test]
fn a_leader_above_its_workers_is_planned_with_their_class_and_the_warning_of_admission() {
    let pods = |class: &str| json!({"spec": {"priorityClassName": class, "containers": [{"name": "c"}]}});
    let class = |name: &str, value: i32| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    let templates = json!({"size": 2, "leaderTemplate": pods("high"), "workerTemplate": pods("low")});
    let spec = json!({"leaderWorkerTemplate": templates});
    let set = object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "true", spec);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [class("low", 10), class("high", 1000), set]});
    let mut world = World::default();
    let notes = noted(&mut world, &list);
    let words = "LeaderWorkerSet default/train: spec.leaderWorkerTemplate.leaderTemplate.spec.priorityClassName: class high (1000) \
                 is above class low (10) of spec.leaderWorkerTemplate.workerTemplate.spec.priorityClassName: the PodGroup gets \
                 the lowest class of its templates, low.";
    assert!(notes.iter().any(|note| note == words), "{notes:?}");
    let group = &world.groups[&ObjectKey::new("default", "train-0")];
    assert_eq!(group.spec.priority_class_name.as_deref(), Some("low"), "the worker would be rejected otherwise");
}

#[test]
fn a_label_with_another_value_is_refused_also_where_there_is_no_pod_template() {
    let words = "metadata.labels[scheduling.giveway.dev/gang]: Invalid value: \"yes\": must be \"true\" or \"false\": with \
                 \"true\" Giveway creates a pod group for the pods";
    let train = object("trainer.kubeflow.org/v1alpha1", "TrainJob", "yes", json!({}));
    for owner in [&job("yes"), &train] {
        assert_eq!(said(owner), Some((words.to_owned(), 2)));
    }
    let words = "metadata.labels.scheduling.giveway.dev/gang: Invalid value: invalid type: boolean `true`, expected a string: the \
                 Job cannot be read, correct this field";
    assert_eq!(said(&job(true)), Some((words.to_owned(), 2)), "quotes were forgotten");
}

#[test]
fn an_invalid_annotation_is_reported_with_its_position() {
    let with = |value: Value| {
        let mut job = job("true");
        job["metadata"]["annotations"] = json!({ANNOTATION_MIN_COUNT: value});
        said(&job)
    };
    let words = "metadata.annotations[scheduling.giveway.dev/min-count]: Invalid value: \"x\": must be a whole number, 1 or \
                 more: how many pods start together";
    assert_eq!(with(json!("x")), Some((words.to_owned(), 2)));
    let number = "metadata.annotations.scheduling.giveway.dev/min-count: Invalid value: invalid type: integer `4`, expected a \
         string: the Job cannot be read, correct this field";
    assert_eq!(with(json!(4)), Some((number.to_owned(), 2)), "quotes were forgotten");
    let mut job = job("true");
    job["spec"]["template"]["metadata"] = json!({"annotations": {ANNOTATION_MIN_COUNT: "x"}});
    assert_eq!(said(&job), Some((format!("spec.template.{words}"), 2)));
    job["spec"]["template"]["metadata"]["labels"] =
        json!({LABEL_GANG: "true", "scheduling.giveway.dev/pod-group": "own"});
    assert_eq!(said(&job), Some((format!("spec.template.{words}"), 2)), "also beside a group of its own");
}

#[test]
fn in_a_namespace_without_groups_no_pod_waits_for_a_gang() {
    let selector = json!({"matchLabels": {"served": "yes"}}).to_string();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "giveway", "annotations": {ANNOTATION_SERVED: selector, ANNOTATION_PROTECTED: ""}},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let items = vec![namespace, policy];
    let objects = crate::live::Objects { source: "cluster".to_owned(), items, notes: Vec::new() };
    assert_eq!(said_in(World::new(objects, false).unwrap(), &set("true", "OrderedReady")), None);
}

/// A CronJob whose Jobs have this metadata and two pods each.
fn cron_job(metadata: Value) -> Value {
    let spec = json!({"parallelism": 2, "completions": 2, "template": template()});
    let mut cron_job = object("batch/v1", "CronJob", "false", json!({"schedule": "@daily"}));
    cron_job["spec"]["jobTemplate"] = json!({"metadata": metadata, "spec": spec});
    cron_job
}

#[test]
fn a_cron_job_is_planned_as_the_job_of_one_run_with_the_gang_of_its_job_template() {
    let mut world = World::default();
    let notes = noted(&mut world, &cron_job(json!({"labels": {LABEL_GANG: "true"}})));
    assert!(notes.contains(&"CronJob default/train is planned as one run of it.".to_owned()), "{notes:?}");
    let group = &world.groups[&ObjectKey::new("default", "train-planned")];
    assert_eq!(group.spec.scheduling_policy.gang.as_ref().map(|gang| gang.min_count), Some(2));
    let pods =
        world.pending.values().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.is_some()));
    assert_eq!(pods.count(), 2);
    // The label of the CronJob itself concerns no Job.
    let mut world = World::default();
    let mut outside = cron_job(json!({}));
    outside["metadata"]["labels"][LABEL_GANG] = json!("true");
    noted(&mut world, &outside);
    assert_eq!((world.groups.len(), world.pending.len()), (0, 2));
}

#[test]
fn an_error_in_a_job_template_names_the_field_of_the_cron_job() {
    let wrong = cron_job(json!({"labels": {LABEL_GANG: "yes"}}));
    let words = "spec.jobTemplate.metadata.labels[scheduling.giveway.dev/gang]: Invalid value: \"yes\": must be \"true\" or \
                 \"false\": with \"true\" Giveway creates a pod group for the pods";
    assert_eq!(said(&wrong), Some((words.to_owned(), 2)));
    let mut none = cron_job(json!({}));
    none["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"] = json!([]);
    let words = "spec.jobTemplate.spec.template.spec.containers: Required value: a pod has at least one";
    assert_eq!(said(&none), Some((words.to_owned(), 2)));
}

/// A world with a RuntimeClass that costs 100m cpu and runs on nodes with a label and a taint.
fn with_kata() -> World {
    let toleration = json!({"key": "kata", "operator": "Exists"});
    let kata = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata",
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [toleration]},
    });
    let objects = crate::live::Objects { source: "cluster".to_owned(), items: vec![kata], notes: Vec::new() };
    World::new(objects, false).unwrap()
}

/// A pod with these fields in its spec.
fn pod_with(fields: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": template()["spec"]});
    for (name, value) in fields.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

#[test]
fn a_pod_gets_overhead_node_selector_and_tolerations_of_its_runtime_class() {
    let mut world = with_kata();
    noted(&mut world, &pod_with(&json!({"runtimeClassName": "kata", "overhead": {"cpu": "0.1"}})));
    let spec = world.pending[&ObjectKey::new("default", "train")].spec.clone().unwrap();
    assert_eq!(json!(spec.overhead), json!({"cpu": "100m"}));
    assert_eq!(json!(spec.node_selector), json!({"kata": "yes"}));
    assert_eq!(json!(spec.tolerations), json!([{"key": "kata", "operator": "Exists"}]));
}

#[test]
fn a_pod_that_contradicts_its_runtime_class_is_rejected() {
    let unknown = "spec.runtimeClassName: Invalid value: \"gvisor\": there is no such RuntimeClass: create it, or add it to the \
                   manifests or the snapshot";
    let differs =
        "spec.overhead: Invalid value: it differs from the overhead of the pod's RuntimeClass: leave spec.overhead out";
    let conflict =
        "spec.nodeSelector[kata]: Invalid value: \"no\": RuntimeClass \"kata\" asks for \"yes\": leave this key out";
    for (fields, words) in [
        (json!({"runtimeClassName": "gvisor"}), unknown),
        (json!({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}), differs),
        (json!({"overhead": {"cpu": "100m"}}), differs),
        (json!({"runtimeClassName": "kata", "nodeSelector": {"kata": "no"}}), conflict),
    ] {
        assert_eq!(said_in(with_kata(), &pod_with(&fields)), Some((words.to_owned(), 2)), "{fields}");
    }
}
