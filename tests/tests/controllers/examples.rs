//! Each example preempts whole gangs, is evicted as a whole and starts again. Also checks that the table of kinds agrees with the
//! labels and owners that the real controllers write.

use giveway_crds::kinds::{PodOrigin, origin};
use giveway_tests::World;
use giveway_tests::example::{Example, wait_group};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;

/// Returns the live pods, sorted by group, each with its origin according to the table of kinds.
async fn origins(world: &World, selector: &str) -> Vec<(Pod, PodOrigin)> {
    let pods = world.kit().api::<Pod>().list(&ListParams::default().labels(selector)).await.unwrap();
    let live = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut found: Vec<(Pod, PodOrigin)> = live
        .map(|pod| {
            let origin = origin::of_pod(&pod).unwrap();
            (pod, origin)
        })
        .collect();
    found.sort_by_key(|(pod, origin)| (origin.group.clone(), pod.name_any()));
    found
}

/// Checks the table of kinds against the pods that the controller created: kind, owner and group of each, every label that the
/// row reads, and the UID of the owner if a label or the pod's controller has it.
async fn check_origins(world: &World, example: &Example, owner: (&str, &str), groups: &[&str]) {
    let found = origins(world, example.selector).await;
    let actual: Vec<&str> = found.iter().map(|(_, origin)| origin.group.as_str()).collect();
    let wanted: Vec<&str> = groups.iter().flat_map(|group| std::iter::repeat_n(*group, example.size)).collect();
    assert_eq!(actual, wanted);
    let uid = world.kubectl(&["get", owner.0, owner.1, "-o", "jsonpath={.kind} {.metadata.uid}"]).await.unwrap();
    let (kind, uid) = uid.split_once(' ').unwrap();
    for (pod, origin) in &found {
        let row = origin.row.expect("the kind is in the table");
        assert_eq!((row.kind, origin.owner.as_str()), (kind, owner.1), "{:?}", pod.metadata);
        assert_eq!(
            pod.labels().get(giveway_crds::keys::LABEL_POD_GROUP),
            Some(&origin.group),
            "admission sets the group label"
        );
        for label in row.replica.iter().copied().chain(row.uid) {
            assert!(pod.labels().contains_key(label), "{label} is no label of {}: {:?}", pod.name_any(), pod.labels());
        }
        assert!(origin.uid.as_deref().is_none_or(|found| found == uid), "{origin:?}");
    }
    for group in groups {
        wait_group(world, group, example.size, &format!("{kind}/{}", owner.1)).await;
    }
}

pub async fn each_job_of_a_jobset_preempts_and_is_preempted_as_a_whole(world: &World) {
    let selector = "jobset.sigs.k8s.io/jobset-name=train";
    let example = Example { file: "3-jobset.yaml", selector, groups: 2, size: 4 };
    let check = async |world: &World| {
        check_origins(world, &example, ("jobset", "train"), &["train-workers-0", "train-workers-1"]).await;
    };
    example.preempts_and_is_preempted(world, check).await;
    let said = world.kubectl(&["get", "jobset/train", "-o", "jsonpath={.status.restarts}"]).await.unwrap();
    assert!(matches!(said.as_str(), "" | "0"), "a preemption does not count as a failure of the JobSet: {said}");
}

pub async fn each_replica_of_a_leaderworkerset_preempts_and_is_preempted_as_a_whole(world: &World) {
    let selector = "leaderworkerset.sigs.k8s.io/name=serve";
    let example = Example { file: "4-leaderworkerset.yaml", selector, groups: 2, size: 3 };
    let check = async |world: &World| {
        check_origins(world, &example, ("leaderworkerset", "serve"), &["serve-0", "serve-1"]).await;
    };
    example.preempts_and_is_preempted(world, check).await;
}

pub async fn the_cluster_of_a_rayjob_preempts_and_is_preempted_as_a_whole(world: &World) {
    let selector = "ray.io/node-type in (head, worker)";
    let example = Example { file: "5-rayjob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| {
        let path = "jsonpath={.status.rayClusterName}";
        let cluster = world.kubectl(&["get", "rayjob/tune", "-o", path]).await.unwrap();
        check_origins(world, &example, ("raycluster", &cluster), &[&cluster]).await;
    };
    example.preempts_and_is_preempted(world, check).await;
}

pub async fn the_pods_of_a_pytorchjob_preempt_and_are_preempted_as_a_whole(world: &World) {
    let selector = "training.kubeflow.org/job-name=ddp";
    let example = Example { file: "10-pytorchjob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| check_origins(world, &example, ("pytorchjob", "ddp"), &["ddp"]).await;
    example.preempts_and_is_preempted(world, check).await;
    let path = "jsonpath={.status.conditions[?(@.type==\"Failed\")].status}";
    let said = world.kubectl(&["get", "pytorchjob/ddp", "-o", path]).await.unwrap();
    assert!(
        matches!(said.as_str(), "" | "False"),
        "a preemption does not count as a failure of the PyTorchJob: {said}"
    );
}

pub async fn launcher_and_workers_of_an_mpijob_preempt_and_are_preempted_as_a_whole(world: &World) {
    let selector = "training.kubeflow.org/job-name=pi";
    let example = Example { file: "11-mpijob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| check_origins(world, &example, ("mpijob", "pi"), &["pi"]).await;
    example.preempts_and_is_preempted(world, check).await;
}

pub async fn the_nodes_of_a_trainjob_preempt_and_are_preempted_as_a_whole(world: &World) {
    let selector = "jobset.sigs.k8s.io/jobset-name=llm";
    let example = Example { file: "6-trainjob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| check_origins(world, &example, ("jobset", "llm"), &["llm-node-0"]).await;
    example.preempts_and_is_preempted(world, check).await;
}
