//! Limits on the number of evictions per minute, in a namespace and in the cluster.
//!
//! Any period of sixty seconds counts. A unit with more pods than a limit allows is evicted when no eviction was made
//! for a minute, because a PodGroup is disrupted as a whole. Pure: the caller passes the time.

use giveway_planner::SmolStr;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an eviction counts.
pub const MINUTE: Duration = Duration::from_secs(60);

/// A number of evictions in each namespace.
pub type NamespaceCounts = BTreeMap<SmolStr, usize>;

/// The limits on evictions per minute; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionLimits {
    /// In each namespace.
    pub namespace: Option<u32>,
    /// In the cluster.
    pub cluster: Option<u32>,
}

impl EvictionLimits {
    /// Returns true if a limit is set, for the cluster or for each namespace.
    pub fn limits(self) -> bool {
        self.namespace.is_some() || self.cluster.is_some()
    }

    /// Returns the name of the chart value that is 0 and so prevents all evictions; `None` if no limit is 0.
    pub fn zero(self) -> Option<&'static str> {
        let zero = |most: Option<u32>| most == Some(0);
        zero(self.cluster)
            .then_some("victims.evictionsPerMinute.perCluster")
            .or_else(|| zero(self.namespace).then_some("victims.evictionsPerMinute.perNamespace"))
    }
}

/// A limit on evictions per minute that does not allow certain evictions now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    /// The namespace of the limit; `None` for the limit of the cluster.
    pub namespace: Option<SmolStr>,
    /// The limit.
    pub most: u32,
    /// When it allows the evictions, if no others are made before.
    pub until: Instant,
}

/// The evictions of the last minute.
#[derive(Debug, Default)]
pub struct Rates {
    most: EvictionLimits,
    evictions: BTreeMap<SmolStr, (SmolStr, Instant)>,
}

impl Rates {
    /// Creates the record of the last minute for these limits, without an eviction.
    pub fn new(most: EvictionLimits) -> Self {
        Self { most, evictions: BTreeMap::new() }
    }

    /// Returns the limits on evictions per minute.
    pub fn most(&self) -> EvictionLimits {
        self.most
    }

    /// Records that the pod with this UID in `namespace` was, or may have been, evicted at `at`. Of two times for one pod the later one
    /// counts.
    pub fn note(&mut self, namespace: &SmolStr, uid: &SmolStr, at: Instant) {
        if self.most.limits() {
            let known = self.evictions.entry(uid.clone()).or_insert_with(|| (namespace.clone(), at));
            known.1 = known.1.max(at);
        }
    }

    /// Removes the eviction of the pod with this UID from the record, because it was not evicted.
    pub fn forget(&mut self, uid: &str) {
        self.evictions.remove(uid);
    }

    /// Records the evictions of an earlier leader: the plan named `plan` evicted as many pods as `need` says in each namespace, at `at` at
    /// the latest.
    pub fn remember(&mut self, plan: &str, need: &NamespaceCounts, at: Instant) {
        for (namespace, count) in need {
            for number in 0..*count {
                self.note(namespace, &format!("{plan}/{namespace}/{number}").into(), at);
            }
        }
    }

    /// Returns true if an eviction of the pod with this UID is recorded.
    pub fn counts(&self, uid: &str) -> bool {
        self.evictions.contains_key(uid)
    }

    /// Returns the number of evictions in the minute before `now`; 0 if no limit is set, because then none are recorded.
    pub fn recent(&self, now: Instant) -> usize {
        self.evictions.values().filter(|(_, at)| now.saturating_duration_since(*at) < MINUTE).count()
    }

    /// Returns the times of the evictions in the minute before `now`, by namespace and in the cluster. Older ones are removed from the
    /// record.
    pub fn tally(&mut self, now: Instant) -> RateTally {
        self.evictions.retain(|_, (_, at)| now.saturating_duration_since(*at) < MINUTE);
        let mut tally = RateTally { most: self.most, cluster: Vec::new(), namespaces: BTreeMap::new() };
        for (namespace, at) in self.evictions.values() {
            tally.cluster.push(*at);
            tally.namespaces.entry(namespace.clone()).or_default().push(*at);
        }
        tally.cluster.sort_unstable();
        tally.namespaces.values_mut().for_each(|times| times.sort_unstable());
        tally
    }
}

