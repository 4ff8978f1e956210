//! Effects of the priority class on a pod: a member without a class gets the group's class, its priority is compared
//! with the group's, and the pod gets the class's annotations (design, section 3, rules 3 and 4).

use super::fields::PodFields;
use crate::patch::Changes;
use crate::verdict::{Denial, Notes, Reference};
use crate::view::{ClusterView, GroupView};
use crate::wording::pods;
use giveway_crds::keys::{ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use giveway_crds::lending::RequestedPriority;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Class;

/// Adds to `changes` that a pod without a PriorityClass gets the class of its group, and that the pod gets the annotations of
/// its final class. `group` is the name of its group and the group; `None` for a pod without a group.
///
/// # Errors
/// The class is below the priority of the group (422), or the user set an annotation to another value than the class's (403).
pub fn apply(
    pod: &PodFields<'_>,
    group: Option<(&str, &GroupView)>,
    view: &dyn ClusterView,
    changes: &mut Changes,
    notes: &mut Notes,
) -> Result<(), Denial> {
    let own = pod.spec.priority_class_name.as_deref().unwrap_or_default();
    let taken = group_class(own, group.map(|(_, group)| group), view, notes);
    let class = taken.or_else(|| find_class(own, view, notes));
    if let Some((name, group)) = group {
        // The priority that the Priority plugin will compute, or has computed.
        let priority = taken.map(|class| class.value).or(pod.spec.priority).or(class.map(|class| class.value));
        compare(own, taken, priority.unwrap_or_default(), name, group, view, notes)?;
    }
    if let Some(class) = taken {
        take_class(pod, class, changes);
    }
    copy_class_annotation(pod, (ANNOTATION_PREEMPTION_POLICY, "string"), class, policy_of, view, changes)?;
    copy_class_annotation(pod, (ANNOTATION_THRESHOLD, "integer"), class, Class::pod_threshold, view, changes)
}

/// Rejects (422) a pod whose `priority` is below that of its group `name`, and adds a warning if it is above. `own` is the name of the
/// class in the pod (empty: none); `taken` is the class that it gets from the group instead, if it does.
fn compare(
    own: &str,
    taken: Option<&Class>,
    priority: i32,
    name: &str,
    group: &GroupView,
    view: &dyn ClusterView,
    notes: &mut Notes,
) -> Result<(), Denial> {
    let asked = RequestedPriority::of(name, group.class_name.as_deref(), group.priority, view.classes());
    let Some(asked) = asked else { return Ok(()) };
    let class_name = taken.map_or(own, |class| class.name.as_str());
    if let Some(detail) = asked.refusal(class_name, priority, view.classes()) {
        return Err(pods::class_below_group(own, &detail));
    }
    asked.warning(class_name, priority).into_iter().for_each(|warning| notes.warn(warning));
    Ok(())
}

/// Returns the PriorityClass with this name. `None` if `view` does not contain it: then it is recorded in `notes` as missing, unless
/// the name is empty.
fn find_class<'a>(name: &str, view: &'a dyn ClusterView, notes: &mut Notes) -> Option<&'a Class> {
    let found = view.classes().get(name);
    if found.is_none() && !name.is_empty() {
        notes.miss(Reference::Class(name.to_owned()));
    }
    found
}

/// Returns the PriorityClass of the group if the pod gets it: if `own`, the name of the class in the pod, is empty or the default
/// class. (The Priority plugin runs before webhooks and writes the default class into pods that name none.) `None` if the pod
/// keeps its class, or the group has none.
fn group_class<'a>(
    own: &str,
    group: Option<&GroupView>,
    view: &'a dyn ClusterView,
    notes: &mut Notes,
) -> Option<&'a Class> {
    let theirs = group?.class_name.as_deref()?;
    let is_default = view.classes().global_default().is_some_and(|default| default.name == own);
    match own.is_empty() || is_default {
        true if theirs != own => find_class(theirs, view, notes),
        _ => None,
    }
}

/// Adds to `changes` that the pod gets this PriorityClass, and that the priority and policy that the Priority plugin computed from another
/// class are removed. The plugin runs again after this.
fn take_class(pod: &PodFields<'_>, class: &Class, changes: &mut Changes) {
    changes.map_at(&["spec"], pod.spec.is_there());
    changes.set(&["spec", "priorityClassName"], class.name.as_str());
    if pod.spec.priority.is_some() {
        changes.remove(&["spec", "priority"]);
    }
    let policy = pod.spec.preemption_policy.as_deref();
    if policy.is_some_and(|policy| PreemptionPolicy::parse(policy) != Some(class.scheduler_policy)) {
        changes.remove(&["spec", "preemptionPolicy"]);
    }
}

/// Returns the preemption policy that pods of a managed class get as an annotation; `None` if the class is not managed.
fn policy_of(class: &Class) -> Option<&str> {
    class.managed_policy.map(PreemptionPolicy::as_str)
}

/// Adds to `changes` that a pod gets the annotation `key`, whose value `value_of` returns for its class, and rejects (403) a pod that has
/// another value. `type_`, such as "integer", describes the value in the message. If the value is that of another class, the
/// message says that another webhook may have changed the class of the pod.
fn copy_class_annotation(
    pod: &PodFields<'_>,
    (key, type_): (&str, &str),
    class: Option<&Class>,
    value_of: fn(&Class) -> Option<&str>,
    view: &dyn ClusterView,
    changes: &mut Changes,
) -> Result<(), Denial> {
    let computed = class.and_then(value_of);
    match (pod.metadata.annotation(key), computed) {
        (Some(given), computed) if computed != Some(given) => {
            let other = view.classes().iter().find(|other| value_of(other) == Some(given));
            Err(pods::class_annotation((key, type_), given, computed, other.map(|other| other.name.as_str())))
        }
        (None, Some(computed)) => {
            changes.annotation(&pod.metadata, key, computed);
            Ok(())
        }
        _ => Ok(()),
    }
}
