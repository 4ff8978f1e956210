//! Maps by namespace and name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Objects by namespace and name.
pub type Namespaced<T> = BTreeMap<String, BTreeMap<Arc<str>, T>>;

/// Names of objects, by namespace.
pub type NamespacedNames = BTreeMap<String, BTreeSet<Arc<str>>>;

/// Stores `facts`, the fields of the object `namespace/name` that rules read, and replaces what was stored for it; does
/// nothing without a namespace or name.
pub fn put<T>(map: &mut Namespaced<T>, namespace: Option<&str>, name: Option<&str>, facts: T) {
    if let (Some(namespace), Some(name)) = (namespace, name) {
        map.entry(namespace.to_owned()).or_default().insert(name.into(), facts);
    }
}

/// Removes what is stored for the object `namespace/name`, and the namespace if nothing is left in it; does nothing
/// without a namespace or name.
pub fn take<T>(map: &mut Namespaced<T>, namespace: Option<&str>, name: Option<&str>) {
    if let (Some(namespace), Some(name)) = (namespace, name)
        && let Some(objects) = map.get_mut(namespace)
    {
        objects.remove(name);
        if objects.is_empty() {
            map.remove(namespace);
        }
    }
}

/// Returns the names of all objects in the map.
pub fn names_of<T>(map: &Namespaced<T>) -> NamespacedNames {
    map.iter().map(|(namespace, objects)| (namespace.clone(), objects.keys().cloned().collect())).collect()
}
