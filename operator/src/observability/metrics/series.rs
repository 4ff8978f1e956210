//! The values of one metric of the [`catalogue`](super::catalogue), by the values of its labels.

use super::catalogue;
use giveway_serving::metrics::{About, MetricKind};
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The value of a counter, gauge or histogram.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Of a counter.
    Count(u64),
    /// Of a gauge: a whole number.
    Number(i64),
    /// Of a gauge: a time.
    Seconds(f64),
    /// Of a histogram.
    Histogram(Histogram),
}

impl Value {
    /// Creates the value of the metric `about` before anything is counted or observed.
    fn new(about: &About) -> Self {
        match about.kind {
            MetricKind::Counter => Self::Count(0),
            MetricKind::Gauge => Self::Number(0),
            MetricKind::Histogram => Self::Histogram(Histogram::new(catalogue::buckets(about))),
        }
    }

    /// Writes the value in the OpenMetrics format.
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => ConstCounter::new(*count).encode(encoder),
            Self::Number(number) => ConstGauge::new(*number).encode(encoder),
            Self::Seconds(seconds) => ConstGauge::new(*seconds).encode(encoder),
            Self::Histogram(histogram) => histogram.encode(encoder),
        }
    }
}

/// All values of a metric. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Series {
    about: &'static About,
    values: Arc<Mutex<BTreeMap<Vec<String>, Value>>>,
}

impl Series {
    /// Creates the metric `about`, without values. One without labels has its only value at once.
    pub(super) fn new(about: &'static About) -> Self {
        let first = about.labels.is_empty().then(|| (Vec::new(), Value::new(about)));
        Self { about, values: Arc::new(Mutex::new(first.into_iter().collect())) }
    }

    /// Locks the values; a panic in another thread while it was locked is ignored.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Value>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `change` with the value that has these label values, which are in the order of the catalogue. It is created if it does not
    /// exist.
    pub(super) fn change(&self, labels: &[&str], change: impl FnOnce(&mut Value)) {
        debug_assert_eq!(labels.len(), self.about.labels.len(), "labels of {}", self.about.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        change(self.lock().entry(labels).or_insert_with(|| Value::new(self.about)));
    }
}

impl EncodeMetric for Series {
    /// Writes the value of each set of label values in the OpenMetrics format.
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &*self.lock() {
            if labels.is_empty() {
                return value.encode(encoder);
            }
            let names = self.about.labels.iter().map(|label| label.name);
            let labels: Vec<(&str, &str)> = names.zip(labels.iter().map(String::as_str)).collect();
            value.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Returns whether the metric is a counter, a gauge or a histogram.
    fn metric_type(&self) -> MetricType {
        match self.about.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Histogram => MetricType::Histogram,
        }
    }

    /// Returns true if the metric has no value yet.
    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}
