//! Descriptions of metrics: the single source of their names, labels and help texts. The documentation of the metrics
//! is generated from it, and the queries of dashboard and alerting rules are checked against it.

use prometheus_client::registry::{Metric, Registry};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases until the process ends.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts values by size.
    Histogram,
}

impl MetricKind {
    /// Returns the type of the metric as Prometheus names it in a `TYPE` line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values, in words.
    pub values: &'static str,
}

/// The description of a metric: name, type, help text and labels, as they are scraped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name; samples of a histogram have the suffixes `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// Help text: one sentence, without a full stop.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [Label],
}

impl About {
    /// Creates the description of a counter, whose name must end in `_total`; `labels` are in the order in which values are given.
    pub const fn counter(name: &'static str, help: &'static str, labels: &'static [Label]) -> Self {
        Self { name, kind: MetricKind::Counter, help, labels }
    }

    /// Creates the description of a gauge; `labels` are in the order in which values are given.
    pub const fn gauge(name: &'static str, help: &'static str, labels: &'static [Label]) -> Self {
        Self { name, kind: MetricKind::Gauge, help, labels }
    }

    /// Creates the description of a histogram of durations; `labels` are in the order in which values are given.
    pub const fn histogram(name: &'static str, help: &'static str, labels: &'static [Label]) -> Self {
        Self { name, kind: MetricKind::Histogram, help, labels }
    }

    /// Registers `metric` under the name and help text of this description. The registry must have no prefix.
    pub fn register(&self, registry: &mut Registry, metric: impl Metric) {
        registry.register(self.stem(), self.help, metric);
    }

    /// Returns the name of the metric without the `_total` that the encoder adds to counters.
    pub(crate) fn stem(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            MetricKind::Gauge | MetricKind::Histogram => self.name,
        }
    }

    /// Returns true if a sample of this name, such as one with `_bucket` of a histogram, belongs to this metric.
    pub fn has_sample(&self, sample: &str) -> bool {
        match self.kind {
            MetricKind::Counter | MetricKind::Gauge => sample == self.name,
            MetricKind::Histogram => {
                sample.strip_prefix(self.name).is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end))
            }
        }
    }
}

/// Creates a label; `values` describes its values in words.
pub const fn label(name: &'static str, values: &'static str) -> Label {
    Label { name, values }
}
