//! Searches all objects of a cluster for objects and fields of Giveway.

use crate::World;
use giveway_crds::keys::GROUP;
use serde_json::Value;

/// Returns the sorted locations of the name `giveway` in all objects, as `RESOURCE NAMESPACE/NAME: WHERE`.
///
/// Events, which expire, and `managedFields` are not searched.
///
/// # Panics
/// If a kind cannot be listed.
pub async fn objects_of_giveway(world: &World) -> Vec<String> {
    let resources = world.kubectl(&["api-resources", "--verbs=list", "--output=name"]).await.unwrap();
    let mut found = Vec::new();
    for resource in resources.lines().filter(|name| !name.starts_with("events")) {
        let list = world.kubectl(&["get", resource, "--all-namespaces", "--output=json"]).await.unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        for item in list["items"].as_array().into_iter().flatten() {
            let mut item = item.clone();
            if let Some(metadata) = item["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            if item["metadata"]["annotations"].is_object() {
                // The manifest that the user gave to `kubectl apply`.
                let annotations = item["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
            let mut places = Vec::new();
            look(&item, "", &mut places);
            let text = |name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
            let name = format!("{resource} {}/{}", text("namespace"), text("name"));
            if resource.ends_with(GROUP) {
                found.push(name.clone());
            }
            found.extend(places.iter().map(|place| format!("{name}: {place}")));
        }
    }
    found.sort();
    found
}

/// Returns true if this location, found by [`objects_of_giveway`], is documented to remain after an uninstall that keeps the
/// CRDs.
pub fn is_documented_to_stay(line: &str) -> bool {
    let kinds = ["customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"];
    let namespace = [
        "namespaces /giveway-system:",
        "configmaps giveway-system/kube-root-ca.crt:",
        "serviceaccounts giveway-system/default:",
    ];
    let labels = [": .metadata.labels.scheduling.", ": .spec.template.metadata.labels.scheduling."];
    line.contains(".scheduling.giveway.dev default/")
        || line.starts_with("preemptions.scheduling.giveway.dev ")
        || kinds.iter().chain(&namespace).any(|start| line.starts_with(start))
        || labels.iter().any(|label| line.contains(label))
}

/// Collects the locations in a JSON value where `giveway` occurs in a key or a string.
fn look(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let path = format!("{path}.{key}");
                if key.contains("giveway") { found.push(path) } else { look(inner, &path, found) }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| look(item, path, found)),
        Value::String(text) if text.contains("giveway") => found.push(format!("{path}={text}")),
        _ => {}
    }
}
