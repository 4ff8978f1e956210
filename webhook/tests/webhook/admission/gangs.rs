//! One label on an owner: what is carried into its templates, and which group its pods belong to.

use super::fixtures::*;
use giveway_admission::verdict::{Notes, Reference, VerdictOutcome};
use giveway_admission::view::{ClusterView, GroupView};
use giveway_crds::keys::*;
use serde_json::{Value, json};

fn job(labels: Value, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "team", "name": "train", "labels": labels},
        "spec": {
            "parallelism": 4, "completions": 4, "backoffLimit": 6, "podReplacementPolicy": "TerminatingOrFailed",
            "template": {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": []}},
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

fn labelled() -> Value {
    json!({LABEL_GANG: "true"})
}

/// A pod with this controller.
fn owned(labels: Value, annotations: Value, api_version: &str, kind: &str, name: &str) -> Value {
    let mut pod = pod(labels, annotations);
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod
}

fn labels_at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(&format!("{pointer}/metadata/labels/{}", LABEL_GANG.replace('/', "~1"))).unwrap_or(&Value::Null)
}

#[test]
fn the_label_and_its_annotations_are_copied_into_the_template_of_a_job() {
    let mut object = job(labelled(), json!({}));
    object["metadata"]["annotations"] =
        json!({ANNOTATION_MIN_COUNT: "3", ANNOTATION_DISRUPTION_MODE: "Pod", "other": "x"});
    let template = &mutated(&create("jobs", object), &empty())["spec"]["template"];
    assert_eq!(template["metadata"]["labels"], labelled());
    let annotations = json!({ANNOTATION_MIN_COUNT: "3", ANNOTATION_DISRUPTION_MODE: "Pod"});
    assert_eq!(template["metadata"]["annotations"], annotations);
}

#[test]
fn the_label_is_copied_into_every_template_of_every_kind() {
    let template = || json!({"spec": {"containers": []}});
    for (resource, kind, spec, places) in [
        (
            "jobsets",
            "JobSet",
            json!({"replicatedJobs": [{"template": {"spec": {"template": template()}}}, {"template": {"spec": {"template": template()}}}]}),
            vec!["/spec/replicatedJobs/0/template/spec/template", "/spec/replicatedJobs/1/template/spec/template"],
        ),
        (
            "leaderworkersets",
            "LeaderWorkerSet",
            json!({"leaderWorkerTemplate": {"workerTemplate": template()}}),
            vec!["/spec/leaderWorkerTemplate/workerTemplate"],
        ),
        (
            "rayclusters",
            "RayCluster",
            json!({"headGroupSpec": {"template": template()}, "workerGroupSpecs": [{"template": template()}]}),
            vec!["/spec/headGroupSpec/template", "/spec/workerGroupSpecs/0/template"],
        ),
        (
            "rayjobs",
            "RayJob",
            json!({"rayClusterSpec": {"headGroupSpec": {"template": template()}}}),
            vec!["/spec/rayClusterSpec/headGroupSpec/template"],
        ),
        (
            "pytorchjobs",
            "PyTorchJob",
            json!({"pytorchReplicaSpecs": {"Master": {"template": template()}, "Worker": {"template": template()}}}),
            vec!["/spec/pytorchReplicaSpecs/Master/template", "/spec/pytorchReplicaSpecs/Worker/template"],
        ),
        (
            "mpijobs",
            "MPIJob",
            json!({"mpiReplicaSpecs": {"Worker": {"template": template()}}}),
            vec!["/spec/mpiReplicaSpecs/Worker/template"],
        ),
        (
            "statefulsets",
            "StatefulSet",
            json!({"podManagementPolicy": "Parallel", "template": template()}),
            vec!["/spec/template"],
        ),
    ] {
        let object = json!({"kind": kind, "metadata": {"name": "a", "labels": labelled()}, "spec": spec});
        let object = mutated(&create(resource, object), &empty());
        for place in places {
            assert_eq!(labels_at(&object, place), "true", "{kind} {place}: {object}");
        }
    }
    let object = json!({"kind": "TrainJob", "metadata": {"name": "a", "labels": labelled()}, "spec": {"trainer": {}}});
    let object = mutated(&create("trainjobs", object), &empty());
    assert_eq!(object["spec"]["labels"], labelled(), "its JobSet gets them");
}

#[test]
fn a_template_that_names_its_own_group_or_gang_is_not_changed() {
    for labels in [
        json!({LABEL_POD_GROUP: "mine"}),
        json!({LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "t"}),
        json!({LABEL_GANG: "false"}),
    ] {
        let mut object = job(labelled(), json!({"podFailurePolicy": ignoring(), "backoffLimitPerIndex": 1}));
        object["spec"]["template"]["metadata"]["labels"] = labels.clone();
        assert_untouched(&mutate(&create("jobs", object), &empty()));
    }
    let mut off = job(json!({LABEL_GANG: "false"}), json!({"backoffLimit": 100}));
    off["spec"]["parallelism"] = json!(1);
    assert_untouched(&mutate(&create("jobs", off), &empty()));
}

#[test]
fn a_label_or_an_annotation_with_another_value_is_refused_with_what_it_may_be() {
    let refused = |object: Value| refusal(mutate(&create("jobs", object), &empty())).message;
    assert!(refused(job(json!({LABEL_GANG: "yes"}), json!({}))).starts_with(
        "metadata.labels[scheduling.giveway.dev/gang]: Invalid value: \"yes\": must be \"true\" or \"false\""
    ));
    let mut object = job(labelled(), json!({}));
    object["metadata"]["annotations"] = json!({ANNOTATION_MIN_COUNT: "none"});
    assert!(refused(object).contains("Invalid value: \"none\": must be a whole number, 1 or more"));
}

#[test]
fn a_gang_with_pods_that_are_created_one_after_the_other_is_rejected_unless_it_has_one_pod() {
    let set = |policy: &str, annotations: Value| {
        json!({"kind": "StatefulSet", "metadata": {"name": "db", "labels": labelled(), "annotations": annotations},
            "spec": {"podManagementPolicy": policy, "template": {"spec": {}}}})
    };
    let verdict = mutate(&create("statefulsets", set("OrderedReady", json!({}))), &empty());
    let words = "spec.podManagementPolicy: Invalid value: \"OrderedReady\": each pod would wait until the one before it is ready, \
                 and no pod of a gang starts before all of them fit: use \"Parallel\"";
    assert_refused(verdict, 422, words);
    for set in [set("Parallel", json!({})), set("OrderedReady", json!({ANNOTATION_MIN_COUNT: "1"}))] {
        assert!(matches!(mutate(&create("statefulsets", set), &empty()).outcome, VerdictOutcome::Changed(_)));
    }
    let mut unlabelled = set("OrderedReady", json!({}));
    unlabelled["metadata"]["labels"] = json!({});
    let verdict = mutate(&create("statefulsets", unlabelled), &empty());
    assert_eq!(verdict.outcome, VerdictOutcome::Allowed, "a kind that is switched on is not refused for it");
    assert!(
        verdict.notes.warnings[0].starts_with("spec.podManagementPolicy: \"OrderedReady\": Giveway creates no gang")
    );
}

#[test]
fn the_label_in_a_pod_template_is_checked_like_that_of_the_owner_and_is_not_copied() {
    let set = |template: Value, policy: &str| {
        json!({"kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {"podManagementPolicy": policy, "template": {"metadata": template, "spec": {}}}})
    };
    let labels = json!({"labels": labelled()});
    let words = "spec.podManagementPolicy: Invalid value: \"OrderedReady\": each pod would wait until the one before it is ready, \
                 and no pod of a gang starts before all of them fit: use \"Parallel\"";
    let stuck = set(labels.clone(), "OrderedReady");
    assert_refused(of_templates(&create("statefulsets", stuck.clone()), &empty()), 422, words);
    assert_refused(mutate(&create("statefulsets", stuck.clone()), &empty()), 422, words);
    let plain = set(json!({}), "OrderedReady");
    assert_refused(of_templates(&update("statefulsets", stuck.clone(), plain), &empty()), 422, words);
    let one = set(json!({"labels": labelled(), "annotations": {ANNOTATION_MIN_COUNT: "1"}}), "OrderedReady");
    for fine in [one, set(labels, "Parallel"), set(json!({"labels": {LABEL_POD_GROUP: "mine"}}), "OrderedReady")] {
        assert_untouched(&of_templates(&create("statefulsets", fine), &empty()));
    }
    let workers = json!({"template": {"spec": {}}});
    let head = json!({"template": {"metadata": {"labels": labelled()}, "spec": {}}});
    let ray = json!({"kind": "RayCluster", "metadata": {"name": "r"}, "spec": {"headGroupSpec": head, "workerGroupSpecs": [workers]}});
    assert_untouched(&of_templates(&create("rayclusters", ray), &empty()));
    let serve = json!({"kind": "LeaderWorkerSet", "metadata": {"name": "serve"}, "spec": {
        "startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4, "workerTemplate": {"metadata": {"labels": labelled()}}}}});
    let refused = refusal(of_templates(&create("leaderworkersets", serve), &empty()));
    assert!(refused.message.starts_with("spec.startupPolicy: Invalid value: \"LeaderReady\""), "{}", refused.message);
}

#[test]
fn a_gang_with_exclusive_topology_is_refused_with_the_annotation_and_the_cause() {
    let key = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    let spec = json!({"parallelism": 2, "template": {"spec": {"containers": []}}});
    let set = |labels: Value| {
        json!({"kind": "JobSet", "metadata": {"name": "a", "labels": labels, "annotations": {key: "zone"}},
            "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": spec}}]}})
    };
    let refused = refusal(mutate(&create("jobsets", set(labelled())), &empty()));
    let words = "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]: Invalid value: \"zone\": with it JobSet rejects \
                 the other pods of a Job until its first pod has a node, and no pod of a gang gets a node before all of them exist";
    assert!(refused.message.starts_with(words), "{}", refused.message);
    assert_untouched(&of_templates(&create("jobsets", set(json!({}))), &empty()));
    let verdict = mutate(&create("jobsets", set(json!({}))), &empty());
    assert_eq!(verdict.outcome, VerdictOutcome::Allowed, "a kind that is switched on is not refused for it");
    assert!(
        verdict.notes.warnings[0].contains("Giveway creates no gang for this JobSet"),
        "{:?}",
        verdict.notes.warnings
    );
}

#[test]
fn a_leader_above_its_workers_is_warned_about_with_both_classes() {
    let pods = |class: &str| json!({"spec": {"priorityClassName": class, "containers": []}});
    let set = |leader: &str, workers: &str| {
        let templates = json!({"size": 4, "leaderTemplate": pods(leader), "workerTemplate": pods(workers)});
        json!({"kind": "LeaderWorkerSet", "metadata": {"name": "serve", "labels": labelled()}, "spec": {"leaderWorkerTemplate": templates}})
    };
    let notes = |object: Value| mutate(&create("leaderworkersets", object), &cluster()).notes;
    let words = "spec.leaderWorkerTemplate.leaderTemplate.spec.priorityClassName: class managed (20) is above class plain (10) of \
                 spec.leaderWorkerTemplate.workerTemplate.spec.priorityClassName: the PodGroup gets the lowest class of its \
                 templates, plain";
    assert_eq!(notes(set("managed", "plain")).warnings, [words]);
    assert!(words.len() <= 256, "{}", words.len());
    assert_eq!(notes(set("plain", "plain")), Notes::default());
    let fresh = notes(set("managed", "fresh"));
    assert!(fresh.missing.contains(&Reference::Class("fresh".to_owned())), "it may have been created just now");
    assert_eq!(fresh.warnings, Vec::<String>::new());
}

#[test]
fn a_stored_gang_that_cannot_start_may_be_changed_with_a_warning() {
    let set = |image: &str| {
        json!({"kind": "StatefulSet", "metadata": {"name": "db", "labels": labelled()}, "spec": {
            "podManagementPolicy": "OrderedReady",
            "template": {"metadata": {"labels": labelled()}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
    };
    let verdict = mutate(&update("statefulsets", set("b"), set("a")), &empty());
    assert_eq!(verdict.outcome, VerdictOutcome::Allowed);
    let words =
        "spec.podManagementPolicy: \"OrderedReady\": the gang of this StatefulSet does not start: each pod would wait";
    assert!(verdict.notes.warnings[0].starts_with(words), "{:?}", verdict.notes.warnings);
    let mut stored = set("a");
    stored["spec"]["template"]["metadata"] = json!({});
    assert_eq!(refusal(mutate(&update("statefulsets", set("b"), stored), &empty())).code, 422, "it was no gang before");
}

#[test]
fn the_workers_of_a_leader_with_the_copied_label_are_not_checked_as_a_gang_of_their_own() {
    let labels = json!({LABEL_GANG: "true", "leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "0"});
    let set = json!({"kind": "StatefulSet", "metadata": {"name": "serve-0"},
        "spec": {"podManagementPolicy": "OrderedReady", "template": {"metadata": {"labels": labels}, "spec": {}}}});
    assert_untouched(&of_templates(&create("statefulsets", set), &empty()));
}

#[test]
fn an_owner_of_an_enabled_kind_is_a_gang_unless_a_known_kind_owns_it() {
    let object = mutated(&create("jobs", job(json!({}), json!({}))), &empty());
    assert_eq!(labels_at(&object, "/spec/template"), "true");
    let mut child = job(json!({}), json!({"parallelism": 1}));
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "a", "uid": "u", "controller": true}]);
    assert_untouched(&mutate(&create("jobs", child.clone()), &empty()));
    child["metadata"]["ownerReferences"][0]["kind"] = json!("CronJob");
    assert!(matches!(mutate(&create("jobs", child), &empty()).outcome, VerdictOutcome::Changed(_)));
}

#[test]
fn the_workers_of_a_leader_are_no_separate_gang_if_stateful_sets_are_enabled() {
    let set = |labels: Value| {
        json!({"kind": "StatefulSet", "metadata": {"name": "serve-0", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "serve-0", "uid": "u", "controller": true}]},
            "spec": {"podManagementPolicy": "Parallel", "template": {"metadata": {"labels": labels}, "spec": {}}}})
    };
    let workers =
        set(json!({"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "0"}));
    assert_untouched(&mutate(&create("statefulsets", workers.clone()), &empty()));
    let object = mutated(&create("statefulsets", set(json!({"app": "db"}))), &empty());
    assert_eq!(labels_at(&object, "/spec/template"), "true");
    let mut asks = workers;
    asks["metadata"]["labels"] = labelled();
    assert_eq!(
        labels_at(&mutated(&create("statefulsets", asks), &empty()), "/spec/template"),
        "true",
        "it asks itself"
    );
}

#[test]
fn applying_the_same_manifest_again_changes_no_template() {
    let manifest = job(labelled(), json!({}));
    let stored = mutated(&create("jobs", manifest.clone()), &empty());
    let again = mutated(&update("jobs", manifest, stored.clone()), &empty());
    assert_eq!(again["spec"], stored["spec"]);
}

#[test]
fn a_label_that_is_added_to_an_owner_with_pods_is_not_copied_and_causes_a_warning() {
    let before = job(json!({}), json!({}));
    let verdict = mutate(&update("jobs", job(labelled(), json!({})), before.clone()), &empty());
    assert_eq!(verdict.outcome, VerdictOutcome::Allowed);
    let words = "metadata.labels[scheduling.giveway.dev/gang]: the existing pods of this Job are no gang, and it creates further \
                 pods without Giveway's scheduling gate: delete the Job and create it again";
    assert_eq!(verdict.notes.warnings, [words]);
    let [event] = verdict.notes.events.as_slice() else { panic!("{:?}", verdict.notes.events) };
    let about = (event.about.api_version.as_str(), event.about.kind, event.about.name.as_str());
    assert_eq!((about, event.reason.as_str()), (("batch/v1", "Job", "train"), "GangLabelTooLate"));
    let suspended = job(json!({}), json!({"suspend": true}));
    let object = mutated(&update("jobs", job(labelled(), json!({"suspend": true})), suspended), &empty());
    assert_eq!(labels_at(&object, "/spec/template"), "true", "it has not started yet");
    let removed = update("jobs", before.clone(), job(labelled(), json!({})));
    assert_untouched(&mutate(&removed, &empty()));
}

#[test]
fn a_pod_with_the_label_is_gated_and_its_group_is_named_after_its_owner() {
    let object = mutated(&create("pods", owned(labelled(), json!({}), "batch/v1", "Job", "train")), &empty());
    assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], "train");
    assert_eq!(object["spec"]["schedulingGates"], json!([{"name": GATE}]));
    let labels = json!({
        LABEL_GANG: "true", "jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-index": "0",
    });
    let object = mutated(&create("pods", owned(labels, json!({}), "batch/v1", "Job", "train-workers-0")), &empty());
    assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], "train-workers-0");
}

#[test]
fn a_pod_s_own_group_counts_before_its_owner_s_and_false_is_no_gang() {
    let labels = json!({LABEL_GANG: "true", LABEL_POD_GROUP: "basic"});
    let object = mutated(&create("pods", owned(labels, json!({}), "batch/v1", "Job", "train")), &cluster());
    assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], "basic");
    assert!(object["spec"].get("schedulingGates").is_none());
    assert_untouched(&mutate(
        &create("pods", owned(json!({LABEL_GANG: "false"}), json!({}), "batch/v1", "Job", "train")),
        &empty(),
    ));
}

