//! Answers admission requests, from the bytes of a request to the bytes of its response.
//!
//! Guarantees: every body gets a well-formed review; a panic of a rule becomes a rejection with code 500; no request is
//! judged before the view is complete; no wait exceeds the request's deadline.

use crate::deadline::Deadline;
use crate::lookup::Lookup;
use crate::metrics::{Metrics, ReviewLabels};
use crate::review::{self, ReviewResponse};
use crate::view::{LookedUp, RequestView};
use crate::watch::SharedView;
use giveway_admission::judge::{Endpoint, JudgedKind, judge};
use giveway_admission::notice::EventDraft;
use giveway_admission::request::Request;
use giveway_admission::verdict::{Denial, Verdict, VerdictOutcome, shorten};
use giveway_admission::view::ClusterView;
use giveway_admission::wording::requests;
use std::borrow::Cow;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Maximum rounds of look-ups of missing objects for one request: a pod names a workload, which names a class.
const LOOKUP_ROUNDS: usize = 2;

/// A rule: [`judge`], or a replacement in tests.
pub type Rule = fn(Endpoint, &Request<'_>, &dyn ClusterView) -> Verdict;

/// The view is not complete yet; the API server's failure policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReady;

/// Answers admission requests by the rules of the crate `giveway-admission`.
#[derive(Debug)]
pub struct Admission<L> {
    view: Arc<SharedView>,
    lookup: L,
    metrics: Arc<Metrics>,
    rule: Rule,
    notices: Option<mpsc::Sender<EventDraft>>,
    patience: Duration,
}

impl<L: Lookup> Admission<L> {
    /// Creates the part of the webhook that applies [the rules](giveway_admission::rules) to requests. A request waits at most `patience`
    /// until the view is complete.
    pub fn new(view: Arc<SharedView>, lookup: L, metrics: Arc<Metrics>, patience: Duration) -> Self {
        Self { view, lookup, metrics, rule: judge, notices: None, patience }
    }

    /// Replaces the admission rules, for tests.
    pub fn with_rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// Sends the events that rules report for allowed requests to this queue. Without a queue they are dropped.
    pub fn with_notices(self, notices: mpsc::Sender<EventDraft>) -> Self {
        Self { notices: Some(notices), ..self }
    }

    /// Applies the rules of this endpoint to the AdmissionReview in `body`, and returns the response. Objects that the view does not
    /// contain are looked up until `deadline`. `source` is the address of the client.
    ///
    /// # Errors
    /// The view was not complete in time.
    pub async fn answer(
        &self,
        endpoint: Endpoint,
        body: &[u8],
        source: IpAddr,
        deadline: Deadline,
    ) -> Result<ReviewResponse, NotReady> {
        let started = Instant::now();
        let request = match catch_unwind(|| review::decode(body)) {
            Ok(Ok(request)) => request,
            Ok(Err(undecodable)) => {
                self.metrics.undecodable.inc();
                tracing::warn!(
                    endpoint = endpoint.as_str(),
                    reason = undecodable.refusal.message,
                    "undecodable request"
                );
                return Ok(review::encode_refusal(&undecodable.uid, &undecodable.refusal));
            }
            Err(_) => return Ok(review::encode_refusal("", &self.panicked())),
        };
        let patience = deadline.or_earlier(tokio::time::Instant::now() + self.patience);
        if patience.limit(self.view.synced()).await.is_none() {
            return Err(NotReady);
        }
        let mut found = LookedUp::default();
        let mut verdict = self.judge(endpoint, &request, &found);
        for _ in 0..LOOKUP_ROUNDS {
            if verdict.notes.missing.is_empty() {
                break;
            }
            let more = self.lookup.fetch(&verdict.notes.missing, source, deadline).await;
            if more.is_empty() {
                break;
            }
            found.extend(more);
            verdict = self.judge(endpoint, &request, &found);
        }
        self.metrics.verdict(&labels(endpoint, &request, &verdict), started.elapsed());
        log(endpoint, &request, &verdict);
        self.send_events(&request, &mut verdict);
        let encoded = catch_unwind(AssertUnwindSafe(|| review::encode(&request.uid, &verdict)));
        Ok(encoded.unwrap_or_else(|_| review::encode_refusal(&request.uid, &self.panicked())))
    }

    /// Applies the rules to a request, with the objects `found` that were looked up for it. If a rule panics, the verdict is a rejection
    /// (500).
    fn judge(&self, endpoint: Endpoint, request: &Request<'_>, found: &LookedUp) -> Verdict {
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let view = self.view.read();
            (self.rule)(endpoint, request, &RequestView::with(&view, found))
        }));
        judged.unwrap_or_else(|_| Verdict { outcome: VerdictOutcome::Refused(self.panicked()), ..Verdict::default() })
    }

    /// Takes the events out of the verdict, and sends them to the queue unless the request is a dry run or rejected.
    fn send_events(&self, request: &Request<'_>, verdict: &mut Verdict) {
        let events = std::mem::take(&mut verdict.notes.events);
        let happens = !request.dry_run && !matches!(verdict.outcome, VerdictOutcome::Refused(_));
        if let Some(notices) = self.notices.as_ref().filter(|_| happens) {
            for event in events {
                // A full queue means that there are more events than anyone reads.
                let _ = notices.try_send(event);
            }
        }
    }

    /// Counts and logs that a rule panicked, and returns the rejection (500) of the request.
    fn panicked(&self) -> Denial {
        self.metrics.panics.inc();
        tracing::error!("a rule panicked; the request is refused");
        requests::webhook_failed()
    }
}

