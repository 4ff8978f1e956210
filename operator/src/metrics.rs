//! Metrics of the operator, with labels whose values are bounded.

use giveway_crds::mode::Mode;
use giveway_planner::Step;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    call: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepLabels {
    step: i32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModeLabels {
    mode: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CertificateLabels {
    certificate: &'static str,
}

/// Every metric; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    calls: Family<CallLabels, Counter>,
    outcomes: Family<ReasonLabels, Counter>,
    victims: Counter,
    decisions: Histogram,
    in_flight: Gauge,
    unreadable: Family<KindLabels, Counter>,
    leads: Gauge,
    mode: Family<ModeLabels, Gauge>,
    broken: Gauge,
    certificates: Family<CertificateLabels, Gauge>,
    critical: Critical,
}

/// What is counted of critical add-ons.
#[derive(Clone, Debug)]
struct Critical {
    waiting: Gauge,
    rescues: Family<StepLabels, Counter>,
    seconds: Histogram,
    taints: Gauge,
}

impl Critical {
    fn registered(registry: &mut Registry) -> Self {
        let critical = Self {
            waiting: Gauge::default(),
            rescues: Family::default(),
            seconds: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            taints: Gauge::default(),
        };
        registry.register(
            "critical_addons_waiting",
            "Critical add-ons that are Unschedulable",
            critical.waiting.clone(),
        );
        registry.register("rescues", "Plans for critical add-ons, by step", critical.rescues.clone());
        registry.register(
            "rescue_seconds",
            "Time from Unschedulable to bound of critical add-ons for which somebody was evicted",
            critical.seconds.clone(),
        );
        registry.register("tainted_nodes", "Nodes with a taint of ours", critical.taints.clone());
        critical
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let calls = Family::default();
        let outcomes = Family::default();
        let victims = Counter::default();
        let decisions = Histogram::new(exponential_buckets(0.000_1, 4.0, 10));
        let in_flight = Gauge::default();
        let unreadable = Family::default();
        let leads = Gauge::default();
        let mode = Family::default();
        let broken = Gauge::default();
        let certificates = Family::default();
        let mut registry = Registry::with_prefix("giveway_operator");
        registry.register(
            "api_calls",
            "Writes to the API server, by what they do and whether they worked",
            calls.clone(),
        );
        registry.register("outcomes", "Decisions and ends of plans, by reason", outcomes.clone());
        registry.register("evicted_pods", "Pods whose eviction was accepted", victims.clone());
        registry.register("decision_seconds", "Time to decide for one preemptor", decisions.clone());
        registry.register("decisions_in_flight", "Decisions that are being carried out", in_flight.clone());
        registry.register(
            "unreadable_objects",
            "Objects that could not be read, each time one appeared",
            unreadable.clone(),
        );
        registry.register("leader", "1 while this process leads", leads.clone());
        registry.register("mode", "1 for the mode that the leader is in: enforce, observe or off", mode.clone());
        registry.register(
            "watches_broken",
            "1 while a watch is broken for so long that nothing is decided",
            broken.clone(),
        );
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When the webhook's certificate and its authority expire, in seconds since 1970",
            certificates.clone(),
        );
        let critical = Critical::registered(&mut registry);
        let registry = Arc::new(registry);
        Self {
            registry,
            calls,
            outcomes,
            victims,
            decisions,
            in_flight,
            unreadable,
            leads,
            mode,
            broken,
            certificates,
            critical,
        }
    }
}

impl Metrics {
    /// The metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    /// Counts a write.
    pub fn call(&self, call: &'static str, ok: bool) {
        self.calls.get_or_create(&CallLabels { call, result: if ok { "ok" } else { "error" } }).inc();
    }

    /// Counts a decision or the end of a plan.
    pub fn outcome(&self, reason: giveway_crds::condition::Reason) {
        self.outcomes.get_or_create(&ReasonLabels { reason: reason.as_str() }).inc();
    }

    /// Counts an accepted eviction.
    pub fn evicted(&self) {
        self.victims.inc();
    }

    /// Records how long a decision took.
    pub fn decided(&self, took: Duration) {
        self.decisions.observe(took.as_secs_f64());
    }

    /// Sets how many decisions are in flight.
    pub fn in_flight(&self, count: usize) {
        self.in_flight.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets how many critical add-ons wait.
    pub fn critical_waiting(&self, count: usize) {
        self.critical.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a plan for a critical add-on.
    pub fn rescued(&self, step: Step) {
        self.critical.rescues.get_or_create(&StepLabels { step: step.number() }).inc();
    }

    /// Records how long a critical add-on was Unschedulable before it was bound.
    pub fn bound_after(&self, took: Duration) {
        self.critical.seconds.observe(took.as_secs_f64());
    }

    /// Sets how many nodes have a taint of ours.
    pub fn tainted_nodes(&self, count: usize) {
        self.critical.taints.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts an object that could not be read.
    pub fn unreadable(&self, kind: &'static str) {
        self.unreadable.get_or_create(&KindLabels { kind }).inc();
    }

    /// Sets whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// Sets the mode that it is in.
    pub fn mode(&self, now: Mode) {
        for mode in Mode::ALL {
            self.mode.get_or_create(&ModeLabels { mode: mode.as_str() }).set(i64::from(mode == now));
        }
    }

    /// Sets whether a watch is broken for so long that nothing is decided.
    pub fn watches_broken(&self, broken: bool) {
        self.broken.set(i64::from(broken));
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
