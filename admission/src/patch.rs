//! A patch in the making, and what it makes of an object.
//!
//! Rules say what is to be different, from what they have read; nothing is compared afterwards. Every operation can be
//! applied to the object that was read: a map that is missing is added before something is put into it, and only what
//! is there is removed.

use crate::object::{Map, Metadata};
use crate::verdict::{Denial, VerdictOutcome};
use crate::wording::requests;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation};
use serde_json::Value;

/// The operations of a patch, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes(Vec<PatchOperation>);

impl Changes {
    /// Adds to the patch that the field at `path` gets `value`; a path that ends with `-` appends it to the list, and one that
    /// ends with an index inserts it there. The map or list that contains the field must exist when the patch is applied.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        let path = PointerBuf::from_tokens(path.iter().copied());
        self.0.push(PatchOperation::Add(AddOperation { path, value: value.into() }));
    }

    /// Adds to the patch that the field or list item at `path` is removed. It must exist when the patch is applied.
    pub fn remove(&mut self, path: &[&str]) {
        let path = PointerBuf::from_tokens(path.iter().copied());
        self.0.push(PatchOperation::Remove(RemoveOperation { path }));
    }

    /// Adds to the patch that an empty map is created at `path`, unless the object has one (`is_there` is true) or the patch
    /// creates it already.
    pub fn map_at(&mut self, path: &[&str], is_there: bool) {
        let pointer = PointerBuf::from_tokens(path.iter().copied());
        if !is_there && !self.0.iter().any(|operation| operation.path() == &*pointer) {
            self.set(path, serde_json::Map::new());
        }
    }

    /// Adds to the patch that the object with this metadata gets a label, unless it already has the label with this value.
    pub fn label(&mut self, metadata: &Map<Metadata<'_>>, key: &str, value: &str) {
        if metadata.label(key) != Some(value) {
            self.map_at(&["metadata"], metadata.is_there());
            self.map_at(&["metadata", "labels"], metadata.labels.is_some());
            self.set(&["metadata", "labels", key], value);
        }
    }

    /// Adds to the patch that the object with this metadata gets an annotation, unless it already has the annotation with
    /// this value.
    pub fn annotation(&mut self, metadata: &Map<Metadata<'_>>, key: &str, value: &str) {
        if metadata.annotation(key) != Some(value) {
            self.map_at(&["metadata"], metadata.is_there());
            self.map_at(&["metadata", "annotations"], metadata.annotations.is_some());
            self.set(&["metadata", "annotations", key], value);
        }
    }

    /// Returns the JSON patch with all changes; `None` if there are none.
    pub fn finish(self) -> Option<Patch> {
        (!self.0.is_empty()).then_some(Patch(self.0))
    }
}

impl VerdictOutcome {
    /// Applies the patch of this outcome, if it has one, to `object`, the object that was judged, as the API server does.
    ///
    /// # Errors
    /// The outcome is a rejection, or the patch does not fit the object (500).
    pub fn apply_to(self, object: &mut Value) -> Result<(), Denial> {
        match self {
            Self::Allowed => Ok(()),
            Self::Changed(patch) => json_patch::patch(object, &patch).map_err(requests::patch_not_applied),
            Self::Refused(refusal) => Err(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::{json, value::RawValue};

    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow, default)]
        metadata: Map<Metadata<'a>>,
    }

    /// Returns the object after these labels and annotations were set.
    fn labelled(mut object: Value) -> (Value, usize) {
        let raw = RawValue::from_string(object.to_string()).unwrap();
        let Object { metadata } = crate::object::read("Pod", &raw).unwrap();
        let mut changes = Changes::default();
        changes.label(&metadata, "scheduling.giveway.dev/a~b", "1");
        changes.annotation(&metadata, "scheduling.giveway.dev/c", "2");
        changes.annotation(&metadata, "scheduling.giveway.dev/d", "3");
        let patch = changes.finish().unwrap_or_default();
        json_patch::patch(&mut object, &patch).unwrap();
        (object, patch.0.len())
    }

    #[test]
    fn the_parent_of_a_field_is_added_only_if_it_is_missing_or_null() {
        let metadata = json!({
            "labels": {"scheduling.giveway.dev/a~b": "1"},
            "annotations": {"scheduling.giveway.dev/c": "2", "scheduling.giveway.dev/d": "3"},
        });
        for (object, operations) in [
            (json!({}), 6),
            (json!({"metadata": {}}), 5),
            (json!({"metadata": {"labels": null, "annotations": null}}), 5),
            (json!({"metadata": {"labels": {}, "annotations": {}}}), 3),
            (json!({"metadata": {"labels": {}, "annotations": {"scheduling.giveway.dev/c": "old"}}}), 3),
            (json!({"metadata": metadata}), 0),
        ] {
            assert_eq!(labelled(object.clone()), (json!({"metadata": metadata}), operations), "{object}");
        }
    }
}
