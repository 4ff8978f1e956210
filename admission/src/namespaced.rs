//! Maps by namespace and name.

use std::collections::BTreeMap;

/// Objects by namespace and name.
pub type Namespaced<T> = BTreeMap<String, BTreeMap<String, T>>;

/// Adds or replaces the object `namespace/name`; does nothing without a namespace or name.
pub fn put<T>(map: &mut Namespaced<T>, namespace: Option<&str>, name: Option<&str>, facts: T) {
    if let (Some(namespace), Some(name)) = (namespace, name) {
        map.entry(namespace.to_owned()).or_default().insert(name.to_owned(), facts);
    }
}

/// Removes the object `namespace/name`, and the namespace with the last object in it; does nothing without a namespace
/// or name.
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
