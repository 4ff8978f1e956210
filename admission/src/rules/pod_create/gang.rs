//! Pods whose owner requested a gang with one label: the group that they belong to, according to the table of kinds.

use super::fields::PodFields;
use crate::verdict::Denial;
use crate::view::GroupView;
use crate::wording::pods;
use giveway_crds::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG};
use giveway_crds::kinds::{Controller, PodFacts, PodOrigin, origin, settings};
use giveway_crds::membership::Membership;

/// Returns the origin (owner and group) of a pod with the label that asks for a gang of its owner's pods; `None` without that label.
///
/// `named` is the group that the pod's own labels name, if they do. It takes precedence: the origin is then returned only
/// if its group is the same, and `None` otherwise, also for a pod that was copied or restored without its owner.
///
/// # Errors
/// All with status 422: the label or an annotation has an invalid value. If the pod names no group: it has no owner, or it does not
/// state the gang's size and the kind of its owner is not in the table of kinds.
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

/// Checks that the group of a pod with this origin was created for the pod's owner, or by a user. Two owners of different kinds
/// can have the same name, and so the same group name; the first one to have a group keeps it. The message does not name
/// that owner: a client that reaches the port can forge a pod.
///
/// # Errors
/// The group was created for another owner (422).
pub fn same_owner(origin: &PodOrigin, group: Option<&GroupView>) -> Result<(), Denial> {
    let Some((kind, owner)) = group.and_then(|group| group.made_for.as_ref()) else { return Ok(()) };
    if (kind, owner) == (&origin.kind, &origin.owner) {
        return Ok(());
    }
    Err(pods::group_of_another_owner(&origin.group, &origin.kind, &origin.owner))
}
