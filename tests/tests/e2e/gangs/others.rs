//! Kinds of third-party controllers. The tests write the objects and pods as these controllers do; `make test-kinds` runs the
//! real ones. Objects of Kubernetes (Jobs of a JobSet, StatefulSets of a LeaderWorkerSet) are handled by the real controllers.

use super::{apply, cluster, field, template, wait_bound, wait_group};
use crate::MINUTE;
use giveway_crds::keys::LABEL_GANG;
use giveway_crds::kinds::KINDS;
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
            each_job_of_a_jobset_is_a_group_of_its_own,
            a_gang_of_a_jobset_starts_again_without_an_index_that_has_failed_for_good,
            exclusive_topology_is_rejected_for_a_gang_also_if_only_a_pod_template_has_the_label,
            templates_that_ask_for_a_gang_themselves_get_warnings_for_every_form_of_their_owner,
            a_leader_and_its_workers_are_a_group,
            the_head_and_the_workers_of_a_ray_cluster_are_a_group;
        own:
            the_group_of_a_removed_replica_is_deleted;
    ]
}

/// Returns a CustomResourceDefinition of this kind that accepts every object.
fn crd(kind: &str) -> Value {
    let row = KINDS.iter().find(|row| row.kind == kind).unwrap();
    let any = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", row.plural, row.group),
            // The API server requires this annotation for CRDs in groups of Kubernetes.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {
            "group": row.group, "scope": "Namespaced",
            "names": {"kind": row.kind, "plural": row.plural, "singular": row.kind.to_lowercase()},
            "versions": [{"name": row.version, "served": true, "storage": true, "schema": any}],
        },
    })
}

/// Installs the CRD of an object, creates the object and returns it as stored.
async fn create(world: &World, object: &Value) -> Value {
    let kind = object["kind"].as_str().unwrap();
    apply(world, &crd(kind)).await;
    wait_for(&format!("{kind} is served"), MINUTE, async || world.apply(&object.to_string()).await).await;
    let row = KINDS.iter().find(|row| row.kind == kind).unwrap();
    let name = object["metadata"]["name"].as_str().unwrap();
    let stored = world.kubectl(&["get", &format!("{}.{}/{name}", row.plural, row.group), "-o", "json"]).await.unwrap();
    serde_json::from_str(&stored).unwrap()
}

fn labelled(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": {LABEL_GANG: "true"}}, "spec": spec})
}

fn with_labels(mut template: Value, labels: &Value) -> Value {
    for (key, value) in labels.as_object().unwrap() {
        template["metadata"]["labels"][key] = value.clone();
    }
    template
}

