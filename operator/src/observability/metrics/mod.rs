//! Metrics of the operator. The number of values of each label is limited. Names, labels, help texts and buckets are in the
//! [`catalogue`]: a metric that is registered is one of its rows.

pub(crate) mod catalogue;
mod class;
mod scraped;
mod series;

pub use catalogue::CATALOGUE;
pub use class::ClassLabel;
pub use scraped::{Content, QueueName, Queued, Scraped};

use class::KnownClasses;
use giveway_crds::condition::Reason;
use giveway_crds::mode::Mode;
use giveway_crds::plan::{Cause, PlanState};
use giveway_serving::metrics::{About, register_process};
use prometheus_client::registry::Registry;
use series::{Series, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The states of a Preemption in flight.
const STAGES: [PlanState; 4] =
    [PlanState::Planned, PlanState::Evicting, PlanState::WaitingForVictims, PlanState::Ungating];

/// What is pending at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingGroups {
    /// Number of pending PodGroups, by reason and class.
    pub groups: BTreeMap<(Reason, ClassLabel), i64>,
    /// For how many seconds the oldest pending PodGroup of each class has been pending.
    pub oldest: BTreeMap<ClassLabel, i64>,
    /// Number of pods with Giveway's scheduling gate.
    pub gated: usize,
}

/// All metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// The metrics by name.
    all: Arc<BTreeMap<&'static str, Series>>,
    classes: KnownClasses,
    /// The values that the metrics of pending PodGroups show. A value that is not reported any more is set to 0.
    shown: Arc<Mutex<PendingGroups>>,
    /// The kinds whose watch has been shown as failing.
    failing: Arc<Mutex<BTreeSet<Cow<'static, str>>>>,
    /// What is computed at a scrape.
    pub scraped: Scraped,
}

impl Default for Metrics {
    /// Registers all metrics of the catalogue, without observations.
    fn default() -> Self {
        let mut registry = Registry::default();
        register_process(&mut registry, &catalogue::BUILD, env!("CARGO_PKG_VERSION"));
        let mut all = BTreeMap::new();
        for about in CATALOGUE.iter().filter(|about| **about != catalogue::BUILD) {
            let series = Series::new(about);
            about.register(&mut registry, series.clone());
            all.insert(about.name, series);
        }
        Self {
            registry: Arc::new(registry),
            all: Arc::new(all),
            classes: KnownClasses::default(),
            shown: Arc::default(),
            failing: Arc::default(),
            scraped: Scraped::default(),
        }
    }
}

