//! Checks a decision again, against the cluster as it is now (design, section 5, "Delayed" and "Release").

use crate::model::Cluster;
use crate::plan::{Context, Placement};
use std::collections::BTreeSet;

/// Whether the placements fit together once the pods with the UIDs in `gone` are gone.
///
/// # Errors
/// A sentence that says which placement does not fit, and why.
pub fn still_fits(
    _cluster: &Cluster,
    _placements: &[Placement],
    _priority: i32,
    _context: &Context,
    _gone: &BTreeSet<String>,
) -> Result<(), String> {
    Ok(())
}
