//! Tests of the classification with the answers of a real API server, which an end-to-end test records in `answers.yaml`.

use super::*;
use serde::Deserialize;
use serde_json::{Value, json};

/// An answer, and its class.
#[derive(Deserialize)]
struct Recorded {
    situation: String,
    request: String,
    status: Value,
    expected: String,
}

/// Returns the answers that are errors, with their class.
fn recorded() -> Vec<(String, Status, String)> {
    let recorded: Vec<Recorded> = serde_yaml_ng::from_str(include_str!("answers.yaml")).unwrap();
    let errors = recorded.into_iter().filter(|answer| answer.expected != "accepted");
    let status = |mut status: Value| {
        let causes = status["causes"].take();
        status["status"] = json!("Failure");
        status["details"] = json!({ "causes": if causes.is_null() { json!([]) } else { causes } });
        serde_json::from_value(status).unwrap()
    };
    errors
        .map(|answer| (format!("{}: {}", answer.situation, answer.request), status(answer.status), answer.expected))
        .collect()
}

#[test]
fn every_recorded_answer_of_an_api_server_has_its_class() {
    let class = |answer: ErrorClass| match answer {
        ErrorClass::Throttled => "throttled",
        ErrorClass::Budget => "budget",
        ErrorClass::Rejected | ErrorClass::Unauthorized => "rejected",
        ErrorClass::Conflict => "conflict",
        ErrorClass::Gone => "gone",
        ErrorClass::Outage => "outage",
    };
    let wrong: Vec<String> = recorded()
        .into_iter()
        .map(|(situation, status, expected)| (situation, class(ErrorClass::of(&status)), expected))
        .filter(|(_, class, expected)| class != expected)
        .map(|(situation, class, expected)| format!("{situation}: {class} instead of {expected}"))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_rejection_keeps_the_words_of_the_component_that_rejected() {
    let words = |situation: &str| {
        let (_, status, _) = recorded().into_iter().find(|(name, ..)| name == situation).unwrap();
        CallError::from(kube::Error::Api(Box::new(status)))
    };
    assert_eq!(
        words("a webhook denies with 503: evict"),
        CallError::Rejected(
            "admission webhook \"deny.example.com\" denied the request: not during the trading day".into()
        )
    );
    assert_eq!(
        words("etcd does not answer in time: evict"),
        CallError::Failed("etcdserver: request timed out (500)".into()),
        "it is tried again"
    );
    assert!(matches!(words("the API server throttles with a Status: evict"), CallError::Unanswered(_)));
    assert!(matches!(words("a load balancer has no API server: evict"), CallError::Unanswered(_)), "as 503 and 504");
    assert!(matches!(words("RBAC does not permit it: evict"), CallError::Failed(_)), "it may have just started");
    assert_eq!(words("the pod has another UID: evict"), CallError::Gone);
}