/// Returns the labels of the metrics that count an answered request.
fn labels(endpoint: Endpoint, request: &Request<'_>, verdict: &Verdict) -> ReviewLabels {
    let (endpoint, operation) = (endpoint.as_str(), request.operation.as_str());
    let kind = JudgedKind::of(request).map_or("other", JudgedKind::as_str);
    let (allowed, code) = match &verdict.outcome {
        VerdictOutcome::Refused(refusal) => ("false", refusal.code),
        _ => ("true", 200),
    };
    ReviewLabels { endpoint, kind, operation, allowed, code }
}

/// Returns namespace, name and user of a request for the log. They are shortened, because a client that reaches the port can send any text.
fn names<'r>(request: &'r Request<'_>) -> [Cow<'r, str>; 3] {
    [request.namespace(), request.name.as_deref().unwrap_or_default(), request.user()].map(shorten)
}

/// Logs an answered request: a rejection at level info, others at debug.
fn log(endpoint: Endpoint, request: &Request<'_>, verdict: &Verdict) {
    let (endpoint, operation, resource) = (endpoint.as_str(), request.operation.as_str(), &*request.resource.resource);
    let [namespace, name, user] = &names(request);
    let (namespace, name, user) = (&**namespace, &**name, &**user);
    match &verdict.outcome {
        VerdictOutcome::Refused(Denial { code, message }) => {
            tracing::info!(endpoint, operation, resource, namespace, name, user, code, message, "refused");
        }
        outcome => {
            let changed = matches!(outcome, VerdictOutcome::Changed(_));
            tracing::debug!(endpoint, operation, resource, namespace, name, user, changed, "allowed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_admission::request::UserInfo;
    use serde_json::value::RawValue;

    #[test]
    fn names_in_the_log_are_short_whatever_a_client_sends() {
        let long = "x".repeat(1 << 20);
        let text = || Some(long.as_str().into());
        let user_info = UserInfo { username: text(), ..UserInfo::default() };
        let request = Request { user_info, name: text(), ..Request::create("", "pods", &long, RawValue::NULL) };
        assert!(names(&request).iter().all(|name| name.starts_with("xxx") && name.len() < 100));
    }
}
