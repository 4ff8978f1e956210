//! Pod templates of an owner, and which of them make their pods members of a group: those that state it themselves, and
//! the others if the owner asks for a gang.

use super::{GangSettings, OwnerKind, settings};
use crate::json::{FieldPlace, Json, MOST, Text, places};
use crate::keys::{ANNOTATION_MIN_COUNT, LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD};

/// A pod template whose pods are members of a group.
#[derive(Clone, Debug)]
pub struct Grouped<J> {
    /// Place of its metadata.
    pub place: FieldPlace<J>,
    /// True if Giveway creates the group for the owner, false if the template names a group.
    pub is_gang: bool,
    /// Number of pods that start together, if the owner or the template states it.
    pub min_count: Option<i32>,
}

/// Returns those pod templates of an owner of the kind `row` whose pods are members of a group: at most [`MOST`]. `wanted` is
/// true if templates without a group label become part of the owner's gang; `asked` has the settings of that gang.
pub fn grouped<'a, J: Json<'a>>(row: &OwnerKind, owner: J, wanted: bool, asked: &GangSettings) -> Vec<Grouped<J>> {
    let places = row.templates.iter().flat_map(|pattern| places(owner, pattern)).take(MOST);
    places.filter_map(|place| group_of(place, wanted, asked)).collect()
}

/// Returns the pod template whose metadata is at `place` if its pods are members of a group: it names a group, or is part of
/// the owner's gang; otherwise `None`. `wanted` is true if a template without the gang label is part of it.
fn group_of<'a, J: Json<'a>>(place: FieldPlace<J>, wanted: bool, asked: &GangSettings) -> Option<Grouped<J>> {
    let text = |map: &str, key: &str| place.at(&[map, key])?.read::<Text<'a>>();
    let is_gang = ![LABEL_POD_GROUP, LABEL_WORKLOAD].iter().any(|key| text("labels", key).is_some());
    if is_gang && !text("labels", LABEL_GANG).map_or(wanted, |value| &*value == "true") {
        return None;
    }
    let stated = text("annotations", ANNOTATION_MIN_COUNT);
    let min_count = asked.min_count.or_else(|| settings::min_count(stated.as_deref()).ok().flatten());
    Some(Grouped { place, is_gang, min_count })
}
