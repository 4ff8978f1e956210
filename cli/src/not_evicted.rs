//! Units of lower priority that a plan does not evict, as they are printed.

use giveway_planner::Bystander;
use serde::Serialize;

/// A pod or PodGroup of lower priority on a node of a placement that a plan does not evict, with the reason.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NotEvicted {
    /// `Pod` or `PodGroup`.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) priority: i32,
    pub(crate) why: String,
}

impl From<&Bystander> for NotEvicted {
    /// Copies a pod or PodGroup that the planner does not evict into the form in which it is printed.
    fn from(unit: &Bystander) -> Self {
        Self {
            kind: unit.kind.as_str(),
            namespace: unit.key.namespace.to_string(),
            name: unit.key.name.to_string(),
            priority: unit.priority,
            why: unit.why.clone(),
        }
    }
}

impl NotEvicted {
    /// Returns the pod or PodGroup as `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
    pub(crate) fn reference(&self) -> String {
        reference(self.kind, &self.namespace, &self.name)
    }
}

/// Returns an object as `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`; `kind` is `PodGroup` or `Pod`.
pub(crate) fn reference(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.to_lowercase())
}
