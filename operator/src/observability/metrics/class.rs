//! Names of PriorityClasses as label values. Administrators create PriorityClasses, but a label value exists until the
//! process ends, and a script may create any number of classes. So the number of distinct label values is limited.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of classes with a label value of their own; further ones are counted as `other`.
const MOST: usize = 32;

/// A PriorityClass as a label value. Only [`KnownClasses::label`] creates it, so that the limit holds for every value.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassLabel(Arc<str>);

impl ClassLabel {
    /// Returns the label value: the name of the PriorityClass, `none` or `other`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The classes that have a label value of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownClasses(Arc<Mutex<BTreeSet<Arc<str>>>>);

impl KnownClasses {
    /// Returns the label value for a PriorityClass: its name, `none` if `name` is `None`, and `other` if it does not exist or if [`MOST`]
    /// other classes have a value of their own already. `exists` returns true if there is a PriorityClass of this name.
    pub(super) fn label(&self, name: Option<&str>, exists: impl Fn(&str) -> bool) -> ClassLabel {
        let Some(name) = name else { return ClassLabel("none".into()) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(name) {
            return ClassLabel(Arc::clone(known));
        }
        if known.len() >= MOST || !exists(name) {
            return ClassLabel("other".into());
        }
        let name: Arc<str> = name.into();
        known.insert(Arc::clone(&name));
        ClassLabel(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_does_not_exist_is_no_value_and_neither_is_one_too_many() {
        let classes = KnownClasses::default();
        let label = |name: &str, exists| classes.label(Some(name), |_| exists).0.to_string();
        assert_eq!(label("made-up-by-a-tenant", false), "other");
        for number in 0..MOST {
            assert_eq!(label(&format!("class-{number}"), true), format!("class-{number}"));
        }
        assert_eq!(label("one-more", true), "other");
        assert_eq!(label("class-7", true), "class-7", "as before");
        assert_eq!(&*classes.label(None, |_| true).0, "none");
    }
}
