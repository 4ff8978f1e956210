//! Metrics of the operator. The number of values of each label is limited. Names and help texts are in the
//! [`catalogue`].

mod catalogue;
mod class;
mod internals;
mod scraped;

pub use catalogue::CATALOGUE;
pub use class::ClassLabel;
pub use internals::Rehearsal;
pub use scraped::{Content, QueueName, Queued};

use class::KnownClasses;
use giveway_crds::condition::Reason;
use giveway_crds::mode::Mode;
use giveway_planner::Step;
use giveway_serving::metrics::{About, register_process};
use internals::Internals;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    call: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    code: Cow<'static, str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WaitingLabels {
    reason: &'static str,
    class: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModeLabels {
    mode: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClassLabels {
    class: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PreemptorLabels {
    preemptor_class: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EvictionLabels {
    preemptor_class: Arc<str>,
    victim_class: Arc<str>,
    cause: &'static str,
    way: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ViolationLabels {
    preemptor_class: Arc<str>,
    victim_class: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByLabels {
    by: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: Cow<'static, str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    step: i32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CertificateLabels {
    certificate: &'static str,
}

/// How a pod was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the Eviction API.
    Eviction,
    /// By DELETE, because a PodDisruptionBudget that is not guaranteed refused the eviction.
    Delete,
}

/// Which component prevented a preemption because of a guaranteed budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    /// The planner: it found no plan.
    Planner,
    /// The Eviction API: a plan was cancelled.
    EvictionApi,
}

/// What is pending at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingGroups {
    /// Number of pending PodGroups, by reason and class.
    pub groups: BTreeMap<(Reason, ClassLabel), i64>,
    /// For how many seconds the oldest pending PodGroup of each class has been pending.
    pub oldest: BTreeMap<ClassLabel, i64>,
    /// Number of pods with Giveway's scheduling gate.
    pub held: usize,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    classes: KnownClasses,
    calls: Family<CallLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histograms<VerbLabels>,
    outcomes: Family<ReasonLabels, Counter>,
    plans: Family<OutcomeLabels, Counter>,
    waiting: Family<WaitingLabels, Gauge>,
    oldest: Family<ClassLabels, Gauge>,
    /// The values that `waiting` and `oldest` show. A value that is not reported any more is set to 0.
    shown: Arc<Mutex<PendingGroups>>,
    held: Gauge,
    submitted_to_bound: Histograms<ClassLabels>,
    planned_to_bound: Histograms<PreemptorLabels>,
    evictions: Family<EvictionLabels, Counter>,
    violations: Family<ViolationLabels, Counter>,
    guaranteed: Family<ByLabels, Counter>,
    decisions: Histogram,
    in_flight: Gauge,
    unreadable: Family<KindLabels, Counter>,
    leads: Gauge,
    mode: Family<ModeLabels, Gauge>,
    broken: Gauge,
    broken_seconds: Family<KindLabels, Gauge<f64, AtomicU64>>,
    /// The kinds for which `broken_seconds` has a value.
    failing: Arc<Mutex<BTreeSet<Cow<'static, str>>>>,
    certificates: Family<CertificateLabels, Gauge>,
    critical_waiting: Gauge,
    rescues: Family<StepLabels, Counter>,
    rescue_seconds: Histogram,
    tainted: Gauge,
    limited_plans: Gauge,
    internals: Internals,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        register_process(&mut registry, &catalogue::BUILD, env!("CARGO_PKG_VERSION"));
        let mut new = Registering(&mut registry);
        let mut metrics = Self {
            registry: Arc::default(),
            classes: KnownClasses::default(),
            calls: new.shown(&catalogue::CALLS, Family::default()),
            requests: new.shown(&catalogue::REQUESTS, Family::default()),
            request_seconds: new.shown(&catalogue::REQUEST_SECONDS, Family::new_with_constructor(of_a_request)),
            outcomes: new.shown(&catalogue::OUTCOMES, Family::default()),
            plans: new.shown(&catalogue::PLANS, Family::default()),
            waiting: new.shown(&catalogue::WAITING, Family::default()),
            oldest: new.shown(&catalogue::OLDEST, Family::default()),
            shown: Arc::default(),
            held: new.shown(&catalogue::HELD, Gauge::default()),
            submitted_to_bound: new.shown(&catalogue::SUBMITTED_TO_BOUND, Family::new_with_constructor(of_a_group)),
            planned_to_bound: new.shown(&catalogue::PLANNED_TO_BOUND, Family::new_with_constructor(of_a_group)),
            evictions: new.shown(&catalogue::EVICTIONS, Family::default()),
            violations: new.shown(&catalogue::VIOLATIONS, Family::default()),
            guaranteed: new.shown(&catalogue::GUARANTEED, Family::default()),
            decisions: new.shown(&catalogue::DECISION_SECONDS, Histogram::new(exponential_buckets(0.000_1, 4.0, 10))),
            in_flight: new.shown(&catalogue::IN_FLIGHT, Gauge::default()),
            unreadable: new.shown(&catalogue::UNREADABLE, Family::default()),
            leads: new.shown(&catalogue::LEADER, Gauge::default()),
            mode: new.shown(&catalogue::MODE, Family::default()),
            broken: new.shown(&catalogue::WATCHES_BROKEN, Gauge::default()),
            broken_seconds: new.shown(&catalogue::WATCH_BROKEN, Family::default()),
            failing: Arc::default(),
            certificates: new.shown(&catalogue::CERTIFICATES, Family::default()),
            critical_waiting: new.shown(&catalogue::CRITICAL_WAITING, Gauge::default()),
            rescues: new.shown(&catalogue::RESCUES, Family::default()),
            rescue_seconds: new.shown(&catalogue::RESCUE_SECONDS, Histogram::new(exponential_buckets(1.0, 2.0, 12))),
            tainted: new.shown(&catalogue::TAINTED, Gauge::default()),
            limited_plans: new.shown(&catalogue::LIMITED_PLANS, Gauge::default()),
            internals: Internals::new(&mut new),
        };
        metrics.registry = Arc::new(registry);
        metrics
    }
}

/// Registers metrics as they are created.
struct Registering<'a>(&'a mut Registry);

