//! Builders for unit tests: a model from Kubernetes objects.

use crate::messages::input::{Input, Update};
use crate::model::Model;
use giveway_cluster::objects::TrimmedObject;
use giveway_crds::condition::{self, Reason, types};
use giveway_crds::keys;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

fn object<K: TrimmedObject>(value: Value) -> Box<K> {
    Box::new(K::decode(&value.to_string()).unwrap())
}

/// A model in which every kind has been listed, so that it counts as synced.
pub(crate) struct World {
    pub(crate) model: Model,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut model = Model::default();
        model.apply(Input::Namespace(Update::Replaced(vec![])));
        model.apply(Input::Node(Update::Replaced(vec![])));
        model.apply(Input::Pod(Update::Replaced(vec![])));
        model.apply(Input::Group(Update::Replaced(vec![])));
        model.apply(Input::NativeGroup(Update::Replaced(vec![])));
        model.apply(Input::Workload(Update::Replaced(vec![])));
        model.apply(Input::Request(Update::Replaced(vec![])));
        model.apply(Input::Class(Update::Replaced(vec![])));
        model.apply(Input::Budget(Update::Replaced(vec![])));
        model.apply(Input::Volume(Update::Replaced(vec![])));
        model.apply(Input::Claim(Update::Replaced(vec![])));
        model.apply(Input::StorageClass(Update::Replaced(vec![])));
        model.apply(Input::CsiDriver(Update::Replaced(vec![])));
        model.apply(Input::CsiNode(Update::Replaced(vec![])));
        model.apply(Input::DeviceClass(Update::Replaced(vec![])));
        model.apply(Input::ResourceSlice(Update::Replaced(vec![])));
        model.apply(Input::ResourceClaim(Update::Replaced(vec![])));
        model.apply(Input::Preemption(Update::Replaced(vec![])));
        model.apply(Input::Switch(Update::Replaced(vec![])));
        Self { model }
    }

    pub(crate) fn node(&mut self, name: &str, cpus: u32) -> &mut Self {
        let size = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
        let node = json!({"metadata": {"name": name}, "spec": {}, "status": {"allocatable": size, "capacity": size}});
        self.model.apply(Input::Node(Update::Applied(object(node))));
        self
    }

    pub(crate) fn namespace(&mut self, name: &str) -> &mut Self {
        self.model.apply(Input::Namespace(Update::Applied(object(json!({"metadata": {"name": name}})))));
        self
    }

    pub(crate) fn cordoned(&mut self, name: &str, cpus: u32) -> &mut Self {
        let node = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {"unschedulable": true},
            "status": {"allocatable": {"cpu": cpus.to_string(), "pods": "110"}}
        });
        self.model.apply(Input::Node(Update::Applied(object(node))));
        self
    }

    /// Adds a node with the taint `not-ready` that has been ready or not since this second.
    pub(crate) fn outage(&mut self, name: &str, cpus: u32, ready: bool, since: i64) -> &mut Self {
        let since = k8s_openapi::jiff::Timestamp::from_second(since).unwrap().to_string();
        let node = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")},
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": cpus.to_string(), "pods": "110"},
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": since}]}
        });
        self.model.apply(Input::Node(Update::Applied(object(node))));
        self
    }

    /// Adds a node with a label.
    pub(crate) fn labelled_node(&mut self, name: &str, cpus: u32, key: &str, value: &str) -> &mut Self {
        let size = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
        let metadata = json!({"name": name, "labels": {key: value}});
        let node = json!({"metadata": metadata, "spec": {}, "status": {"allocatable": size, "capacity": size}});
        self.model.apply(Input::Node(Update::Applied(object(node))));
        self
    }

    /// Adds a gang that must be placed within one value of a node label.
    pub(crate) fn gang_within(&mut self, name: &str, min_count: u32, priority: i32, key: &str) -> &mut Self {
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": "PodGroup",
                     "schedulingConstraints": {"topology": [{"key": key}]},
                     "priority": priority, "preemptionPolicy": "PreemptLowerPriority"}
        });
        self.model.apply(Input::Group(Update::Applied(object(group))));
        self
    }

    pub(crate) fn group(&mut self, name: &str, min_count: u32, priority: i32, mode: &str) -> &mut Self {
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": mode,
                     "priority": priority, "preemptionPolicy": "PreemptLowerPriority"}
        });
        self.model.apply(Input::Group(Update::Applied(object(group))));
        self
    }

    /// Sets the condition `Scheduled` of a group to this status since this second.
    pub(crate) fn scheduled(&mut self, group: &str, status: &str, since: i64) -> &mut Self {
        let key = self.key(group);
        let time = Time(k8s_openapi::jiff::Timestamp::from_second(since).unwrap());
        if let Some(record) = self.model.groups.get_mut(&key) {
            let conditions = &mut record.status.conditions;
            conditions.retain(|condition| condition.type_ != types::SCHEDULED);
            condition::set(conditions, types::SCHEDULED, status == "True", Reason::Scheduled, "", None, time);
        }
        self.model.touched.insert(key);
        self
    }

    /// Sets the condition `PodGroupInitiallyScheduled` of a PodGroup to `False`, written at this second.
    pub(crate) fn never_scheduled(&mut self, group: &str, since: i64) -> &mut Self {
        let key = self.key(group);
        let time = Time(k8s_openapi::jiff::Timestamp::from_second(since).unwrap());
        if let Some(record) = self.model.groups.get_mut(&key) {
            let conditions = &mut record.status.conditions;
            condition::set(conditions, types::INITIALLY_SCHEDULED, false, Reason::Unschedulable, "", None, time);
        }
        self.model.touched.insert(key);
        self
    }

    /// Adds a gang in mode `PodGroup` whose status marks pods as preempted by kube-scheduler: name and second.
    pub(crate) fn marked(&mut self, name: &str, marks: &[(&str, i64)]) -> &mut Self {
        let time = |second: i64| Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap());
        let mark = |(pod, at): &(&str, i64)| (format!("uid-{pod}"), json!({"name": pod, "time": time(*at)}));
        let group = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": "PodGroup", "priority": 10},
            "status": {"preemptedPods": marks.iter().map(mark).collect::<Map<_, _>>()},
        });
        self.model.apply(Input::Group(Update::Applied(object(group))));
        self
    }

    /// Adds a gang that was created for the Job of the same name with this UID.
    pub(crate) fn made_for(&mut self, name: &str, uid: &str, min_count: i32) -> &mut Self {
        self.made_for_owner(name, ("batch/v1", "Job", name, uid), min_count)
    }

    /// Adds a gang that was created for this owner: `apiVersion`, kind, name and UID.
    pub(crate) fn made_for_owner(&mut self, name: &str, owner: (&str, &str, &str, &str), min_count: i32) -> &mut Self {
        let (version, kind, of, uid) = owner;
        let owner = json!({"apiVersion": version, "kind": kind, "name": of, "uid": uid, "controller": true});
        self.made_with(name, json!([owner]), min_count)
    }

    /// Adds a gang that was created for an owner which was deleted without its pods.
    pub(crate) fn orphaned(&mut self, name: &str, min_count: i32) -> &mut Self {
        self.made_with(name, json!([]), min_count)
    }

    fn made_with(&mut self, name: &str, owners: Value, min_count: i32) -> &mut Self {
        let labels = json!({keys::LABEL_GANG: "true", keys::LABEL_MANAGED_BY: keys::MANAGED_BY});
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
                         "labels": labels, "ownerReferences": owners},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": "PodGroup", "priority": 10}
        });
        self.model.apply(Input::Group(Update::Applied(object(group))));
        self
    }

    /// Adds a native PodGroup; `mode` is `single` or `all`.
    pub(crate) fn native_group(&mut self, name: &str, priority: i32, mode: &str) -> &mut Self {
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-native-{name}")},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {mode: {}}, "priority": priority}
        });
        self.model.apply(Input::NativeGroup(Update::Applied(object(group))));
        self
    }

    /// Adds a group whose pods are scheduled one by one.
    pub(crate) fn basic_group(&mut self, name: &str, priority: i32) -> &mut Self {
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
            "spec": {"schedulingPolicy": {"basic": {}}, "priority": priority, "preemptionPolicy": "PreemptLowerPriority"}
        });
        self.model.apply(Input::Group(Update::Applied(object(group))));
        self
    }

    /// Adds a group with a priority class.
    pub(crate) fn group_of_class(
        &mut self,
        name: &str,
        min_count: u32,
        priority: impl Into<Option<i32>>,
        class: &str,
    ) -> &mut Self {
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": "PodGroup",
                     "priorityClassName": class, "priority": priority.into(), "preemptionPolicy": "PreemptLowerPriority"}
        });
        self.model.apply(Input::Group(Update::Applied(object(group))));
        self
    }

    pub(crate) fn pod(&mut self, pod: TestPod) -> &mut Self {
        self.model.apply(Input::Pod(Update::Applied(object(pod.0))));
        self
    }

    /// Replaces all pods, as a list does.
    pub(crate) fn pods<const N: usize>(&mut self, pods: [TestPod; N]) -> &mut Self {
        let list = pods.map(|pod| Update::Applied(object(pod.0)));
        self.model.apply(Input::Pod(Update::Replaced(list.into())));
        self
    }

    pub(crate) fn workload(&mut self, name: &str, template: &str) -> &mut Self {
        let workload = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"podGroupTemplates": [
                {"name": template, "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": "PodGroup", "preemptFor": "AllMembers",
                    "priorityClassName": "high"}
            ]}
        });
        self.model.apply(Input::Workload(Update::Applied(object(workload))));
        self
    }

    /// Adds a group that was created from a template, with this status.
    pub(crate) fn made_from(&mut self, workload: &str, template: &str, name: &str, status: Value) -> &mut Self {
        self.apply_made(workload, template, name, json!({}), status)
    }

    fn apply_made(&mut self, workload: &str, template: &str, name: &str, labels: Value, status: Value) -> &mut Self {
        let reference = json!({"workload": {"workloadName": workload, "podGroupTemplateName": template}});
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1, "labels": labels
            },
            "spec": {"podGroupTemplateRef": reference, "schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 1},
            "status": status
        });
        self.model.apply(Input::Group(Update::Applied(object(group))));
        self
    }

    /// Adds a group that Giveway created from a template, with this status.
    pub(crate) fn made_by_giveway(&mut self, name: &str, status: Value) -> &mut Self {
        self.apply_made("serve", "worker", name, json!({ keys::LABEL_MANAGED_BY: keys::MANAGED_BY }), status)
    }

    pub(crate) fn class(&mut self, class: Value) -> &mut Self {
        self.model.apply(Input::Class(Update::Applied(object(class))));
        self
    }

    /// Adds a budget for the pods with the label `app`.
    pub(crate) fn budget(&mut self, name: &str, app: &str, allowed: i32) -> &mut Self {
        let budget = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        });
        self.model.apply(Input::Budget(Update::Applied(object(budget))));
        self
    }

    pub(crate) fn key(&self, name: &str) -> giveway_planner::model::ObjectKey {
        giveway_planner::model::ObjectKey::new("default", name)
    }

    pub(crate) fn remove_node(&mut self, name: &str) -> &mut Self {
        let key = giveway_planner::model::ObjectKey::new("", name);
        self.model.apply(Input::Node(Update::Deleted(key)));
        self
    }

    pub(crate) fn remove_pod(&mut self, name: &str) -> &mut Self {
        let key = giveway_planner::model::ObjectKey::new("default", name);
        self.model.apply(Input::Pod(Update::Deleted(key)));
        self
    }
}

