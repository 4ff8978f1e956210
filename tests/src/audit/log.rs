//! Reads the lines of the audit log.

use super::record::REST;
use crate::wait;
use anyhow::{Context as _, Result};
use giveway_crds::answers::managed_fields::left_out_of;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time after which an answered request is in the log.
const LATE: Duration = Duration::from_secs(5);

/// One answered request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The user.
    pub user: User,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// The object.
    #[serde(default)]
    pub object_ref: ObjectRef,
    /// The HTTP status of the answer.
    #[serde(default)]
    pub response_status: Status,
    /// The body of the request.
    #[serde(default)]
    pub request_object: Value,
    /// The body of the answer.
    #[serde(default)]
    pub response_object: Value,
    /// Time at which the API server received the request.
    pub request_received_timestamp: Timestamp,
    /// Time of the answer.
    pub stage_timestamp: Timestamp,
}

/// The user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The user name.
    #[serde(default)]
    pub username: String,
}

/// The object of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// The plural of the kind.
    pub resource: String,
    /// `status`, `eviction`, `binding` or nothing.
    pub subresource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name; empty if the server chooses one.
    pub name: String,
    /// Its API group.
    pub api_group: String,
}

/// The HTTP status of an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The code.
    pub code: u16,
    /// The message of an error.
    pub message: String,
}

impl Line {
    /// Returns true if the request was successful.
    pub fn took_effect(&self) -> bool {
        (200..300).contains(&self.response_status.code) && !self.is_dry_run()
    }

    /// Returns true if the request was a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.uri.contains("dryRun=All")
            || self.request_object.pointer("/deleteOptions/dryRun").is_some_and(|dry| !dry.is_null())
            || self.request_object.get("dryRun").is_some_and(|dry| !dry.is_null())
    }
}

/// Reads a log incrementally.
#[derive(Debug, Default)]
pub struct Reader {
    path: PathBuf,
    read: u64,
    lines: Vec<Line>,
    /// Number of lines from the set-up of the world, which are kept for every test.
    setup: usize,
}

impl Reader {
    /// Returns a reader of this file, which may not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), ..Self::default() }
    }

    /// Marks the lines so far as belonging to the set-up of the world, so that [`Self::forget_test`] keeps them.
    pub fn set_up(&mut self) {
        self.setup = self.lines.len();
    }

    /// Removes the lines since the set-up of the world, which belong to a test that has ended. The file was emptied.
    pub fn forget_test(&mut self) {
        self.lines.truncate(self.setup);
        self.read = 0;
    }

    /// Returns all lines that were read and not forgotten.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Reads and returns the new lines. An incomplete last line is left for the next call.
    ///
    /// # Errors
    /// If the file cannot be read or a complete line is not an audit event.
    pub fn read_on(&mut self) -> Result<&[Line]> {
        let reading = || format!("reading {}", self.path.display());
        let mut file = File::open(&self.path).with_context(reading)?;
        file.seek(SeekFrom::Start(self.read)).with_context(reading)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(reading)?;
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        let known = self.lines.len();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // Managed fields may be nested too deeply for the parser.
            let read = left_out_of(line.to_vec().into());
            let event = serde_json::from_slice(&read)
                .with_context(|| format!("an audit event: {}", String::from_utf8_lossy(line)))?;
            self.lines.push(event);
        }
        self.read += text.len() as u64;
        Ok(&self.lines[known..])
    }

    /// Reads until every request that was answered before this call is in the log. The API server writes an event after it has
    /// answered, so the log may lag behind the clients. The function writes a mark and reads until no line follows it for a
    /// while, or until the longest delay of a line has passed.
    ///
    /// # Errors
    /// If the log cannot be read or the API server does not write it.
    pub async fn catch_up(&mut self, client: &Client, limit: Duration) -> Result<()> {
        static MARKS: AtomicU64 = AtomicU64::new(0);
        let name = format!("mark-{}-{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed));
        mark(client, &name).await?;
        let mut seen = None;
        wait::until("the audit log is written", limit, async || {
            let new = self.read_on().map_err(|error| format!("{error:#}"))?;
            let silent = new.is_empty();
            if new.iter().any(|line| line.object_ref.namespace == name) {
                seen = Some(Instant::now());
            }
            let Some(since) = seen else { return Err("the mark is not in it yet".to_owned()) };
            if silent || since.elapsed() >= LATE {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            Err("it still grows".to_owned())
        })
        .await?;
        Ok(())
    }
}

/// Writes a mark to the log that a namespace is at rest, before the test cleans up in it. The oracle judges all earlier events of
/// the namespace by the state at the mark.
///
/// # Errors
/// If the API server does not answer.
pub async fn mark_rest(client: &Client, namespace: &str) -> Result<()> {
    mark(client, &format!("{REST}{namespace}")).await
}

/// Writes a mark to the log.
///
/// # Errors
/// If the API server does not answer.
async fn mark(client: &Client, name: &str) -> Result<()> {
    // The audit policy fixes the name of the object; the namespace distinguishes the marks.
    let marker: Api<ConfigMap> = Api::namespaced(client.clone(), name);
    marker.get_opt("giveway-audit-mark").await?;
    Ok(())
}
