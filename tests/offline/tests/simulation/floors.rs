//! The smallest number of events in 2,000 seeds, about half of the usual number. A simulation without evictions or faults would keep every
//! promise and prove none.

use std::collections::BTreeMap;

/// The number of seeds for which the numbers hold.
pub const SEEDS: u64 = 2_000;

/// Events with their smallest number.
const LEAST: [(&str, usize); 37] = [
    ("preemptors judged", 950),
    ("plans that evict", 2_200),
    ("evictions", 4_400),
    ("pods evicted with a pod that kube-scheduler preempted", 130),
    ("pods evicted after a cancelled plan", 170),
    ("partially scheduled gangs evicted", 35),
    ("pods evicted for critical add-ons", 20),
    ("delayed plans that were replaced", 60),
    ("gangs that start beside a delayed plan", 2),
    ("plans that outlast a short outage", 20),
    ("interrupted evictions of PodGroups", 100),
    ("units under a limit", 400),
    ("evictions that count and do not wait", 35),
    ("409 (conflict)", 550),
    ("429 (overload)", 550),
    ("500, but done", 550),
    ("500, nothing done", 550),
    ("late answers", 550),
    ("late requests", 550),
    ("lost answers", 550),
    ("lost requests", 550),
    ("crashes", 650),
    ("hand-overs", 160),
    ("interrupted watches", 160),
    ("lagging watches", 330),
    ("partitions", 160),
    ("pauses", 180),
    ("pods that terminate late", 150),
    ("schedulers that do not bind", 190),
    ("switches", 190),
    ("protections", 85),
    ("changed minCounts", 130),
    ("deleted groups", 60),
    ("deleted plans", 250),
    ("node outages", 250),
    ("critical add-ons", 110),
    ("denials", 600),
];

/// Returns one message for each event that happened too seldom; none for fewer than [`SEEDS`] seeds.
pub fn too_little(counts: [&BTreeMap<&'static str, usize>; 2], seeds: u64) -> Vec<String> {
    let rounds = usize::try_from(seeds / SEEDS).unwrap_or(0);
    let happened = |what: &str| counts.iter().filter_map(|count| count.get(what)).sum::<usize>();
    let seldom = LEAST.iter().filter(|(what, least)| happened(what) < least * rounds);
    seldom.map(|(what, least)| format!("{what}: {} instead of {} or more", happened(what), least * rounds)).collect()
}
