//! Each example: bound in the place of whole gangs, then evicted whole, then back; and whether the table of kinds says of its
//! pods what their controller writes.

use giveway_crds::kinds::{Origin, origin};
use giveway_tests::World;
use giveway_tests::example::{Example, wait_group};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;

/// Where each member comes from, sorted by group: by the table, and as its labels and its controllers are.
async fn origins(world: &World, selector: &str) -> Vec<(Pod, Origin)> {
    let pods = world.kit().api::<Pod>().list(&ListParams::default().labels(selector)).await.unwrap();
    let live = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut found: Vec<(Pod, Origin)> = live
        .map(|pod| {
            let origin = origin::of_pod(&pod).unwrap();
            (pod, origin)
        })
        .collect();
    found.sort_by_key(|(pod, origin)| (origin.group.clone(), pod.name_any()));
    found
}

/// Checks what the table says of the pods against what the controller wrote: kind, owner and group of each, every label that
/// the row reads, and the UID of the owner where a label or the controller of the pod tells it.
async fn agree(world: &World, example: &Example, owner: (&str, &str), groups: &[&str]) {
    let found = origins(world, example.selector).await;
    let told: Vec<&str> = found.iter().map(|(_, origin)| origin.group.as_str()).collect();
    let wanted: Vec<&str> = groups.iter().flat_map(|group| std::iter::repeat_n(*group, example.size)).collect();
    assert_eq!(told, wanted);
    let uid = world.kubectl(&["get", owner.0, owner.1, "-o", "jsonpath={.kind} {.metadata.uid}"]).await.unwrap();
    let (kind, uid) = uid.split_once(' ').unwrap();
    for (pod, origin) in &found {
        let row = origin.row.expect("its kind is in the table");
        assert_eq!((row.kind, origin.owner.as_str()), (kind, owner.1), "{:?}", pod.metadata);
        assert_eq!(pod.labels().get(giveway_crds::keys::LABEL_POD_GROUP), Some(&origin.group), "admission wrote it");
        for label in row.replica.iter().copied().chain(row.uid) {
            assert!(pod.labels().contains_key(label), "{label} is no label of {}: {:?}", pod.name_any(), pod.labels());
        }
        assert!(origin.uid.as_deref().is_none_or(|told| told == uid), "{origin:?}");
    }
    for group in groups {
        wait_group(world, group, example.size, &format!("{kind}/{}", owner.1)).await;
    }
}

pub async fn each_job_of_a_jobset_takes_and_gives_place_whole(world: &World) {
    let selector = "jobset.sigs.k8s.io/jobset-name=train";
    let example = Example { file: "3-jobset.yaml", selector, groups: 2, size: 4 };
    let check = async |world: &World| {
        agree(world, &example, ("jobset", "train"), &["train-workers-0", "train-workers-1"]).await;
    };
    example.takes_and_gives_place(world, check).await;
    let said = world.kubectl(&["get", "jobset/train", "-o", "jsonpath={.status.restarts}"]).await.unwrap();
    assert!(matches!(said.as_str(), "" | "0"), "a preemption is no failure of the JobSet: {said}");
}

pub async fn each_replica_of_a_leaderworkerset_takes_and_gives_place_whole(world: &World) {
    let selector = "leaderworkerset.sigs.k8s.io/name=serve";
    let example = Example { file: "4-leaderworkerset.yaml", selector, groups: 2, size: 3 };
    let check = async |world: &World| {
        agree(world, &example, ("leaderworkerset", "serve"), &["serve-0", "serve-1"]).await;
    };
    example.takes_and_gives_place(world, check).await;
}

pub async fn the_cluster_of_a_rayjob_takes_and_gives_place_whole(world: &World) {
    let selector = "ray.io/node-type in (head, worker)";
    let example = Example { file: "5-rayjob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| {
        let path = "jsonpath={.status.rayClusterName}";
        let cluster = world.kubectl(&["get", "rayjob/tune", "-o", path]).await.unwrap();
        agree(world, &example, ("raycluster", &cluster), &[&cluster]).await;
    };
    example.takes_and_gives_place(world, check).await;
}

pub async fn the_pods_of_a_pytorchjob_take_and_give_place_whole(world: &World) {
    let selector = "training.kubeflow.org/job-name=ddp";
    let example = Example { file: "10-pytorchjob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| agree(world, &example, ("pytorchjob", "ddp"), &["ddp"]).await;
    example.takes_and_gives_place(world, check).await;
    let path = "jsonpath={.status.conditions[?(@.type==\"Failed\")].status}";
    let said = world.kubectl(&["get", "pytorchjob/ddp", "-o", path]).await.unwrap();
    assert!(matches!(said.as_str(), "" | "False"), "a preemption is no failure of the PyTorchJob: {said}");
}

pub async fn launcher_and_workers_of_an_mpijob_take_and_give_place_whole(world: &World) {
    let selector = "training.kubeflow.org/job-name=pi";
    let example = Example { file: "11-mpijob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| agree(world, &example, ("mpijob", "pi"), &["pi"]).await;
    example.takes_and_gives_place(world, check).await;
}

pub async fn the_nodes_of_a_trainjob_take_and_give_place_whole(world: &World) {
    let selector = "jobset.sigs.k8s.io/jobset-name=llm";
    let example = Example { file: "6-trainjob.yaml", selector, groups: 1, size: 4 };
    let check = async |world: &World| agree(world, &example, ("jobset", "llm"), &["llm-node-0"]).await;
    example.takes_and_gives_place(world, check).await;
}
