//! Reads the objects of a kind as far as a client may: of the whole cluster, or else of one namespace, or else none.
//!
//! The API server checks the rights of a client when a request begins. So it is asked to end each watch after [`LIFETIME`] seconds: a right
//! that was revoked is missing when the watch is continued. What is forbidden is requested again after [`FORBIDDEN_RETRY`]. A separate
//! check of rights would cost as many requests: a SelfSubjectAccessReview is about one kind, and a SelfSubjectRulesReview is incomplete
//! with authorizers other than RBAC.

use super::{Event, KindReader, MARGIN, WatchFailure};
use crate::objects::KindFields;
use kube::Client;
use kube::api::WatchParams;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Time limit of a watch, in seconds: as of the daemons' watches. A client that reads 19 kinds continues less than one watch per second.
pub const LIFETIME: u32 = 30;

/// Time after which a forbidden list is requested again. It is longer than a watch may be silent, so that a dead watch is noticed before.
pub const FORBIDDEN_RETRY: Duration = Duration::from_secs(45);
const _: () = assert!(FORBIDDEN_RETRY.as_secs() > LIFETIME as u64 + MARGIN.as_secs());

/// Maximum time until a list that was forbidden before begins to arrive.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where a client may read the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermittedScope {
    /// In the whole cluster.
    Cluster,
    /// In one namespace.
    Namespace,
    /// Nowhere.
    Nothing,
}

/// Lists and watches the objects of one kind: in the whole cluster or, if the client has no right to that, in one namespace.
pub struct PermittedReader {
    client: Client,
    row: &'static KindFields,
    params: WatchParams,
    namespace: Option<String>,
    scope: PermittedScope,
    /// `None` while nothing may be read.
    reader: Option<KindReader<Value>>,
    /// When a forbidden list is requested again.
    again_at: Instant,
}

impl PermittedReader {
    /// Creates a reader of the objects that `params` selects, of the kind with this row in the table of kinds. If the client may not read
    /// them in the whole cluster, only those of `namespace` are read, if that is set.
    pub fn new(client: Client, row: &'static KindFields, namespace: Option<String>, params: WatchParams) -> Self {
        let (params, again_at) = (params.timeout(LIFETIME), Instant::now() + FORBIDDEN_RETRY);
        let reader = Some(KindReader::of_row(client.clone(), row, None, params.clone()));
        Self { client, row, params, namespace, scope: PermittedScope::Cluster, reader, again_at }
    }

    /// Returns where the reader reads the objects, according to the rights of its client: in the cluster, in one namespace, or nowhere.
    pub fn scope(&self) -> PermittedScope {
        self.scope
    }

    /// Returns true if a list is in progress, or begins with the next call of [`next`](Self::next).
    pub fn is_listing(&self) -> bool {
        self.reader.as_ref().is_some_and(KindReader::is_listing)
    }

