//! Traces of preemptions, for OpenTelemetry: one for each plan that evicts somebody, from the admission of the first pod that it is for
//! until it is over. Off unless there is an endpoint.
//!
//! They are told when a plan is over. A collector that is away loses traces and delays nobody: some wait for it, and what does not fit
//! is dropped.

use anyhow::Context as _;
use aws_lc_rs::digest::{SHA256, digest};
use giveway_crds::plan::StoredPlan;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// How many traces wait for the collector.
const WAITING: usize = 256;
/// How long a call to the collector may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Who tells.
const SERVICE: &str = "giveway-operator";

/// The trace of a plan: a hash of its preemptor's UID and its name, so that every process that knows the plan has the same.
pub fn id_of(plan: &StoredPlan) -> TraceId {
    let hash = digest(&SHA256, format!("{}/{}", plan.preemptor.uid, plan.id).as_bytes());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    TraceId::from_bytes(bytes)
}

/// What is told of a plan that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// [Of the plan](id_of).
    pub id: TraceId,
    /// What the plan was.
    pub attributes: Vec<KeyValue>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// What happened, one after the other, as long as the whole together.
    pub stages: Vec<Stage>,
}

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What happened.
    pub name: &'static str,
    /// For how long.
    pub took: Duration,
}

impl Trace {
    /// Its spans, when it was over at this time: the whole, and the stages as parts of it.
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

/// Where traces go.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<mpsc::Sender<(Trace, SystemTime)>>);

impl Tracer {
    /// Tells traces to the collector at this URL from now on, by OTLP over HTTP, as JSON.
    ///
    /// # Errors
    /// The URL cannot be used.
    pub fn to(endpoint: &str) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpJson);
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

    /// Whether anybody listens.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The trace of a plan, as log lines about it carry it; `None` where nobody listens.
    pub fn id(&self, plan: &StoredPlan) -> Option<String> {
        self.is_on().then(|| id_of(plan).to_string())
    }

    /// Tells of a plan that is over now.
    pub fn tell(&self, trace: Trace) {
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
        assert_eq!(Tracer::default().id(&plan("u", "p-1")), None, "nobody listens");
    }

    #[test]
    fn stages_follow_one_another_and_make_up_the_whole() {
        let stage = |name, seconds| Stage { name, took: Duration::from_secs(seconds) };
        let trace = Trace {
            id: id_of(&plan("u", "p-1")),
            attributes: vec![KeyValue::new("giveway.plan", "p-1")],
            failure: Some("The place was taken.".to_owned()),
            stages: vec![stage("waiting", 3), stage("evicting", 4)],
        };
        let over = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let spans = trace.spans(over);
        let told = |span: &SpanData| {
            let second = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            (span.name.to_string(), second(span.start_time), second(span.end_time))
        };
        let wanted = [("preemption", 93, 100), ("waiting", 93, 96), ("evicting", 96, 100)];
        assert_eq!(spans.iter().map(told).collect::<Vec<_>>(), wanted.map(|(name, a, b)| (name.to_owned(), a, b)));
        assert_eq!(spans[0].status, Status::error("The place was taken."));
        assert_eq!((spans[0].parent_span_id, spans[2].parent_span_id), (SpanId::INVALID, SpanId::from(1)));
        assert_eq!(spans[0].attributes, [KeyValue::new("giveway.plan", "p-1")]);
    }

    #[tokio::test]
    async fn a_collector_that_is_away_delays_nobody() {
        let tracer = Tracer::to("http://127.0.0.1:1/v1/traces").unwrap();
        let trace = Trace { id: id_of(&plan("u", "p")), attributes: Vec::new(), failure: None, stages: Vec::new() };
        for _ in 0..2 * WAITING {
            tracer.tell(trace.clone());
        }
        assert!(tracer.is_on());
    }
}
