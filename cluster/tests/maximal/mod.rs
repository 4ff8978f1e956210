//! Objects in which every field of the API is set, made from the schema of a type. What a program reads of such an object must be the same
//! if only the fields of the table were decoded.

#![allow(dead_code, reason = "each test that includes this file uses a part of it")]

use giveway_cluster::objects::{DecodedObject, TrimmedObject};
use giveway_crds::keys;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use kube::Resource;
use serde_json::{Map, Value, json};

/// Maximum depth of an object.
const DEEPEST: usize = 24;

/// Returns an object in which every field of the schema is set: a text is `1`, which is also a quantity; lists and maps have one element.
pub fn of<K: JsonSchema>() -> Value {
    let schema = SchemaGenerator::default().into_root_schema_for::<K>().to_value();
    value(&schema, &schema, 0)
}

fn value(schema: &Value, root: &Value, depth: usize) -> Value {
    if let Some(path) = schema["$ref"].as_str() {
        let target = root.pointer(path.trim_start_matches('#')).cloned().unwrap_or_default();
        return value(&target, root, depth);
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        if let Some(first) = schema[word].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null")) {
            return value(first, root, depth);
        }
    }
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    let name = match &schema["type"] {
        Value::Array(names) => names.iter().find_map(|name| name.as_str().filter(|name| *name != "null")),
        name => name.as_str(),
    };
    match name {
        Some("object") if depth < DEEPEST => object(schema, root, depth + 1),
        Some("object") => json!({}),
        Some("array") => json!([value(&schema["items"], root, depth + 1)]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => match schema["format"].as_str() {
            Some("date-time") => json!("2026-01-02T03:04:05Z"),
            Some("byte") => json!("MQ=="),
            _ => json!("1"),
        },
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let mut fields = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        fields.insert(name.clone(), value(field, root, depth));
    }
    if let Some(each) = schema.get("additionalProperties").filter(|each| each.is_object()) {
        fields.insert("key".to_owned(), value(each, root, depth));
    }
    Value::Object(fields)
}

/// Sets fields of an object. An element of a list is added to the fields of the list's first element.
pub fn set(object: &mut Value, more: &Value) {
    match (object, more) {
        (Value::Object(fields), Value::Object(more)) => {
            more.iter().for_each(|(name, value)| set(fields.entry(name.clone()).or_insert(Value::Null), value));
        }
        (Value::Array(items), Value::Array(more)) => {
            let first = items.first().cloned().unwrap_or_default();
            *items = more.iter().map(|more| changed(&first, more)).collect();
        }
        (object, more) => *object = more.clone(),
    }
}

fn changed(first: &Value, more: &Value) -> Value {
    let mut item = first.clone();
    set(&mut item, more);
    item
}

/// Decodes a complete object, and the fields of it that are in the table.
pub fn both<K: Resource + TrimmedObject>(object: &Value) -> [K; 2] {
    let text = object.to_string();
    let trimmed = DecodedObject::<K>::decode(&text).unwrap().0;
    [K::decode(&text).unwrap(), trimmed.unwrap_or_else(|invalid| panic!("{}", invalid.error))]
}

/// Returns a pod of which every field is set, and which a controller made.
pub fn pod() -> Value {
    let mut pod = of::<k8s_openapi::api::core::v1::Pod>();
    let conditions: Vec<Value> = ["PodScheduled", "Ready", "PodResizePending", "DisruptionTarget", "Other"]
        .iter()
        .map(|name| json!({"type": name, "status": "True", "reason": "PreemptionByScheduler"}))
        .collect();
    let term = json!({"labelSelector": {"matchExpressions": [{"operator": "In"}]}, "namespaceSelector": {"matchExpressions": [{"operator": "In"}]}});
    let pod_terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let selector = json!({"matchExpressions": [{"operator": "In"}]});
    set(
        &mut pod,
        &json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "train-0", "namespace": "ml", "labels": {
                    keys::LABEL_GANG: "true", keys::LABEL_POD_GROUP: "train", "app": "train", "1": "own"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": true}],
                "annotations": {keys::ANNOTATION_MIN_COUNT: "3", keys::ANNOTATION_DISRUPTION_MODE: "Pod",
                    keys::ANNOTATION_PREEMPTION_POLICY: "Never", keys::ANNOTATION_THRESHOLD: "7",
                    keys::ANNOTATION_CRITICAL: "true", keys::ANNOTATION_CRITICAL_POD: "",
                    "kubernetes.io/config.mirror": "x", "leaderworkerset.sigs.k8s.io/size": "4"}},
            "spec": {"hostUsers": false, "resources": {"requests": {"cpu": "2"}},
                "containers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}], "affinity": {"podAffinity": pod_terms, "podAntiAffinity": pod_terms, "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"operator": "In"}], "matchFields": [{"key": "metadata.name", "operator": "In"}]}]}}},
                "topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}],
                "tolerations": [{"operator": "Equal", "effect": "NoExecute"}],
                "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}, {"name": "init", "restartPolicy": null}],
                "volumes": [{"name": "claimed", "ephemeral": null}, {"name": "own", "persistentVolumeClaim": null}],
                "schedulingGates": [{"name": keys::GATE}, {"name": "other"}]},
            "status": {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4"}, "conditions": conditions, "containerStatuses": [{"resources": {"requests": {"cpu": "3"}}}]},
        }),
    );
    pod
}

/// Returns a node of which every field is set.
pub fn node() -> Value {
    let mut node = of::<k8s_openapi::api::core::v1::Node>();
    let more = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "MemoryPressure", "status": "True"}]}});
    set(&mut node, &more);
    node
}

/// Returns a PriorityClass of which every field is set, with the managed fields of its threshold.
pub fn priority_class() -> Value {
    let mut class = of::<k8s_openapi::api::scheduling::v1::PriorityClass>();
    let fields = json!({"f:metadata": {"f:annotations": {format!("f:{}", keys::ANNOTATION_THRESHOLD): {}}}});
    let annotations = json!({keys::ANNOTATION_MANAGED: "true", keys::ANNOTATION_PREEMPTION_POLICY: "Never",
        keys::ANNOTATION_THRESHOLD: "7"});
    let more = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "preemptionPolicy": "Never",
        "metadata": {"name": "1", "annotations": annotations, "managedFields": [{"fieldsV1": fields}]}});
    set(&mut class, &more);
    class
}

/// Returns a budget of which every field is set.
pub fn budget() -> Value {
    let mut budget = of::<k8s_openapi::api::policy::v1::PodDisruptionBudget>();
    let more = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "ml"},
        "spec": {"selector": {"matchExpressions": [{"operator": "In"}]}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    set(&mut budget, &more);
    budget
}

/// Returns an object of a kind of Giveway of which every field is set.
pub fn own<K: JsonSchema>(kind: &str) -> Value {
    let mut object = of::<K>();
    let metadata = of::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>();
    let more = json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": kind, "metadata": metadata});
    set(&mut object, &more);
    let owners = json!([{"apiVersion": "batch/v1", "kind": "Job", "controller": true}]);
    let labels = json!({keys::LABEL_GANG: "true", keys::LABEL_MANAGED_BY: keys::MANAGED_BY});
    let metadata = json!({"name": "train", "namespace": "ml", "ownerReferences": owners, "labels": labels,
        "finalizers": [keys::FINALIZER_PROTECTION]});
    set(&mut object, &json!({"metadata": metadata}));
    object
}