impl Registering<'_> {
    fn shown<M: Metric + Clone>(&mut self, about: &About, metric: M) -> M {
        about.register(self.0, metric.clone());
        metric
    }
}

fn of_a_request() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

/// Buckets from one second to one day.
fn of_a_group() -> Histogram {
    Histogram::new([
        1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 14_400.0, 86_400.0,
    ])
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Metrics {
    /// Returns the metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        self.internals.refresh(Instant::now());
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    /// Returns the label value for the class of this name. `exists` returns whether a PriorityClass of a name exists.
    pub fn class(&self, name: Option<&str>, exists: impl Fn(&str) -> bool) -> ClassLabel {
        self.classes.label(name, exists)
    }

    /// Counts a call to the API server.
    pub fn call(&self, call: &'static str, ok: bool) {
        self.calls.get_or_create(&CallLabels { call, result: if ok { "ok" } else { "error" } }).inc();
    }

    /// Counts a request, with the status code and the duration; `code` is `None` if there was no response.
    pub fn requested(&self, verb: &'static str, code: Option<u16>, took: Duration) {
        let code = code.map_or(Cow::Borrowed("none"), |code| Cow::Owned(code.to_string()));
        self.requests.get_or_create(&RequestLabels { verb, code }).inc();
        self.request_seconds.get_or_create(&VerbLabels { verb }).observe(took.as_secs_f64());
    }

    /// Counts a decision or the end of a plan.
    pub fn outcome(&self, reason: Reason) {
        self.outcomes.get_or_create(&ReasonLabels { reason: reason.as_str() }).inc();
    }

    /// Counts a plan with victims that has ended.
    pub fn planned(&self, outcome: Reason) {
        self.plans.get_or_create(&OutcomeLabels { outcome: outcome.as_str() }).inc();
    }

    /// Records how long it took until all pods of a plan were bound.
    pub fn plan_bound_after(&self, preemptor: &ClassLabel, took: Duration) {
        let labels = PreemptorLabels { preemptor_class: Arc::clone(&preemptor.0) };
        self.planned_to_bound.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Records how long it took until a PodGroup was scheduled for the first time.
    pub fn group_bound_after(&self, class: &ClassLabel, took: Duration) {
        let labels = ClassLabels { class: Arc::clone(&class.0) };
        self.submitted_to_bound.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Counts an accepted eviction for a preemptor of this class. `None` means that the pod was evicted because its
    /// whole PodGroup is disrupted.
    pub fn evicted(&self, preemptor: Option<&ClassLabel>, victim: &ClassLabel, way: Way) {
        let preemptor_class = preemptor.map_or_else(|| "none".into(), |class| Arc::clone(&class.0));
        let (cause, victim_class) = (if preemptor.is_some() { "plan" } else { "departure" }, Arc::clone(&victim.0));
        if way == Way::Delete {
            let (preemptor_class, victim_class) = (Arc::clone(&preemptor_class), Arc::clone(&victim_class));
            self.violations.get_or_create(&ViolationLabels { preemptor_class, victim_class }).inc();
        }
        let way = if way == Way::Delete { "delete" } else { "eviction" };
        self.evictions.get_or_create(&EvictionLabels { preemptor_class, victim_class, cause, way }).inc();
    }

    /// Counts a preemption that was prevented by a guaranteed budget.
    pub fn guaranteed(&self, by: RefusedBy) {
        let by = match by {
            RefusedBy::Planner => "planner",
            RefusedBy::EvictionApi => "eviction_api",
        };
        self.guaranteed.get_or_create(&ByLabels { by }).inc();
    }

    /// Sets the number and the age of pending PodGroups, and the number of gated pods.
    pub fn waits(&self, now: PendingGroups) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = shown.groups.keys().filter(|key| !now.groups.contains_key(*key)).map(|key| (key, &0));
        for ((reason, class), number) in removed.chain(&now.groups) {
            let labels = WaitingLabels { reason: reason.as_str(), class: Arc::clone(&class.0) };
            self.waiting.get_or_create(&labels).set(*number);
        }
        let removed = shown.oldest.keys().filter(|class| !now.oldest.contains_key(*class)).map(|class| (class, &0));
        for (class, age) in removed.chain(&now.oldest) {
            self.oldest.get_or_create(&ClassLabels { class: Arc::clone(&class.0) }).set(*age);
        }
        self.held.set(count(now.held));
        *shown = now;
    }

    /// Records how long a decision took.
    pub fn decided(&self, took: Duration) {
        self.decisions.observe(took.as_secs_f64());
    }

    /// Sets how many decisions are in flight.
    pub fn in_flight(&self, number: usize) {
        self.in_flight.set(count(number));
    }

    /// Sets the number of pending critical add-ons.
    pub fn critical_waiting(&self, number: usize) {
        self.critical_waiting.set(count(number));
    }

    /// Counts a plan for a critical add-on.
    pub fn rescued(&self, step: Step) {
        self.rescues.get_or_create(&StepLabels { step: step.number() }).inc();
    }

    /// Records how long a critical add-on was Unschedulable before it was bound.
    pub fn bound_after(&self, took: Duration) {
        self.rescue_seconds.observe(took.as_secs_f64());
    }

    /// Sets how many plans are delayed by the limits on evictions per minute.
    pub fn limited_plans(&self, number: usize) {
        self.limited_plans.set(count(number));
    }

    /// Sets how many nodes have Giveway's taint.
    pub fn tainted_nodes(&self, number: usize) {
        self.tainted.set(count(number));
    }

    /// Counts an object that could not be parsed.
    pub fn unreadable(&self, kind: &'static str) {
        self.unreadable.get_or_create(&KindLabels { kind: kind.into() }).inc();
    }

    /// Sets the current mode.
    pub fn mode(&self, now: Mode) {
        for mode in Mode::ALL {
            self.mode.get_or_create(&ModeLabels { mode: mode.as_str() }).set(i64::from(mode == now));
        }
    }

    /// Sets whether this process is the leader.
    pub fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// Sets whether a watch has been failing for so long that no decisions are made.
    pub fn watches_broken(&self, broken: bool) {
        self.broken.set(i64::from(broken));
    }

    /// Shows for how long the watches of some kinds have been failing. The watches of all other kinds work.
    pub fn watches_failing(&self, failing: BTreeMap<Cow<'static, str>, Duration>) {
        let mut shown = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = shown.iter().filter(|kind| !failing.contains_key(*kind)).map(|kind| (kind, Duration::ZERO));
        for (kind, time) in whole.chain(failing.iter().map(|(kind, time)| (kind, *time))) {
            self.broken_seconds.get_or_create(&KindLabels { kind: kind.clone() }).set(time.as_secs_f64());
        }
        shown.extend(failing.into_keys());
    }

    /// Sets when the webhook's certificate and its authority expire.
    pub fn certificates(&self, leaf: Option<jiff::Timestamp>, authority: Option<jiff::Timestamp>) {
        for (certificate, until) in [("leaf", leaf), ("authority", authority)] {
            if let Some(until) = until {
                self.certificates.get_or_create(&CertificateLabels { certificate }).set(until.as_second());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_serving::metrics::{PROCESS, classic, differences};

    /// Returns metrics in which every label has a value.
    fn used() -> Metrics {
        let (metrics, second) = (Metrics::default(), Duration::from_secs(1));
        let class = metrics.class(Some("high"), |_| true);
        metrics.call("evict", true);
        metrics.mode(Mode::Observe);
        metrics.requested("create", Some(201), second);
        metrics.outcome(Reason::Planned);
        metrics.planned(Reason::Completed);
        metrics.plan_bound_after(&class, second);
        metrics.group_bound_after(&class, second);
        metrics.evicted(Some(&class), &class, Way::Delete);
        metrics.guaranteed(RefusedBy::Planner);
        metrics.waits(PendingGroups {
            groups: [((Reason::Unschedulable, class.clone()), 2)].into(),
            oldest: [(class, 7)].into(),
            held: 5,
        });
        metrics.rescued(Step::Any);
        metrics.unreadable("Pod");
        metrics.watches_failing([("Pod".into(), second)].into());
        metrics.certificates(Some(jiff::Timestamp::UNIX_EPOCH), None);
        metrics.observed("Pod", Instant::now());
        metrics.preemptions(&BTreeMap::new());
        metrics.evicted_not_bound(&metrics.class(Some("high"), |_| true));
        metrics.rehearsed(Rehearsal::Passed);
        metrics.bans(0, 0);
        metrics.breakers(0, 0, false);
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
        metrics.waits(PendingGroups::default());
        let text = metrics.encode();
        assert!(text.contains(&format!("{waiting} 0\n")) && text.contains(&format!("{oldest} 0\n")), "{text}");
        assert!(text.contains("giveway_operator_held_pods 0\n"), "{text}");
    }

    #[test]
    fn a_forced_eviction_is_a_violation_and_a_departure_has_no_preemptor() {
        let metrics = used();
        let class = metrics.class(Some("low"), |_| true);
        metrics.evicted(None, &class, Way::Eviction);
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
}
