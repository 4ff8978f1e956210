//! Traces of preemptions for OpenTelemetry: one for each plan with victims, from the admission of the preemptor's first
//! pod until the plan ends. They are sent only if an endpoint is configured.
//!
//! A trace is sent when the plan has ended. A collector that is unavailable loses traces and delays nothing: a limited
//! number of traces is queued for it, and further ones are dropped.

use anyhow::Context as _;
use aws_lc_rs::digest::{SHA256, digest};
use futures::future::BoxFuture;
use giveway_crds::plan::StoredPlan;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// Maximum number of queued traces.
const WAITING: usize = 256;
/// Timeout of a call to the collector.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the collector's answer in bytes.
const LONGEST_ANSWER: usize = 1 << 20;
/// The name of the service in traces.
const SERVICE: &str = "giveway-operator";

/// Returns the trace ID of a plan: a hash of its preemptor's UID and its ID, so that every process computes the same
/// one.
pub fn id_of(plan: &StoredPlan) -> TraceId {
    let hash = digest(&SHA256, format!("{}/{}", plan.preemptor.uid, plan.id).as_bytes());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    TraceId::from_bytes(bytes)
}

/// The data of an ended plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The [trace ID](id_of).
    pub id: TraceId,
    /// Attributes of the plan.
    pub attributes: Vec<KeyValue>,
    /// The reason, if the plan failed.
    pub failure: Option<String>,
    /// The consecutive stages; together they take as long as the whole trace.
    pub stages: Vec<Stage>,
}

/// A stage of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name of its span.
    pub name: &'static str,
    /// Its duration.
    pub took: Duration,
}

impl Trace {
    /// Returns the spans of this trace, if the plan ended at `over`: one for the whole plan, and below it one for each stage.
    fn spans(self, over: SystemTime) -> Vec<SpanData> {
        let whole: Duration = self.stages.iter().map(|stage| stage.took).sum();
        let begin = over.checked_sub(whole).unwrap_or(over);
        let root = SpanId::from(1);
        let status = self.failure.map_or(Status::Unset, Status::error);
        let span = |id: SpanId, parent: SpanId, name: &'static str, start_time, end_time| SpanData {
            span_context: SpanContext::new(self.id, id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time,
            end_time,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder(SERVICE).build(),
        };
        let mut spans = vec![SpanData {
            attributes: self.attributes,
            status,
            ..span(root, SpanId::INVALID, "preemption", begin, over)
        }];
        let mut time = begin;
        for (stage, number) in self.stages.iter().zip(2_u64..) {
            spans.push(span(SpanId::from(number), root, stage.name, time, time + stage.took));
            time += stage.took;
        }
        spans
    }
}

/// The HTTP client of the exporter. The one of its library would make the program contain HTTP/2, which nothing uses.
#[derive(Debug)]
struct CollectorClient(Client<HttpConnector, Full<Bytes>>);

impl HttpClient for CollectorClient {
    /// Sends a request to the collector. The error is that it was not answered in time, or that the answer is too large.
    fn send_bytes<'c, 'f>(&'c self, request: Request<Bytes>) -> BoxFuture<'f, Result<Response<Bytes>, HttpError>>
    where
        'c: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let answer = async {
                let (head, body) = self.0.request(request.map(Full::new)).await?.into_parts();
                let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(head, body))
            };
            tokio::time::timeout(TIMEOUT, answer).await?
        })
    }
}

/// Sends traces to a collector, if one is configured.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<mpsc::Sender<(Trace, SystemTime)>>);