/// The times of recorded evictions, and of later evictions for which the limit is reserved; each list is sorted.
#[derive(Clone, Debug)]
pub struct RateTally {
    most: EvictionLimits,
    cluster: Vec<Instant>,
    namespaces: BTreeMap<SmolStr, Vec<Instant>>,
}

impl RateTally {
    /// Counts as many evictions in each namespace as `need` says, as made at `at`.
    pub fn add(&mut self, need: &NamespaceCounts, at: Instant) {
        for (namespace, count) in need {
            insert(self.namespaces.entry(namespace.clone()).or_default(), *count, at);
            insert(&mut self.cluster, *count, at);
        }
    }

    /// Counts the evictions of a plan that a limit delays until `at` as made then, so that later plans do not use the limit first. At most
    /// as many count as the limits allow at once.
    pub fn reserve(&mut self, need: &NamespaceCounts, at: Instant) {
        let most = |limit: Option<u32>, count: usize| limit.map_or(count, |most| count.min(most as usize));
        let mut all = 0;
        for (namespace, count) in need {
            let count = most(self.most.namespace, *count);
            insert(self.namespaces.entry(namespace.clone()).or_default(), count, at);
            all += count;
        }
        insert(&mut self.cluster, most(self.most.cluster, all), at);
    }

    /// Returns the limit that does not allow as many evictions now as `need` says in each namespace; of several, the one that delays them
    /// longest. `None` if all limits allow them.
    pub fn exceeded(&self, need: &NamespaceCounts, now: Instant) -> Option<ExceededLimit> {
        let full = |namespace: Option<&SmolStr>, most: Option<u32>, times: &[Instant], count: usize| {
            let most = most?;
            let until = if most == 0 { now + MINUTE } else { allowed_from(times, most as usize, count)? };
            (until > now).then(|| ExceededLimit { namespace: namespace.cloned(), most, until })
        };
        let none = Vec::new();
        let namespaces = need.iter().filter_map(|(namespace, count)| {
            let times = self.namespaces.get(namespace).unwrap_or(&none);
            full(Some(namespace), self.most.namespace, times, *count)
        });
        namespaces
            .chain(full(None, self.most.cluster, &self.cluster, need.values().sum()))
            .max_by_key(|full| full.until)
    }
}

/// Returns from when on a limit of `most` evictions per minute allows `count` more after those at `times`, which are sorted; `None` if it
/// allows them at once. More than `most` are allowed a minute after the last eviction.
fn allowed_from(times: &[Instant], most: usize, count: usize) -> Option<Instant> {
    let in_the_way = (times.len() + count.min(most)).checked_sub(most)?;
    // More evictions than the limit are allowed when no earlier ones count.
    let last = in_the_way.min(times.len()).checked_sub(1)?;
    Some(times[last] + MINUTE)
}

