//! Objects as JSON, and functions that read their fields.

use giveway_crds::keys;
use serde_json::Value;

/// The kinds of objects in the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Node,
    Pod,
    Group,
    Budget,
    Preemption,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Node, Self::Pod, Self::Group, Self::Budget, Self::Preemption];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::Group => "PodGroup",
            Self::Budget => "PodDisruptionBudget",
            Self::Preemption => "Preemption",
        }
    }

    /// Returns the plural of the kind and its API group.
    pub fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Node => ("nodes", ""),
            Self::Pod => ("pods", ""),
            Self::Group => ("podgroups", keys::GROUP),
            Self::Budget => ("poddisruptionbudgets", "policy"),
            Self::Preemption => ("preemptions", keys::GROUP),
        }
    }

    /// Returns the namespace of its objects, which is the same for all namespaced kinds.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Node | Self::Preemption => "",
            Self::Pod | Self::Group | Self::Budget => "default",
        }
    }
}

/// Returns the string at a JSON pointer; empty if it does not exist.
pub fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer at a JSON pointer; 0 if it does not exist.
pub fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the UID of an object.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Returns true if an object is being deleted.
pub fn terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// A pod.
#[derive(Clone, Copy)]
pub struct Pod<'v>(pub &'v Value);

impl<'v> Pod<'v> {
    pub fn name(self) -> &'v str {
        text(self.0, "/metadata/name")
    }

    pub fn uid(self) -> &'v str {
        uid(self.0)
    }

    /// Returns the node to which it is bound.
    pub fn node(self) -> Option<&'v str> {
        Some(text(self.0, "/spec/nodeName")).filter(|node| !node.is_empty())
    }

    pub fn nominated(self) -> Option<&'v str> {
        Some(text(self.0, "/status/nominatedNodeName")).filter(|node| !node.is_empty())
    }

    pub fn gated(self) -> bool {
        self.0.pointer("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty())
    }

    pub fn priority(self) -> i64 {
        number(self.0, "/spec/priority")
    }

    /// Returns its CPU request.
    pub fn cpus(self) -> i64 {
        text(self.0, "/spec/containers/0/resources/requests/cpu").parse().unwrap_or(0)
    }

    /// Returns the group in its label.
    pub fn group(self) -> Option<&'v str> {
        self.0["metadata"]["labels"][keys::LABEL_POD_GROUP].as_str()
    }

    /// Returns the name of its owner.
    pub fn owner(self) -> &'v str {
        text(self.0, "/metadata/ownerReferences/0/name")
    }

    pub fn app(self) -> &'v str {
        text(self.0, "/metadata/labels/app")
    }

    /// Returns true if its containers have ended.
    pub fn ended(self) -> bool {
        matches!(text(self.0, "/status/phase"), "Succeeded" | "Failed")
    }

    /// Returns true if it is not terminating and has not ended.
    pub fn live(self) -> bool {
        !terminating(self.0) && !self.ended()
    }

    pub fn ready(self) -> bool {
        self.condition("Ready") == Some("True") && !terminating(self.0)
    }

    /// Returns the status of a condition.
    pub fn condition(self, type_: &str) -> Option<&'v str> {
        let conditions = self.0.pointer("/status/conditions").and_then(Value::as_array);
        let found = conditions.into_iter().flatten().find(|c| text(c, "/type") == type_)?;
        Some(text(found, "/status"))
    }
}

/// Sets a condition of a pod.
pub fn set_condition(pod: &mut Value, condition: Value) {
    let status = pod["status"].as_object_mut().expect("a status");
    let list = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let list = list.as_array_mut().expect("conditions");
    list.retain(|known| known["type"] != condition["type"]);
    list.push(condition);
}

/// Applies a JSON merge patch (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let object = target.as_object_mut().expect("an object");
    for (key, value) in fields {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}
