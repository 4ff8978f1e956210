//! Complete reviews that a client without credentials forges, each of which needs a look-up.

use super::client::Client;
use super::process::{PATIENCE, Webhook};
use super::stub::{NEW_CLASS, Objects, SILENT, silent_reads};
use futures::future::join_all;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::task::JoinSet;

/// Address of the client without credentials; the API servers have another one.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Returns the review of an object that a user creates.
fn review(group: &str, resource: &str, object: &Value) -> Vec<u8> {
    let request = json!({
        "uid": "u-1", "resource": {"group": group, "resource": resource},
        "namespace": "team", "operation": "CREATE", "userInfo": {"username": "alice"}, "object": object,
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string().into_bytes()
}

/// Sends forged reviews whose look-ups are never answered, and then the review of a PodGroup whose class was created a moment
/// ago. Returns the answer to that one, or `None` if a forged review was answered before it.
async fn answer_beside_forged_reviews(webhook: &Webhook) -> Option<Value> {
    let clients = join_all((0..64).map(|_| Client::connect_from(&webhook.place, STRANGER))).await;
    let (mut forged, before) = (JoinSet::new(), silent_reads());
    for (n, client) in clients.into_iter().enumerate() {
        let labels = json!({"scheduling.giveway.dev/pod-group": format!("{SILENT}{n}")});
        let pod = json!({"apiVersion": "v1", "metadata": {"name": "p", "labels": labels}, "spec": {"containers": []}});
        let (mut client, body) = (client.unwrap(), review("", "pods", &pod));
        forged.spawn(async move { client.send("POST", "/mutate?timeout=30s", &body).await });
    }
    let looked_up = async {
        while silent_reads() < before + 16 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked_up).await.expect("forged reviews are looked up");

    let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": NEW_CLASS});
    let group = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec,
    });
    let body = review("scheduling.giveway.dev", "podgroups", &group);
    let mut client = Client::connect(&webhook.place).await.unwrap();
    let (status, answer) = client.send("POST", "/mutate?timeout=10s", &body).await.unwrap();
    assert_eq!(status, 200);
    forged.try_join_next().is_none().then(|| serde_json::from_slice(&answer).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_reviews_that_need_look_ups_leave_slots_for_those_of_another_address() {
    let webhook = Webhook::start(Objects::default()).await;
    // On a busy machine the look-ups of forged reviews may end, after 2 s, before the other review is sent.
    for _ in 0..5 {
        if let Some(answer) = answer_beside_forged_reviews(&webhook).await {
            assert_eq!(answer["response"]["allowed"], json!(true), "its class was looked up: {answer}");
            return;
        }
    }
    panic!("the review of another address waited for the look-ups of forged ones");
}
