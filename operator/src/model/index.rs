//! An index: values by something that they concern. A key without values is not kept.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// A map from keys to sets of values: a key that has no value is not in it.
#[derive(Debug)]
pub struct Index<K, V>(BTreeMap<K, BTreeSet<V>>);

impl<K, V> Default for Index<K, V> {
    /// Returns an index without keys.
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V: Ord> Index<K, V> {
    /// Adds a value to those of a key.
    pub fn insert(&mut self, key: K, value: V) {
        self.0.entry(key).or_default().insert(value);
    }

    /// Removes a value from those of a key, if it is there; a key without values is removed, too.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q, value: &V)
    where
        K: Borrow<Q>,
    {
        if let Some(values) = self.0.get_mut(key) {
            values.remove(value);
            if values.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// Returns the values of a key in their order; none for an unknown key.
    pub fn of<Q: Ord + ?Sized>(&self, key: &Q) -> impl Iterator<Item = &V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }

    /// Returns every key with its values, which are never empty.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &BTreeSet<V>)> {
        self.0.iter()
    }

    /// Returns true if no key has a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