#[test]
fn pods_of_unknown_kinds_need_the_annotation_min_count_and_pods_without_an_owner_are_rejected() {
    let set = |annotations: Value| owned(labelled(), annotations, "apps/v1", "ReplicaSet", "web-5d");
    let words = "metadata.annotations[scheduling.giveway.dev/min-count]: Required value: how many pods of ReplicaSet \"web-5d\" \
                 start together? Giveway does not know that kind: say it here, on the pod template";
    assert_refused(mutate(&create("pods", set(json!({}))), &empty()), 422, words);
    let object = mutated(&create("pods", set(json!({ANNOTATION_MIN_COUNT: "2"}))), &empty());
    assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], "web-5d");
    let bare = refusal(mutate(&create("pods", pod(labelled(), json!({}))), &empty()));
    assert!(bare.message.contains("the pod has no controller that could be the owner of a gang"), "{}", bare.message);
}

/// Pods that Velero restores, or that `kubectl debug --copy-to --keep-labels` copies, have the labels of a member and no owner.
#[test]
fn a_pod_that_names_its_group_needs_no_owner() {
    let copied = |annotations: Value| pod(json!({LABEL_GANG: "true", LABEL_POD_GROUP: "gang"}), annotations);
    let object = mutated(&create("pods", copied(json!({}))), &cluster());
    assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], "gang");
    assert_eq!(object["spec"]["schedulingGates"], json!([{"name": GATE}]));
    let labels = json!({LABEL_GANG: "true", LABEL_WORKLOAD: "work", LABEL_TEMPLATE: "gang"});
    let object = mutated(&create("pods", pod(labels, json!({}))), &cluster());
    assert_eq!(object["metadata"]["labels"][LABEL_POD_GROUP], "work-gang");
    let invalid = refusal(mutate(&create("pods", copied(json!({ANNOTATION_MIN_COUNT: "many"}))), &cluster()));
    assert!(
        invalid.message.starts_with("metadata.annotations[scheduling.giveway.dev/min-count]"),
        "{}",
        invalid.message
    );
}

