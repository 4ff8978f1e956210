//! Words that several sentences have in common, and those that name objects, by [who may know their names](Names).

pub use giveway_planner::sentence::{Names, Sentence};

/// `1 pod`, `2 pods`.
pub fn pods<N: TryInto<i64>>(count: N) -> String {
    match count.try_into().unwrap_or(i64::MAX) {
        1 => "1 pod".to_owned(),
        n => format!("{n} pods"),
    }
}
