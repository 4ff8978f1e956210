//! The state of the arbiter as a dump.

use super::Arbiter;
use crate::clock::Clock;
use crate::dump::{self, BreakersView, Leader, LimitsView, Operator, QueueView, WatchView};
use crate::observability::metrics::Content;
use std::collections::BTreeMap;
use std::time::Instant;

impl Arbiter {
    /// Returns the state as lines of JSON, one for each section of a [`dump`].
    pub fn dump(&self, clock: Clock) -> Vec<String> {
        let (flights, cluster) = (&self.plans.flights, &self.model.cluster);
        vec![
            self.about_operator(clock.now).line(clock),
            dump::plans(flights, cluster, clock),
            dump::departures(&self.departures, clock),
            dump::waiting(&self.preemption.waiting, clock),
        ]
    }

    fn about_operator(&self, now: Instant) -> Operator {
        let most = self.restraint.rates.most();
        let queues = self.metrics.scraped.queues(now).into_iter();
        let queue = |content: Content| {
            let view = QueueView { depth: content.depth, age_seconds: content.age.as_secs() };
            (content.queue.as_str(), view)
        };
        let breakers = self.restraint.breakers.open();
        Operator {
            leader: Leader {
                term: self.leadership.term().to_owned(),
                lease_seconds: self.leadership.remaining().map(|left| left.as_secs()),
                synced: self.is_synced(),
                resumed: self.resumed,
            },
            mode: self.restraint.switch.mode().as_str(),
            restraint: self.restraint.reason().map(|_| self.restraint.in_words()),
            limits: LimitsView {
                evictions_per_minute_per_namespace: most.namespace,
                evictions_per_minute_per_cluster: most.cluster,
                evictions_in_the_last_minute: self.restraint.rates.recent(now),
                evictions_per_second: self.config.evictions_per_second,
                concurrent_calls: self.config.concurrent_calls,
            },
            plans: self.plans.flights.len(),
            reservations: self.model.cluster.planned_reservations(),
            bans: self.restraint.bans.len(),
            breakers: BreakersView {
                preemptors: breakers.preemptors.len(),
                namespaces: breakers.namespaces.len(),
                cluster: breakers.cluster.is_some(),
            },
            critical_addons_waiting: self.critical_addons.queue.count(),
            statuses_waiting: self.statuses.waiting(),
            queues: queues.map(queue).collect(),
            watches: self.about_watches(now),
            broken_watch: self.watches.broken(now),
        }
    }

    fn about_watches(&self, now: Instant) -> BTreeMap<String, WatchView> {
        let mut watches: BTreeMap<String, WatchView> = BTreeMap::new();
        for (kind, age) in self.metrics.scraped.watches(now) {
            watches.entry(kind.to_owned()).or_default().event_age_seconds = Some(age.as_secs());
        }
        for (kind, time) in self.watches.failing(now) {
            watches.entry(kind.into_owned()).or_default().broken_seconds = Some(time.as_secs());
        }
        watches
    }
}
