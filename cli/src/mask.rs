//! Fields of each kind that the planner reads. All others are removed as soon as objects arrive, which keeps the memory
//! for large clusters small and snapshots free of private data (environments, commands, images, names of Secrets).

use giveway_crds::keys;
use giveway_crds::optional::is_optional;
use serde_json::Value;
use std::collections::BTreeMap;

/// One kind of object: the path of its list, and the fields that are kept.
pub(crate) struct ListedKind {
    /// `apiVersion` of its objects.
    pub(crate) api_version: &'static str,
    /// `kind` of its objects.
    pub(crate) kind: &'static str,
    /// Path of its list over all namespaces.
    pub(crate) path: &'static str,
    /// True if commands work without the user's permission to read the kind.
    pub(crate) may_be_forbidden: bool,
    fields: &'static str,
}

/// Every kind that the planner reads.
pub(crate) const KINDS: [ListedKind; 13] = [
    ListedKind {
        api_version: "v1",
        kind: "Node",
        path: "/api/v1/nodes",
        may_be_forbidden: false,
        fields: "metadata(name labels uid) spec(taints unschedulable) status(allocatable)",
    },
    ListedKind {
        api_version: "v1",
        kind: "Pod",
        path: "/api/v1/pods",
        may_be_forbidden: false,
        fields: "metadata(name namespace uid labels annotations creationTimestamp deletionTimestamp \
                   deletionGracePeriodSeconds ownerReferences(apiVersion kind name uid controller)) \
                 spec(nodeName nodeSelector affinity tolerations topologySpreadConstraints priority priorityClassName \
                   preemptionPolicy schedulerName schedulingGates schedulingGroup(podGroupName) terminationGracePeriodSeconds overhead resources(requests) resourceClaims(name) \
                   volumes(name persistentVolumeClaim(claimName) ephemeral(none)) \
                   containers(name resources(requests) ports(hostPort hostIP protocol)) \
                   initContainers(name restartPolicy resources(requests) ports(hostPort hostIP protocol))) \
                 status(phase startTime nominatedNodeName conditions(type status reason) \
                   containerStatuses(name allocatedResources resources(requests)) \
                   initContainerStatuses(name allocatedResources resources(requests)))",
    },
    ListedKind {
        api_version: "v1",
        kind: "PersistentVolume",
        path: "/api/v1/persistentvolumes",
        may_be_forbidden: true,
        fields: "metadata(name) spec(nodeAffinity)",
    },
    ListedKind {
        api_version: "v1",
        kind: "PersistentVolumeClaim",
        path: "/api/v1/persistentvolumeclaims",
        may_be_forbidden: true,
        fields: "metadata(name namespace deletionTimestamp) spec(volumeName storageClassName) status(phase)",
    },
    ListedKind {
        api_version: "storage.k8s.io/v1",
        kind: "StorageClass",
        path: "/apis/storage.k8s.io/v1/storageclasses",
        may_be_forbidden: true,
        fields: "metadata(name) volumeBindingMode allowedTopologies provisioner",
    },
    ListedKind {
        api_version: "resource.k8s.io/v1",
        kind: "DeviceClass",
        path: "/apis/resource.k8s.io/v1/deviceclasses",
        may_be_forbidden: true,
        fields: "metadata(name) spec(extendedResourceName)",
    },
    ListedKind {
        api_version: "v1",
        kind: "Namespace",
        path: "/api/v1/namespaces",
        may_be_forbidden: true,
        fields: "metadata(name labels annotations)",
    },
    ListedKind {
        api_version: "admissionregistration.k8s.io/v1",
        kind: "ValidatingAdmissionPolicy",
        path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?fieldSelector=metadata.name%3Dgiveway-namespaces",
        may_be_forbidden: true,
        fields: "metadata(name annotations)",
    },
    ListedKind {
        api_version: "scheduling.giveway.dev/v1alpha1",
        kind: "PodGroup",
        path: "/apis/scheduling.giveway.dev/v1alpha1/podgroups",
        may_be_forbidden: true,
        fields: "metadata(name namespace uid generation creationTimestamp deletionTimestamp) spec",
    },
    ListedKind {
        api_version: "scheduling.giveway.dev/v1alpha1",
        kind: "Preemption",
        path: "/apis/scheduling.giveway.dev/v1alpha1/preemptions",
        may_be_forbidden: true,
        fields: "metadata(name uid) spec status(state message plannedAt finishedAt evicted)",
    },
    ListedKind {
        api_version: "scheduling.giveway.dev/v1alpha1",
        kind: "Workload",
        path: "/apis/scheduling.giveway.dev/v1alpha1/workloads",
        may_be_forbidden: true,
        fields: "metadata(name namespace uid) spec(podGroupTemplates)",
    },
    ListedKind {
        api_version: "policy/v1",
        kind: "PodDisruptionBudget",
        path: "/apis/policy/v1/poddisruptionbudgets",
        may_be_forbidden: false,
        fields: "metadata(name namespace uid generation) spec(selector unhealthyPodEvictionPolicy) \
                 status(observedGeneration disruptionsAllowed disruptedPods currentHealthy desiredHealthy expectedPods)",
    },
    ListedKind {
        api_version: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        path: "/apis/scheduling.k8s.io/v1/priorityclasses",
        may_be_forbidden: false,
        fields: "metadata(name annotations) value globalDefault preemptionPolicy",
    },
];

