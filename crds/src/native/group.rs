//! A native PodGroup with the fields that matter for victims: its priority and its disruption mode.

use crate::policy::DisruptionMode;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ApiResource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::borrow::Cow;

/// A `PodGroup` of `scheduling.k8s.io`, of any version.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NativeGroup {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default, deserialize_with = "mode")]
    disruption_mode: DisruptionMode,
    priority_class_name: Option<String>,
    priority: Option<i32>,
}

impl NativeGroup {
    /// Returns the disruption mode of the native group: `Pod` for `single` (in v1alpha2 `Pod`), `PodGroup` for `all` (in v1alpha2
    /// `PodGroup`) and for an unknown mode.
    pub fn mode(&self) -> DisruptionMode {
        self.spec.disruption_mode
    }

    /// Returns the name of the group's PriorityClass; `None` if it names none.
    pub fn class_name(&self) -> Option<&str> {
        self.spec.priority_class_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns `spec.priority` of the native group, which the API server's Priority plugin resolved from the class when the
    /// group was created, and which is immutable; `None` if it is not set.
    pub fn priority(&self) -> Option<i32> {
        self.spec.priority
    }
}

/// Deserializes the disruption mode of a native PodGroup: `{single: {}}` or `{all: {}}`, in v1alpha2 `Pod` or `PodGroup`. An unknown mode
/// counts as whole-group disruption.
fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DisruptionMode, D::Error> {
    let single = match Value::deserialize(deserializer)? {
        Value::Null => true,
        Value::String(name) => name.is_empty() || name == "Pod",
        Value::Object(union) => union.iter().all(|(member, value)| member == "single" || value.is_null()),
        _ => false,
    };
    Ok(if single { DisruptionMode::Pod } else { DisruptionMode::PodGroup })
}

impl Resource for NativeGroup {
    type DynamicType = ApiResource;
    type Scope = NamespaceResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn group(spec: Value) -> NativeGroup {
        serde_json::from_value(json!({"metadata": {"name": "g", "namespace": "n"}, "spec": spec})).unwrap()
    }

    #[test]
    fn the_mode_is_read_in_the_format_of_every_version() {
        let read = |mode: Value| group(json!({"disruptionMode": mode})).mode();
        for single in [json!({"single": {}}), json!("Pod"), json!({}), Value::Null, json!({"single": {}, "all": null})]
        {
            assert_eq!(read(single.clone()), DisruptionMode::Pod, "{single}");
        }
        for all in [json!({"all": {}}), json!("PodGroup"), json!({"later": {}})] {
            assert_eq!(read(all.clone()), DisruptionMode::PodGroup, "{all}");
        }
        assert_eq!(group(json!({})).mode(), DisruptionMode::Pod, "the default of Kubernetes");
    }

    #[test]
    fn priority_and_class_are_read_and_the_rest_is_skipped() {
        let group =
            group(json!({"priorityClassName": "high", "priority": 7, "schedulingPolicy": {"gang": {"minCount": 3}},
            "workloadRef": {"workloadName": "w", "templateName": "t"}}));
        assert_eq!((group.class_name(), group.priority()), (Some("high"), Some(7)));
        let plain = serde_json::from_value::<NativeGroup>(json!({"metadata": {}})).unwrap();
        assert_eq!((plain.class_name(), plain.priority()), (None, None));
    }
}
