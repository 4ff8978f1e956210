//! The table of answers, and its comparison with what was seen.

use giveway_tests::paths;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The table, from the root of the repository.
const FILE: &str = "operator/src/calls/answers.yaml";

/// A row: a request in a situation, its answer, and the class of the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    situation: String,
    request: String,
    status: Answer,
    expected: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unrecorded: Option<String>,
}

/// What the client library makes of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// `reason` of the `Status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `message` of the `Status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `details.causes` of the `Status`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// `details.retryAfterSeconds` of the `Status`; 0 if it is not set.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One of `details.causes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cause {
    /// The kind of cause, such as `DisruptionBudget`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

/// An answer of the API server.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The situation.
    pub situation: String,
    /// The name of the request.
    pub request: &'static str,
    /// The answer.
    pub answer: Answer,
}

impl Seen {
    fn is_of(&self, row: &Row) -> bool {
        self.situation == row.situation && self.request == row.request
    }
}

/// Expects that the table has exactly these answers, besides those that no test can cause. With `GIVEWAY_WRITE` set, the table is written
/// first; its classes are kept, and a new row has none.
pub fn compare(seen: &[Seen]) {
    let path = paths::repository().join(FILE);
    if std::env::var_os("GIVEWAY_WRITE").is_some() {
        write(&path, seen);
    }
    let rows = read(&path);
    let mut wrong = Vec::new();
    for one in seen {
        match rows.iter().find(|row| one.is_of(row)) {
            Some(row) if row.status == one.answer => {}
            row => wrong.push(format!(
                "{}, {}:\n  the API server answers {:?}\n  the table has          {:?}",
                one.situation,
                one.request,
                one.answer,
                row.map(|row| &row.status)
            )),
        }
    }
    for row in rows.iter().filter(|row| row.unrecorded.is_none() && !seen.iter().any(|one| one.is_of(row))) {
        wrong.push(format!("{}, {}: the table has it, and no request of the test", row.situation, row.request));
    }
    assert!(wrong.is_empty(), "{FILE} is not what the API server answers:\n{}", wrong.join("\n"));
}

fn read(path: &Path) -> Vec<Row> {
    serde_yaml_ng::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Writes the rows in the order in which they were seen, then those that were not recorded, below the comment of the file.
fn write(path: &Path, seen: &[Seen]) {
    let (old, text) = (read(path), fs::read_to_string(path).unwrap());
    let mut rows: Vec<Row> = (seen.iter())
        .map(|one| Row {
            situation: one.situation.clone(),
            request: one.request.to_owned(),
            status: one.answer.clone(),
            expected: old.iter().find(|row| one.is_of(row)).map(|row| row.expected.clone()).unwrap_or_default(),
            unrecorded: None,
        })
        .collect();
    rows.extend(old.into_iter().filter(|row| row.unrecorded.is_some()));
    let comment: String =
        text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    fs::write(path, comment + &serde_yaml_ng::to_string(&rows).unwrap()).unwrap();
}
