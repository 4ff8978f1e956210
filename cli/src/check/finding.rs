//! A finding, and how findings are printed.

use super::facts::GuardedPod;
use crate::manual;
use crate::output::style::{BAD, COSTS, GOOD, HEAD, paint};
use crate::output::table;
use crate::role::user_without_right;
use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing, or not known.
    Warn,
    /// Wrong.
    Fail,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// How bad it is.
    pub(super) status: Status,
    /// What was looked at, in a word.
    pub(super) check: &'static str,
    /// What was found, as a sentence.
    pub(super) message: String,
    /// What to do about it; empty when it is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) remedy: String,
    /// The class that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<String>,
    /// The guarded pods that are exposed to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) exposed: Vec<GuardedPod>,
    /// Whole days until a certificate expires; negative when it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) days_left: Option<i64>,
}

impl Finding {
    fn new(status: Status, check: &'static str, message: String, remedy: String) -> Self {
        Self { status, check, message, remedy, class: None, exposed: Vec::new(), days_left: None }
    }

    /// As it should be.
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, message.into(), String::new())
    }

    /// Worth knowing.
    pub(super) fn warn(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Status::Warn, check, message.into(), remedy.into())
    }

    /// Wrong.
    pub(super) fn fail(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Status::Fail, check, message.into(), remedy.into())
    }

    /// Not known, and why.
    pub(super) fn unknown(check: &'static str, what: &str, why: &str) -> Self {
        let remedy = match user_without_right(why) {
            Some(user) => format!("Run it as an administrator, or give user {user} the right that is named here."),
            None => "Do away with what is named here, and run it again.".to_owned(),
        };
        Self::warn(check, format!("{what} is not known: {why}"), remedy)
    }
}

/// All findings, as `-o json` prints them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Whether nothing is wrong.
    pub(super) ok: bool,
    /// Version of this program.
    pub(super) version: String,
    /// Namespace of the installation.
    pub(super) namespace: String,
    /// The findings.
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// The table, and a line that sums up.
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
            // Coloured here, because the table would count colours as characters.
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
        text + &format!("\n{bad} wrong, {odd} worth knowing, {} well.\n{more}", count(Status::Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_something_is_told_which_right_is_missing_and_others_are_not() {
        let said =
            "leases is forbidden: User \"ann\" cannot list resource \"leases\" in API group \"coordination.k8s.io\"";
        let found = Finding::unknown("operator", "Whether an operator leads", said);
        assert_eq!(found.message, format!("Whether an operator leads is not known: {said}"));
        assert_eq!(found.remedy, "Run it as an administrator, or give user ann the right that is named here.");
        let taken =
            Finding::unknown("webhook", "Whether admission works", "a PriorityClass giveway-check-probe exists");
        assert_eq!(taken.remedy, "Do away with what is named here, and run it again.");
    }
}