impl Metrics {
    /// Returns the present values of all metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let now = Instant::now();
        for Content { queue, depth, age } in self.scraped.queues(now) {
            self.set(&catalogue::QUEUE_DEPTH, &[queue.as_str()], depth);
            self.set_time(&catalogue::QUEUE_AGE, &[queue.as_str()], age);
        }
        for (kind, age) in self.scraped.watches(now) {
            self.set_time(&catalogue::WATCH_EVENT_AGE, &[kind], age);
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    /// Calls `change` with the value of the metric `about` that has these label values, which are in the order of the catalogue.
    fn change(&self, about: &About, labels: &[&str], change: impl FnOnce(&mut Value)) {
        if let Some(series) = self.all.get(about.name) {
            series.change(labels, change);
        }
    }

    /// Adds one to the counter `about` with these label values, which are in the order of the catalogue.
    pub fn count(&self, about: &About, labels: &[&str]) {
        self.change(about, labels, |value| {
            if let Value::Count(count) = value {
                *count += 1;
            }
        });
    }

    /// Sets the gauge `about` with these label values, in the order of the catalogue. A number above the range of `i64` becomes the
    /// highest.
    pub fn set(&self, about: &About, labels: &[&str], number: impl TryInto<i64>) {
        let number = number.try_into().unwrap_or(i64::MAX);
        self.change(about, labels, |value| *value = Value::Number(number));
    }

    /// Sets the gauge `about` with these label values, in the order of the catalogue, to a duration, in seconds.
    pub fn set_time(&self, about: &About, labels: &[&str], time: Duration) {
        self.change(about, labels, |value| *value = Value::Seconds(time.as_secs_f64()));
    }

    /// Adds a duration to the histogram `about` with these label values, in the order of the catalogue.
    pub fn observe(&self, about: &About, labels: &[&str], took: Duration) {
        self.change(about, labels, |value| {
            if let Value::Histogram(histogram) = value {
                histogram.observe(took.as_secs_f64());
            }
        });
    }

    /// Returns the label value for a PriorityClass; `none` without a name, `other` for a class that does not exist and for those above the
    /// maximum number of values. `exists` returns true if there is a PriorityClass of this name.
    pub fn class(&self, name: Option<&str>, exists: impl Fn(&str) -> bool) -> ClassLabel {
        self.classes.label(name, exists)
    }

    /// Counts a decision about a preemptor, or the end of a plan, by its reason.
    pub fn outcome(&self, reason: Reason) {
        self.count(&catalogue::OUTCOMES, &[reason.as_str()]);
    }

    /// Counts an accepted eviction by the classes of preemptor and victim. `preemptor` is `None` if the pod was evicted without a plan, by
    /// a departure. `forced` is true if the pod was deleted, because a PodDisruptionBudget that is not guaranteed refused the eviction.
    pub fn evicted(&self, preemptor: Option<&ClassLabel>, victim: &ClassLabel, forced: bool) {
        let cause = if preemptor.is_some() { "plan" } else { "departure" };
        let (preemptor, victim) = (preemptor.map_or("none", ClassLabel::as_str), victim.as_str());
        if forced {
            self.count(&catalogue::VIOLATIONS, &[preemptor, victim]);
        }
        let way = if forced { "delete" } else { "eviction" };
        self.count(&catalogue::EVICTIONS, &[preemptor, victim, cause, way]);
    }

    /// Sets the gauges of the plans and departures in flight to these numbers, by cause and state, and all others to 0.
    pub fn preemptions(&self, numbers: &BTreeMap<(&'static str, PlanState), usize>) {
        for cause in Cause::ALL.map(Cause::as_str) {
            for state in STAGES {
                let number = numbers.get(&(cause, state)).copied().unwrap_or_default();
                self.set(&catalogue::PREEMPTIONS, &[cause, state.as_str()], number);
            }
        }
    }

    /// Sets the gauges of the number and the age of pending PodGroups, and of the number of gated pods.
    pub fn pending_groups(&self, now: PendingGroups) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = shown.groups.keys().filter(|key| !now.groups.contains_key(*key)).map(|key| (key, &0));
        for ((reason, class), number) in removed.chain(&now.groups) {
            self.set(&catalogue::WAITING, &[reason.as_str(), class.as_str()], *number);
        }
        let removed = shown.oldest.keys().filter(|class| !now.oldest.contains_key(*class)).map(|class| (class, &0));
        for (class, age) in removed.chain(&now.oldest) {
            self.set(&catalogue::OLDEST, &[class.as_str()], *age);
        }
        self.set(&catalogue::GATED, &[], now.gated);
        *shown = now;
    }

    /// Sets the gauge of the current mode to 1, and that of the other modes to 0.
    pub fn mode(&self, now: Mode) {
        for mode in Mode::ALL {
            self.set(&catalogue::MODE, &[mode.as_str()], i64::from(mode == now));
        }
    }

    /// Sets for how long the watches of these kinds have been failing, and 0 for the other watches.
    pub fn watches_failing(&self, failing: BTreeMap<Cow<'static, str>, Duration>) {
        let mut shown = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = shown.iter().filter(|kind| !failing.contains_key(*kind)).map(|kind| (kind, Duration::ZERO));
        for (kind, time) in whole.chain(failing.iter().map(|(kind, time)| (kind, *time))) {
            self.set_time(&catalogue::WATCH_BROKEN, &[&**kind], time);
        }
        shown.extend(failing.into_keys());
    }

    /// Sets when the webhook's certificate (`leaf`) and its authority expire. A time that is not known is not changed.
    pub fn certificates(&self, leaf: Option<jiff::Timestamp>, authority: Option<jiff::Timestamp>) {
        for (certificate, until) in [("leaf", leaf), ("authority", authority)] {
            if let Some(until) = until {
                self.set(&catalogue::CERTIFICATES, &[certificate], until.as_second());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_serving::metrics::{MetricKind, PROCESS, classic, differences};

    /// Returns metrics in which every label has a value.
    fn used() -> Metrics {
        let (metrics, second) = (Metrics::default(), Duration::from_secs(1));
        let class = metrics.class(Some("high"), |_| true);
        // Each counter and histogram has one value, and each gauge, too.
        for about in CATALOGUE {
            let labels = vec![class.as_str(); about.labels.len()];
            match about.kind {
                MetricKind::Counter => metrics.count(about, &labels),
                MetricKind::Gauge => metrics.set(about, &labels, 1),
                MetricKind::Histogram => metrics.observe(about, &labels, second),
            }
        }
        metrics.pending_groups(PendingGroups {
            groups: [((Reason::Unschedulable, class.clone()), 2)].into(),
            oldest: [(class, 7)].into(),
            gated: 5,
        });
        metrics
    }

    #[test]
    fn what_is_shown_is_what_the_catalogue_says() {
        let text = classic(&used().encode());
        assert_eq!(differences(&text, CATALOGUE.iter().chain(PROCESS)), [""; 0]);
    }

    #[test]
    fn a_group_that_is_not_pending_any_more_is_removed_from_the_metrics() {
        let metrics = used();
        let waiting = r#"giveway_operator_waiting_groups{reason="Unschedulable",class="high"}"#;
        let oldest = r#"giveway_operator_oldest_waiting_group_age_seconds{class="high"}"#;
        assert!(
            metrics.encode().contains(&format!("{waiting} 2\n")) && metrics.encode().contains(&format!("{oldest} 7\n"))
        );
        metrics.pending_groups(PendingGroups::default());
        let text = metrics.encode();
        assert!(text.contains(&format!("{waiting} 0\n")) && text.contains(&format!("{oldest} 0\n")), "{text}");
        assert!(text.contains("giveway_operator_gated_pods 0\n"), "{text}");
    }

    #[test]
    fn a_forced_eviction_is_a_violation_and_a_departure_has_no_preemptor() {
        let metrics = Metrics::default();
        let [high, class] = ["high", "low"].map(|name| metrics.class(Some(name), |_| true));
        metrics.evicted(Some(&high), &high, true);
        metrics.evicted(None, &class, false);
        let text = metrics.encode();
        for line in [
            r#"giveway_operator_evictions_total{preemptor_class="high",victim_class="high",cause="plan",way="delete"} 1"#,
            r#"giveway_operator_evictions_total{preemptor_class="none",victim_class="low",cause="departure",way="eviction"} 1"#,
            r#"giveway_operator_budget_violations_total{preemptor_class="high",victim_class="high"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
        assert_eq!(text.matches("giveway_operator_budget_violations_total{").count(), 1, "{text}");
    }

    /// Expects lines in what a scraper gets.
    fn expect(metrics: &Metrics, lines: &[&str]) {
        let text = metrics.encode();
        for line in lines {
            assert!(text.lines().any(|there| there == *line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn a_queue_is_shown_with_what_is_in_it_at_the_scrape() {
        let metrics = Metrics::default();
        let queued = metrics.scraped.queued(QueueName::Background, Instant::now());
        expect(&metrics, &[r#"giveway_operator_queue_depth{queue="background"} 1"#]);
        drop(queued);
        expect(
            &metrics,
            &[
                r#"giveway_operator_queue_depth{queue="background"} 0"#,
                r#"giveway_operator_queue_age_seconds{queue="background"} 0.0"#,
                r#"giveway_operator_queue_depth{queue="inputs"} 0"#,
            ],
        );
    }

    #[test]
    fn preemptions_are_shown_by_cause_and_stage_and_those_that_have_ended_as_zero() {
        let metrics = Metrics::default();
        let evicting = r#"giveway_operator_preemptions_in_flight{cause="Preemptor",stage="Evicting"}"#;
        metrics.preemptions(&[((Cause::Preemptor.as_str(), PlanState::Evicting), 2)].into());
        expect(
            &metrics,
            &[
                &format!("{evicting} 2"),
                r#"giveway_operator_preemptions_in_flight{cause="PartiallyScheduled",stage="Planned"} 0"#,
            ],
        );
        metrics.preemptions(&BTreeMap::new());
        expect(&metrics, &[&format!("{evicting} 0")]);
    }

    #[test]
    fn values_are_shown_as_they_were_set() {
        let metrics = Metrics::default();
        metrics.count(&catalogue::REHEARSALS, &["rejected"]);
        metrics.count(&catalogue::REHEARSALS, &["rejected"]);
        metrics.count(&catalogue::REHEARSALS, &["passed"]);
        metrics.set(&catalogue::BANS, &["victim"], 3);
        metrics.set_time(&catalogue::WATCH_BROKEN, &["Pod"], Duration::from_millis(1500));
        metrics.set(&catalogue::STATUSES_WAITING, &[], 7);
        metrics.observe(&catalogue::PASS_SECONDS, &[], Duration::from_millis(2));
        expect(
            &metrics,
            &[
                r#"giveway_operator_rehearsals_total{outcome="rejected"} 2"#,
                r#"giveway_operator_rehearsals_total{outcome="passed"} 1"#,
                r#"giveway_operator_bans{ban="victim"} 3"#,
                r#"giveway_operator_watch_broken_seconds{kind="Pod"} 1.5"#,
                "giveway_operator_statuses_waiting 7",
                r#"giveway_operator_pass_duration_seconds_bucket{le="0.004"} 1"#,
            ],
        );
    }
}
