//! Phrases that several messages have in common, and sentences that show names of objects only [where they may be
//! shown](Names).

pub use giveway_crds::wording::{agree, counted, part_of, pods};
pub use giveway_planner::sentence::{Names, Sentence};

/// Returns the message for a pod whose PodGroup could not be created.
pub fn cannot_be_created(group: &str, why: &str) -> String {
    format!("Pod group {group} cannot be created: {why}. The pod stays gated until it can.")
}
