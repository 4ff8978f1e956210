//! A PodGroup: one priority, one policy, one unit.

use super::error::ModelError;
use super::pod::{Pod, nanoseconds};
use giveway_crds::ObjectKey;
use giveway_crds::PodGroup;
use giveway_crds::finished::FinishedMembers;
use giveway_crds::lending;
use giveway_crds::native::{self, NativeGroup};
use giveway_crds::policy::{DisruptionMode, PreemptFor, PreemptionPolicy};
use giveway_crds::priority::Classes;
use smol_str::SmolStr;

/// A PodGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its key.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// Its `metadata.generation`.
    pub generation: Option<i64>,
    /// Pods that must be placed together; `None` for a basic group.
    pub min_count: Option<usize>,
    /// Key of the node label of which all its pods have one value; `None` where they may be anywhere.
    pub topology: Option<SmolStr>,
    /// What is evicted together.
    pub mode: DisruptionMode,
    /// For how many members of a gang other pods are evicted.
    pub preempt_for: PreemptFor,
    /// Its priority. Meaningless while [`Group::class_problem`] is set: the pods' own priorities count then.
    pub priority: i32,
    /// Whether it may preempt.
    pub policy: PreemptionPolicy,
    /// The class that it names.
    pub class_name: Option<String>,
    /// Set when `spec.priority` is absent and the class is unknown.
    pub class_problem: Option<String>,
    /// When it was created, in ns since the epoch.
    pub created: Option<i64>,
    /// Seconds between a plan and its first eviction.
    pub delay_seconds: i32,
    /// True if it has a `deletionTimestamp`.
    pub deleting: bool,
    /// The workload and template it was made from.
    pub workload: Option<(String, String)>,
    /// Whether it is a group of Kubernetes itself, which kube-scheduler schedules and preempts for.
    pub native: bool,
    /// The members that its status remembers as finished.
    pub(super) finished: FinishedMembers,
    stated_priority: Option<i32>,
    stated_policy: Option<PreemptionPolicy>,
}

impl Group {
    /// Reads a PodGroup of Giveway; priority and policy that its spec does not state come from the PriorityClasses.
    ///
    /// # Errors
    /// The group has no name, or its scheduling policy is not valid.
    pub(super) fn from_object(group: &PodGroup, classes: &Classes) -> Result<Self, ModelError> {
        let metadata = &group.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let Some(name) = metadata.name.clone() else {
            return Err(ModelError::nameless("PodGroup", namespace, "metadata.name"));
        };
        let key = ObjectKey::new(namespace, name);
        let (spec, policy) = (&group.spec, &group.spec.scheduling_policy);
        if policy.basic.is_some() == policy.gang.is_some() {
            let problem = "exactly one of `basic`, `gang` is required".to_owned();
            let (field, value) = ("spec.schedulingPolicy".to_owned(), if policy.basic.is_some() { "both" } else { "" });
            return Err(ModelError {
                kind: "PodGroup",
                object: key.to_string(),
                field,
                value: value.to_owned(),
                problem,
            });
        }
        if let Some(gang) = policy.gang.as_ref().filter(|gang| gang.min_count < 1) {
            let problem = "must be greater than or equal to 1".to_owned();
            let (field, value) = ("spec.schedulingPolicy.gang.minCount".to_owned(), gang.min_count.to_string());
            return Err(ModelError { kind: "PodGroup", object: key.to_string(), field, value, problem });
        }
        let mut read = Self {
            key,
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation,
            min_count: policy.min_count(),
            topology: spec.topology_key().map(SmolStr::new),
            mode: spec.disruption_mode,
            preempt_for: spec.preempt_for(),
            priority: 0,
            policy: PreemptionPolicy::Never,
            class_name: spec.priority_class_name.clone().filter(|name| !name.is_empty()),
            class_problem: None,
            created: metadata.creation_timestamp.as_ref().and_then(nanoseconds),
            delay_seconds: spec.preemption_delay_seconds.unwrap_or(0).max(0),
            deleting: metadata.deletion_timestamp.is_some(),
            workload: spec
                .pod_group_template_ref
                .as_ref()
                .map(|r| (r.workload.workload_name.clone(), r.workload.pod_group_template_name.clone())),
            native: false,
            finished: group.status.as_ref().map(|status| status.finished.clone()).unwrap_or_default(),
            stated_priority: spec.priority,
            stated_policy: spec.preemption_policy,
        };
        read.resolve(classes);
        Ok(read)
    }

    /// Reads a native PodGroup (of Kubernetes itself) as a unit of eviction. Giveway does not preempt for native groups, and does not treat
    /// their members as a gang.
    ///
    /// # Errors
    /// The group has no name.
    pub(super) fn from_native(group: &NativeGroup, classes: &Classes) -> Result<Self, ModelError> {
        let metadata = &group.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let Some(name) = &metadata.name else {
            return Err(ModelError::nameless("PodGroup", namespace, "metadata.name"));
        };
        let mut read = Self {
            key: ObjectKey::new(namespace, native::key_name(name)),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation,
            min_count: None,
            topology: None,
            mode: group.mode(),
            preempt_for: PreemptFor::default(),
            priority: 0,
            policy: PreemptionPolicy::Never,
            class_name: group.class_name().map(str::to_owned),
            class_problem: None,
            created: metadata.creation_timestamp.as_ref().and_then(nanoseconds),
            delay_seconds: 0,
            deleting: metadata.deletion_timestamp.is_some(),
            workload: None,
            native: true,
            finished: FinishedMembers::default(),
            stated_priority: group.priority(),
            stated_policy: Some(PreemptionPolicy::Never),
        };
        read.resolve(classes);
        Ok(read)
    }

    /// Returns the priority of the group; `None` while its PriorityClass is unknown and its spec states no priority.
    pub fn known_priority(&self) -> Option<i32> {
        self.class_problem.is_none().then_some(self.priority)
    }

    /// Returns the effective priority of a member of this group: the lower one of the pod's own and the group's; the group's if the group
    /// is native, as in kube-scheduler; the pod's own while the group's is unknown.
    pub fn counts_for(&self, pod: &Pod) -> i32 {
        match self.known_priority() {
            None => pod.priority,
            Some(priority) if self.native => priority,
            Some(priority) => lending::counting(pod.priority, priority),
        }
    }

    /// Returns true if the pod's own priority is lower than this group's; false for a native group, and while the group's priority is
    /// unknown.
    pub fn is_above(&self, pod: &Pod) -> bool {
        !self.native && self.known_priority().is_some_and(|priority| pod.priority < priority)
    }

    /// Sets priority and policy from the PriorityClasses where the spec of the group does not state them. Returns true if anything changed.
    pub(super) fn resolve(&mut self, classes: &Classes) -> bool {
        let (priority, policy, problem) = match (self.stated_priority, classes.resolve(self.class_name.as_deref())) {
            (Some(priority), Ok(class)) => (priority, self.stated_policy.unwrap_or(class.policy), None),
            (Some(priority), Err(_)) => {
                (priority, self.stated_policy.unwrap_or(PreemptionPolicy::PreemptLowerPriority), None)
            }
            (None, Ok(class)) => (class.priority, self.stated_policy.unwrap_or(class.policy), None),
            (None, Err(error)) => (0, PreemptionPolicy::Never, Some(error.to_string())),
        };
        let changed = (self.priority, self.policy) != (priority, policy) || self.class_problem != problem;
        (self.priority, self.policy, self.class_problem) = (priority, policy, problem);
        changed
    }
}
