//! What an error of the API server means for the call that it answers: the one classification of answers.
//!
//! The HTTP code alone does not tell it. An admission webhook chooses the code of its denial freely (400, 403, 429, 500, 503), and the
//! eviction API reports the refusal of a PodDisruptionBudget as 429, 500 or 403. So the text and the causes are read first.

use crate::messages::report::CallError;
use kube::core::Status;

/// What an error of the API server means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    /// The API server limits requests: it will accept the same request later.
    Throttled,
    /// A PodDisruptionBudget does not allow the eviction now.
    Budget,
    /// Admission, validation or a quota rejected the request. The same request will be rejected again until a policy, a
    /// webhook or an object changes.
    Rejected,
    /// Authentication or authorization failed. This can be temporary on an API server that has just started.
    Unauthorized,
    /// The object has changed.
    Conflict,
    /// The object with this UID does not exist.
    Gone,
    /// The API server, or a webhook that it needs, could not answer. The request may have been carried out.
    Outage,
}

impl ErrorClass {
    /// Classifies an error answer of the API server: whether a PodDisruptionBudget refused, admission rejected, the object is missing, or
    /// the call may be retried.
    pub(super) fn of(status: &Status) -> Self {
        let said = |text: &str| status.message.contains(text);
        // A webhook denies with any code, reason and causes; only the beginning of the message is the API server's. A policy chooses the
        // reason, and with it the code.
        let is_denied_by_webhook = status.message.starts_with("admission webhook ") && said(" denied the request");
        if is_denied_by_webhook || (said("ValidatingAdmissionPolicy '") && said(" denied request: ")) {
            return Self::Rejected;
        }
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        if causes.any(|cause| cause.reason == "DisruptionBudget") || said("more than one PodDisruptionBudget") {
            return Self::Budget;
        }
        match status.code {
            // A budget was deleted while the API server counted the eviction. The pod still exists.
            404 if status.message.starts_with("poddisruptionbudgets") => Self::Conflict,
            404 if is_from_the_api_server(status) => Self::Gone,
            409 | 422 if names_another_uid(status) => Self::Gone,
            429 if said("disruption budget") => Self::Budget,
            429 => Self::Throttled,
            401 => Self::Unauthorized,
            403 if said("is forbidden: User \"") => Self::Unauthorized,
            409 => Self::Conflict,
            // kube-scheduler has bound the pod, and the watch has not shown it yet.
            422 if said("may not be set on pods that are already bound to a node") => Self::Conflict,
            404 | 408 => Self::Outage,
            400..500 => Self::Rejected,
            _ => Self::Outage,
        }
    }
}

impl From<kube::Error> for CallError {
    /// Converts an error of the client library: `Gone` or `Rejected` if the API server says so, `Unanswered` if it was not reached, is
    /// overloaded or could not answer in time, and otherwise `Failed`.
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let words = || format!("{} ({})", status.message, status.code);
                match ErrorClass::of(&status) {
                    ErrorClass::Gone => Self::Gone,
                    ErrorClass::Rejected => Self::Rejected(status.message),
                    ErrorClass::Throttled => Self::Unanswered(words()),
                    ErrorClass::Outage if matches!(status.code, 502..=504) => Self::Unanswered(words()),
                    ErrorClass::Budget | ErrorClass::Unauthorized | ErrorClass::Conflict | ErrorClass::Outage => {
                        Self::Failed(words())
                    }
                }
            }
            error @ (kube::Error::Service(_) | kube::Error::HyperError(_)) => Self::Unanswered(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Returns true if the object to be created exists. A conflict about another object, such as a quota, and a webhook that denies with this
/// code do not mean that.
pub(super) fn already_exists(status: &Status) -> bool {
    status.reason == "AlreadyExists" && ErrorClass::of(status) == ErrorClass::Conflict
}

/// Returns true if the object changed since the resource version that the call names. A webhook that denies with the code of a conflict does
/// not mean that: the call is not to be repeated at once, and the object is not another one.
pub(super) fn has_changed(status: &Status) -> bool {
    ErrorClass::of(status) == ErrorClass::Conflict
}

/// Returns true if a 404 means that an object, or a kind, does not exist. A proxy or load balancer in front of the API server may answer
/// 404, too, and says nothing about the object.
fn is_from_the_api_server(status: &Status) -> bool {
    let texts = ["\" not found", "could not find the requested resource"];
    status.reason == "NotFound" && texts.into_iter().any(|text| status.message.ends_with(text))
}

/// Returns true if the error means that the object has another UID than the patch or the precondition. The API server reports that as a
/// conflict, or as a change of an immutable field.
fn names_another_uid(status: &Status) -> bool {
    let texts = ["UID in precondition", "UID in the precondition", "metadata.uid: Invalid"];
    texts.into_iter().any(|text| status.message.contains(text))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
