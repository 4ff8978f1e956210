//! One search over all objects of a cluster for what is Giveway's.

use crate::World;
use giveway_crds::keys::GROUP;
use serde_json::Value;

/// Every object that is Giveway's or carries something of it, as `RESOURCE NAMESPACE/NAME: WHERE`, sorted.
///
/// Looked for is the name `giveway`, everywhere in an object but in what the API server notes about who wrote a field, and in
/// events, which end by themselves.
///
/// # Panics
/// A kind cannot be listed.
pub async fn of_giveway(world: &World) -> Vec<String> {
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
                // What `kubectl apply` was given, as the user wrote it.
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

/// Whether this, of what [`of_giveway`] finds, stays after an uninstall that keeps the kinds, as the pages say.
pub fn stays(line: &str) -> bool {
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

/// The places in a value where Giveway is named, as a key or in a text.
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