impl Tracer {
    /// Returns a tracer that sends traces to the collector at this URL, by OTLP over HTTP, as JSON.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn to(endpoint: &str) -> anyhow::Result<Self> {
        let client = CollectorClient(Client::builder(TokioExecutor::new()).build_http());
        let exporter = SpanExporter::builder().with_http().with_http_client(client).with_protocol(Protocol::HttpJson);
        let mut exporter =
            exporter.with_endpoint(endpoint).with_timeout(TIMEOUT).build().context("--traces-endpoint")?;
        let about =
            [KeyValue::new("service.name", SERVICE), KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
        exporter.set_resource(&Resource::builder_empty().with_attributes(about).build());
        let (sender, mut receiver) = mpsc::channel::<(Trace, SystemTime)>(WAITING);
        tokio::spawn(async move {
            while let Some((trace, over)) = receiver.recv().await {
                let id = trace.id;
                if let Err(error) = exporter.export(trace.spans(over)).await {
                    tracing::warn!(trace_id = %id, %error, "a trace is lost: the collector does not take it");
                }
            }
        });
        Ok(Self(Some(sender)))
    }

    /// Returns true if a collector is configured, so that traces are exported.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the trace ID of a plan for log lines, or `None` if no collector is configured.
    pub fn id(&self, plan: &StoredPlan) -> Option<String> {
        self.is_on().then(|| id_of(plan).to_string())
    }

    /// Queues the trace of a plan that has just ended, to be sent to the collector. It is dropped if too many are queued, or no collector
    /// is configured.
    pub fn queue(&self, trace: Trace) {
        let id = trace.id;
        if let Some(sender) = &self.0
            && sender.try_send((trace, SystemTime::now())).is_err()
        {
            tracing::warn!(trace_id = %id, "a trace is lost: too many wait for the collector");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_crds::plan::StoredPreemptor;

    fn plan(uid: &str, id: &str) -> StoredPlan {
        let preemptor = StoredPreemptor { uid: uid.to_owned(), ..StoredPreemptor::default() };
        StoredPlan { id: id.to_owned(), preemptor, ..StoredPlan::default() }
    }

    #[test]
    fn each_plan_has_a_trace_of_its_own_and_always_the_same() {
        let id = id_of(&plan("u", "p-1"));
        assert_eq!(id, id_of(&plan("u", "p-1")));
        assert!(id != id_of(&plan("u", "p-2")) && id != id_of(&plan("v", "p-1")) && id != TraceId::INVALID);
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(Tracer::default().id(&plan("u", "p-1")), None, "the collector does not listen");
    }

    #[test]
    fn stages_follow_one_another_and_make_up_the_whole() {
        let stage = |name, seconds| Stage { name, took: Duration::from_secs(seconds) };
        let trace = Trace {
            id: id_of(&plan("u", "p-1")),
            attributes: vec![KeyValue::new("giveway.plan", "p-1")],
            failure: Some("The plan became infeasible.".to_owned()),
            stages: vec![stage("waiting", 3), stage("evicting", 4)],
        };
        let over = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let spans = trace.spans(over);
        let described = |span: &SpanData| {
            let second = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            (span.name.to_string(), second(span.start_time), second(span.end_time))
        };
        let wanted = [("preemption", 93, 100), ("waiting", 93, 96), ("evicting", 96, 100)];
        assert_eq!(spans.iter().map(described).collect::<Vec<_>>(), wanted.map(|(name, a, b)| (name.to_owned(), a, b)));
        assert_eq!(spans[0].status, Status::error("The plan became infeasible."));
        assert_eq!((spans[0].parent_span_id, spans[2].parent_span_id), (SpanId::INVALID, SpanId::from(1)));
        assert_eq!(spans[0].attributes, [KeyValue::new("giveway.plan", "p-1")]);
    }

    #[tokio::test]
    async fn an_unreachable_collector_delays_no_pass() {
        let tracer = Tracer::to("http://127.0.0.1:1/v1/traces").unwrap();
        let trace = Trace { id: id_of(&plan("u", "p")), attributes: Vec::new(), failure: None, stages: Vec::new() };
        for _ in 0..2 * WAITING {
            tracer.queue(trace.clone());
        }
        assert!(tracer.is_on());
    }
}
