//! Priority of groups and templates, resolved and rejected as by the API server's Priority plugin for pods (design,
//! section 2, `spec.priorityClassName`, `spec.priority`, `spec.preemptionPolicy`).

use crate::object::Text;
use crate::patch::Changes;
use crate::verdict::{Denial, Notes, Reference};
use crate::view::ClusterView;
use crate::wording::groups;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Resolved;
use serde::Deserialize;
use serde_json::Value;

/// The priority fields of a group or template, as the user set them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StatedPriority<'a> {
    /// Name of the class.
    #[serde(borrow, default)]
    pub priority_class_name: Option<Text<'a>>,
    /// The priority; wider than the field, so that any integer can be rejected with its value.
    #[serde(default)]
    pub priority: Option<i64>,
    /// The preemption policy.
    #[serde(borrow, default)]
    pub preemption_policy: Option<Text<'a>>,
}

/// Where the priority fields are: in the spec of a PodGroup, or in a template in the spec of a Workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecPath(Option<usize>);

impl SpecPath {
    /// Returns the path of the spec of a PodGroup.
    pub fn spec() -> Self {
        Self(None)
    }

    /// Returns the path of the template with this index in the spec of a Workload.
    pub fn template(index: usize) -> Self {
        Self(Some(index))
    }

    /// Returns the path as text, as errors name it: `spec` or `spec.podGroupTemplates[INDEX]`.
    pub fn path(self) -> String {
        match self.0 {
            None => "spec".to_owned(),
            Some(index) => format!("spec.podGroupTemplates[{index}]"),
        }
    }

    /// Returns what messages call the object at the path: `PodGroup` or `PodGroup template`.
    fn kind(self) -> &'static str {
        match self.0 {
            None => "PodGroup",
            Some(_) => "PodGroup template",
        }
    }

    /// Adds to `changes` that the field `field` of the spec or template at this path gets `value`.
    pub fn set(self, field: &str, value: impl Into<Value>, changes: &mut Changes) {
        match self.0 {
            None => changes.set(&["spec", field], value),
            Some(index) => changes.set(&["spec", "podGroupTemplates", &index.to_string(), field], value),
        }
    }
}

/// Adds to `changes` the class and priority of the group or template at `place` where the request's fields (`given`) leave
/// them out, and compares the other values with the class.
///
/// `stored` has the stored fields of the same group or template; `None` on a creation. Stored values are kept: fields that a
/// manifest leaves out are restored, as the Priority plugin restores them on pods, so that the manifest can be applied again;
/// CEL rules reject other changes. An object that was stored while the webhook was unavailable has no priority, and
/// gets one.
///
/// Returns what the class resolves to; `None` if the priority was already stored, or the class is unknown and was stored already.
///
/// # Errors
/// The class is unknown, or a value differs from the class's (403).
pub fn fill(
    place: &SpecPath,
    given: &StatedPriority<'_>,
    stored: Option<&StatedPriority<'_>>,
    view: &dyn ClusterView,
    changes: &mut Changes,
    notes: &mut Notes,
) -> Result<Option<Resolved>, Denial> {
    if let Some(stored) = stored.filter(|stored| stored.priority.is_some()) {
        restore(place, given, stored, changes);
        return Ok(None);
    }
    let Some(resolved) = resolve(place, given, stored, view, notes)? else { return Ok(None) };
    let class_name = resolved.class_name.as_str();
    if !class_name.is_empty() && given.priority_class_name.as_deref() != Some(class_name) {
        place.set("priorityClassName", class_name, changes);
    }
    if given.priority != Some(resolved.priority.into()) {
        place.set("priority", resolved.priority, changes);
    }
    Ok(Some(resolved))
}

