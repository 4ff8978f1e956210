//! Priority of groups and templates, resolved and refused as the API server's Priority plugin does it for pods
//! (design, section 2, `spec.priorityClassName`, `spec.priority`, `spec.preemptionPolicy`).

use crate::object;
use crate::verdict::{Notes, Reference, Refusal};
use crate::view::View;
use giveway_crds::keys;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Resolved;
use serde::Deserialize;
use serde_json::Value;

/// The fields of a group or template that have to do with priority, as the user gave them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Given {
    /// Name of the class.
    #[serde(default)]
    pub priority_class_name: Option<String>,
    /// The priority; wider than the field, so that any integer can be refused with its value.
    #[serde(default)]
    pub priority: Option<i64>,
    /// The preemption policy.
    #[serde(default)]
    pub preemption_policy: Option<String>,
}

/// Fills the priority of a group or template at `path` (such as `spec`) into `target`, and compares what was given
/// with what its class says.
///
/// `stored` is the same group or template as it is stored, on an update. What is stored stays: fields that a manifest
/// leaves out are restored, as the Priority plugin restores them on pods, so that it can be applied again; CEL rules
/// refuse other changes. What was stored while the webhook was away has no priority, and gets one.
///
/// Returns what the class resolves to, unless the priority was stored already. Errors: an unknown class, or a value
/// that differs from the class's (403, in the Priority plugin's words).
pub fn fill(
    target: &mut Value,
    path: &str,
    given: &Given,
    stored: Option<&Given>,
    view: &View,
    notes: &mut Notes,
) -> Result<Option<Resolved>, Refusal> {
    if let Some(stored) = stored.filter(|stored| stored.priority.is_some()) {
        restore(target, given, stored);
        return Ok(None);
    }
    let Some(resolved) = resolve(path, given, stored, view, notes)? else { return Ok(None) };
    if !resolved.class_name.is_empty() {
        object::set(target, &["priorityClassName"], resolved.class_name.as_str());
    }
    object::set(target, &["priority"], resolved.priority);
    Ok(Some(resolved))
}

fn restore(target: &mut Value, given: &Given, stored: &Given) {
    if let (None, Some(name)) = (&given.priority_class_name, &stored.priority_class_name) {
        object::set(target, &["priorityClassName"], name.as_str());
    }
    if let (None, Some(priority)) = (given.priority, stored.priority) {
        object::set(target, &["priority"], priority);
    }
    if let (None, Some(policy)) = (&given.preemption_policy, &stored.preemption_policy) {
        object::set(target, &["preemptionPolicy"], policy.as_str());
    }
}

fn resolve(
    path: &str,
    given: &Given,
    stored: Option<&Given>,
    view: &View,
    notes: &mut Notes,
) -> Result<Option<Resolved>, Refusal> {
    let class_name = given.priority_class_name.as_deref().filter(|name| !name.is_empty());
    let resolved = match view.classes.resolve(class_name) {
        Ok(resolved) => resolved,
        Err(error) => {
            let refusal = Refusal::forbidden(&format!("{path}.priorityClassName"), error);
            notes.miss(Reference::Class(class_name.unwrap_or_default().to_owned()));
            if stored.is_some_and(|s| s.priority_class_name == given.priority_class_name) {
                notes.warn(refusal.message);
                return Ok(None);
            }
            return Err(refusal);
        }
    };
    compare(path, given, stored, &resolved)?;
    if stored.is_none() {
        warn_unmanaged(&resolved, notes);
    }
    Ok(Some(resolved))
}

/// Compares the final values of a group or template with its class. Values that are stored already are accepted.
pub fn check(path: &str, given: &Given, stored: Option<&Given>, view: &View, notes: &mut Notes) -> Result<(), Refusal> {
    if stored.is_some_and(|s| s == given) {
        return Ok(());
    }
    match view.classes.resolve(given.priority_class_name.as_deref()) {
        Ok(resolved) => compare(path, given, stored, &resolved),
        Err(error) => {
            notes.miss(Reference::Class(given.priority_class_name.clone().unwrap_or_default()));
            match stored.is_some_and(|s| s.priority_class_name == given.priority_class_name) {
                true => Ok(()),
                false => Err(Refusal::forbidden(&format!("{path}.priorityClassName"), error)),
            }
        }
    }
}

fn compare(path: &str, given: &Given, stored: Option<&Given>, resolved: &Resolved) -> Result<(), Refusal> {
    let stored_priority = stored.and_then(|s| s.priority);
    if let Some(priority) = given.priority
        && priority != i64::from(resolved.priority)
        && stored_priority != given.priority
    {
        return Err(Refusal::forbidden(
            &format!("{path}.priority"),
            format_args!(
                "the integer value of priority ({priority}) must not be provided in pod spec; priority admission \
                 controller computed {} from the given PriorityClass name",
                resolved.priority
            ),
        ));
    }
    let stored_policy = stored.and_then(|s| s.preemption_policy.as_deref());
    if let Some(policy) = given.preemption_policy.as_deref()
        && PreemptionPolicy::parse(policy) != Some(resolved.policy)
        && stored_policy != Some(policy)
    {
        return Err(Refusal::forbidden(
            &format!("{path}.preemptionPolicy"),
            format_args!(
                "the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission \
                 controller computed {} from the given PriorityClass name",
                resolved.policy
            ),
        ));
    }
    Ok(())
}

fn warn_unmanaged(resolved: &Resolved, notes: &mut Notes) {
    if !resolved.class_name.is_empty() && !resolved.managed && resolved.policy != PreemptionPolicy::Never {
        notes.warn(format!(
            "priority class {} is not managed by Giveway: kube-scheduler may preempt for single pods of this group; \
             see `{}`",
            resolved.class_name,
            keys::ANNOTATION_MANAGED
        ));
    }
}
