//! Memory of a model with pods as controllers create them.

use crate::generate;
use crate::measure::{Samples, resident};
use crate::row;
use giveway_planner::Cluster;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

const NODES: usize = 5000;
const PODS: usize = 100_000;
/// Pods of one Job.
const OF_JOB: usize = 50;

/// Prints the resident memory that the model needs for each pod. Run the row alone: memory that an earlier row has freed is used again.
pub(crate) fn memory() {
    let mut cluster = Cluster::default();
    for number in 0..NODES {
        cluster.upsert_node(&generate::node(number)).unwrap();
    }
    let before = resident();
    for number in 0..PODS {
        cluster.upsert_pod(&pod(number)).unwrap();
    }
    let said = match (before, resident()) {
        (Some(before), Some(after)) => format!("{} bytes a pod", after.saturating_sub(before) / PODS as u64),
        _ => "memory not available".to_owned(),
    };
    let what = "100,000 pods of 2,000 Jobs: 10 labels, owner, tolerations";
    row("memory", what, "700 bytes").print("", &Samples::default(), None, &said);
}

/// Returns a pod of an indexed Job, on a node.
fn pod(number: usize) -> Pod {
    let (job, index) = (number / OF_JOB, number % OF_JOB);
    let mut pod =
        generate::pod("research", &format!("train-{job:05}-{index}-x7k2p"), 10, &[("cpu", "4"), ("memory", "16Gi")]);
    for key in
        ["team", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/version", "cost-center"]
    {
        pod = generate::label(pod, key, "a value of some length");
    }
    for (key, value) in [
        ("batch.kubernetes.io/job-name", format!("train-{job:05}")),
        ("batch.kubernetes.io/controller-uid", format!("00000000-0000-0000-0000-{job:012}")),
        ("batch.kubernetes.io/job-completion-index", index.to_string()),
        ("scheduling.giveway.dev/pod-group", format!("train-{job:05}")),
    ] {
        pod = generate::label(pod, key, &value);
    }
    pod.metadata.uid = Some(format!("00000000-0000-0000-0001-{number:012}"));
    pod.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: format!("train-{job:05}"),
        uid: format!("00000000-0000-0000-0000-{job:012}"),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    if let Some(spec) = &mut pod.spec {
        let tolerations = ["not-ready", "unreachable"].map(|condition| Toleration {
            key: Some(format!("node.kubernetes.io/{condition}")),
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            toleration_seconds: Some(300),
            ..Toleration::default()
        });
        spec.tolerations = Some(tolerations.to_vec());
    }
    generate::on(pod, number % NODES)
}
