//! Rejections of requests that cannot be read or answered, whatever their object is.

use crate::verdict::Denial;
use std::fmt::Display;

/// The webhook answers 503 with this: its cache of the cluster is not complete yet. The API server's failure policy decides.
pub const NOT_READY: &str = "not yet ready to handle request";

/// Rejection (422): the field with this path has a type that the field cannot have.
pub fn unreadable_field(kind: &str, path: &str, cause: &str) -> Denial {
    Denial::unprocessable(format!("{path}: Invalid value: {cause}: the {kind} cannot be read, correct this field"))
}

/// Rejection (422): the object cannot be read, and no field of it is the cause: it is a list, or a field is there twice.
pub fn unreadable(kind: &str, cause: impl Display) -> Denial {
    Denial::unprocessable(format!("the {kind} cannot be read: {cause}"))
}

/// Rejection (500): a patch of Giveway does not fit the object: a defect of Giveway.
pub fn patch_not_applied(error: impl Display) -> Denial {
    Denial::internal(format!(
        "Giveway's patch cannot be applied to the object, a defect of Giveway, please report it: {error}"
    ))
}

/// Rejection (500): a patch of Giveway cannot be written as JSON: a defect of Giveway.
pub fn patch_not_encoded(error: impl Display) -> Denial {
    Denial::internal(format!("Giveway's patch cannot be encoded, a defect of Giveway, please report it: {error}"))
}

/// Rejection (500): a rule panicked while it judged the request: a defect of Giveway.
pub fn webhook_failed() -> Denial {
    Denial::internal("Giveway's webhook failed on this request; its log says where: please report it")
}

/// Rejection (400): a client that is no API server sent no body.
pub fn empty_body() -> Denial {
    Denial::bad_request("the body is empty: send an AdmissionReview")
}

/// Rejection (400): a client that is no API server sent something else than JSON.
pub fn not_json(error: impl Display) -> Denial {
    Denial::bad_request(format!("the body is not JSON: {error}"))
}

/// Rejection (400): the body has another `apiVersion` or `kind` than those that the webhook supports.
pub fn other_review(found: (&str, &str), supported: (&str, &str)) -> Denial {
    let ((version, kind), (supported_version, supported_kind)) = (found, supported);
    Denial::bad_request(format!(
        "apiVersion and kind are {version:?} and {kind:?}: must be {supported_version:?} and {supported_kind:?}"
    ))
}

/// Rejection (400): the AdmissionReview of a client has no field `request`.
pub fn no_request() -> Denial {
    Denial::bad_request("request: Required value: the AdmissionReview has no request")
}

/// Rejection (400): the request in an AdmissionReview has a field of the wrong type, or, with the path `.`, is no request at all.
pub fn unreadable_request(path: &str, cause: &str) -> Denial {
    let field = if path == "." { String::new() } else { format!(".{path}") };
    Denial::bad_request(format!("request{field}: {cause}"))
}

/// Rejection (400): the AdmissionReview cannot be read as a whole, although each part can.
pub fn unreadable_review() -> Denial {
    Denial::bad_request("the AdmissionReview cannot be read")
}
