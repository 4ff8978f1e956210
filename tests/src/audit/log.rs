//! The lines of the audit log.

use crate::wait;
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::Path;
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

/// Reads the whole log. A last line that is still being written is left out.
///
/// # Errors
/// The file cannot be read, or a whole line of it is not an audit event.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line: &str| serde_json::from_str(line).with_context(|| format!("an audit event: {line}"));
    whole.lines().map(parse).collect()
}

/// Waits until everything that the API server answered so far is in the log. It writes an event when it has answered,
/// so the log may be a moment behind what a client saw: a mark is put into it and must be followed by silence, or, where
/// somebody never rests, by as long a time as an answered request may take to be written.
pub(super) async fn flush(client: &Client, path: &Path, limit: Duration) -> Result<()> {
    static MARKS: AtomicU64 = AtomicU64::new(0);
    let mark = format!("mark-{}-{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed));
    // The name of the object is fixed by the audit policy; the namespace makes each mark different.
    let marker: Api<ConfigMap> = Api::namespaced(client.clone(), &mark);
    marker.get_opt("giveway-audit-mark").await?;
    let (mut size, mut seen) = (0, None);
    wait::until("the audit log is written", limit, async || {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let before = std::mem::replace(&mut size, text.len());
        if !text.contains(&mark) {
            return Err("the mark is not in it yet".to_owned());
        }
        let since = *seen.get_or_insert_with(Instant::now);
        if before == text.len() || since.elapsed() >= LATE {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        Err("it still grows".to_owned())
    })
    .await?;
    Ok(())
}
