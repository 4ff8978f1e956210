//! Kind of a unit of eviction.

/// Kind of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitKind {
    /// A pod on its own, also one of a group in mode `Pod`.
    Pod,
    /// A whole group in mode `PodGroup`.
    PodGroup,
}

impl UnitKind {
    /// Returns the kind of the Kubernetes object: `Pod` or `PodGroup`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::PodGroup => "PodGroup",
        }
    }
}
