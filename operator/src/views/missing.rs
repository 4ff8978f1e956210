//! Computes which annotations of its PriorityClass a pod lacks because admission did not see it.
//! [`backfill`](crate::gangs::backfill) documents the rules.

use giveway_crds::keys::{ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Class;
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
    /// Reads the times from a class.
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

/// The annotations that a pod lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The class from which they are copied.
    pub class: String,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Missing {
    /// Returns the annotations that admission would have copied to the pod, or `None` if the pod lacks none or is older
    /// than them.
    pub fn of(pod: &Pod, class: &Class, since: Since) -> Option<Self> {
        if pod.mirror || !pod.live() {
            return None;
        }
        let created = pod.created? / 1_000_000_000;
        let later = |than: Option<i64>| than.is_some_and(|than| created >= than);
        let mut annotations = BTreeMap::new();
        if let Some(threshold) = class.pod_threshold()
            && pod.threshold.is_none()
            && later(since.created.max(since.threshold).filter(|_| since.threshold.is_some()))
        {
            annotations.insert(ANNOTATION_THRESHOLD.to_owned(), threshold.to_owned());
        }
        if let Some(policy) = class.managed_policy
            && pod.annotation_policy.is_none()
            && pod.spec_policy == PreemptionPolicy::Never
            && later(since.created)
        {
            annotations.insert(ANNOTATION_PREEMPTION_POLICY.to_owned(), policy.as_str().to_owned());
        }
        (!annotations.is_empty()).then(|| Self { class: class.name.clone(), annotations })
    }

    /// Returns the threshold among them, if there is one.
    pub fn threshold(&self) -> Option<i32> {
        self.annotations.get(ANNOTATION_THRESHOLD)?.parse().ok()
    }

    /// Returns the message of the event on the pod.
    pub fn sentence(&self) -> String {
        let list: Vec<String> = self.annotations.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!(
            "Added {} from priority class {}: Giveway's webhook did not see the pod when it was created.",
            list.join(" and "),
            self.class
        )
    }
}
