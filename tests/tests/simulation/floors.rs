//! The least that has to happen in 2,000 seeds, about half of what is usual: a simulation in which nobody is evicted, or nothing goes
//! wrong, keeps every promise and proves none.

use std::collections::BTreeMap;

/// So many seeds this is about.
pub const SEEDS: u64 = 2_000;

/// What has to happen so often.
const LEAST: [(&str, usize); 26] = [
    ("preemptors judged", 950),
    ("plans that evict", 2_200),
    ("evictions", 4_400),
    ("pods of cascades", 80),
    ("gangs taken down by half", 30),
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
    ("pods that do not go in time", 150),
    ("schedulers that do not bind", 190),
    ("switches", 190),
    ("protections", 85),
    ("changed minCounts", 130),
    ("deleted groups", 60),
    ("deleted plans", 250),
];

/// What happened too seldom in so many seeds, as a sentence each; nothing is said of fewer than [`SEEDS`].
pub fn too_little(counts: [&BTreeMap<&'static str, usize>; 2], seeds: u64) -> Vec<String> {
    let rounds = usize::try_from(seeds / SEEDS).unwrap_or(0);
    let happened = |what: &str| counts.iter().filter_map(|count| count.get(what)).sum::<usize>();
    let seldom = LEAST.iter().filter(|(what, least)| happened(what) < least * rounds);
    seldom.map(|(what, least)| format!("{what}: {} instead of {} or more", happened(what), least * rounds)).collect()
}
