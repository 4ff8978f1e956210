//! Computes how the annotations that a pod has differ from those that its PriorityClass gives.
//! [`backfill`](crate::gangs::backfill) documents the rules.

use giveway_crds::keys::{ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Class;
use giveway_crds::wording::events::{self, CorrectedPod};
use giveway_planner::model::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

/// When the relevant parts of a PriorityClass were written, in seconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// When the class was created.
    pub created: Option<i64>,
    /// When the field manager that owns the threshold annotation last wrote the class.
    pub threshold: Option<i64>,
}

impl Since {
    /// Reads from a PriorityClass when it was created, and when its threshold annotation was last written.
    pub fn of(class: &PriorityClass) -> Self {
        let seconds = |time: &Time| time.0.as_second();
        let path = format!("/f:metadata/f:annotations/f:{}", ANNOTATION_THRESHOLD.replace('/', "~1"));
        let entries = class.metadata.managed_fields.iter().flatten();
        let owns = |fields: &serde_json::Value| fields.pointer(&path).is_some();
        let writers = entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| owns(&fields.0)));
        Self {
            created: class.metadata.creation_timestamp.as_ref().map(seconds),
            threshold: writers.filter_map(|entry| entry.time.as_ref()).map(seconds).max(),
        }
    }
}

/// The change of one annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotationChange {
    /// Admission did not add the annotation: it gets this value.
    Add(String),
    /// The annotation has a value that the class did not give: it gets this value.
    Replace(String),
    /// Nothing gives the pod this annotation: it is removed.
    Remove,
}

impl AnnotationChange {
    /// Returns the value that the annotation gets, or `None` if it is removed.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Add(value) | Self::Replace(value) => Some(value),
            Self::Remove => None,
        }
    }

    /// Returns true if the change is still to be made on a pod whose annotation has the value `current`; `None` if the pod does not have
    /// the annotation. `Add` changes no existing value.
    pub fn is_due(&self, current: Option<&str>) -> bool {
        match self {
            Self::Add(_) => current.is_none(),
            Self::Replace(value) => current != Some(value.as_str()),
            Self::Remove => current.is_some(),
        }
    }
}

/// The changes that give a pod the annotations of its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The class of the pod; `None` if the pod names none.
    pub class: Option<String>,
    /// The changes, by annotation.
    pub changes: BTreeMap<String, AnnotationChange>,
}

impl Correction {
    /// Returns the changes that give a pod the annotations of its PriorityClass; `None` if it needs none, or may have been created before
    /// the class got its present content. `since` is when the class got it.
    pub fn of(pod: &Pod, class: &Class, since: Since) -> Option<Self> {
        if pod.mirror || !pod.live() {
            return None;
        }
        let created = pod.created? / 1_000_000_000;
        // The times have a precision of one second. A value is replaced only if the pod is certainly younger than what the class gives.
        let not_older = |than: Option<i64>| than.is_some_and(|than| created >= than);
        let younger = |than: Option<i64>| than.is_some_and(|than| created > than);
        let mut changes = BTreeMap::new();
        let threshold_since = since.created.max(since.threshold).filter(|_| since.threshold.is_some());
        let threshold = class.pod_threshold().map(str::to_owned);
        let change = match (pod.threshold, threshold) {
            (None, Some(given)) if not_older(threshold_since) => Some(AnnotationChange::Add(given)),
            (Some(has), Some(given)) if given.parse::<i32>() != Ok(has) && younger(threshold_since) => {
                Some(AnnotationChange::Replace(given))
            }
            _ => None,
        };
        changes.extend(change.map(|change| (ANNOTATION_THRESHOLD.to_owned(), change)));
        let name = |policy: PreemptionPolicy| policy.as_str().to_owned();
        let change = match (pod.annotation_policy, class.managed_policy) {
            (None, Some(given)) if pod.spec_policy == PreemptionPolicy::Never && not_older(since.created) => {
                Some(AnnotationChange::Add(name(given)))
            }
            (Some(has), Some(given)) if has != given && younger(since.created) => {
                Some(AnnotationChange::Replace(name(given)))
            }
            (Some(_), None) if younger(since.created) => Some(AnnotationChange::Remove),
            _ => None,
        };
        changes.extend(change.map(|change| (ANNOTATION_PREEMPTION_POLICY.to_owned(), change)));
        (!changes.is_empty()).then(|| Self { class: Some(class.name.clone()), changes })
    }

    /// Returns the changes that remove the annotations of a class from a pod that names no PriorityClass; `None` if it has none of them.
    pub fn without_class(pod: &Pod) -> Option<Self> {
        if pod.mirror || !pod.live() {
            return None;
        }
        let invented = [
            (ANNOTATION_THRESHOLD, pod.threshold.is_some()),
            (ANNOTATION_PREEMPTION_POLICY, pod.annotation_policy.is_some()),
        ];
        let invented = invented.into_iter().filter(|(_, has)| *has);
        let changes: BTreeMap<String, AnnotationChange> =
            invented.map(|(key, _)| (key.to_owned(), AnnotationChange::Remove)).collect();
        (!changes.is_empty()).then_some(Self { class: None, changes })
    }

    /// Returns the name of the PriorityClass that must be read before the changes are made, because they replace or remove a value: they
    /// are made only if the class still gives what they say. `None` if the changes only add values.
    pub fn class_to_read(&self) -> Option<&str> {
        let only_adds = self.changes.values().all(|change| matches!(change, AnnotationChange::Add(_)));
        self.class.as_deref().filter(|_| !only_adds)
    }

    /// Returns true if this PriorityClass gives exactly the values that the changes say.
    pub fn agrees_with(&self, class: &Class) -> bool {
        let gives = |key: &str| match key {
            ANNOTATION_THRESHOLD => class.pod_threshold(),
            _ => class.managed_policy.map(PreemptionPolicy::as_str),
        };
        self.changes.iter().all(|(key, change)| change.value() == gives(key))
    }

    /// Returns the threshold that a pod has after the correction; `current` is the one that it has before.
    pub fn threshold(&self, current: Option<i32>) -> Option<i32> {
        match self.changes.get(ANNOTATION_THRESHOLD) {
            Some(change) => change.value().and_then(|text| text.parse().ok()),
            None => current,
        }
    }

    /// Returns the message of the event on the pod: which annotations were set or removed, and why.
    pub fn sentence(&self) -> String {
        let set: Vec<(&str, &str)> =
            self.changes.iter().filter_map(|(key, change)| Some((key.as_str(), change.value()?))).collect();
        let removed = self.changes.iter().filter(|(_, change)| change.value().is_none());
        let removed: Vec<&str> = removed.map(|(key, _)| key.as_str()).collect();
        let pod = match &self.class {
            None => CorrectedPod::WithoutClass,
            Some(class) if self.class_to_read().is_some() => CorrectedPod::WrongValue(class),
            Some(class) => CorrectedPod::NotSeen(class),
        };
        events::annotations_corrected(pod, &set, &removed)
    }
}
