//! Names of priority classes as values of labels. Classes are administrators', but a label lives as long as the process, and a
//! script may make classes without end: so many are told apart, no more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// How many classes are told apart.
const MOST: usize = 32;

/// A class as the value of a label. Made by [`Classes::label`] alone, so that none is told apart without being counted.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassLabel(pub(super) Arc<str>);

/// The classes that are told apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes(Arc<Mutex<BTreeSet<Arc<str>>>>);

impl Classes {
    /// The value for a class of this name; `exists` says whether there is one.
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
        let classes = Classes::default();
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
