//! Every sentence of `kubectl giveway check`, so that a reader can review all of them in one sitting: one file for each subject.
//!
//! A function returns one [`Finding`], from typed arguments. Its comment says the result (passed, warning or failed), and when it is
//! returned. The judges decide, and have no sentences of their own. `findings.txt` has all findings, with counts of 0, 1 and 2; a test
//! compares it with these functions.

pub(super) mod admission;
pub(super) mod certificate;
pub(super) mod classes;
pub(super) mod cluster;
pub(super) mod operator;
pub(super) mod pre;
#[cfg(test)]
mod tests;

use super::finding::Finding;
use crate::role::user_without_right;

/// Maximum number of objects that a sentence names.
const NAMED: usize = 5;

/// Warning of the check `check`: what it needed could not be read. `what` is the beginning of the sentence, such as "The chart's
/// version", and `why` the error.
fn unknown(check: &'static str, what: &str, why: &str) -> Finding {
    let remedy = match user_without_right(why) {
        Some(user) => format!("Run the command as an administrator, or give user {user} the right that is named here."),
        None => "Fix the cause that is named here, and run the command again.".to_owned(),
    };
    Finding::warn(check, format!("{what} is not known: {why}"), remedy)
}

/// Returns the first [`NAMED`] of these texts, joined by commas, and the number of the others: `a, b and 3 more`.
fn first(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = match texts.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    texts.take(NAMED).collect::<Vec<String>>().join(", ") + &more
}
