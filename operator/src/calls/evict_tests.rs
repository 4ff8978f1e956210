//! Tests of an eviction whose answers cannot be parsed, and of one whose condition is rejected.

use super::super::stand_in::api_server;
use super::*;
use http::Method;

/// Returns an eviction of a pod with a budget that the plan may violate.
fn eviction() -> EvictCall {
    EvictCall {
        priority: 10,
        cause: crate::messages::command::EvictionCause::Departure {
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
    }
}

#[tokio::test]
async fn a_pod_that_cannot_be_decoded_is_marked_nevertheless() {
    let call = eviction();
    // A status that a tenant wrote: the API server stores a time that the client library cannot represent.
    let late = r#"{"metadata":{"name":"p"},"status":{"startTime":"9999-12-31T23:59:59Z"}}"#;
    for text in [r#"{"metadata":{"name":"p"}}"#, late] {
        let pods: Api<PodMeta> = Api::namespaced(api_server(move |_| (200, text.to_owned())), "team");
        add_disruption_target(&pods, &call, Names::default()).await.expect(text);
    }
}

/// Returns a client of an API server whose budget refuses every eviction, and whose policy denies changes of `pods/status`. It permits
/// DELETE.
fn denying_conditions() -> Client {
    api_server(|method| {
        let (code, body) = match *method {
            Method::POST => {
                let causes = json!([{"reason": "DisruptionBudget", "message": "The disruption budget db needs 1 healthy pods."}]);
                (429, json!({"status": "Failure", "code": 429, "message": "refused", "details": {"causes": causes}}))
            }
            Method::PATCH => {
                let message = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no change of a status";
                (422, json!({"status": "Failure", "code": 422, "message": message}))
            }
            _ => (200, json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}})),
        };
        (code, body.to_string())
    })
}

#[tokio::test]
async fn a_rejected_condition_is_a_rejection_of_the_eviction_and_found_by_its_dry_run() {
    for rehearsal in [true, false] {
        let call = EvictCall { rehearsal, ..eviction() };
        let outcome = evict(&denying_conditions(), &call, Names::default()).await;
        assert!(
            matches!(&outcome, Ok(EvictOutcome::Rejected(words)) if words.contains("no change of a status")),
            "{outcome:?}"
        );
    }
}
