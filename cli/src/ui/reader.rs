//! The questions of the page that no snapshot answers. One task asks the API server.

use super::page_error::{PageError, json};
use super::query::Query;
use crate::connect::{Api, GetResult};
use crate::role::ChartRole;
use crate::{check, output};
use giveway_planner::ObjectKey;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// A request of the page that needs the API server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageRequest {
    /// The checks of the installation.
    Check,
    /// The YAML of the object at this path.
    Object(String),
}

/// Body of an answer.
pub(super) type Body = Result<Vec<u8>, PageError>;

/// A request of the page, and where its answer is expected.
pub(super) type AwaitedAnswer = (PageRequest, oneshot::Sender<Body>);

/// Answers the page's requests in `asked`, which need the API server, one after the other, until the page closes.
pub(super) async fn answer(api: &Api, mut asked: mpsc::Receiver<AwaitedAnswer>) {
    while let Some((question, reply)) = asked.recv().await {
        let body = match question {
            PageRequest::Check => check::report(api).await.map_err(PageError::from).and_then(|report| json(&report)),
            PageRequest::Object(path) => object(api, &path).await,
        };
        // A page that was closed expects no answer.
        let _ = reply.send(body);
    }
}

/// Reads the object at this path of the API server, and returns it as YAML.
async fn object(api: &Api, path: &str) -> Body {
    match api.get::<Value>(path).await? {
        GetResult::Found(object) => Ok(output::yaml(&object)?.into_bytes()),
        GetResult::Missing => Err(PageError::new(StatusCode::NOT_FOUND, "The object does not exist any more.")),
        GetResult::Forbidden(said) => Err(PageError::new(StatusCode::FORBIDDEN, ChartRole::Planner.explain(&said))),
    }
}

impl PageRequest {
    /// Returns the request for the object in the parameters `kind`, `namespace` and `name` of a query.
    pub(super) fn object(query: &Query<'_>) -> Result<Self, PageError> {
        let path = match query.get("kind") {
            Some("preemption") => {
                format!("/apis/scheduling.giveway.dev/v1alpha1/preemptions/{}", query.name()?)
            }
            kind => {
                let ObjectKey { namespace, name } = query.key()?;
                match kind {
                    Some("podgroup") => {
                        format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{namespace}/podgroups/{name}")
                    }
                    Some("pod") => format!("/api/v1/namespaces/{namespace}/pods/{name}"),
                    _ => return Err(Query::invalid("kind", "must be preemption, podgroup or pod")),
                }
            }
        };
        Ok(Self::Object(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_of_three_kinds_with_valid_names_are_read() {
        let path = |query: &str| PageRequest::object(&Query::of(Some(query))).map_err(|problem| problem.message);
        let read = |text: &str| Ok(PageRequest::Object(text.to_owned()));
        assert_eq!(path("kind=pod&namespace=ml&name=train-0"), read("/api/v1/namespaces/ml/pods/train-0"));
        assert_eq!(
            path("kind=preemption&name=5f0c-1"),
            read("/apis/scheduling.giveway.dev/v1alpha1/preemptions/5f0c-1")
        );
        for wrong in [
            "kind=secret&namespace=ml&name=a",
            "kind=pod&namespace=ml&name=..",
            "kind=pod&namespace=ml&name=a%2F..%2Fsecrets",
            "kind=pod&namespace=a.b&name=a",
            "kind=pod&name=a",
            "kind=preemption",
            "",
        ] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
    }
}