const NATIVE_FIELDS: &str = "metadata(name namespace uid creationTimestamp deletionTimestamp) \
                             spec(disruptionMode priorityClassName priority)";

const fn native(api_version: &'static str, path: &'static str) -> ListedKind {
    ListedKind { api_version, kind: "PodGroup", path, may_be_forbidden: true, fields: NATIVE_FIELDS }
}

/// Native PodGroups by version, the preferred one first: only the first served version is read.
pub(crate) const NATIVE_GROUPS: [ListedKind; 4] = [
    native("scheduling.k8s.io/v1", "/apis/scheduling.k8s.io/v1/podgroups"),
    native("scheduling.k8s.io/v1beta1", "/apis/scheduling.k8s.io/v1beta1/podgroups"),
    native("scheduling.k8s.io/v1alpha3", "/apis/scheduling.k8s.io/v1alpha3/podgroups"),
    native("scheduling.k8s.io/v1alpha2", "/apis/scheduling.k8s.io/v1alpha2/podgroups"),
];

impl ListedKind {
    /// Returns true if it is a kind of Giveway.
    pub(crate) fn is_own(&self) -> bool {
        self.group() == keys::GROUP
    }

    /// Returns true if the cluster may lack the kind. Giveway's own ones are missing where it is not installed.
    pub(crate) fn may_be_missing(&self) -> bool {
        self.is_own() || is_optional(self.group(), self.kind)
    }

    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Removes the other fields of an object, and adds `apiVersion` and `kind`, which items of API lists lack.
    pub(crate) fn trim(&self, object: &mut Value) {
        let mut mask = Mask::parse(self.fields);
        mask.0.insert("apiVersion".to_owned(), Mask::default());
        mask.0.insert("kind".to_owned(), Mask::default());
        mask.apply(object);
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), self.api_version.into());
            map.insert("kind".to_owned(), self.kind.into());
        }
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            let others = ["kubernetes.io/config.mirror", keys::ANNOTATION_CRITICAL_POD];
            annotations.retain(|key, _| key.starts_with(keys::PREFIX) || others.contains(&key.as_str()));
        }
        if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
            conditions.retain(|condition| condition["type"] == "PodScheduled" || condition["type"] == "Ready");
        }
    }
}

/// Removes all fields of an object except these, in the notation of [`ListedKind`].
pub(crate) fn cut(object: &mut Value, fields: &str) {
    Mask::parse(fields).apply(object);
}

/// Fields to keep, by name; a field without fields of its own is kept completely. Applies to every item of a list.
#[derive(Default)]
struct Mask(BTreeMap<String, Mask>);

impl Mask {
    /// Parses `name name(name name(name)) name`.
    fn parse(text: &str) -> Self {
        let mut stack = vec![(String::new(), Self::default())];
        let mut word = String::new();
        for character in text.chars().chain([' ']) {
            if !matches!(character, ' ' | '(' | ')') {
                word.push(character);
                continue;
            }
            let name = std::mem::take(&mut word);
            if character == '(' {
                stack.push((name, Self::default()));
                continue;
            }
            if let (Some((_, top)), false) = (stack.last_mut(), name.is_empty()) {
                top.0.insert(name, Self::default());
            }
            if character == ')'
                && stack.len() > 1
                && let Some((name, done)) = stack.pop()
                && let Some((_, parent)) = stack.last_mut()
            {
                parent.0.insert(name, done);
            }
        }
        stack.pop().map(|(_, mask)| mask).unwrap_or_default()
    }

    fn apply(&self, value: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(map) => {
                map.retain(|name, _| self.0.contains_key(name));
                for (name, inner) in map.iter_mut() {
                    if let Some(mask) = self.0.get(name) {
                        mask.apply(inner);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_kinds_of_giveway_and_of_newer_versions_of_kubernetes_may_be_missing() {
        let missing: Vec<_> = KINDS.iter().filter(|kind| kind.may_be_missing()).map(|kind| kind.kind).collect();
        assert_eq!(missing, ["DeviceClass", "PodGroup", "Preemption", "Workload"]);
        assert!(NATIVE_GROUPS.iter().all(|kind| !kind.may_be_missing()), "only a version that is served is listed");
    }

    #[test]
    fn what_a_resize_and_an_end_change_is_kept() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "deletionTimestamp": "2026-11-21T12:00:00Z", "deletionGracePeriodSeconds": 7},
            "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]}});
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "a", "deletionTimestamp": "2026-11-21T12:00:00Z"}});
        for object in [&mut pod, &mut claim] {
            let whole = object.clone();
            KINDS.iter().find(|kind| kind.kind == whole["kind"]).unwrap().trim(object);
            assert_eq!(*object, whole);
        }
    }

    #[test]
    fn a_pod_keeps_what_the_planner_reads_and_loses_the_rest() {
        let mut pod = json!({
            "metadata": {"name": "a", "namespace": "n", "managedFields": [1], "labels": {"x": "y"},
                "annotations": {"secret": "s", "scheduling.giveway.dev/preemption-policy": "Never"}},
            "spec": {"containers": [{"name": "c", "image": "private", "env": [{"name": "PASSWORD", "value": "p"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}], "serviceAccountName": "sa"},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True", "message": "m"}]}
        });
        KINDS.iter().find(|kind| kind.kind == "Pod").unwrap().trim(&mut pod);
        let kept = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"},
                "annotations": {"scheduling.giveway.dev/preemption-policy": "Never"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]}
        });
        assert_eq!(pod, kept);
    }
}
