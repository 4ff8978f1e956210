//! Memory that very large reviews need, measured from outside of the process.
//!
//! `kubectl create --dry-run=server` of one pod with 150,000 environment variables increased the webhook's memory from
//! 24 to 227 MiB when it parsed bodies into trees of values.

use super::client::Client;
use super::process::Webhook;
use super::stub::Objects;
use futures::future::join_all;
use serde_json::{Map, Value, json};

const MIB: usize = 1 << 20;

/// Returns the review of a pod with this number of environment variables, created by a user.
fn pod(variables: usize) -> Vec<u8> {
    let variables: Vec<Value> = (0..variables).map(|n| json!({"name": format!("v{n}"), "value": "x"})).collect();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team", "labels": {"scheduling.giveway.dev/pod-group": "g"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": variables}]},
    });
    let request = json!({
        "uid": "u-1", "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "team",
        "operation": "CREATE", "userInfo": {"username": "alice"}, "object": object, "dryRun": true,
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    serde_json::to_vec(&review).unwrap()
}

/// Returns the review of an object of this kind that contains only a list, whose items have two bytes each in the
/// request.
fn list(group: &str, version: &str, kind: &str, field: &str, items: usize) -> Vec<u8> {
    let plural = format!("{}s", kind.to_lowercase());
    let object = json!({
        "apiVersion": format!("{group}/{version}"), "kind": kind,
        "metadata": {"name": "o", "namespace": "team", "labels": {"scheduling.giveway.dev/gang": "true"}},
        "spec": {field: "ITEMS"},
    });
    let request = json!({
        "uid": "u-1", "resource": {"group": group, "version": version, "resource": plural}, "namespace": "team",
        "operation": "CREATE", "userInfo": {"username": "alice"}, "object": object, "dryRun": true,
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().replace("\"ITEMS\"", &format!("[{}]", vec!["{}"; items].join(","))).into_bytes()
}

/// Returns the webhook's response to a review.
async fn answer(webhook: &Webhook, body: &[u8]) -> Value {
    let mut client = Client::connect(&webhook.place).await.unwrap();
    let (status, answer) = client.send("POST", "/mutate?timeout=30s", body).await.unwrap();
    assert_eq!(status, 200);
    serde_json::from_slice::<Value>(&answer).unwrap()["response"].clone()
}

async fn ask(webhook: &Webhook, body: &[u8]) {
    let mut client = Client::connect(&webhook.place).await.unwrap();
    let (status, answer) = client.send("POST", "/mutate?timeout=30s", body).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (200, &json!(true)), "{answer}");
    assert!(answer["response"]["patch"].is_string(), "the pod is gated, so there is a patch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_with_150000_environment_variables_costs_less_than_32_mib_and_64_at_once_less_than_200() {
    let webhook = Webhook::start(Objects::default()).await;
    ask(&webhook, &pod(10)).await;
    let body = pod(150_000);
    assert!(body.len() > 3 * MIB);

    let before = webhook.process.resident();
    webhook.process.forget_peak();
    ask(&webhook, &body).await;
    let one = webhook.process.peak();
    assert!(one - before < 32 * MIB, "from {} to {} KiB", before / 1024, one / 1024);

    webhook.process.forget_peak();
    join_all((0..64).map(|_| ask(&webhook, &body))).await;
    let crowd = webhook.process.peak();
    assert!(crowd < 200 * MIB, "{} MiB for 64 at once", crowd / MIB);
    println!("{} MiB before, {} MiB with one, {} MiB with 64", before / MIB, one / MIB, crowd / MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_million_pod_templates_cost_little_more_than_their_text() {
    let webhook = Webhook::start(Objects::default()).await;
    ask(&webhook, &pod(10)).await;
    let sets = list("jobset.x-k8s.io", "v1alpha2", "JobSet", "replicatedJobs", 1_000_000);
    let workload = list("scheduling.giveway.dev", "v1alpha1", "Workload", "podGroupTemplates", 1_000_000);
    for body in [sets, workload] {
        let before = webhook.process.resident();
        webhook.process.forget_peak();
        let answer = answer(&webhook, &body).await;
        let one = webhook.process.peak();
        assert!(one - before < 16 * MIB, "from {} to {} KiB: {answer}", before / 1024, one / 1024);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_pods_with_20000_labels_each_are_listed_within_the_webhook_s_limit() {
    let pods = (0..60).map(|pod| {
        let mut labels: Map<String, Value> = (0..20_000).map(|n| (format!("label-{n:06}"), json!(""))).collect();
        labels.insert("scheduling.giveway.dev/pod-group".to_owned(), json!("g"));
        json!({
            "metadata": {"name": format!("p{pod}"), "namespace": "team", "uid": format!("u{pod}"), "labels": labels},
            "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running"},
        })
    });
    let webhook = Webhook::start(Objects::from([("pods", pods.collect())])).await;
    let (resident, peak) = (webhook.process.resident(), webhook.process.peak());
    println!("{} MiB, {} MiB at most", resident / MIB, peak / MIB);
    assert!(peak < 128 * MIB, "{} MiB", peak / MIB);
}
