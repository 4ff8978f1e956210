//! The state of the arbiter as a dump.

use super::Arbiter;
use crate::clock::Clock;
use crate::dump;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

impl Arbiter {
    /// Returns the state of the arbiter as lines of JSON, one for each section of a [`dump`].
    pub fn dump(&self, clock: Clock) -> Vec<String> {
        let (flights, cluster) = (&self.plans.flights, &self.model.cluster);
        vec![
            dump::line("operator", &clock.time(), self.about_operator(clock.now)),
            dump::plans(flights, cluster, clock),
            dump::departures(&self.departures, clock),
            dump::waiting(&self.preemption.waiting, clock),
        ]
    }

    /// Returns the section `operator` of the dump: mode, limits, and numbers of plans, bans and queued calls. Its size is limited.
    fn about_operator(&self, now: Instant) -> Value {
        let (most, breakers) = (self.restraint.rates.most(), self.restraint.breakers.open());
        let mut queues: BTreeMap<&str, Value> = BTreeMap::new();
        for content in self.metrics.scraped.queues(now) {
            let entry = json!({ "depth": content.depth, "ageSeconds": content.age.as_secs() });
            queues.insert(content.queue.as_str(), entry);
        }
        let mut watches: BTreeMap<String, BTreeMap<&str, u64>> = BTreeMap::new();
        for (kind, age) in self.metrics.scraped.watches(now) {
            watches.entry(kind.to_owned()).or_default().insert("eventAgeSeconds", age.as_secs());
        }
        for (kind, time) in self.watches.failing(now) {
            watches.entry(kind.into_owned()).or_default().insert("brokenSeconds", time.as_secs());
        }
        let mut leader = json!({ "term": self.leadership.term(), "synced": self.is_synced(), "resumed": self.resumed });
        // For how long it may still write, if it leads.
        if let Some(left) = self.leadership.remaining() {
            leader["leaseSeconds"] = left.as_secs().into();
        }
        json!({
            "leader": leader,
            "mode": self.restraint.switch.mode().as_str(),
            "restraint": self.restraint.reason().map(|_| self.restraint.in_words()),
            "limits": {
                "evictionsPerMinutePerNamespace": most.namespace,
                "evictionsPerMinutePerCluster": most.cluster,
                // 0 without a limit per minute.
                "evictionsInTheLastMinute": self.restraint.rates.recent(now),
                "evictionsPerSecond": self.config.evictions_per_second,
                "concurrentCalls": self.config.concurrent_calls,
            },
            "plans": self.plans.flights.len(),
            "reservations": self.model.cluster.planned_reservations(),
            "bans": self.restraint.bans.len(),
            "breakers": {
                "preemptors": breakers.preemptors.len(),
                "namespaces": breakers.namespaces.len(),
                "cluster": breakers.cluster.is_some(),
            },
            "criticalAddonsWaiting": self.critical_addons.queue.count(),
            "statusesWaiting": self.statuses.waiting(),
            "queues": queues,
            "watches": watches,
            "brokenWatch": self.watches.broken(now),
        })
    }
}
