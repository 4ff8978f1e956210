//! Findings of checks, and their output. Only the functions of [`wording`](super::wording) create one.

use super::facts::GuardedPod;
use crate::manual;
use crate::output::style::{BAD, COSTS, GOOD, HEAD, paint};
use crate::output::table;
use giveway_crds::wording::counted;
use serde::Serialize;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    /// Passed.
    Ok,
    /// A warning, or unknown.
    Warn,
    /// Failed.
    Fail,
}

/// One finding: a line of the output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// Result of the check.
    pub(super) status: Status,
    /// Name of the check, in one word.
    pub(super) check: &'static str,
    /// The finding, as a sentence.
    pub(super) message: String,
    /// What the user can do; empty if the check passed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) remedy: String,
    /// The PriorityClass that the finding is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<String>,
    /// The pods with a guaranteed budget that it exposes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) exposed: Vec<GuardedPod>,
    /// Whole days until a certificate expires; negative if it has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) days_left: Option<i64>,
}

impl Finding {
    /// Creates a finding that is about no class, pod or expiry. `check` is the name of the check, in one word.
    fn new(status: Status, check: &'static str, message: String, remedy: String) -> Self {
        Self { status, check, message, remedy, class: None, exposed: Vec::new(), days_left: None }
    }

    /// Creates the finding of a check that passed. `check` is the name of the check, in one word.
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, message.into(), String::new())
    }

    /// Creates a warning of the check with the name `check`; `remedy` says what the user can do.
    pub(super) fn warn(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Status::Warn, check, message.into(), remedy.into())
    }

    /// Creates the finding of a failed check with the name `check`; `remedy` says what the user can do.
    pub(super) fn fail(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Status::Fail, check, message.into(), remedy.into())
    }
}

/// All findings, as `-o json` prints them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckReport {
    /// True if no check failed.
    pub(super) ok: bool,
    /// Version of this program.
    pub(super) version: String,
    /// Namespace of the installation.
    pub(super) namespace: String,
    /// The findings.
    pub(super) findings: Vec<Finding>,
}

impl CheckReport {
    /// Creates the report about the installation in a namespace.
    pub(super) fn new(namespace: String, findings: Vec<Finding>) -> Self {
        let ok = findings.iter().all(|finding| finding.status != Status::Fail);
        Self { ok, version: env!("CARGO_PKG_VERSION").to_owned(), namespace, findings }
    }

    /// Returns the findings as a table of at most `width` characters (`None` for no limit), and a line that counts failed and passed
    /// checks and warnings.
    pub(super) fn table(&self, width: Option<u16>) -> String {
        let mut rows = vec![["STATUS", "CHECK", "FINDING", "WHAT TO DO"].map(str::to_owned).to_vec()];
        rows.extend(self.findings.iter().map(|finding| {
            let status = match finding.status {
                Status::Ok => "OK",
                Status::Warn => "WARN",
                Status::Fail => "FAIL",
            };
            vec![status.to_owned(), finding.check.to_owned(), finding.message.clone(), finding.remedy.clone()]
        }));
        let mut text = String::new();
        for line in table::table(rows, width).lines() {
            // Colours are added here, because the table would count their characters.
            let coloured = [("OK ", GOOD), ("WARN ", COSTS), ("FAIL ", BAD), ("STATUS ", HEAD)].into_iter().find_map(
                |(word, style)| {
                    let rest = line.strip_prefix(word)?;
                    Some(format!("{} {rest}", paint(style, word.trim_end())))
                },
            );
            text.push_str(&coloured.unwrap_or_else(|| line.to_owned()));
            text.push('\n');
        }
        let count = |status| self.findings.iter().filter(|finding| finding.status == status).count();
        let (bad, odd) = (count(Status::Fail), count(Status::Warn));
        let more = if bad + odd > 0 { format!("More of each: {}\n", manual::about("checks")) } else { String::new() };
        let warnings = counted(odd, "warning", "warnings");
        text + &format!("\n{bad} failed, {warnings}, {} passed.\n{more}", count(Status::Ok))
    }
}
