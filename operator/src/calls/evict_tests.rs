//! Tests which responses of the API server are about a PodDisruptionBudget. Only after such a response may a pod be
//! deleted without the Eviction API.

use super::*;
use serde_json::json;

fn status(code: u16, message: &str, cause: Option<&str>) -> kube::core::Status {
    let causes: Vec<_> = cause.map(|reason| json!({"reason": reason, "message": "why"})).into_iter().collect();
    let status = json!({"status": "Failure", "code": code, "message": message, "details": {"causes": causes}});
    serde_json::from_value(status).unwrap()
}

#[test]
fn a_budget_refuses_by_429_with_its_name_in_the_causes_or_in_words_and_two_budgets_by_500() {
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert!(is_for_budget(&status(429, budget, None)));
    assert!(is_for_budget(&status(429, "Too Many Requests", Some("DisruptionBudget"))));
    assert!(is_for_budget(&status(500, two, None)));
}

#[test]
fn throttling_failures_and_other_refusals_are_not_about_a_budget() {
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    for (code, message, cause) in [
        (429, "Too many requests, please try again later.", None),
        (429, "storage is (re)initializing", Some("TooManyRequests")),
        (500, "etcdserver: request timed out", None),
        // The API server reports two budgets for one pod only as 500, and a budget that does not allow the eviction
        // only as 429.
        (500, budget, Some("DisruptionBudget")),
        (503, budget, None),
        (403, "pods \"web-0\" is forbidden: more than one PodDisruptionBudget", Some("DisruptionBudget")),
        (429, "This pod has more than one PodDisruptionBudget", None),
    ] {
        assert!(!is_for_budget(&status(code, message, cause)), "{code} {message}");
    }
}

/// Returns a client of an API server that sends this response body to every request.
fn answering(text: &'static str) -> Client {
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(text.as_bytes().to_vec())))
    });
    Client::new(service, "team")
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_marked_all_the_same() {
    let call = EvictCall {
        priority: 10,
        cause: crate::messages::command::Cause::Departure {
            group: giveway_planner::model::ObjectKey::new("team", "g"),
            id: "abc-1".into(),
        },
        pod: giveway_planner::model::ObjectKey::new("team", "p"),
        uid: "u".into(),
        budgeted: true,
        may_force: true,
        grace: None,
        rehearsal: false,
        again: false,
        message: "why".into(),
        permission: tokio_util::sync::CancellationToken::new(),
    };
    // A status that a tenant wrote: the API server stores a time that the client library cannot represent.
    let late = r#"{"metadata":{"name":"p"},"status":{"startTime":"9999-12-31T23:59:59Z"}}"#;
    for text in [r#"{"metadata":{"name":"p"}}"#, late] {
        let pods: Api<Pod> = Api::namespaced(answering(text), "team");
        mark(&pods, &call, Names::default()).await.expect(text);
    }
}