fn owner(object: &Value) -> Value {
    json!([{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": true}])
}

/// Creates JobSet `train` with a replicated Job `workers` of this spec, and the Jobs as its controller does.
async fn create_jobset(world: &World, replicas: usize, spec: &Value) {
    let jobs = json!([{"name": "workers", "replicas": replicas, "template": { "spec": spec }}]);
    let set =
        create(world, &labelled("jobset.x-k8s.io/v1alpha2", "JobSet", "train", &json!({ "replicatedJobs": jobs })))
            .await;
    let job_spec = &set["spec"]["replicatedJobs"][0]["template"]["spec"];
    assert_eq!(job_spec["template"]["metadata"]["labels"][LABEL_GANG], "true", "{set}");
    for index in 0..replicas {
        let labels = json!({
            "jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
            "jobset.sigs.k8s.io/job-index": index.to_string(), "jobset.sigs.k8s.io/jobset-uid": set["metadata"]["uid"],
        });
        let mut spec = job_spec.clone();
        spec["template"] = with_labels(spec["template"].clone(), &labels);
        let metadata =
            json!({"name": format!("train-workers-{index}"), "labels": labels, "ownerReferences": owner(&set)});
        apply(world, &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})).await;
    }
}

async fn each_job_of_a_jobset_is_a_group_of_its_own(world: &mut World) {
    cluster(world, 1).await;
    let spec = json!({"parallelism": 2, "completions": 2, "template": template("high", &json!({}))});
    create_jobset(world, 2, &spec).await;
    for index in ["0", "1"] {
        wait_bound(world, &format!("batch.kubernetes.io/job-name=train-workers-{index}"), 2).await;
        wait_group(world, &format!("train-workers-{index}"), 2, "JobSet/train").await;
    }
    for name in ["jobset/train", "jobsets.jobset.x-k8s.io/train"] {
        let pages = crate::cli::giveway(world, &["why", name]).await;
        for group in ["podgroup/default/train-workers-0\n", "podgroup/default/train-workers-1\n"] {
            assert!(pages.ok().contains(group), "{}", pages.out);
        }
    }
    let unknown = crate::cli::giveway(world, &["why", "jobset/unknown"]).await;
    let words =
        "no pod group of namespace default belongs to JobSet unknown: pod groups are created with the first pod";
    assert!(unknown.status == Some(2) && unknown.err.contains(words), "{}", unknown.err);
    world.check_promises().await;
}

async fn a_gang_of_a_jobset_starts_again_without_an_index_that_has_failed_for_good(world: &mut World) {
    cluster(world, 1).await;
    let ignore = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
    let spec = json!({
        "parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
        "podFailurePolicy": {"rules": [ignore]}, "template": template("low", &json!({})),
    });
    create_jobset(world, 1, &spec).await;
    let (selector, group) = ("batch.kubernetes.io/job-name=train-workers-0", "gpg/train-workers-0");
    wait_bound(world, selector, 3).await;
    wait_group(world, "train-workers-0", 3, "JobSet/train").await;
    let third = format!("{selector},batch.kubernetes.io/job-completion-index=2");
    let third = world.kubectl(&["get", "pods", "-l", &third, "-o", "name"]).await.unwrap();
    let failed = json!({"status": {"phase": "Failed"}}).to_string();
    world.kubectl(&["patch", third.trim(), "--subresource=status", "--type=merge", "-p", &failed]).await.unwrap();
    wait_for("minCount follows the Job's failed index", MINUTE, async || {
        let (failed, needed) = (
            field(world, "job/train-workers-0", ".status.failedIndexes").await,
            field(world, group, ".spec.schedulingPolicy.gang.minCount").await,
        );
        if (failed.as_str(), needed.as_str()) == ("2", "2") { Ok(()) } else { Err(format!("{failed}, {needed}")) }
    })
    .await;
    let urgent = world.gang("urgent", 3).priority("high").create().await;
    urgent.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().len(), 2, "the pods of the two other indexes");
    for pod in &urgent.pods {
        pod.delete().await;
    }
    urgent.delete().await;
    // The pod that has failed keeps its node in its spec.
    wait_bound(world, selector, 3).await;
    world.check_promises().await;
}

async fn exclusive_topology_is_rejected_for_a_gang_also_if_only_a_pod_template_has_the_label(world: &World) {
    cluster(world, 1).await;
    apply(world, &crd("JobSet")).await;
    let (asks, silent) = (json!({LABEL_GANG: "true"}), json!({}));
    for (labels, of_pods) in [(&asks, &silent), (&silent, &asks)] {
        let spec = json!({"parallelism": 2, "completions": 2, "template": template("high", of_pods)});
        let annotations = json!({"alpha.jobset.sigs.k8s.io/exclusive-topology": "zone"});
        let set = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "train", "labels": labels, "annotations": annotations},
            "spec": {"replicatedJobs": [{"name": "workers", "template": {"spec": spec}}]},
        });
        wait_for("the JobSet is rejected", MINUTE, async || match world.apply(&set.to_string()).await {
            Err(said) if said.contains("JobSet rejects the other pods of a Job until its first pod has a node") => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        })
        .await;
    }
    world.check_promises().await;
}

async fn templates_that_ask_for_a_gang_themselves_get_warnings_for_every_form_of_their_owner(world: &World) {
    cluster(world, 1).await;
    let asks = || template("high", &json!({LABEL_GANG: "true"}));
    let plain = || template("low", &json!({}));
    let torch = json!({
        "runPolicy": {"activeDeadlineSeconds": 60},
        "pytorchReplicaSpecs": {"Master": {"template": plain()}, "Worker": {"replicas": 2, "template": asks()}},
    });
    let ray = json!({"activeDeadlineSeconds": 60, "rayClusterSpec": {
        "headGroupSpec": {"template": plain()}, "workerGroupSpecs": [{"template": plain()}, {"template": asks()}]}});
    for (api_version, kind, spec) in [("kubeflow.org/v1", "PyTorchJob", torch), ("ray.io/v1", "RayJob", ray)] {
        apply(world, &crd(kind)).await;
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "train"}, "spec": spec});
        wait_for(&format!("{kind} is served"), MINUTE, async || {
            world.kubectl(&["get", "--raw", &served(kind)]).await.map(drop)
        })
        .await;
        let said = world.warnings_of("default", &object.to_string()).await;
        assert!(said.contains(&format!("60 s are counted from the start of the {kind}")), "{said}");
        let mut silent = object;
        for pointer in ["/spec/pytorchReplicaSpecs/Worker", "/spec/rayClusterSpec/workerGroupSpecs/1"] {
            if let Some(part) = silent.pointer_mut(pointer) {
                part["template"] = plain();
            }
        }
        assert_eq!(world.warnings_of("default", &silent.to_string()).await, "", "no template asks for a gang");
    }
    world.check_promises().await;
}

