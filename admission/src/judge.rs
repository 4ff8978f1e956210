//! Which rule applies to which request.
//!
//! Kinds, operations and subresources without a rule are allowed untouched, as is everything in kube-system and in
//! Giveway's own namespace: the webhook does not affect requests without a rule.

use crate::request::{Operation, Request};
use crate::rules::{owner, pod_create, pod_group, priority_class, workload};
use crate::verdict::{Denial, Notes, Verdict, VerdictOutcome};
use crate::view::ClusterView;
use giveway_crds::kinds;
use json_patch::Patch;

/// The phase of admission that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/mutate`: objects may be changed.
    Mutate,
    /// `/templates`: owners without the gang label, of which a pod template names a group or asks for a gang.
    Templates,
    /// `/validate`: objects are final.
    Validate,
}

impl Endpoint {
    /// Returns the name of the endpoint in URL paths and metrics, such as `mutate`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Templates => "templates",
            Self::Validate => "validate",
        }
    }
}

/// The kinds that have rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedKind {
    /// Pods of the core group.
    Pod,
    /// Giveway's PodGroups.
    PodGroup,
    /// Giveway's Workloads.
    Workload,
    /// PriorityClasses of `scheduling.k8s.io`.
    PriorityClass,
    /// Owners of pods that are in the table of kinds.
    Owner(&'static kinds::OwnerKind),
}

impl JudgedKind {
    /// Returns the kind of the object in a request; `None` for a kind that no admission rule judges.
    pub fn of(request: &Request<'_>) -> Option<Self> {
        match (&*request.resource.group, &*request.resource.resource) {
            ("", "pods") => Some(Self::Pod),
            (giveway_crds::keys::GROUP, "podgroups") => Some(Self::PodGroup),
            (giveway_crds::keys::GROUP, "workloads") => Some(Self::Workload),
            ("scheduling.k8s.io", "priorityclasses") => Some(Self::PriorityClass),
            (group, resource) => kinds::of_resource(group, resource).map(Self::Owner),
        }
    }

    /// Returns the plural name of the resource, such as `pods`, as metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::PodGroup => "podgroups",
            Self::Workload => "workloads",
            Self::PriorityClass => "priorityclasses",
            Self::Owner(row) => row.plural,
        }
    }
}

/// Applies the admission rules for this webhook endpoint and the request's kind and operation. The verdict says whether the
/// request is allowed, changed or rejected; it has the warnings and events, and the objects that the rules did not find in `view`.
pub fn judge(endpoint: Endpoint, request: &Request<'_>, view: &dyn ClusterView) -> Verdict {
    let mut notes = Notes::default();
    let outcome = match apply(endpoint, request, view, &mut notes) {
        Ok(None) => VerdictOutcome::Allowed,
        Ok(Some(patch)) => VerdictOutcome::Changed(patch),
        Err(refusal) => VerdictOutcome::Refused(refusal),
    };
    Verdict { outcome, notes }
}

/// Applies the admission rules to a request: `Ok(None)` allows the object as it is, `Ok(Some(patch))` allows it with this
/// patch. The warnings and events, and the objects that the verdict depends on and `view` does not contain, are added to `notes`.
///
/// # Errors
/// The rejection of the request.
fn apply(
    endpoint: Endpoint,
    request: &Request<'_>,
    view: &dyn ClusterView,
    notes: &mut Notes,
) -> Result<Option<Patch>, Denial> {
    use Endpoint::{Mutate, Templates, Validate};
    use Operation::{Create, Update};

    if view.is_untouchable(request.namespace()) {
        return Ok(None);
    }
    let Some(kind) = JudgedKind::of(request) else { return Ok(None) };
    match (endpoint, kind, request.operation, request.sub_resource()) {
        (Mutate, JudgedKind::Pod, Create, "") => pod_create::create(request, view, notes),
        (Mutate, JudgedKind::PodGroup, Create | Update, "") => pod_group::fill::fill(request, view, notes),
        (Mutate, JudgedKind::Workload, Create | Update, "") => workload::fill::fill(request, view, notes),
        (Mutate, JudgedKind::PriorityClass, Create, "") => priority_class::fill::create(request, view),
        (Mutate, JudgedKind::PriorityClass, Update, "") => priority_class::fill::update(request),
        (Mutate, JudgedKind::Owner(row), Create | Update, "") => owner::carry(row, request, view, true, notes),
        (Templates, JudgedKind::Owner(row), Create | Update, "") => owner::carry(row, request, view, false, notes),
        (Validate, JudgedKind::Pod, Create, "") => pod_create::stored::check(request, view, notes).map(|()| None),
        (Validate, JudgedKind::PodGroup, Create | Update, "") => {
            pod_group::check::check(request, view, notes).map(|()| None)
        }
        (Validate, JudgedKind::Workload, Create | Update, "") => {
            workload::check::check(request, view, notes).map(|()| None)
        }
        (Validate, JudgedKind::PriorityClass, Create, "") => priority_class::check::create(request).map(|()| None),
        (Validate, JudgedKind::PriorityClass, Update, "") => priority_class::check::update(request).map(|()| None),
        _ => Ok(None),
    }
}
