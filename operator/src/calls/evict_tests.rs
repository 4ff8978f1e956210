//! Tests of an eviction whose answers cannot be parsed.

use super::*;

/// Returns a client of an API server that sends this response body to every request.
fn answering(text: &'static str) -> Client {
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(text.as_bytes().to_vec())))
    });
    Client::new(service, "team")
}

#[tokio::test]
async fn a_pod_that_cannot_be_decoded_is_marked_nevertheless() {
    let call = EvictCall {
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
    };
    // A status that a tenant wrote: the API server stores a time that the client library cannot represent.
    let late = r#"{"metadata":{"name":"p"},"status":{"startTime":"9999-12-31T23:59:59Z"}}"#;
    for text in [r#"{"metadata":{"name":"p"}}"#, late] {
        let pods: Api<PodMeta> = Api::namespaced(answering(text), "team");
        mark(&pods, &call, Names::default()).await.expect(text);
    }
}