    /// Requests an interrupted watch again, as [`KindReader::resume`] does. Returns true if the API server has accepted it or a watch is in
    /// progress, and false if a list must come first or nothing may be read.
    ///
    /// # Errors
    /// Those of [`PermittedReader::next`].
    pub async fn resume(&mut self) -> Result<bool, WatchFailure> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        match reader.resume().await {
            Ok(()) => Ok(!reader.is_listing()),
            Err(failure) => self.failed(failure).map_or(Ok(false), Err),
        }
    }

    /// Waits for the next event of the list, and after it of the watch. When the [scope](Self::scope) changes, a new list begins, which
    /// replaces all objects. If the returned future is dropped before it is complete, a list begins again with the next call, and a watch
    /// continues.
    ///
    /// # Errors
    /// See [`WatchFailure`]. The caller waits before the next call. There are two cases of a [forbidden](WatchFailure::is_forbidden)
    /// failure. If the scope is [`PermittedScope::Nothing`] then, no object may be read, and the next call waits for [`FORBIDDEN_RETRY`].
    /// Otherwise the objects may be listed but not watched, and the next call lists them again.
    pub async fn next(&mut self) -> Result<Event<Value>, WatchFailure> {
        loop {
            if self.scope != PermittedScope::Cluster && Instant::now() >= self.again_at {
                match self.retry_forbidden().await {
                    Err(failure) if failure.is_forbidden() && self.scope == PermittedScope::Namespace => {}
                    outcome => return outcome,
                }
            }
            let Some(reader) = &mut self.reader else {
                sleep_until(self.again_at).await;
                continue;
            };
            let outcome = if self.scope == PermittedScope::Cluster || reader.is_listing() {
                reader.next().await
            } else {
                let Ok(outcome) = timeout_at(self.again_at, reader.next()).await else { continue };
                outcome
            };
            match outcome {
                Ok(event) => return Ok(event),
                Err(failure) => {
                    if let Some(failure) = self.failed(failure) {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Requests the list of the whole cluster again, which was forbidden, and if nothing may be read then that of the namespace. Returns
    /// the first event of the first list that is permitted now, and changes the scope to it. It is an error if none is.
    async fn retry_forbidden(&mut self) -> Result<Event<Value>, WatchFailure> {
        let is_nothing = self.scope == PermittedScope::Nothing;
        let outcome = match self.begin(PermittedScope::Cluster).await {
            Err(failure) if failure.is_forbidden() && is_nothing && self.namespace.is_some() => {
                self.begin(PermittedScope::Namespace).await
            }
            outcome => outcome,
        };
        // Without an answer it is not known what is permitted. Nothing else is read meanwhile, so it is requested with the next call.
        let is_answered = outcome.as_ref().err().is_none_or(WatchFailure::is_forbidden);
        self.again_at = Instant::now() + if is_answered || !is_nothing { FORBIDDEN_RETRY } else { Duration::ZERO };
        outcome
    }

    /// Begins a list in this scope and returns its first event. If that succeeds, the scope becomes that of the reader; otherwise nothing
    /// changes.
    async fn begin(&mut self, scope: PermittedScope) -> Result<Event<Value>, WatchFailure> {
        let mut reader = self.reader_in(scope);
        let event = timeout(PATIENCE, reader.next()).await.unwrap_or(Err(WatchFailure::Silent(PATIENCE)))?;
        (self.scope, self.reader) = (scope, Some(reader));
        Ok(event)
    }

    /// Returns a reader of the objects in this scope, which begins with a list.
    fn reader_in(&self, scope: PermittedScope) -> KindReader<Value> {
        let namespace = self.namespace.as_deref().filter(|_| scope == PermittedScope::Namespace);
        KindReader::of_row(self.client.clone(), self.row, namespace, self.params.clone())
    }

    /// Prepares the next call after a failure. After a forbidden list it reads the namespace instead of the cluster, or nothing; after a
    /// watch that is forbidden or whose kind is not served any more (404) it lists again. Returns the failure for the caller; `None` if the
    /// next call handles it, because the list of the cluster is forbidden and that of the namespace may be permitted.
    fn failed(&mut self, failure: WatchFailure) -> Option<WatchFailure> {
        if matches!(&failure, WatchFailure::Watch(kube::Error::Api(status)) if status.code == 404) {
            self.reader = Some(self.reader_in(self.scope));
        }
        if !failure.is_forbidden() {
            return Some(failure);
        }
        let has_narrower = self.scope == PermittedScope::Cluster && self.namespace.is_some();
        let is_list = matches!(failure, WatchFailure::List(_));
        if is_list {
            self.scope = if has_narrower { PermittedScope::Namespace } else { PermittedScope::Nothing };
            self.again_at = Instant::now() + FORBIDDEN_RETRY;
        }
        self.reader = (self.scope != PermittedScope::Nothing).then(|| self.reader_in(self.scope));
        if is_list && has_narrower { None } else { Some(failure) }
    }
}
