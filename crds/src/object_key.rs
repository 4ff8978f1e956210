//! Namespace and name: the identity of an object in messages, and the last tie-break of every order.

use smol_str::SmolStr;
use std::fmt;

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: SmolStr,
    /// The name.
    pub name: SmolStr,
}

impl ObjectKey {
    /// Creates the key of the object `namespace/name`.
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { namespace: SmolStr::new(namespace), name: SmolStr::new(name) }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