/// Inserts `at` into the sorted list `times`, `count` times.
fn insert(times: &mut Vec<Instant>, count: usize, at: Instant) {
    let place = times.partition_point(|time| *time <= at);
    times.splice(place..place, std::iter::repeat_n(at, count));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PER_NAMESPACE: EvictionLimits = EvictionLimits { namespace: Some(3), cluster: None };
    const PER_CLUSTER: EvictionLimits = EvictionLimits { namespace: None, cluster: Some(4) };

    fn need(namespaces: &[(&str, usize)]) -> NamespaceCounts {
        namespaces.iter().map(|(namespace, count)| (SmolStr::new(namespace), *count)).collect()
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// Returns limits after evictions of pods `a0`, `a1`… of namespace `a`, one every ten seconds.
    fn after(most: EvictionLimits, pods: u64) -> (Rates, Instant) {
        let (mut rates, start) = (Rates::new(most), Instant::now());
        for pod in 0..pods {
            rates.note(&"a".into(), &format!("a{pod}").into(), start + seconds(10 * pod));
        }
        (rates, start)
    }

    #[test]
    fn the_limit_allows_evictions_again_when_enough_are_a_minute_old() {
        let (mut rates, start) = after(PER_NAMESPACE, 3);
        let now = start + seconds(30);
        let full = |rates: &mut Rates, count, now| rates.tally(now).exceeded(&need(&[("a", count)]), now);
        let until =
            |second| Some(ExceededLimit { namespace: Some("a".into()), most: 3, until: start + seconds(second) });
        assert_eq!(full(&mut rates, 1, now), until(60));
        assert_eq!(full(&mut rates, 2, now), until(70));
        assert_eq!(full(&mut rates, 3, now), until(80));
        assert_eq!(full(&mut rates, 100, now), until(80), "alone, after a minute without evictions");
        assert_eq!(full(&mut rates, 1, start + seconds(60)), None);
        assert_eq!(full(&mut rates, 100, start + seconds(80)), None);
        assert_eq!(rates.tally(now).exceeded(&need(&[("b", 3)]), now), None, "another namespace has its own minute");
    }

    #[test]
    fn the_limit_of_the_cluster_counts_all_namespaces_and_the_later_of_two_limits_is_reported() {
        let (mut rates, start) = after(PER_CLUSTER, 3);
        let now = start + seconds(30);
        let tally = rates.tally(now);
        assert_eq!(tally.exceeded(&need(&[("b", 1)]), now), None);
        let until = |second| ExceededLimit { namespace: None, most: 4, until: start + seconds(second) };
        assert_eq!(tally.exceeded(&need(&[("b", 1), ("c", 1)]), now), Some(until(60)));
        let (mut both, start) = after(EvictionLimits { namespace: Some(1), cluster: Some(3) }, 3);
        let full = both.tally(now).exceeded(&need(&[("a", 1)]), start + seconds(30)).unwrap();
        assert_eq!((full.namespace.as_deref(), full.until), (Some("a"), start + seconds(80)));
    }

    #[test]
    fn the_first_waiting_plan_has_its_turn_first() {
        let (mut rates, start) = after(PER_CLUSTER, 4);
        let now = start + seconds(40);
        let mut tally = rates.tally(now);
        let first = tally.exceeded(&need(&[("b", 3)]), now).unwrap();
        assert_eq!(first.until, start + seconds(80));
        tally.reserve(&need(&[("b", 3)]), first.until);
        let second = tally.exceeded(&need(&[("c", 1)]), now).unwrap();
        assert_eq!(second.until, start + seconds(90), "sooner it would use the limit of the first");
        tally.reserve(&need(&[("c", 1)]), second.until);
        let third = tally.exceeded(&need(&[("d", 1)]), now).unwrap();
        assert_eq!(third.until, start + seconds(140), "when the first one is a minute ago");
    }

    #[test]
    fn of_a_reservation_no_more_counts_than_the_limits_allow() {
        let (mut rates, now) = after(EvictionLimits { namespace: Some(3), cluster: Some(10) }, 0);
        let mut tally = rates.tally(now);
        tally.reserve(&need(&[("a", 100)]), now);
        assert_eq!(tally.exceeded(&need(&[("b", 3)]), now), None);
        assert_eq!(tally.exceeded(&need(&[("a", 1)]), now).map(|full| full.until), Some(now + MINUTE));
    }

    #[test]
    fn a_pod_counts_once_at_its_later_time_and_not_at_all_if_its_eviction_failed() {
        let (mut rates, start) = after(PER_NAMESPACE, 3);
        rates.note(&"a".into(), &"a0".into(), start + seconds(50));
        rates.note(&"a".into(), &"a1".into(), start);
        rates.forget("a2");
        let now = start + seconds(60);
        let tally = rates.tally(now);
        assert_eq!(tally.cluster, [start + seconds(10), start + seconds(50)]);
        assert!(!rates.counts("a2") && rates.counts("a0"));
        assert_eq!((rates.recent(now), rates.recent(start + seconds(70))), (2, 1));
    }

    #[test]
    fn without_limits_nothing_is_counted_and_with_zero_no_pod_is_evicted() {
        let (rates, _) = after(EvictionLimits::default(), 3);
        assert!(!rates.counts("a0") && rates.most().zero().is_none());
        let zero = |namespace, cluster| EvictionLimits { namespace, cluster }.zero();
        assert_eq!(zero(Some(0), Some(5)), Some("victims.evictionsPerMinute.perNamespace"));
        assert_eq!(zero(None, Some(0)), Some("victims.evictionsPerMinute.perCluster"));
        let (mut rates, now) = after(EvictionLimits { namespace: None, cluster: Some(0) }, 0);
        assert!(rates.tally(now).exceeded(&need(&[("a", 1)]), now).is_some(), "not even alone");
    }
}
