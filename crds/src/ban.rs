//! Bans: what Giveway does not try again for a while, because it failed. A ban is stored in the status of the [`Preemption`] that learned
//! it, so that the next leader respects it.
//!
//! [`Preemption`]: crate::Preemption

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of bans in one `Preemption`.
pub const MOST_BANS: usize = 128;
/// Maximum length of the message of a ban, in characters.
pub const LONGEST_MESSAGE: usize = 1024;

/// What is not tried (`type` of a ban). A string in objects, so that later versions can add types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BanType {
    /// The pod is not evicted.
    Eviction,
    /// No pod is evicted to place the pod, or the pods of its controller's template, on the node.
    Placement,
}

impl BanType {
    /// Returns the text that is stored as the `type` of a ban, such as `Eviction`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eviction => "Eviction",
            Self::Placement => "Placement",
        }
    }

    /// Parses the `type` of a stored ban; `None` if this version of Giveway does not know it.
    pub fn parse(value: &str) -> Option<Self> {
        [Self::Eviction, Self::Placement].into_iter().find(|known| known.as_str() == value)
    }
}

/// Something that Giveway does not try again for a while, because it failed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredBan {
    /// What is not tried: `Eviction` (the pod is not evicted) or `Placement` (no pod is evicted to place the pod, or the pods of its
    /// controller's template, on the node). Later versions may add types.
    #[serde(rename = "type")]
    #[schemars(length(max = 63))]
    pub type_: String,
    /// Namespace of the pod or controller.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// UID of the pod; absent if the ban is about all pods of a controller with the same template.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub pod_uid: Option<String>,
    /// The controller whose pods the ban is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<BannedController>,
    /// The node; absent for every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// When the ban ends.
    pub until: Time,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = LONGEST_MESSAGE))]
    pub message: String,
}

/// The pods that a controller makes from one version of its pod template.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BannedController {
    /// Kind of the controller.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Name of the controller.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Hash of the pod template, so that the ban ends when the template changes.
    #[schemars(length(max = 63))]
    pub template_hash: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn a_ban_is_stored_with_the_fields_that_it_has() {
        let ban = StoredBan {
            type_: BanType::Placement.as_str().to_owned(),
            namespace: "ml".into(),
            pod_uid: None,
            controller: Some(BannedController { kind: "Job".into(), name: "train".into(), template_hash: "1f".into() }),
            node: Some("n1".into()),
            until: Time(Timestamp::UNIX_EPOCH),
            message: String::new(),
        };
        let stored = json!({
            "type": "Placement", "namespace": "ml", "node": "n1", "until": "1970-01-01T00:00:00Z",
            "controller": {"kind": "Job", "name": "train", "templateHash": "1f"}
        });
        assert_eq!(serde_json::to_value(&ban).unwrap(), stored);
        assert_eq!(serde_json::from_value::<StoredBan>(stored).unwrap(), ban);
        let of_pod = StoredBan { pod_uid: Some("u".into()), controller: None, ..ban };
        assert_eq!(serde_json::to_value(of_pod).unwrap()["podUID"], "u");
    }

    #[test]
    fn an_unknown_type_is_none() {
        for known in [BanType::Eviction, BanType::Placement] {
            assert_eq!(BanType::parse(known.as_str()), Some(known));
        }
        assert_eq!(BanType::parse("Later"), None);
    }
}