#[test]
fn of_two_owners_of_one_name_the_first_one_with_a_group_keeps_it() {
    let mut view = cluster();
    let of_set =
        GroupView { gang: true, made_for: Some(("StatefulSet".into(), "train".into())), ..GroupView::default() };
    view.groups.entry("team".into()).or_default().insert("train".into(), of_set);
    let request = create("pods", owned(labelled(), json!({}), "batch/v1", "Job", "train"));
    let words = "metadata.labels[scheduling.giveway.dev/pod-group]: Invalid value: \"train\": the PodGroup of this name was \
                 created for another owner (its metadata.ownerReferences), and the pod belongs to Job \"train\": rename one of them";
    assert_refused(mutate(&request, &view), 422, words);
    assert!(view.group("team", "train").is_some());
}

/// By which preemptions are no failures.
fn ignoring() -> Value {
    json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]})
}

#[test]
fn a_job_of_a_gang_that_preemptions_would_fail_gets_a_warning_with_the_remedy() {
    let warnings = |object: Value| mutate(&create("jobs", object), &empty()).notes.warnings;
    let large = json!({"parallelism": 16, "completions": 16});
    let words = "spec.podFailurePolicy: each preemption of 16 pods is 16 failures, and backoffLimit is 6: add rules: [{action: \
                 Ignore, onPodConditions: [{type: DisruptionTarget}]}]";
    assert_eq!(warnings(job(labelled(), large.clone())), [words]);
    assert!(words.len() <= 256);
    let mut named = job(json!({}), large.clone());
    named["spec"]["template"]["metadata"]["labels"] = json!({LABEL_POD_GROUP: "mine"});
    assert_eq!(warnings(named), [words], "also one whose template names a group");
    let costs = |spec: Value| warnings(job(labelled(), spec)).remove(0);
    let small = costs(json!({"parallelism": 6, "completions": 6}));
    assert!(small.contains("each preemption of 6 pods is 6 failures, and backoffLimit is 6: add"), "{small}");
    let indexed = costs(json!({"backoffLimitPerIndex": 1, "backoffLimit": 2_147_483_647}));
    assert!(indexed.contains("each preemption is a failure of each index, and backoffLimitPerIndex is 1: add"));
    let mut with = job(labelled(), large.clone());
    with["spec"]["podFailurePolicy"] = ignoring();
    let waits = "spec.backoffLimitPerIndex: after a preemption of 16 pods the Job waits 600 s before it creates pods again: add \
                 completionMode: Indexed, backoffLimitPerIndex: 3, and it waits 10 s";
    assert_eq!(warnings(with.clone()), [waits]);
    with["spec"]["backoffLimitPerIndex"] = json!(3);
    assert_eq!(warnings(with), Vec::<String>::new());
    let mut restarts = job(labelled(), large);
    restarts["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    assert!(warnings(restarts)[0].contains("set template.spec.restartPolicy: Never and add rules:"));
}

fn job_set(metadata: Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": []}});
    let spec = json!({"parallelism": 3, "completions": 3, "template": template});
    json!({"kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": spec}}]}})
}

