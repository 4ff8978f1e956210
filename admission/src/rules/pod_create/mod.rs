//! Pod, create: members of groups get their group label, the gate of a gang and the group's class; pods of managed
//! classes and of classes with a threshold get the class's annotations (design, section 3, rules 3 and 4).

mod fields;
mod gang;
mod priority;
pub mod stored;

use crate::object;
use crate::patch::Changes;
use crate::request::Request;
use crate::verdict::{Denial, Notes, Reference};
use crate::view::{ClusterView, GroupView};
use crate::wording::pods;
use fields::PodFields;
use giveway_crds::keys::{ANNOTATION_PLAN, GATE, LABEL_POD_GROUP};
use giveway_crds::kinds::spark;
use giveway_crds::membership::{self, Membership};
use json_patch::Patch;
use serde_json::json;
use std::borrow::Cow;

/// Applies the mutating rule to a pod that is created. Returns the patch that adds the group label, the scheduling gate, the
/// group's class and the class's annotations where they are missing; `None` if nothing changes.
///
/// # Errors
/// With status 422: labels that name no valid group, or a group created from another template or for another owner; a gate or a
/// plan that the user set; a duplicate gate; a PodGroup of Giveway beside a native one; a class below the group's
/// priority. With status 403: annotations that differ from the class's.
pub fn create(request: &Request<'_>, view: &dyn ClusterView, notes: &mut Notes) -> Result<Option<Patch>, Denial> {
    let pod: PodFields = object::read("Pod", request.object)?;
    if pod.is_mirror() && is_node(request) {
        return Ok(None);
    }
    if let Some(plan) = pod.metadata.annotation(ANNOTATION_PLAN) {
        return Err(pods::foreign_plan(plan));
    }
    if let Some(second) = pod.gates().nth(1) {
        return Err(pods::duplicate_gate(second));
    }
    let named = membership::by(|key| pod.metadata.label(key)).map_err(|error| pods::invalid_membership(&error))?;
    let origin = gang::origin_of(&pod, named.as_ref())?;
    let of_owner = || origin.as_ref().map(|origin| Membership { group: origin.group.clone(), template: None });
    let member = named.or_else(of_owner);
    if let Some(native) = pod.native_group() {
        one_group(native, member.as_ref())?;
        warn_unpreempting(native, &pod, view, notes);
    }
    let mut changes = Changes::default();
    let group = match &member {
        Some(member) => {
            let group = find_group(member, request.namespace(), view, notes);
            same_template(member, group.as_deref())?;
            if let Some(origin) = &origin {
                gang::same_owner(origin, group.as_deref())?;
            }
            changes.label(&pod.metadata, LABEL_POD_GROUP, &member.group);
            if spark::is_driver(pod.metadata.label(spark::LABEL_ROLE))
                && group.as_deref().is_none_or(|group| group.gang)
            {
                notes.warn(pods::spark_driver(&member.group));
            }
            set_gate(&pod, group.as_deref(), &mut changes);
            group
        }
        None if pod.has_gate() => return Err(pods::gate_without_group()),
        None => None,
    };
    let group = member.as_ref().map(|member| member.group.as_str()).zip(group.as_deref());
    priority::apply(&pod, group, view, &mut changes, notes)?;
    Ok(changes.finish())
}

/// Returns true if a kubelet sent the request. A mirror pod is trusted only then, because any user can write a mirror pod's
/// annotation.
fn is_node(request: &Request<'_>) -> bool {
    request.user().starts_with("system:node:") && request.is_in_group("system:nodes")
}

/// Rejects (422) a pod of the native group `native` that also names a PodGroup of Giveway (`member`): only one of kube-scheduler
/// and Giveway can schedule its group.
fn one_group(native: &str, member: Option<&Membership>) -> Result<(), Denial> {
    let Some(member) = member else { return Ok(()) };
    Err(match &member.template {
        Some((workload, _)) => pods::native_and_own_template(native, workload),
        None => pods::native_and_own_group(native, &member.group),
    })
}

/// Adds a warning if the pod, of the native group `native`, has a managed class: Giveway preempts only for its own groups, and
/// kube-scheduler does not preempt for managed classes.
fn warn_unpreempting(native: &str, pod: &PodFields<'_>, view: &dyn ClusterView, notes: &mut Notes) {
    let class = pod.spec.priority_class_name.as_deref().and_then(|name| view.classes().get(name));
    if let Some(class) = class.filter(|class| class.managed) {
        notes.warn(pods::native_group_never_preempts(&class.name, native));
    }
}

/// Returns the group that a pod's labels name: the PodGroup if it exists, otherwise as the template of its Workload describes it.
/// `None` if neither exists. What `view` does not contain is recorded in `notes` as missing.
fn find_group<'a>(
    member: &Membership,
    namespace: &str,
    view: &'a dyn ClusterView,
    notes: &mut Notes,
) -> Option<Cow<'a, GroupView>> {
    if let Some(group) = view.group(namespace, &member.group) {
        return Some(group);
    }
    notes.miss(Reference::PodGroup { namespace: namespace.to_owned(), name: member.group.clone() });
    let (workload, template) = member.template.as_ref()?;
    if !view.has_workload(namespace, workload) {
        notes.miss(Reference::Workload { namespace: namespace.to_owned(), name: workload.clone() });
    }
    view.template(namespace, workload, template)
}

/// Rejects (422) a pod that names a template and whose group was created from another template. Group names consist of two or three names
/// joined by dashes, so two templates can have the same group name: `c` of Workload `a-b`, and `b-c` of `a`. The template whose group was
/// created first keeps the name. The message does not name it: a client that reaches the port can forge a pod.
fn same_template(member: &Membership, group: Option<&GroupView>) -> Result<(), Denial> {
    let made_from = group.and_then(|group| group.template.as_ref());
    let (Some(ours), Some(theirs)) = (&member.template, made_from) else { return Ok(()) };
    if ours == theirs {
        return Ok(());
    }
    let (workload, template) = ours;
    Err(pods::group_of_another_template(&member.group, workload, template))
}

/// Adds Giveway's scheduling gate to a pod of a gang, or of a group that does not exist yet (`None`), and removes it from a pod of a
/// basic group. A pod that is created with a node is left as it is, because Kubernetes permits no gate on it.
fn set_gate(pod: &PodFields<'_>, group: Option<&GroupView>, changes: &mut Changes) {
    let wanted = group.is_none_or(|group| group.gang);
    if pod.is_bound() || wanted == pod.has_gate() {
        return;
    }
    match (&pod.spec.scheduling_gates, pod.gates().next()) {
        (Some(gates), Some(_)) if gates.len() == 1 => changes.remove(&["spec", "schedulingGates"]),
        (_, Some(index)) => changes.remove(&["spec", "schedulingGates", &index.to_string()]),
        (Some(_), None) => changes.set(&["spec", "schedulingGates", "-"], json!({"name": GATE})),
        (None, None) => {
            changes.map_at(&["spec"], pod.spec.is_there());
            changes.set(&["spec", "schedulingGates"], json!([{"name": GATE}]));
        }
    }
}