/// Adds to `changes` that those priority fields which the request (`given`) leaves out keep their stored values.
fn restore(place: &SpecPath, given: &StatedPriority<'_>, stored: &StatedPriority<'_>, changes: &mut Changes) {
    if let (None, Some(name)) = (&given.priority_class_name, &stored.priority_class_name) {
        place.set("priorityClassName", &**name, changes);
    }
    if let (None, Some(priority)) = (given.priority, stored.priority) {
        place.set("priority", priority, changes);
    }
    if let (None, Some(policy)) = (&given.preemption_policy, &stored.preemption_policy) {
        place.set("preemptionPolicy", &**policy, changes);
    }
}

/// Resolves the PriorityClass that the request (`given`) names, and checks the request's values against it. `None` if the class is
/// unknown but the stored object names it too: then there is a warning, and the stored values stay.
///
/// # Errors
/// The class is unknown, or a value differs from the class's (403).
fn resolve(
    place: &SpecPath,
    given: &StatedPriority<'_>,
    stored: Option<&StatedPriority<'_>>,
    view: &dyn ClusterView,
    notes: &mut Notes,
) -> Result<Option<Resolved>, Denial> {
    let class_name = given.priority_class_name.as_deref().filter(|name| !name.is_empty());
    let resolved = match view.classes().resolve(class_name) {
        Ok(resolved) => resolved,
        Err(error) => {
            let refusal = groups::unknown_class(&place.path(), &error);
            notes.miss(Reference::Class(class_name.unwrap_or_default().to_owned()));
            if stored.is_some_and(|s| s.priority_class_name == given.priority_class_name) {
                notes.warn(refusal.message);
                return Ok(None);
            }
            return Err(refusal);
        }
    };
    compare(place, given, stored, &resolved)?;
    if stored.is_none() {
        warn_unmanaged(&resolved, notes);
    }
    Ok(Some(resolved))
}

/// Checks the priority fields of the group or template at `place`, as they are to be stored, against its class. Values that were
/// stored already are accepted.
///
/// # Errors
/// The class is unknown, or a value differs from the class's (403).
pub fn check(
    place: &SpecPath,
    given: &StatedPriority<'_>,
    stored: Option<&StatedPriority<'_>>,
    view: &dyn ClusterView,
    notes: &mut Notes,
) -> Result<(), Denial> {
    if stored.is_some_and(|s| s == given) {
        return Ok(());
    }
    match view.classes().resolve(given.priority_class_name.as_deref()) {
        Ok(resolved) => compare(place, given, stored, &resolved),
        Err(error) => {
            notes.miss(Reference::Class(given.priority_class_name.as_deref().unwrap_or_default().to_owned()));
            match stored.is_some_and(|s| s.priority_class_name == given.priority_class_name) {
                true => Ok(()),
                false => Err(groups::unknown_class(&place.path(), &error)),
            }
        }
    }
}

/// Rejects (403) a priority or preemption policy that differs from what the class resolves to, unless it is the stored one.
fn compare(
    place: &SpecPath,
    given: &StatedPriority<'_>,
    stored: Option<&StatedPriority<'_>>,
    resolved: &Resolved,
) -> Result<(), Denial> {
    let stored_priority = stored.and_then(|s| s.priority);
    if let Some(priority) = given.priority
        && priority != i64::from(resolved.priority)
        && stored_priority != given.priority
    {
        return Err(groups::other_priority(&place.path(), place.kind(), priority, resolved));
    }
    let stored_policy = stored.and_then(|s| s.preemption_policy.as_deref());
    if let Some(policy) = given.preemption_policy.as_deref()
        && PreemptionPolicy::parse(policy) != Some(resolved.policy)
        && stored_policy != Some(policy)
    {
        return Err(groups::other_policy(&place.path(), place.kind(), policy, resolved));
    }
    Ok(())
}

/// Adds a warning if the class of a PodGroup preempts and is not managed by Giveway.
fn warn_unmanaged(resolved: &Resolved, notes: &mut Notes) {
    if !resolved.class_name.is_empty() && !resolved.managed && resolved.policy != PreemptionPolicy::Never {
        notes.warn(groups::unmanaged_class(&resolved.class_name));
    }
}
