//! What a rule answers, before it is put into the words of the admission protocol.

use serde_json::Value;
use std::collections::BTreeSet;

/// The answer to one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Allowed as it is, changed, or refused.
    pub outcome: Outcome,
    /// What was noticed on the way.
    pub notes: Notes,
}

/// Allowed as it is, changed, or refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outcome {
    /// Nothing to do.
    #[default]
    Allowed,
    /// Allowed, as this object.
    Changed(Value),
    /// Refused.
    Refused(Refusal),
}

/// What a rule noticed beside its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Warnings for the user; kubectl prints them.
    pub warnings: Vec<String>,
    /// Objects that the verdict depends on and that the view does not have: they may have been created a moment ago.
    pub missing: BTreeSet<Reference>,
}

impl Notes {
    /// Adds a warning for the user. The protocol allows 256 characters.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// Notes that the verdict would be another one if this object existed.
    pub fn miss(&mut self, reference: Reference) {
        self.missing.insert(reference);
    }
}

/// An object that a request names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// A PriorityClass.
    Class(String),
    /// A PodGroup.
    PodGroup {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A Workload.
    Workload {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Why a request is refused: an HTTP status code and a message that names field, value and fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status code that the user's client sees.
    pub code: u16,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl Refusal {
    /// 400: the request is no admission review.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self { code: 400, message: message.into() }
    }

    /// 403: the user may not do this, in the words of the rule.
    pub fn forbidden(field: &str, message: impl std::fmt::Display) -> Self {
        Self { code: 403, message: format!("{field}: {message}") }
    }

    /// 422: a field has a value that it cannot have. The text has the form that the API server's own errors have.
    pub fn invalid(field: &str, value: &str, detail: impl std::fmt::Display) -> Self {
        Self { code: 422, message: format!("{field}: Invalid value: {value:?}: {detail}") }
    }

    /// 422, with a message that already names the field.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self { code: 422, message: message.into() }
    }

    /// 500: the webhook failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { code: 500, message: message.into() }
    }

    /// The machine-readable reason that belongs to the code (`metav1.StatusReason`).
    pub fn reason(&self) -> &'static str {
        match self.code {
            400 => "BadRequest",
            403 => "Forbidden",
            422 => "Invalid",
            _ => "InternalError",
        }
    }
}