/// A pod with a request of 1 CPU in namespace `default`, with the UID `uid-NAME`.
pub(crate) struct TestPod(Value);

impl TestPod {
    pub(crate) fn new(name: &str, priority: i32) -> Self {
        Self(json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {}, "annotations": {}},
            "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending", "conditions": []}
        }))
    }

    pub(crate) fn of(mut self, group: &str) -> Self {
        self.0["metadata"]["labels"][keys::LABEL_POD_GROUP] = json!(group);
        self
    }

    /// Makes it a member of a native group.
    pub(crate) fn native(self, group: &str) -> Self {
        self.spec("schedulingGroup", json!({"podGroupName": group}))
    }

    pub(crate) fn gated(mut self) -> Self {
        self.0["spec"]["schedulingGates"] = json!([{"name": keys::GATE}]);
        self
    }

    pub(crate) fn on(mut self, node: &str) -> Self {
        self.0["spec"]["nodeName"] = json!(node);
        self.0["status"]["phase"] = json!("Running");
        self
    }

    /// Makes it ready.
    pub(crate) fn ready(mut self) -> Self {
        self.0["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        self
    }

    /// Makes it a pod of this Job that has succeeded.
    pub(crate) fn finished(mut self, job: &str) -> Self {
        self.0["status"]["phase"] = json!("Succeeded");
        self.of_job(job)
    }

    /// Sets this Job as its controller.
    pub(crate) fn of_job(mut self, job: &str) -> Self {
        let reference = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": true});
        self.0["metadata"]["ownerReferences"] = json!([reference]);
        self
    }

    /// Makes it a pod that the operator created for this group.
    pub(crate) fn owned_by_group(mut self, group: &str) -> Self {
        let reference = json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "name": group,
            "uid": format!("uid-{group}"), "controller": true});
        self.0["metadata"]["ownerReferences"] = json!([reference]);
        self
    }

    pub(crate) fn owner_uid(mut self, uid: &str) -> Self {
        self.0["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
        self
    }

    pub(crate) fn owners(mut self, owners: Value) -> Self {
        self.0["metadata"]["ownerReferences"] = owners;
        self
    }

    pub(crate) fn labelled(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub(crate) fn nominated(mut self, node: &str) -> Self {
        self.0["status"]["nominatedNodeName"] = json!(node);
        self
    }

    pub(crate) fn terminating(mut self) -> Self {
        // A preempted pod is deleted when its preemption is announced.
        let announced = &self.0["status"]["conditions"][0];
        let at = match announced["type"] == "DisruptionTarget" {
            true => announced["lastTransitionTime"].clone(),
            false => json!("2026-01-01T00:00:00Z"),
        };
        self.0["metadata"]["deletionTimestamp"] = at;
        self
    }

    /// Makes it terminating, with a grace period that ends at this second.
    pub(crate) fn deleted(mut self, second: i64) -> Self {
        let at = Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap());
        self.0["metadata"]["deletionTimestamp"] = json!(at);
        self
    }

    pub(crate) fn succeeded(mut self) -> Self {
        self.0["status"]["phase"] = json!("Succeeded");
        self
    }

    pub(crate) fn managed(mut self) -> Self {
        self.0["metadata"]["annotations"][keys::ANNOTATION_PREEMPTION_POLICY] = json!("PreemptLowerPriority");
        self.of_any_class()
    }

    /// Names a class that the model does not know, unless the pod names one: pods without a class have no annotations of one.
    fn of_any_class(mut self) -> Self {
        if self.0["spec"]["priorityClassName"].is_null() {
            self.0["spec"]["priorityClassName"] = json!("any");
        }
        self
    }

    pub(crate) fn unschedulable(mut self) -> Self {
        self.0["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"
        }]);
        self
    }

    pub(crate) fn scheduler(mut self, name: &str) -> Self {
        self.0["spec"]["schedulerName"] = json!(name);
        self
    }

    pub(crate) fn templated(mut self, workload: &str, template: &str) -> Self {
        self.0["metadata"]["labels"][keys::LABEL_WORKLOAD] = json!(workload);
        self.0["metadata"]["labels"][keys::LABEL_TEMPLATE] = json!(template);
        self
    }

    pub(crate) fn class(self, name: &str) -> Self {
        self.spec("priorityClassName", json!(name))
    }

    pub(crate) fn spec(mut self, field: &str, value: Value) -> Self {
        self.0["spec"][field] = value;
        self
    }

    pub(crate) fn status(mut self, field: &str, value: Value) -> Self {
        self.0["status"][field] = value;
        self
    }

    pub(crate) fn uid(mut self, uid: &str) -> Self {
        self.0["metadata"]["uid"] = json!(uid);
        self
    }

    pub(crate) fn created(mut self, second: i64) -> Self {
        let time = k8s_openapi::jiff::Timestamp::from_second(second).unwrap();
        self.0["metadata"]["creationTimestamp"] = json!(time.to_string());
        self
    }

    /// Sets the time when the kubelet started it.
    pub(crate) fn started(mut self, second: i64) -> Self {
        let time = k8s_openapi::jiff::Timestamp::from_second(second).unwrap();
        self.0["status"]["startTime"] = json!(time.to_string());
        self
    }

    /// Sets the time when the API server bound it.
    pub(crate) fn bound_at(mut self, second: i64) -> Self {
        let time = k8s_openapi::jiff::Timestamp::from_second(second).unwrap();
        self.0["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": time.to_string()}]);
        self
    }

    pub(crate) fn annotated(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// Makes it a ready pod of application `app` with this threshold.
    pub(crate) fn guarded(mut self, app: &str, threshold: i32) -> Self {
        self.0["metadata"]["labels"]["app"] = json!(app);
        self.0["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        self.annotated(keys::ANNOTATION_THRESHOLD, &threshold.to_string()).of_any_class()
    }

    pub(crate) fn in_namespace(mut self, namespace: &str) -> Self {
        self.0["metadata"]["namespace"] = json!(namespace);
        self
    }

    /// Adds the condition of a victim with this time and message.
    pub(crate) fn preempted(mut self, second: i64, message: &str) -> Self {
        let time = k8s_openapi::jiff::Timestamp::from_second(second).unwrap();
        self.0["status"]["conditions"] = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": message, "lastTransitionTime": time.to_string()
        }]);
        self
    }
}
