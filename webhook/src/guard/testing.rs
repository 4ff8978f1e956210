//! Small clusters for the guard's tests, made of objects as the API server sends them.

use crate::view::View;
use crate::watch::Viewed;
use giveway_admission::rules::guard::decide::{GuardRequest, GuardStep};
use giveway_admission::rules::guard::facts::PodObject;
use giveway_admission::view::Settings;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

/// Puts `change` over `object`, field by field.
pub(crate) fn merged(mut object: Value, change: Value) -> Value {
    json_patch::merge(&mut object, &change);
    object
}

/// A pod of priority 10 that runs and is ready on node `n1`, in namespace `web`, with the label `app: api`.
pub(crate) fn running(name: &str, change: Value) -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "web", "name": name, "uid": format!("uid-{name}"), "labels": {"app": "api"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": "n1", "priority": 10, "schedulerName": "default-scheduler"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    merged(pod, change)
}

/// The annotation of a pod with this threshold.
pub(crate) fn threshold(text: &str) -> Value {
    json!({"metadata": {"annotations": {giveway_crds::keys::ANNOTATION_THRESHOLD: text}}})
}

/// The label of a pod of this group.
pub(crate) fn of_group(name: &str) -> Value {
    json!({"metadata": {"labels": {giveway_crds::keys::LABEL_POD_GROUP: name}}})
}

/// A budget of namespace `web` over `app: api`, that wants 2 pods.
pub(crate) fn budget(name: &str, allowed: i32, change: Value) -> PodDisruptionBudget {
    let budget = json!({
        "metadata": {"namespace": "web", "name": name, "generation": 1},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "api"}}},
        "status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "expectedPods": 2 + allowed, "desiredHealthy": 2,
            "currentHealthy": 2 + allowed,
        },
    });
    serde_json::from_value(merged(budget, change)).unwrap()
}

/// A cluster as the guard sees it.
#[derive(Clone)]
pub(crate) struct Cluster(pub(crate) View);

impl Cluster {
    pub(crate) fn new() -> Self {
        Self(View::new(Settings {
            namespace: "giveway-system".to_owned(),
            manage_new_classes: false,
            ..Settings::default()
        }))
    }

    /// A pending pod of namespace `default` with this priority.
    pub(crate) fn waits(mut self, name: &str, priority: i32, change: Value) -> Self {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
            "spec": {
                "priority": priority, "schedulerName": "default-scheduler", "preemptionPolicy": "PreemptLowerPriority",
            },
            "status": {"phase": "Pending"},
        });
        let pod: PodObject<false> = serde_json::from_value(merged(pod, change)).unwrap();
        pod.store(&mut self.0);
        self
    }

    /// A running pod that the watch of group members shows.
    pub(crate) fn has(mut self, pod: Value) -> Self {
        let pod: PodObject<true> = serde_json::from_value(pod).unwrap();
        pod.store(&mut self.0);
        self
    }

    pub(crate) fn budget(mut self, name: &str, allowed: i32, change: Value) -> Self {
        budget(name, allowed, change).store(&mut self.0);
        self
    }

    /// A group of Kubernetes itself.
    pub(crate) fn native(mut self, namespace: &str, name: &str, priority: i32) -> Self {
        let group = json!({"metadata": {"namespace": namespace, "name": name},
            "spec": {"priority": priority, "disruptionMode": {"all": {}}}});
        self.0.put_native(&serde_json::from_value(group).unwrap());
        self
    }

    pub(crate) fn group(mut self, namespace: &str, name: &str, priority: Option<i32>, mode: &str) -> Self {
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": mode});
        if let Some(priority) = priority {
            spec["priority"] = json!(priority);
        }
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        });
        self.0.put_group(&serde_json::from_value(group).unwrap());
        self
    }
}

/// kube-scheduler's wish to take this pod.
pub(crate) fn asked(victim: Value) -> GuardRequest {
    let stored: PodObject<true> = serde_json::from_value(victim).unwrap();
    let scheduler = Some("default-scheduler".to_owned());
    GuardRequest { step: GuardStep::Deletes, namespace: "web".to_owned(), scheduler, victim: stored.victim() }
}
