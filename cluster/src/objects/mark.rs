//! How a field of the [table](super::kinds) is written to an anonymized snapshot.

/// How a field is written. A text without a mark is not written; numbers and truth values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// As it is, with everything in it: `=`. For keys, times, quantities, and words that the API server validates.
    Verbatim,
    /// If it is a number or a word that Giveway reads, and otherwise as another word: `~`. For texts that any user may write.
    Word,
    /// As another name of a namespace.
    Namespace,
    /// As another name of a node.
    Node,
    /// As another name of a pod or group.
    Unit,
    /// As another name of a pod or group; that of a native group begins with its API group.
    Group,
    /// As another name of an owner of pods.
    Owner,
    /// A kind of an owner, or its `apiVersion`: as another one, if Giveway does not know it.
    OwnerKind,
    /// As another name of a PriorityClass, if it is not one of the system.
    Class,
    /// As another name of a budget.
    Budget,
    /// As another name of a Workload.
    Workload,
    /// As another name of a scheduler, if it is not the default scheduler.
    Scheduler,
    /// As another name of a scheduling gate, if it is not Giveway's.
    Gate,
    /// As another address, if it is not a wildcard.
    Address,
    /// As another value.
    Value,
    /// As another UID.
    Uid,
    /// The value of a taint or toleration: as another UID if it is that of a preemptor, and otherwise as another value.
    Taint,
    /// A map of labels: their values as other ones.
    Labels,
    /// A list of rules of a selector: their values as those of the labels.
    Rules,
    /// A key and a value of a label: the value as that of the label.
    Domain,
    /// A map by name of pods: their names as other ones.
    Pods,
    /// Namespaces, separated by commas: as other ones.
    Namespaces,
    /// A label selector in JSON: its values as those of the labels.
    Selector,
    /// The configuration of kube-scheduler in JSON: each of its fields as its own row of the table says.
    SchedulerConfig,
}

impl Mark {
    /// Returns how a field with `@word` after its name in the table of kinds is written to an anonymized snapshot; `None` for an unknown
    /// word.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "namespace" => Self::Namespace,
            "node" => Self::Node,
            "unit" => Self::Unit,
            "group" => Self::Group,
            "owner" => Self::Owner,
            "owner-kind" => Self::OwnerKind,
            "class" => Self::Class,
            "budget" => Self::Budget,
            "workload" => Self::Workload,
            "scheduler" => Self::Scheduler,
            "gate" => Self::Gate,
            "address" => Self::Address,
            "value" => Self::Value,
            "uid" => Self::Uid,
            "taint" => Self::Taint,
            "labels" => Self::Labels,
            "rules" => Self::Rules,
            "domain" => Self::Domain,
            "pods" => Self::Pods,
            "namespaces" => Self::Namespaces,
            "selector" => Self::Selector,
            "scheduler-config" => Self::SchedulerConfig,
            _ => return None,
        })
    }
}
