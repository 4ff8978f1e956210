//! Phrases that several messages have in common, and sentences that show names of objects only [where they may be
//! shown](Names).

pub use giveway_planner::sentence::{Names, Sentence};

/// `1 pod`, `2 pods`.
pub fn pods<N: TryInto<i64>>(count: N) -> String {
    match count.try_into().unwrap_or(i64::MAX) {
        1 => "1 pod".to_owned(),
        n => format!("{n} pods"),
    }
}
