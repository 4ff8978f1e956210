//! What the daemons log.

/// The part of the client library that logs requests, and every 5xx response as an error. The caller gets the response too and logs what
/// it means, so the library's line would be a second one without the object.
const REQUESTS: &str = "kube_client::client::builder=off";

/// Returns the directives of a log filter: those that the user has set, without the client library's own lines about requests. A directive
/// `kube_client::client::builder=debug` of the user switches them on again.
pub fn directives(set: &str) -> String {
    format!("{REQUESTS},{set}")
}
