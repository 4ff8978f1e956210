//! A pod together with the native group that it names: the version of the API by which pods are read here is older than
//! `spec.schedulingGroup`.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// A pod, and the name of its native group in its own namespace. The group need not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberPod {
    /// The pod.
    pub pod: Pod,
    /// `spec.schedulingGroup.podGroupName`.
    pub native_group: Option<String>,
}

impl From<Pod> for MemberPod {
    fn from(pod: Pod) -> Self {
        Self { pod, native_group: None }
    }
}

/// Returns the name of the native group in `spec.schedulingGroup` of `pod`, a pod as JSON; `None` if it names none.
pub fn group_of(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/schedulingGroup/podGroupName")?.as_str().filter(|name| !name.is_empty())
}

/// A pod of which only its native group is read.
#[derive(Deserialize)]
struct PodWithGroup {
    spec: Option<SpecWithGroup>,
}

#[derive(Deserialize)]
struct SpecWithGroup {
    #[serde(rename = "schedulingGroup")]
    group: Option<SchedulingGroup>,
}

#[derive(Deserialize)]
struct SchedulingGroup {
    #[serde(rename = "podGroupName")]
    name: Option<String>,
}

impl MemberPod {
    /// Decodes a pod, with the native group that it names, from its JSON text.
    ///
    /// # Errors
    /// The text is not a pod.
    // Inline, so that a program that decodes pods elsewhere has the code once.
    #[inline]
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        let pod = serde_json::from_str(text)?;
        // Most pods name none, and need not be read again.
        if !text.contains("schedulingGroup") {
            return Ok(Self { pod, native_group: None });
        }
        let group = serde_json::from_str::<PodWithGroup>(text)?.spec.and_then(|spec| spec.group);
        Ok(Self { pod, native_group: group.and_then(|group| group.name).filter(|name| !name.is_empty()) })
    }
}

impl Resource for MemberPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.pod.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.pod.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(pod: &Value) -> Result<MemberPod, serde_json::Error> {
        MemberPod::from_text(&pod.to_string())
    }

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"priority": -5, "nodeName": "n1", "terminationGracePeriodSeconds": 30, "hostNetwork": true,
                "schedulingGroup": {"podGroupName": "train"},
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                    "ports": [{"containerPort": 80, "hostPort": 8080}],
                    "livenessProbe": {"httpGet": {"path": "/", "port": 80}}, "readinessProbe": {"tcpSocket": {"port": "http"}}}]},
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:01Z"}
        })
    }

    #[test]
    fn the_native_group_is_read_without_changing_other_fields_of_the_pod() {
        let read = read(&pod()).unwrap();
        assert_eq!(read.native_group.as_deref(), Some("train"));
        assert_eq!(read.pod, serde_json::from_value::<Pod>(pod()).unwrap());
        assert_eq!(group_of(&pod()), Some("train"));
    }

    #[test]
    fn a_pod_without_a_group_or_without_a_spec_has_none() {
        let mut plain = pod();
        plain["spec"].as_object_mut().unwrap().remove("schedulingGroup");
        for object in
            [plain, json!({"metadata": {"name": "p"}}), json!({"spec": {"containers": [], "schedulingGroup": {}}})]
        {
            let read = read(&object).unwrap();
            assert_eq!((read.native_group, group_of(&object)), (None, None), "{object}");
            assert_eq!(read.pod, serde_json::from_value::<Pod>(object).unwrap());
        }
    }

    #[test]
    fn a_pod_with_an_unreadable_field_or_group_is_an_error() {
        for (field, value) in [("priority", json!("high")), ("schedulingGroup", json!({"podGroupName": 5}))] {
            let mut wrong = pod();
            wrong["spec"][field] = value;
            assert!(read(&wrong).is_err(), "{field}");
        }
    }
}
