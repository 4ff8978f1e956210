//! Warnings for the creator of a gang: what works, but not as its creator may expect. Admission and the CLI use the same
//! texts.

use super::templates::Grouped;
use super::{Kind, classes};
use crate::json::Json;
use crate::priority::Classes;

/// Returns the warnings for an owner with these templates.
pub fn warnings<'a, J: Json<'a>>(row: &Kind, owner: J, templates: &[Grouped<J>], known: &Classes) -> Vec<String> {
    classes::warning(&classes::named(row, owner, templates), known).into_iter().collect()
}
