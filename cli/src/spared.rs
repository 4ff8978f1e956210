//! Who stays beside a plan, as it is printed.

use crate::answer::Answer;
use giveway_planner::Bystander;
use serde::Serialize;
use std::collections::BTreeSet;

/// A unit that stays.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SparedLine {
    /// `Pod` or `PodGroup`.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) priority: i32,
    pub(crate) why: String,
}

impl From<&Bystander> for SparedLine {
    fn from(spared: &Bystander) -> Self {
        Self {
            kind: spared.kind.as_str(),
            namespace: spared.key.namespace.to_string(),
            name: spared.key.name.to_string(),
            priority: spared.priority,
            why: spared.why.clone(),
        }
    }
}

impl SparedLine {
    /// `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
    pub(crate) fn reference(&self) -> String {
        reference(self.kind, &self.namespace, &self.name)
    }
}

/// `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
pub(crate) fn reference(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.to_lowercase())
}

/// Who stays whatever is decided: everybody whom a decision spares and none evicts, in the words of the first one.
pub(crate) fn by_all(decisions: &[Answer]) -> Vec<SparedLine> {
    let victims = decisions.iter().flat_map(|part| &part.victims);
    let mut seen: BTreeSet<_> = victims.map(|victim| (victim.kind, &*victim.namespace, &*victim.name)).collect();
    let spared = decisions.iter().flat_map(|part| &part.spared);
    spared.filter(|unit| seen.insert((unit.kind, &*unit.namespace, &*unit.name))).cloned().collect()
}
