//! A hash of the template from which a pod was made. It is stored in bans, so it must not change between versions of this program.
//!
//! It covers what a user changes so that a pod is permitted: labels, images, resources, security contexts, service account, affinity and
//! tolerations. It leaves out what differs between the pods of one template (generated names of volumes, environment variables, labels with
//! an index or a UID), and the node selector, which Giveway itself adds for a topology domain.

use giveway_crds::keys;
use giveway_planner::SmolStr;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Labels that controllers of Kubernetes set to another value on each pod, or on the pods of each new object of the same name.
const GENERATED: [&str; 5] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "controller-uid",
    "statefulset.kubernetes.io/pod-name",
];

/// Returns a hash of the template from which a pending pod was made, the same for all pods of one version of a template; `None` for a pod
/// with a node. Pods without a controller that differ only in their names have one hash.
pub(super) fn template_hash(pod: &Pod) -> Option<SmolStr> {
    let spec = pod.spec.as_ref().filter(|spec| spec.node_name.is_none())?;
    let is_of_template = |key: &str| !GENERATED.contains(&key) && !key.starts_with(&format!("{}/", keys::GROUP));
    let labels: BTreeMap<&str, &str> = pod
        .labels()
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .filter(|(key, _)| is_of_template(key))
        .collect();
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let containers: Vec<_> = containers.map(|it| (&it.name, &it.image, &it.resources, &it.security_context)).collect();
    let security = (&spec.security_context, &spec.service_account_name, &spec.priority_class_name);
    let template = (labels, containers, security, &spec.affinity, &spec.tolerations);
    let text = serde_json::to_string(&template).ok()?;
    Some(SmolStr::new(format!("{:016x}", fnv(text.as_bytes()))))
}

/// Returns the 64-bit FNV-1a hash of these bytes.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn hash(change: impl FnOnce(&mut Value)) -> Option<SmolStr> {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": true});
        let mut pod = json!({
            "metadata": {"name": "train-0", "labels": {"app": "a"}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}
        });
        change(&mut pod);
        template_hash(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn fnv_is_the_published_hash() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn pods_of_one_template_have_one_hash() {
        let first = hash(|_| {});
        assert!(first.is_some());
        let second = hash(|pod| {
            pod["metadata"]["name"] = json!("train-1");
            pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = json!("1");
            pod["metadata"]["labels"][keys::LABEL_POD_GROUP] = json!("train");
            pod["spec"]["schedulingGates"] = json!([{"name": keys::GATE}]);
            pod["spec"]["nodeSelector"] = json!({"rack": "r1"});
            pod["spec"]["containers"][0]["env"] = json!([{"name": "INDEX", "value": "1"}]);
            pod["spec"]["volumes"] = json!([{"name": "kube-api-access-x7k2p", "emptyDir": {}}]);
        });
        assert_eq!(first, second);
    }

    #[test]
    fn a_changed_template_has_another_hash() {
        let first = hash(|_| {});
        assert_ne!(first, hash(|pod| pod["metadata"]["labels"]["team"] = json!("x")));
        assert_ne!(first, hash(|pod| pod["spec"]["containers"][0]["image"] = json!("i:2")));
        assert_ne!(first, hash(|pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2")));
    }

    #[test]
    fn a_pod_with_a_node_has_none_and_the_controller_does_not_matter() {
        assert_eq!(hash(|pod| pod["spec"]["nodeName"] = json!("n1")), None);
        assert_eq!(hash(|pod| pod["metadata"]["ownerReferences"] = json!([])), hash(|_| {}));
    }
}
