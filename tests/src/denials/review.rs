//! Answers the requests of the API server to the webhook.

use super::rule::Answer;
use super::{Registered, locked};
use anyhow::{Context as _, Result};
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A request that was denied or delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Plural of the kind with the subresource, such as `pods/eviction`.
    pub resource: String,
    /// Name of the object.
    pub name: String,
    /// Whether the request was a dry run.
    pub dry_run: bool,
}

/// Answers one review. The path is `/RULE` for the webhook of a rule and `/RULE/probe` for the one that shows that the rule is in force.
pub(super) async fn answer(
    rules: &Mutex<BTreeMap<String, Arc<Registered>>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).context("an AdmissionReview")?;
    let (name, probe) = match path.split_once('/') {
        Some((name, _)) => (name, true),
        None => (path.as_str(), false),
    };
    let rule = locked(rules).get(name).cloned();
    let status = match rule {
        Some(_) if probe => Some(json!({"code": 403, "message": format!("{name} is in force")})),
        Some(rule) => decide(&rule, &review).await,
        None => None,
    };
    Ok(Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(verdict(&review, status).to_string())))?)
}

/// Returns the `Status` with which a request is denied, or `None` if it is admitted.
async fn decide(rule: &Registered, review: &Value) -> Option<Value> {
    if !rule.take_turn(denied(review)) {
        return None;
    }
    let answer = locked(&rule.answer).clone();
    match answer {
        Answer::Deny(status) => Some(status),
        Answer::Late(time) => {
            tokio::time::sleep(time).await;
            None
        }
        Answer::Unreachable => None,
    }
}

fn denied(review: &Value) -> Denied {
    let text = |path: &str| review.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (resource, subresource) = (text("/request/resource/resource"), text("/request/subResource"));
    Denied {
        resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
        name: text("/request/name"),
        dry_run: review.pointer("/request/dryRun").and_then(Value::as_bool).unwrap_or(false),
    }
}

fn verdict(review: &Value, status: Option<Value>) -> Value {
    let mut response = json!({"uid": review.pointer("/request/uid"), "allowed": status.is_none()});
    if let Some(status) = status {
        response["status"] = status;
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denials::Rule;

    fn review(dry_run: bool) -> Value {
        json!({"request": {
            "uid": "1", "name": "web-0", "dryRun": dry_run, "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "eviction"
        }})
    }

    #[tokio::test]
    async fn a_rule_denies_as_often_as_it_says_and_remembers_what() {
        let rule = Registered::new(&Rule::evictions().times(2).saying(500, "closed"));
        let closed = Some(json!({"code": 500, "message": "closed"}));
        assert_eq!(decide(&rule, &review(true)).await, closed);
        assert_eq!(decide(&rule, &review(false)).await, closed);
        assert_eq!(decide(&rule, &review(false)).await, None);
        let denied = |dry_run| Denied { resource: "pods/eviction".into(), name: "web-0".into(), dry_run };
        assert_eq!(rule.denied(), [denied(true), denied(false)]);
    }

    #[tokio::test]
    async fn a_rule_that_counts_admits_the_first_requests() {
        let rule = Registered::new(&Rule::evictions().after(1).saying(403, "enough"));
        assert_eq!(decide(&rule, &review(false)).await, None);
        assert!(decide(&rule, &review(false)).await.is_some() && rule.denied().len() == 1);
    }

    #[tokio::test]
    async fn a_rule_that_was_ended_admits() {
        let rule = Registered::new(&Rule::evictions());
        rule.end();
        assert_eq!(decide(&rule, &review(false)).await, None);
        assert_eq!(rule.denied(), []);
    }

    #[test]
    fn a_verdict_has_the_uid_of_its_review() {
        let admitted = verdict(&review(false), None);
        assert_eq!(admitted["response"], json!({"uid": "1", "allowed": true}));
        let denied = verdict(&review(false), Some(json!({"code": 429})));
        assert_eq!(denied["response"], json!({"uid": "1", "allowed": false, "status": {"code": 429}}));
    }
}
