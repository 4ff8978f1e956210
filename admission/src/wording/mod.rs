//! Every sentence with which admission rejects or warns, so that a reader can review all of them in one sitting.
//!
//! A function returns one sentence, from typed arguments, and its comment says when it is returned. A rejection is a
//! [`Denial`]: its code, and a message that names field, value and fix. A warning, and the text of an event, is a string. The
//! sentences of the guard hide names of other namespaces, so they are [`Sentence`](giveway_crds::wording::Sentence)s. Rules and
//! the webhook have no sentences of their own.
//!
//! Sentences that the operator or the plugin say, too, or that follow from the table of kinds, are made in the crate `giveway_crds`:
//! about labels that name a group ([`membership`](giveway_crds::membership), [`origin`](giveway_crds::kinds::origin)), the settings of
//! a gang ([`settings`](giveway_crds::kinds::settings), [`traps`](giveway_crds::kinds::traps),
//! [`warnings`](giveway_crds::kinds::warnings), [`classes`](giveway_crds::kinds::classes), [`job`](giveway_crds::kinds::job),
//! [`spark`](giveway_crds::kinds::spark)), and priorities ([`lending`](giveway_crds::lending),
//! [`priority`](giveway_crds::priority)). The functions here give them their code.
//!
//! `tests/admission/sentences.txt` has all of them, with counts of 0, 1 and 2; a test compares it with these functions.
//!
//! The findings of `kubectl giveway check` have a catalogue of the same form, `cli/src/check/wording`.

pub mod classes;
pub mod groups;
pub mod guard;
pub mod owners;
pub mod pods;
pub mod requests;
pub mod workloads;

use crate::verdict::Denial;

/// Returns the path of an annotation in error messages: `metadata.annotations[KEY]`.
pub fn annotation_path(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// Returns the path of a label in error messages: `metadata.labels[KEY]`.
pub fn label_path(key: &str) -> String {
    format!("metadata.labels[{key}]")
}

/// Returns the rejection (422) of the label `key` because of its value; `detail` says what it must be.
fn invalid_label(key: &str, value: &str, detail: impl std::fmt::Display) -> Denial {
    Denial::invalid(&label_path(key), value, detail)
}

/// Returns the rejection (422) of the annotation `key` because of its value; `detail` says what it must be.
fn invalid_annotation(key: &str, value: &str, detail: impl std::fmt::Display) -> Denial {
    Denial::invalid(&annotation_path(key), value, detail)
}
