//! Metrics about the operator itself: whether its passes keep up, what waits, and whether Giveway stops itself.

use super::scraped::{Content, QueueName, Queued, Scraped};
use super::{ClassLabel, KindLabels, Metrics, OutcomeLabels, PreemptorLabels, Registering, catalogue, count};
use giveway_crds::plan::{Cause, PlanState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// The states of a Preemption in flight.
const STAGES: [PlanState; 4] =
    [PlanState::Planned, PlanState::Evicting, PlanState::WaitingForVictims, PlanState::Releasing];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    queue: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StageLabels {
    cause: &'static str,
    stage: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BanLabels {
    ban: &'static str,
}

/// How the rehearsal of a plan ended: the dry run of the calls that could be rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsal {
    /// Every call would succeed.
    Passed,
    /// A PodDisruptionBudget refused an eviction.
    Refused,
    /// A call was rejected for good: by a policy, a webhook, RBAC or a quota.
    Rejected,
}

impl Rehearsal {
    fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
        }
    }
}

/// The metrics about the operator itself.
#[derive(Clone, Debug)]
pub(super) struct Internals {
    passes: Histogram,
    scraped: Scraped,
    depths: Family<QueueLabels, Gauge>,
    ages: Family<QueueLabels, Gauge<f64, AtomicU64>>,
    statuses: Gauge,
    watch_events: Family<KindLabels, Gauge<f64, AtomicU64>>,
    preemptions: Family<StageLabels, Gauge>,
    evicted_not_bound: Family<PreemptorLabels, Counter>,
    rehearsals: Family<OutcomeLabels, Counter>,
    bans: Family<BanLabels, Gauge>,
    breakers: Family<KindLabels, Gauge>,
}

impl Internals {
    pub(super) fn new(new: &mut Registering<'_>) -> Self {
        Self {
            passes: new.shown(&catalogue::PASS_SECONDS, Histogram::new(exponential_buckets(0.001, 4.0, 9))),
            scraped: Scraped::default(),
            depths: new.shown(&catalogue::QUEUE_DEPTH, Family::default()),
            ages: new.shown(&catalogue::QUEUE_AGE, Family::default()),
            statuses: new.shown(&catalogue::STATUSES_WAITING, Gauge::default()),
            watch_events: new.shown(&catalogue::WATCH_EVENT_AGE, Family::default()),
            preemptions: new.shown(&catalogue::PREEMPTIONS, Family::default()),
            evicted_not_bound: new.shown(&catalogue::EVICTED_NOT_BOUND, Family::default()),
            rehearsals: new.shown(&catalogue::REHEARSALS, Family::default()),
            bans: new.shown(&catalogue::BANS, Family::default()),
            breakers: new.shown(&catalogue::BREAKERS, Family::default()),
        }
    }

    /// Sets the values that are computed at a scrape.
    pub(super) fn refresh(&self, now: Instant) {
        for Content { queue, depth, age } in self.scraped.queues(now) {
            let labels = QueueLabels { queue: queue.as_str() };
            self.depths.get_or_create(&labels).set(count(depth));
            self.ages.get_or_create(&labels).set(age.as_secs_f64());
        }
        for (kind, age) in self.scraped.watches(now) {
            self.watch_events.get_or_create(&KindLabels { kind: Cow::Borrowed(kind) }).set(age.as_secs_f64());
        }
    }
}

impl Metrics {
    /// Records how long a pass took.
    pub fn passed(&self, took: Duration) {
        self.internals.passes.observe(took.as_secs_f64());
    }

    /// Adds an entry to a queue, until the returned value is dropped.
    pub fn queued(&self, queue: QueueName) -> Queued {
        self.internals.scraped.queued(queue, Instant::now())
    }

    /// Sets the number of inputs that are left when a pass begins.
    pub fn inputs_left(&self, number: usize, now: Instant) {
        self.internals.scraped.inputs_left(number, now);
    }