/// Returns the path of the objects of a kind in the default namespace.
fn served(kind: &str) -> String {
    let row = KINDS.iter().find(|row| row.kind == kind).unwrap();
    format!("/apis/{}/{}/namespaces/default/{}", row.group, row.version, row.plural)
}

async fn a_leader_and_its_workers_are_a_group(world: &World) {
    cluster(world, 1).await;
    let spec =
        json!({"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template("high", &json!({}))}});
    let set = create(world, &labelled("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", &spec)).await;
    let template = &set["spec"]["leaderWorkerTemplate"]["workerTemplate"];
    let stateful = |name: &str, replicas: usize, first: usize, labels: &Value| {
        let mut template = with_labels(template.clone(), labels);
        template["spec"]["restartPolicy"] = json!("Always");
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": name, "ownerReferences": owner(&set)},
            "spec": {"replicas": replicas, "serviceName": "serve", "podManagementPolicy": "Parallel",
                "ordinals": {"start": first}, "selector": {"matchLabels": labels}, "template": template},
        })
    };
    // The leader has no group index yet, because LeaderWorkerSet's webhook sets it after Giveway's.
    let leader = json!({"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/worker-index": "0"});
    let workers = json!({"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "0"});
    apply(world, &stateful("serve", 1, 0, &leader)).await;
    wait_group(world, "serve-0", 3, "LeaderWorkerSet/serve").await;
    let path = "jsonpath={.spec.nodeName}{.spec.schedulingGates[*].name}";
    let gates = world.kubectl(&["get", "pod", "serve-0", "-o", path]).await.unwrap();
    assert_eq!(gates, giveway_crds::keys::GATE, "the leader stays gated until its workers exist");
    apply(world, &stateful("serve-0", 2, 1, &workers)).await;
    wait_bound(world, "leaderworkerset.sigs.k8s.io/name=serve", 3).await;
    world.check_promises().await;
}

async fn the_group_of_a_removed_replica_is_deleted() {
    let world = World::builder().operator_flag("--unused-group-timeout=2s").start().await;
    cluster(&world, 1).await;
    let spec =
        json!({"replicas": 2, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template("high", &json!({}))}});
    let set = create(&world, &labelled("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", &spec)).await;
    let labels = json!({"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/worker-index": "0"});
    let mut template = with_labels(set["spec"]["leaderWorkerTemplate"]["workerTemplate"].clone(), &labels);
    template["spec"]["restartPolicy"] = json!("Always");
    let leaders = |replicas: usize| {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "serve", "ownerReferences": owner(&set)},
            "spec": {"replicas": replicas, "serviceName": "serve", "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels}, "template": template},
        })
    };
    apply(&world, &leaders(2)).await;
    wait_bound(&world, "leaderworkerset.sigs.k8s.io/name=serve", 2).await;
    apply(&world, &leaders(1)).await;
    wait_for("the group of the second replica is deleted", MINUTE, async || {
        let left = world.kubectl(&["get", "gpg", "-o", "jsonpath={.items[*].metadata.name}"]).await?;
        if left == "serve-0" { Ok(()) } else { Err(left) }
    })
    .await;
    world.check_promises().await;
}

async fn the_head_and_the_workers_of_a_ray_cluster_are_a_group(world: &World) {
    cluster(world, 1).await;
    let workers =
        json!([{"groupName": "small", "replicas": 2, "minReplicas": 1, "template": template("high", &json!({}))}]);
    let spec = json!({"headGroupSpec": {"template": template("high", &json!({}))}, "workerGroupSpecs": workers});
    let ray = create(world, &labelled("ray.io/v1", "RayCluster", "ray", &spec)).await;
    let pod = |name: &str, kind: &str, template: &Value| {
        let labels = json!({"ray.io/cluster": "ray", "ray.io/node-type": kind});
        let mut pod = with_labels(template.clone(), &labels);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["ownerReferences"] = owner(&ray);
        pod
    };
    apply(world, &pod("ray-head", "head", &ray["spec"]["headGroupSpec"]["template"])).await;
    wait_group(world, "ray", 3, "RayCluster/ray").await;
    for name in ["ray-small-0", "ray-small-1"] {
        apply(world, &pod(name, "worker", &ray["spec"]["workerGroupSpecs"][0]["template"])).await;
    }
    wait_bound(world, "ray.io/cluster=ray", 3).await;
    world.check_promises().await;
}