#[test]
fn a_jobset_and_an_mpijob_that_preemptions_would_fail_are_warned_about_unless_their_jobs_get_the_rule() {
    let mut adds = empty();
    adds.settings.default_pod_failure_policy = true;
    let set = job_set(json!({"name": "a", "labels": labelled()}));
    let replicas = json!({"Launcher": {"restartPolicy": "Never", "template": {"spec": {}}}});
    let mpi = json!({"kind": "MPIJob", "metadata": {"name": "a", "labels": labelled()}, "spec": {"mpiReplicaSpecs": replicas}});
    for (resource, object, words) in [
        (
            "jobsets",
            set,
            "spec.replicatedJobs[0].template.spec.podFailurePolicy: each preemption of 3 pods is 3 failures",
        ),
        ("mpijobs", mpi, "spec.runPolicy.backoffLimit: each preemption is a failure of the launcher's Job"),
    ] {
        let request = create(resource, object);
        let warnings = mutate(&request, &empty()).notes.warnings;
        assert!(warnings[0].starts_with(words), "{warnings:?}");
        assert_eq!(mutate(&request, &adds).notes.warnings, Vec::<String>::new());
    }
}

#[test]
fn an_event_on_a_trainjob_names_what_its_jobset_lacks() {
    let owner = |kind: &str, api_version: &str| {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "llm", "uid": "u", "controller": true});
        json!({"name": "llm-set", "labels": labelled(), "ownerReferences": [owner]})
    };
    let of = |metadata: Value| mutate(&create("jobsets", job_set(metadata)), &empty()).notes;
    let notes = of(owner("TrainJob", "trainer.kubeflow.org/v1alpha1"));
    assert_eq!(notes.warnings, Vec::<String>::new(), "only its controller would read them");
    let [event] = notes.events.as_slice() else { panic!("{:?}", notes.events) };
    let about = (event.about.kind, event.about.name.as_str(), event.about.uid.as_str(), event.about.namespace.as_str());
    assert_eq!((about, event.reason.as_str()), (("TrainJob", "llm", "u", "team"), "GangSettings"));
    let words = "JobSet llm-set: spec.replicatedJobs[0].template.spec.podFailurePolicy: each preemption of 3 pods is 3 failures, and \
                 backoffLimit is 6: add rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}].";
    assert_eq!(event.note, words);
    let other = of(owner("Queue", "example.com/v1"));
    assert_eq!((other.warnings.len(), other.events.len()), (1, 0), "its creator may read them");
}

