//! The simulation's own count of the plans that evicted pods without effect, after which circuit breakers prevent evictions.

use crate::simulation::object::{Kind, number, text};
use crate::simulation::server::EPOCH;
use crate::simulation::world::World;
use giveway_crds::plan::Cause;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The time within which three plans open the circuit breaker of a preemptor, and for which it prevents evictions at first, in seconds.
const BREAKER: i64 = 600;
/// The longest time for which it prevents evictions, in seconds.
const LONGEST: i64 = 3_600;
/// Number of plans for a preemptor that open its circuit breaker, however slowly they fail.
const SLOW: usize = 6;
/// Seconds by which clocks differ.
const CLOCKS: i64 = 10;

/// Returns true if a circuit breaker may prevent evictions for the preemptor of this name: three plans for it evicted pods without effect
/// within ten minutes, or six at all, and the time has not passed that doubles with each further plan; or plans for five preemptors did so
/// since the last plan that completed. All preemptors are in one namespace, and no run is longer than the hour for which that counts.
pub fn is_stopped_by_breaker(world: &World, name: &str) -> bool {
    let now = EPOCH + i64::try_from(world.now / 1_000).expect("a small number");
    let mut failed_ends: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut completed = i64::MIN;
    for plan in world.server.list(Kind::Preemption) {
        if text(plan, "/spec/cause") != Cause::Preemptor.as_str() || number(plan, "/status/evicted") == 0 {
            continue;
        }
        let ended = text(plan, "/status/finishedAt").parse::<Timestamp>().map_or(0, Timestamp::as_second);
        match text(plan, "/status/state") {
            "Completed" => completed = completed.max(ended),
            "Cancelled" | "Failed" => failed_ends.entry(text(plan, "/spec/preemptor/name")).or_default().push(ended),
            _ => {}
        }
    }
    failed_ends.values_mut().for_each(|ends| ends.sort_unstable());
    let is_one = failed_ends.get(name).is_some_and(|ends| is_open(ends, now));
    let failed = failed_ends.values().filter(|ends| ends.last().is_some_and(|last| *last >= completed));
    is_one || failed.count() >= 5
}

/// Returns true if the circuit breaker of a preemptor may be open after plans that ended at these times, in order.
fn is_open(ends: &[i64], now: i64) -> bool {
    let is_fast = ends.windows(3).any(|ends| ends[2] - ends[0] <= BREAKER + CLOCKS);
    let (Some(last), true) = (ends.last(), is_fast || ends.len() >= SLOW) else { return false };
    let further = ends.len().saturating_sub(3).min(16);
    now - last <= (BREAKER << further).min(LONGEST) + CLOCKS
}

#[test]
fn the_breaker_of_a_preemptor_may_be_open_for_twice_the_time_after_each_further_plan() {
    assert!(is_open(&[0, 1, 600], 1_200) && !is_open(&[0, 1, 600], 1_211));
    assert!(is_open(&[0, 1, 2, 700], 1_900) && !is_open(&[0, 1, 2, 700], 1_911));
    assert!(!is_open(&[0, 1], 2) && !is_open(&[0, 500, 1_000, 1_500, 2_000], 2_001));
    assert!(is_open(&[0, 500, 1_000, 1_500, 2_000, 2_500], 6_100));
}
