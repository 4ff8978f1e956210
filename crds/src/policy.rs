//! How a group is scheduled, disrupted and may preempt: the enums and unions shared by [`crate::PodGroup`] and
//! the templates of [`crate::Workload`].

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the pods of a group are scheduled. Exactly one of `basic` and `gang` must be set.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.basic) || has(self.gang)", "must specify one of: `basic`, `gang`"))]
#[x_kube(validation = ("!(has(self.basic) && has(self.gang))", "exactly one of `basic`, `gang` is required, but multiple fields are set: remove one of them"))]
#[x_kube(validation = ("has(self.basic) == has(oldSelf.basic) && has(self.gang) == has(oldSelf.gang)", "the choice between `basic` and `gang` is immutable: create another group instead"))]
pub struct SchedulingPolicy {
    /// Pods are scheduled one by one, as if they were in no group. Giveway does not gate them; the group gives them one
    /// priority and one status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicPolicy>,
    /// All-or-nothing: no pod starts before `minCount` of them fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangPolicy>,
}

/// The basic policy has no options.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct BasicPolicy {}

/// Options of the gang policy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GangPolicy {
    /// How many pods must fit before any of them starts; at least 1. It may be changed later: pods that
    /// are still gated then wait for the new number.
    #[schemars(range(min = 1))]
    pub min_count: i32,
}

impl SchedulingPolicy {
    /// Creates the scheduling policy of a gang with this `minCount`.
    pub fn gang(min_count: i32) -> Self {
        Self { basic: None, gang: Some(GangPolicy { min_count }) }
    }

    /// Creates the scheduling policy of a basic group, whose pods are scheduled one by one.
    pub fn basic() -> Self {
        Self { basic: Some(BasicPolicy {}), gang: None }
    }

    /// Returns the number of pods that must be placed together: `minCount` of a gang, `None` for a basic group.
    pub fn min_count(&self) -> Option<usize> {
        self.gang.as_ref().map(|g| usize::try_from(g.min_count).unwrap_or(1).max(1))
    }
}

/// What is disrupted together when a group is a victim (KEP-5710, "Preemption unit").
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum DisruptionMode {
    /// Every pod of the group can be evicted on its own.
    #[default]
    Pod,
    /// The group is evicted whole or not at all.
    PodGroup,
}

/// For how many members of a gang pods of lower priority are evicted. The field is an open enum: values may be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptFor {
    /// For the members that `minCount` needs. Further members use free capacity only.
    #[default]
    MinCount,
    /// For all pending members, as KEP-5710 does (preemption algorithm, step 4).
    AllMembers,
}

impl PreemptFor {
    /// Parses `spec.preemptFor` of a PodGroup. Without a value, and for one that this version does not know, the result is `MinCount`,
    /// which evicts fewer pods.
    pub fn of(text: Option<&str>) -> Self {
        if text == Some("AllMembers") { Self::AllMembers } else { Self::MinCount }
    }
}

/// Whether pods of lower priority may be evicted for a group or pod. On a group it is filled from the class by
/// admission: leave it out. Immutable.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum PreemptionPolicy {
    /// Pods of lower priority may be evicted for it.
    PreemptLowerPriority,
    /// No pod is evicted for it: it stays pending until it fits.
    Never,
}

impl PreemptionPolicy {
    /// Returns the policy as the field `preemptionPolicy` has it: `Never` or `PreemptLowerPriority`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreemptLowerPriority => "PreemptLowerPriority",
            Self::Never => "Never",
        }
    }

    /// Parses a preemption policy, `Never` or `PreemptLowerPriority`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "PreemptLowerPriority" => Some(Self::PreemptLowerPriority),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }
}

impl std::fmt::Display for PreemptionPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_of_preempt_for_evicts_for_min_count_only() {
        let read = [None, Some("MinCount"), Some("AllMembers"), Some("Later")].map(PreemptFor::of);
        assert_eq!(read, [PreemptFor::MinCount, PreemptFor::MinCount, PreemptFor::AllMembers, PreemptFor::MinCount]);
    }
}
