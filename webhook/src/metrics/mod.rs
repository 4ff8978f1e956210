//! Prometheus metrics. Every label has a fixed, small set of values, independent of client input. The [`catalogue`]
//! contains their names.

mod catalogue;

pub use catalogue::CATALOGUE;

use giveway_serving::ServerMetrics;
use giveway_serving::metrics::register_process;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Labels of an admission request with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReviewLabels {
    /// `mutate` or `validate`.
    pub endpoint: &'static str,
    /// Resource of the object; `other` for kinds without a rule.
    pub kind: &'static str,
    /// The operation as the protocol names it.
    pub operation: &'static str,
    /// `true` or `false`.
    pub allowed: &'static str,
    /// HTTP status code of the verdict.
    pub code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    endpoint: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    watch: &'static str,
}

/// Metrics of the guard; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct GuardMetrics {
    decisions: Family<VerdictLabels, Counter>,
    claims: Family<ResultLabels, Counter>,
    marks: Family<ResultLabels, Counter>,
    /// Rejections that are being delayed.
    pub delayed: Gauge,
    /// Rejections that were delayed.
    pub delays: Counter,
    /// Rejections that were sent at once, because too many were being delayed.
    pub immediate: Counter,
}

impl GuardMetrics {
    /// Adds the metrics of the guard to the registry.
    fn register(&self, registry: &mut Registry) {
        catalogue::GUARD_DECISIONS.register(registry, self.decisions.clone());
        catalogue::GUARD_DELAYED.register(registry, self.delayed.clone());
        catalogue::GUARD_DELAYS.register(registry, self.delays.clone());
        catalogue::GUARD_IMMEDIATE.register(registry, self.immediate.clone());
        catalogue::GUARD_CLAIMS.register(registry, self.claims.clone());
        catalogue::GUARD_MARKS.register(registry, self.marks.clone());
    }

    /// Counts a decision of the guard about a preemption; `verdict` is the value of the metric's label, such as `permitted`.
    pub fn decided(&self, verdict: &'static str) {
        self.decisions.get_or_create(&VerdictLabels { verdict }).inc();
    }

    /// Counts an attempt to make a budget count a preempted pod as disrupted; `result` is the value of the metric's label, such as `made`.
    pub fn claimed(&self, result: &'static str) {
        self.claims.get_or_create(&ResultLabels { result }).inc();
    }

    /// Counts an attempt to write a preempted pod into its PodGroup's status; `is_written` is true if it succeeded.
    pub fn marked(&self, is_written: bool) {
        let result = if is_written { "made" } else { "failed" };
        self.marks.get_or_create(&ResultLabels { result }).inc();
    }
}

/// All metrics of the webhook.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<ReviewLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    certificate_reloads: Family<ResultLabels, Counter>,
    watches_broken: Family<WatchLabels, Gauge<f64, AtomicU64>>,
    /// When the certificate in use expires, in seconds since the epoch; 0 while there is none.
    pub certificate_expiry: Gauge,
    /// Metrics of the server.
    pub server: ServerMetrics,
    /// Metrics of the guard.
    pub guard: GuardMetrics,
    /// Requests that are no admission reviews.
    pub undecodable: Counter,
    /// Panics of rules, each answered with a rejection.
    pub panics: Counter,
    /// 1 if the webhook is ready, otherwise 0.
    pub ready: Gauge,
    /// Objects that were looked up because a request named them and the view did not contain them yet.
    pub lookups: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(buckets),
            certificate_reloads: Family::default(),
            watches_broken: Family::default(),
            certificate_expiry: Gauge::default(),
            server: ServerMetrics::default(),
            guard: GuardMetrics::default(),
            undecodable: Counter::default(),
            panics: Counter::default(),
            ready: Gauge::default(),
            lookups: Counter::default(),
        };
        let registry = &mut metrics.registry;
        register_process(registry, &catalogue::BUILD, env!("CARGO_PKG_VERSION"));
        catalogue::REQUESTS.register(registry, metrics.requests.clone());
        catalogue::SECONDS.register(registry, metrics.durations.clone());
        catalogue::RELOADS.register(registry, metrics.certificate_reloads.clone());
        catalogue::CERTIFICATE.register(registry, metrics.certificate_expiry.clone());
        catalogue::UNDECODABLE.register(registry, metrics.undecodable.clone());
        catalogue::PANICS.register(registry, metrics.panics.clone());
        catalogue::LOOKUPS.register(registry, metrics.lookups.clone());
        catalogue::READY.register(registry, metrics.ready.clone());
        catalogue::WATCH_BROKEN.register(registry, metrics.watches_broken.clone());
        let names = [
            &catalogue::CONNECTIONS,
            &catalogue::CLOSED,
            &catalogue::HANDSHAKES,
            &catalogue::BODY_BYTES,
            &catalogue::NO_ROOM,
        ];
        metrics.server.register(registry, names);
        metrics.guard.register(registry);
        metrics
    }
}

impl Metrics {
    /// Counts an answered review under these labels, and adds the time that it took to the histogram of durations.
    pub fn verdict(&self, labels: &ReviewLabels, took: Duration) {
        let (endpoint, kind) = (labels.endpoint, labels.kind);
        self.requests.get_or_create(labels).inc();
        self.durations.get_or_create(&DurationLabels { endpoint, kind }).observe(took.as_secs_f64());
    }

    /// Counts an attempt to load a changed certificate; `used` is true if it succeeded.
    pub fn certificate_reload(&self, used: bool) {
        let result = if used { "success" } else { "failure" };
        self.certificate_reloads.get_or_create(&ResultLabels { result }).inc();
    }

    /// Sets the metric that says for how long the watch of this name has been broken.
    pub fn watch_broken(&self, watch: &'static str, time: Duration) {
        self.watches_broken.get_or_create(&WatchLabels { watch }).set(time.as_secs_f64());
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        match text::encode(&mut out, &self.registry) {
            Ok(()) => out,
            Err(_) => String::new(),
        }
    }
}

/// Creates the histogram of the durations of reviews, in seconds.
fn buckets() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_serving::metrics::{PROCESS, classic, differences};

    #[test]
    fn the_exported_metrics_are_those_of_the_catalogue() {
        let metrics = Metrics::default();
        let labels = ReviewLabels { endpoint: "mutate", kind: "pods", operation: "CREATE", allowed: "true", code: 200 };
        metrics.verdict(&labels, Duration::from_millis(100));
        metrics.certificate_reload(true);
        metrics.watch_broken("podgroups", Duration::from_secs(1));
        metrics.guard.decided("permitted");
        metrics.guard.claimed("made");
        metrics.guard.marked(true);
        let text = classic(&metrics.encode());
        assert_eq!(differences(&text, CATALOGUE.iter().chain(PROCESS)), [""; 0]);
    }
}
