//! The simulation's own count of the plans that evicted pods without effect, after which circuit breakers prevent evictions.

use crate::simulation::object::{Kind, number, text};
use crate::simulation::server::EPOCH;
use crate::simulation::world::World;
use giveway_crds::plan::Cause;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// How long the circuit breaker of a preemptor prevents evictions, and the time within which its plans are counted, in seconds, with some
/// seconds by which clocks differ.
const BREAKER: i64 = 610;

/// Returns true if a circuit breaker may prevent evictions for the preemptor of this name: three plans for it evicted pods without effect
/// within ten minutes, the last one at most ten minutes ago, or plans for five preemptors did so since the last plan that completed. No run
/// is longer than the hour for which that counts.
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
    let is_one = failed_ends
        .get(name)
        .is_some_and(|ends| ends.windows(3).any(|ends| ends[2] - ends[0] <= BREAKER && now - ends[2] <= BREAKER));
    let failed = failed_ends.values().filter(|ends| ends.last().is_some_and(|last| *last >= completed));
    is_one || failed.count() >= 5
}
