//! Pods whose owner requested a gang with one label: the group that they belong to, according to the table of kinds.

use super::fields::PodFields;
use crate::verdict::Denial;
use crate::view::GroupView;
use crate::wording::pods;
use giveway_crds::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG};
use giveway_crds::kinds::{Controller, PodFacts, PodOrigin, origin, settings};
use giveway_crds::membership::Membership;

/// Returns the origin of a pod that is to be a member of its owner's gang, or `None` if it does not ask for that.
///
/// `named` is the group that the pod's own labels name. It takes precedence over the label copied from the owner: the
/// origin is then returned only if it leads to the same group, as in the second call for a pod, and a pod that was
/// copied or restored without its owner has none.
///
/// # Errors
/// An invalid value; and, unless the pod names its group, a pod without an owner, or an owner of a kind whose gang size
/// is unknown (422).
pub fn origin_of(pod: &PodFields<'_>, named: Option<&Membership>) -> Result<Option<PodOrigin>, Denial> {
    let invalid = |error: settings::SettingError| pods::invalid_setting(&error);
    if settings::gang(pod.metadata.label(LABEL_GANG)).map_err(invalid)? != Some(true) {
        return Ok(None);
    }
    let min_count = settings::min_count(pod.metadata.annotation(ANNOTATION_MIN_COUNT)).map_err(invalid)?;
    settings::disruption_mode(pod.metadata.annotation(ANNOTATION_DISRUPTION_MODE)).map_err(invalid)?;
    let controller = pod.metadata.controller().map(|owner| Controller {
        api_version: &owner.api_version,
        kind: &owner.kind,
        name: &owner.name,
        uid: &owner.uid,
    });
    let name = pod.metadata.name.as_deref();
    let facts = PodFacts { name, label: |key: &str| pod.metadata.label(key), controller };
    let found = origin::of(&facts);
    if let Some(named) = named {
        return Ok(found.ok().filter(|origin| origin.group == named.group));
    }
    let origin = found.map_err(pods::no_owner)?;
    if origin.row.is_none() && min_count.is_none() {
        return Err(pods::no_min_count(&origin.kind, &origin.owner));
    }
    Ok(Some(origin))
}

/// Rejects a pod whose group belongs to another owner: two owners of different kinds can have the same name, and the
/// first one to have a group keeps it. The message does not name that one: a client that reaches the port can forge a pod.
///
/// # Errors
/// A group of this name was created for another owner (422). A group that a user created accepts pods of all owners.
pub fn same_owner(origin: &PodOrigin, group: Option<&GroupView>) -> Result<(), Denial> {
    let Some((kind, owner)) = group.and_then(|group| group.made_for.as_ref()) else { return Ok(()) };
    if (kind, owner) == (&origin.kind, &origin.owner) {
        return Ok(());
    }
    Err(pods::group_of_another_owner(&origin.group, &origin.kind, &origin.owner))
}
