//! Pod, create: members of groups get their group label, the gate of a gang and the group's class; pods of managed
//! classes and of classes with a threshold get the class's annotations (design, section 3, rules 3 and 4).

use super::pod_priority;
use crate::object::{self, Metadata, annotation_path};
use crate::review::Request;
use crate::verdict::{Notes, Reference, Refusal};
use crate::view::{Group, View};
use giveway_crds::keys::{self, ANNOTATION_PLAN, GATE, LABEL_POD_GROUP};
use giveway_crds::membership::{self, Membership};
use serde::Deserialize;
use serde_json::{Value, json};

/// Annotation of the API's copy of a static pod: the kubelet owns it, and admission must not change it.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// The part of a pod that rules read.
#[derive(Debug, Deserialize)]
pub struct Facts {
    /// Its metadata.
    #[serde(default)]
    pub metadata: Metadata,
    /// Its spec.
    #[serde(default)]
    pub spec: Spec,
}

/// The part of a pod's spec that rules read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Name of its priority class; the Priority plugin has filled it before.
    #[serde(default)]
    pub priority_class_name: Option<String>,
    /// Its priority; the Priority plugin has filled it before.
    #[serde(default)]
    pub priority: Option<i32>,
    /// Its preemption policy; the Priority plugin has filled it before.
    #[serde(default)]
    pub preemption_policy: Option<String>,
    /// Its node, when it is created bound.
    #[serde(default)]
    pub node_name: Option<String>,
    /// What holds it.
    #[serde(default)]
    pub scheduling_gates: Option<Vec<Gate>>,
}

/// A scheduling gate.
#[derive(Debug, Deserialize)]
pub struct Gate {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

impl Facts {
    /// Whether this is the API's copy of a static pod.
    pub fn is_mirror(&self) -> bool {
        self.metadata.annotation(MIRROR).is_some()
    }

    /// Whether Giveway's gate holds the pod.
    pub fn has_gate(&self) -> bool {
        self.spec.scheduling_gates.iter().flatten().any(|gate| gate.name == GATE)
    }

    fn is_bound(&self) -> bool {
        self.spec.node_name.as_deref().is_some_and(|node| !node.is_empty())
    }
}

/// Prepares a pod that is created.
///
/// Errors: labels that name no valid group (422), a gate or a plan that the user set (422), a class below the group's
/// priority (422), annotations that differ from what the class gives (403).
pub fn create(request: &Request, view: &View, notes: &mut Notes) -> Result<Option<Value>, Refusal> {
    let pod: Facts = object::read("Pod", &request.object)?;
    if pod.is_mirror() {
        return Ok(None);
    }
    if let Some(plan) = pod.metadata.annotation(ANNOTATION_PLAN) {
        let detail = "Giveway writes here what it decided for this pod: remove the annotation";
        return Err(Refusal::invalid(&annotation_path(ANNOTATION_PLAN), &shorten(plan), detail));
    }
    let member = membership::of(pod.metadata.labels.as_ref()).map_err(|e| Refusal::unprocessable(e.to_string()))?;
    let mut object = request.object.clone();
    let group = match &member {
        Some(member) => {
            let group = find_group(member, request.namespace(), view, notes);
            object::set(&mut object, &["metadata", "labels", LABEL_POD_GROUP], member.group.as_str());
            hold(&pod, group, &mut object);
            group
        }
        None if pod.has_gate() => {
            let detail = format!(
                "only Giveway holds pods by this gate, and only members of gangs: remove the gate, or name the pod's \
                 group in the label {LABEL_POD_GROUP}"
            );
            return Err(Refusal::invalid("spec.schedulingGates", GATE, detail));
        }
        None => None,
    };
    let group = member.as_ref().map(|member| member.group.as_str()).zip(group);
    pod_priority::apply(&pod, group, view, &mut object, notes)?;
    Ok(Some(object))
}

/// The group of a member: the PodGroup when it exists, otherwise the template that it will be made from.
fn find_group<'a>(member: &Membership, namespace: &str, view: &'a View, notes: &mut Notes) -> Option<&'a Group> {
    if let Some(group) = view.group(namespace, &member.group) {
        return Some(group);
    }
    notes.miss(Reference::PodGroup { namespace: namespace.to_owned(), name: member.group.clone() });
    let (workload, template) = member.template.as_ref()?;
    let templates = view.templates(namespace, workload);
    if templates.is_none() {
        notes.miss(Reference::Workload { namespace: namespace.to_owned(), name: workload.clone() });
    }
    templates?.get(template)
}

/// Adds or removes the gate: members of gangs and of groups that nobody knows yet are held, members of basic groups
/// are not. A pod that is created bound cannot be held.
fn hold(pod: &Facts, group: Option<&Group>, object: &mut Value) {
    let wanted = group.is_none_or(|group| group.gang);
    if pod.is_bound() || wanted == pod.has_gate() {
        return;
    }
    let gates = object.pointer("/spec/schedulingGates").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_ours = |gate: &Value| gate.get("name").and_then(Value::as_str) == Some(keys::GATE);
    let mut gates: Vec<Value> = gates.into_iter().filter(|gate| !is_ours(gate)).collect();
    if wanted {
        gates.push(json!({"name": keys::GATE}));
    }
    match gates.is_empty() {
        true => object::remove(object, &["spec", "schedulingGates"]),
        false => object::set(object, &["spec", "schedulingGates"], gates),
    }
}

/// The beginning of a long value, for messages.
fn shorten(value: &str) -> String {
    match value.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}