#[test]
fn with_the_flag_the_rule_is_inserted_first_into_a_job_of_a_gang() {
    let mut view = empty();
    view.settings.default_pod_failure_policy = true;
    let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let manifest = job(labelled(), json!({}));
    let stored = mutated(&create("jobs", manifest.clone()), &view);
    assert_eq!(stored["spec"]["podFailurePolicy"], json!({"rules": [rule]}));
    assert_eq!(stored["spec"]["podReplacementPolicy"], "Failed", "there is no other choice with a policy");
    assert_eq!(mutated(&update("jobs", manifest, stored.clone()), &view)["spec"], stored["spec"], "applied again");
    let other = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let mut own = job(labelled(), json!({}));
    own["spec"]["podFailurePolicy"] = json!({"rules": [other]});
    let stored = mutated(&create("jobs", own), &view);
    assert_eq!(stored["spec"]["podFailurePolicy"]["rules"], json!([rule, other]));
    for rule in [
        json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}),
        json!({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}),
        json!({"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}),
    ] {
        let mut own = job(labelled(), json!({}));
        own["spec"]["podFailurePolicy"] = json!({"rules": [rule]});
        let verdict = mutate(&create("jobs", own.clone()), &view);
        assert!(
            verdict.notes.warnings[0].starts_with("spec.podFailurePolicy.rules[0]: "),
            "{:?}",
            verdict.notes.warnings
        );
        let stored = mutated(&create("jobs", own), &view);
        assert_eq!(stored["spec"]["podFailurePolicy"]["rules"], json!([rule]), "the rule of its user is not overruled");
    }
    let mut single = job(json!({LABEL_GANG: "false"}), json!({}));
    single["spec"]["parallelism"] = json!(1);
    assert_untouched(&mutate(&create("jobs", single), &view));
}

