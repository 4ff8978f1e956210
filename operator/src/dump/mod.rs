//! The state of the operator as JSON, which it writes to its log after the signal SIGUSR1: for an administrator who wants to know what the
//! operator waits for.
//!
//! A dump has four sections, each of which is one line on standard error, whatever `--log-level` and `--log-format` are: `operator`, `plans`,
//! `departures` and `waiting` (preemptors without a plan). A line has at most [`MOST_BYTES`]; a section with more entries says in `leftOut`
//! how many are missing. The state is read between two passes, so the sections belong together; they have the same `time`.

mod views;

pub use views::{departures, plans, waiting};

use crate::messages::input::Input;
use giveway_crds::brief::shorten_to_characters;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::io::Write as _;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;

/// Maximum length of a line, in bytes.
pub const MOST_BYTES: usize = 65_536;
/// The part of a line that is left for everything but the entries.
const FRAME: usize = 512;
/// Maximum number of characters of a text.
const MOST_CHARACTERS: usize = 400;

/// Sends [`Input::Dump`] to the arbiter at each signal (SIGUSR1), until the receiver of `inputs` is dropped.
pub async fn request(mut signals: Signal, inputs: mpsc::Sender<Input>) {
    while signals.recv().await.is_some() {
        if inputs.send(Input::Dump).await.is_err() {
            return;
        }
    }
}

/// Writes the lines of a dump to standard error, where the log is.
pub fn write(lines: &[String]) {
    let mut log = std::io::stderr().lock();
    for line in lines {
        // A process whose log cannot be written continues.
        let _ = writeln!(log, "{line}");
    }
}

/// A section, with its name and the time of the dump.
#[derive(Debug, Serialize)]
struct Section<'a, T> {
    dump: &'static str,
    time: &'a Time,
    #[serde(flatten)]
    content: T,
}

/// The content of a section with entries.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entries {
    total: usize,
    left_out: usize,
    entries: Vec<Box<RawValue>>,
}

/// Returns one line of the dump: a JSON object with the name of the section (`dump`), the time and the fields of `content`. If `content`
/// cannot be written as JSON, the line has the error instead.
pub fn line(dump: &'static str, time: &Time, content: impl Serialize) -> String {
    let line = serde_json::to_string(&Section { dump, time, content });
    line.unwrap_or_else(|error| json!({"dump": dump, "error": error.to_string()}).to_string())
}

/// Returns the [line](line()) of the section named `dump`: the first of these items, as many as fit in [`MOST_BYTES`] of JSON, the total
/// number of items, and how many are left out.
fn section<T: Serialize>(dump: &'static str, time: &Time, items: impl ExactSizeIterator<Item = T>) -> String {
    let (total, mut entries, mut bytes) = (items.len(), Vec::new(), FRAME);
    for entry in items {
        let Ok(entry) = to_raw_value(&entry) else { continue };
        bytes += entry.get().len() + 1;
        if bytes > MOST_BYTES {
            break;
        }
        entries.push(entry);
    }
    line(dump, time, Entries { total, left_out: total - entries.len(), entries })
}

/// Returns the text. If it has more than [`MOST_CHARACTERS`] characters, returns only these, followed by `…`.
fn shorten(text: &str) -> Cow<'_, str> {
    shorten_to_characters(text, MOST_CHARACTERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::Value;

    fn time() -> Time {
        Time(Timestamp::from_second(1_800_000_000).unwrap())
    }

    #[test]
    fn a_line_is_bounded_and_says_how_many_entries_are_left_out() {
        let entry = "x".repeat(1_000);
        let text = section("plans", &time(), (0..1_000).map(|_| &entry));
        assert!((60_000..=MOST_BYTES).contains(&text.len()), "{} bytes", text.len());
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["dump"], &line["time"]), (&"plans".into(), &"2027-01-15T08:00:00Z".into()));
        let (total, left_out) = (line["total"].as_u64().unwrap(), line["leftOut"].as_u64().unwrap());
        let entries = line["entries"].as_array().unwrap();
        assert_eq!((total, left_out), (1_000, 1_000 - u64::try_from(entries.len()).unwrap()));
        assert_eq!(entries[0], entry.as_str());
    }

    #[test]
    fn all_of_a_few_entries_are_in_a_line() {
        let line = section("waiting", &time(), ["a", "b"].into_iter());
        let all = r#"{"dump":"waiting","time":"2027-01-15T08:00:00Z","total":2,"leftOut":0,"entries":["a","b"]}"#;
        assert_eq!(line, all);
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let long = "ü".repeat(MOST_CHARACTERS + 1);
        assert_eq!(shorten(&long), format!("{}…", "ü".repeat(MOST_CHARACTERS)));
        assert_eq!(shorten("short"), "short");
    }
}
