//! Result of a rule, independent of the admission protocol.

use crate::notice::EventDraft;
pub use giveway_crds::brief::shorten;
use giveway_crds::names::is_subdomain;
use json_patch::Patch;
use std::collections::BTreeSet;

/// The result for one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Allowed, changed or rejected.
    pub outcome: VerdictOutcome,
    /// Warnings, events and missing objects.
    pub notes: Notes,
}

/// Allowed, changed or rejected.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum VerdictOutcome {
    /// Allowed unchanged.
    #[default]
    Allowed,
    /// Allowed, with this patch applied.
    Changed(Patch),
    /// Rejected.
    Refused(Denial),
}

/// Results of a rule in addition to its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Warnings for the user; kubectl prints them.
    pub warnings: Vec<String>,
    /// Events on objects, for users who do not see the warnings.
    pub events: Vec<EventDraft>,
    /// Objects that the verdict depends on and that the view does not contain: they may have been created just now.
    pub missing: BTreeSet<Reference>,
}

impl Notes {
    /// Adds a warning for the user, cut after 2048 bytes. Clients may show only the first 256 characters.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(limited(text.into()));
    }

    /// Records that the view does not contain this object, and that the verdict could differ if it exists: the caller looks it
    /// up. An object with an invalid name cannot exist and is not recorded.
    pub fn miss(&mut self, reference: Reference) {
        if reference.is_possible() {
            self.missing.insert(reference);
        }
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

impl Reference {
    /// Returns true if an object with this name and namespace can exist: both are valid DNS subdomains.
    fn is_possible(&self) -> bool {
        match self {
            Self::Class(name) => is_subdomain(name),
            Self::PodGroup { namespace, name } | Self::Workload { namespace, name } => {
                is_subdomain(namespace) && is_subdomain(name)
            }
        }
    }
}

/// Maximum bytes of a message, which may contain text from the user.
const MOST: usize = 2048;
/// Returns the text; if it is longer than [`MOST`] bytes, it is cut there and ends with an ellipsis.
fn limited(mut text: String) -> String {
    if text.len() > MOST {
        let end = (0..=MOST).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

/// Why a request is rejected: an HTTP status code and a message that names field, value and fix. The functions of
/// [`wording`](crate::wording) create it; the guard's verdict does from a sentence of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// HTTP status code that the user's client sees.
    pub code: u16,
    /// The error, and how to fix it.
    pub message: String,
}

impl Denial {
    /// Creates a rejection with this HTTP status code; a message that is too long is cut.
    fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: limited(message.into()) }
    }

    /// Creates a rejection with status 400: the request is not an admission review.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// Creates a rejection with status 403 (forbidden): the path of the field and the message of the rule.
    pub(crate) fn forbidden(field: &str, message: impl std::fmt::Display) -> Self {
        Self::new(403, format!("{field}: {message}"))
    }

    /// Creates a rejection with status 422: the field at the path `field` has an invalid value, and `detail` says what it must be.
    /// The message has the form of the API server's own errors.
    pub(crate) fn invalid(field: &str, value: &str, detail: impl std::fmt::Display) -> Self {
        Self::new(422, format!("{field}: Invalid value: {:?}: {detail}", shorten(value)))
    }

    /// Creates a rejection with status 422 and a message that already names the field.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, message)
    }

    /// Creates a rejection with status 500: the webhook failed.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, message)
    }

    /// Returns the machine-readable reason (`metav1.StatusReason`) for the status code, such as `Forbidden`.
    pub fn reason(&self) -> &'static str {
        match self.code {
            400 => "BadRequest",
            403 => "Forbidden",
            422 => "Invalid",
            _ => "InternalError",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_with_an_impossible_name_is_not_looked_up() {
        let class = |name: &str| Reference::Class(name.to_owned());
        let group = |namespace: &str, name: &str| Reference::PodGroup {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        for possible in [class("system-cluster-critical"), class("a.b-c.1"), group("team", &"x".repeat(253))] {
            assert!(possible.is_possible(), "{possible:?}");
        }
        let paths =
            [group("team", "../../../../api/v1/secrets"), group("..", "g"), class("a/b"), class("a?watch=true")];
        let others = [class(""), class("A"), class(".."), class("-a"), class("é"), group("team", &"x".repeat(254))];
        for impossible in paths.into_iter().chain(others) {
            let mut notes = Notes::default();
            notes.miss(impossible.clone());
            assert!(notes.missing.is_empty(), "{impossible:?}");
        }
    }

    #[test]
    fn values_that_users_wrote_are_shortened_in_messages() {
        let huge = "é".repeat(1 << 20);
        let refusal = Denial::invalid("spec.x", &huge, "must be shorter");
        assert_eq!(refusal.message, format!("spec.x: Invalid value: \"{}…\": must be shorter", "é".repeat(80)));
        for refusal in [Denial::unprocessable(huge.clone()), Denial::forbidden("spec.x", &huge)] {
            assert!(refusal.message.len() <= MOST + 3, "{}", refusal.message.len());
        }
    }
}