#[test]
fn with_the_flag_an_indexed_job_of_a_gang_gets_a_back_off_for_each_index_and_fails_as_late_as_before() {
    let mut view = empty();
    view.settings.default_backoff_limit_per_index = true;
    let indexed = |fields: Value| {
        let mut manifest = job(labelled(), json!({"completionMode": "Indexed", "parallelism": 16, "completions": 16}));
        for (key, value) in fields.as_object().unwrap() {
            manifest["spec"][key] = value.clone();
        }
        manifest
    };
    let manifest = indexed(json!({"backoffLimit": 4}));
    let stored = mutated(&create("jobs", manifest.clone()), &view);
    assert_eq!((&stored["spec"]["backoffLimitPerIndex"], &stored["spec"]["backoffLimit"]), (&json!(4), &json!(4)));
    assert_eq!(stored["spec"]["podFailurePolicy"], Value::Null, "that is another flag");
    assert_eq!(mutated(&update("jobs", manifest, stored.clone()), &view)["spec"], stored["spec"], "applied again");
    let limit_of = |manifest: Value| mutated(&create("jobs", manifest), &view)["spec"]["backoffLimitPerIndex"].clone();
    assert_eq!(limit_of(indexed(json!({"backoffLimitPerIndex": 1}))), json!(1), "the value of its user");
    for other in [
        json!({"completionMode": "NonIndexed"}),
        json!({"completions": 100_001}),
        json!({"template": {"metadata": {}, "spec": {"restartPolicy": "OnFailure", "containers": []}}}),
    ] {
        assert_eq!(limit_of(indexed(other.clone())), Value::Null, "Kubernetes would reject it: {other}");
    }
    let mut single = indexed(json!({}));
    single["metadata"]["labels"] = json!({LABEL_GANG: "false"});
    assert_untouched(&mutate(&create("jobs", single), &view));
}