    /// Records that the watch of a kind delivered something.
    pub fn observed(&self, kind: &'static str, now: Instant) {
        self.internals.scraped.observed(kind, now);
    }

    /// Returns the content of all queues.
    pub fn queues(&self, now: Instant) -> Vec<Content> {
        self.internals.scraped.queues(now)
    }

    /// Returns how long ago the watch of each kind delivered something.
    pub fn watch_events(&self, now: Instant) -> BTreeMap<&'static str, Duration> {
        self.internals.scraped.watches(now)
    }

    /// Sets the number of PodGroups whose status is not written yet.
    pub fn statuses_waiting(&self, number: usize) {
        self.internals.statuses.set(count(number));
    }

    /// Sets the number of Preemptions in flight by cause and state.
    pub fn preemptions(&self, numbers: &BTreeMap<(&'static str, PlanState), usize>) {
        for cause in Cause::ALL.map(Cause::as_str) {
            for state in STAGES {
                let number = numbers.get(&(cause, state)).copied().unwrap_or_default();
                self.internals
                    .preemptions
                    .get_or_create(&StageLabels { cause, stage: state.as_str() })
                    .set(count(number));
            }
        }
    }

    /// Counts a plan that evicted pods and ended before every placed pod was bound.
    pub fn evicted_not_bound(&self, preemptor: &ClassLabel) {
        let labels = PreemptorLabels { preemptor_class: Arc::clone(&preemptor.0) };
        self.internals.evicted_not_bound.get_or_create(&labels).inc();
    }

    /// Counts the rehearsal of a plan.
    pub fn rehearsed(&self, rehearsal: Rehearsal) {
        self.internals.rehearsals.get_or_create(&OutcomeLabels { outcome: rehearsal.as_str() }).inc();
    }

    /// Sets the number of bans: of pods whose eviction was rejected, and of nodes on which a pod was not bound.
    pub fn bans(&self, victims: usize, nodes: usize) {
        for (ban, number) in [("victim", victims), ("node", nodes)] {
            self.internals.bans.get_or_create(&BanLabels { ban }).set(count(number));
        }
    }

    /// Sets the number of open circuit breakers: of preemptors, of namespaces, and of the cluster.
    pub fn breakers(&self, preemptors: usize, namespaces: usize, cluster: bool) {
        let numbers = [("preemptor", preemptors), ("namespace", namespaces), ("cluster", usize::from(cluster))];
        for (kind, number) in numbers {
            self.internals.breakers.get_or_create(&KindLabels { kind: Cow::Borrowed(kind) }).set(count(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let queued = metrics.queued(QueueName::Background);
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
    fn rehearsals_bans_and_breakers_are_shown_as_they_were_set() {
        let metrics = Metrics::default();
        metrics.rehearsed(Rehearsal::Rejected);
        metrics.rehearsed(Rehearsal::Rejected);
        metrics.rehearsed(Rehearsal::Passed);
        metrics.bans(3, 1);
        metrics.breakers(2, 3, true);
        metrics.evicted_not_bound(&metrics.class(Some("high"), |_| true));
        metrics.statuses_waiting(7);
        metrics.passed(Duration::from_millis(2));
        expect(
            &metrics,
            &[
                r#"giveway_operator_rehearsals_total{outcome="rejected"} 2"#,
                r#"giveway_operator_rehearsals_total{outcome="passed"} 1"#,
                r#"giveway_operator_bans{ban="victim"} 3"#,
                r#"giveway_operator_bans{ban="node"} 1"#,
                r#"giveway_operator_breakers_open{kind="preemptor"} 2"#,
                r#"giveway_operator_breakers_open{kind="namespace"} 3"#,
                r#"giveway_operator_breakers_open{kind="cluster"} 1"#,
                r#"giveway_operator_evicted_not_bound_total{preemptor_class="high"} 1"#,
                "giveway_operator_statuses_waiting 7",
                r#"giveway_operator_pass_duration_seconds_bucket{le="0.004"} 1"#,
            ],
        );
    }
}
