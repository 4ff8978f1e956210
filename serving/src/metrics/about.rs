//! What is known of a metric beside its values: the one place that its name, its labels and its sentence come from. The page of
//! the metrics is written from it, and the queries of dashboard and rules are checked against it.

use prometheus_client::registry::{Metric, Registry};

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

impl Kind {
    /// As it is written on the `TYPE` line.
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

/// A metric as it is scraped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name; samples of a histogram have `_bucket`, `_sum` and `_count` after it.
    pub name: &'static str,
    /// What it counts.
    pub kind: Kind,
    /// One sentence, without a full stop.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [Label],
}

impl About {
    /// A counter; its name ends in `_total`.
    pub const fn counter(name: &'static str, help: &'static str, labels: &'static [Label]) -> Self {
        Self { name, kind: Kind::Counter, help, labels }
    }

    /// A gauge.
    pub const fn gauge(name: &'static str, help: &'static str, labels: &'static [Label]) -> Self {
        Self { name, kind: Kind::Gauge, help, labels }
    }

    /// A histogram.
    pub const fn histogram(name: &'static str, help: &'static str, labels: &'static [Label]) -> Self {
        Self { name, kind: Kind::Histogram, help, labels }
    }

    /// Shows a metric under this name. The registry must have no prefix.
    pub fn register(&self, registry: &mut Registry, metric: impl Metric) {
        registry.register(self.stem(), self.help, metric);
    }

    /// The name without the `_total` that the encoder adds to counters.
    pub(crate) fn stem(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }

    /// The metric that a sample of this name belongs to, if it is this one.
    pub fn has_sample(&self, sample: &str) -> bool {
        match self.kind {
            Kind::Counter | Kind::Gauge => sample == self.name,
            Kind::Histogram => {
                sample.strip_prefix(self.name).is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end))
            }
        }
    }
}

/// A label and its values, in words.
pub const fn label(name: &'static str, values: &'static str) -> Label {
    Label { name, values }
}