#[test]
fn a_class_that_is_lowered_below_that_of_the_existing_group_is_warned_about() {
    let mut view = cluster();
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true});
    let mut group =
        group_object("db", json!({"schedulingPolicy": gang(), "priorityClassName": "managed", "priority": 20}));
    group["metadata"]["labels"] = labelled();
    group["metadata"]["ownerReferences"] = json!([owner]);
    view.put_group(&serde_json::from_value(group).unwrap());
    let set = |name: &str, class: &str| {
        let template = json!({"metadata": {"labels": labelled()}, "spec": {"priorityClassName": class}});
        json!({"kind": "StatefulSet", "metadata": {"name": name, "labels": labelled()},
            "spec": {"podManagementPolicy": "Parallel", "template": template}})
    };
    let warnings = |name: &str, class: &str| {
        mutate(&update("statefulsets", set(name, class), set(name, "managed")), &view).notes.warnings
    };
    let words = "spec.template.spec.priorityClassName: class plain (10) is below the priority of PodGroup db, 20: new pods are rejected \
                 while it exists: delete the PodGroup and its pods, and it is created again with the lower class";
    assert_eq!(warnings("db", "plain"), [words]);
    assert_eq!(warnings("db", "guarded"), Vec::<String>::new(), "a higher one has no effect on the group");
    assert_eq!(warnings("other", "plain"), Vec::<String>::new(), "it has no group yet");
}
