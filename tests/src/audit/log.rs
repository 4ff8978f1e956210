//! The lines of the audit log.

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

/// The longest time after which an answered request is in the log.
const LATE: Duration = Duration::from_secs(5);

/// One request that was answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Who asked.
    pub user: User,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// Which object.
    #[serde(default)]
    pub object_ref: ObjectRef,
    /// What the answer was.
    #[serde(default)]
    pub response_status: Status,
    /// The body of the request.
    #[serde(default)]
    pub request_object: Value,
    /// The body of the answer.
    #[serde(default)]
    pub response_object: Value,
    /// When the request came in.
    pub request_received_timestamp: Timestamp,
    /// When it was answered.
    pub stage_timestamp: Timestamp,
}

/// Who asked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The user name.
    #[serde(default)]
    pub username: String,
}

/// Which object a request is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// The plural of the kind.
    pub resource: String,
    /// `status`, `eviction`, `binding` or nothing.
    pub subresource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name; empty where the server chooses one.
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
    /// Why the request was refused.
    pub message: String,
}

impl Line {
    /// Whether the request changed something.
    pub fn took_effect(&self) -> bool {
        (200..300).contains(&self.response_status.code) && !self.is_dry_run()
    }

    fn is_dry_run(&self) -> bool {
        self.uri.contains("dryRun=All")
            || self.request_object.pointer("/deleteOptions/dryRun").is_some_and(|dry| !dry.is_null())
            || self.request_object.get("dryRun").is_some_and(|dry| !dry.is_null())
    }
}

/// Reads a log on from where it was read to.
#[derive(Debug, Default)]
pub struct Reader {
    path: PathBuf,
    read: u64,
    lines: Vec<Line>,
    /// How many of the first lines tell how the world was set up, and stay.
    setup: usize,
}

impl Reader {
    /// A reader of this file, which may not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), ..Self::default() }
    }

    /// Says that the world is set up: what was read so far stays when a test [ends](Self::forget_test).
    pub fn set_up(&mut self) {
        self.setup = self.lines.len();
    }

    /// Forgets what was read since the world was set up: it belongs to a test that has ended. The file was emptied.
    pub fn forget_test(&mut self) {
        self.lines.truncate(self.setup);
        self.read = 0;
    }

    /// Everything that was read so far, but what was forgotten.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Reads what was written since; returns the lines that are new. A last line that is still being written is left for the
    /// next time.
    ///
    /// # Errors
    /// The file cannot be read, or a whole line of it is not an audit event.
    pub fn read_on(&mut self) -> Result<&[Line]> {
        let reading = || format!("reading {}", self.path.display());
        let mut file = File::open(&self.path).with_context(reading)?;
        file.seek(SeekFrom::Start(self.read)).with_context(reading)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(reading)?;
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        let known = self.lines.len();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // Whoever wrote the object may have nested these deeper than is read.
            let read = left_out_of(line.to_vec().into());
            let event = serde_json::from_slice(&read)
                .with_context(|| format!("an audit event: {}", String::from_utf8_lossy(line)))?;
            self.lines.push(event);
        }
        self.read += text.len() as u64;
        Ok(&self.lines[known..])
    }

    /// Reads on until everything that the API server answered so far is in the log. It writes an event when it has answered,
    /// so the log may be a moment behind what a client saw: a mark is put into it and must be followed by silence, or, where
    /// somebody never rests, by as long a time as an answered request may take to be written.
    ///
    /// # Errors
    /// The log cannot be read, or the API server does not write it.
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

/// Says in the log that a namespace is at rest, before the test cleans up in it: what happened there so far is judged as it is
/// now.
///
/// # Errors
/// The API server does not answer.
pub async fn mark_rest(client: &Client, namespace: &str) -> Result<()> {
    mark(client, &format!("{REST}{namespace}")).await
}

/// Marks a place in the log.
///
/// # Errors
/// The API server does not answer.
async fn mark(client: &Client, name: &str) -> Result<()> {
    // The name of the object is fixed by the audit policy; the namespace makes each mark different.
    let marker: Api<ConfigMap> = Api::namespaced(client.clone(), name);
    marker.get_opt("giveway-audit-mark").await?;
    Ok(())
}
