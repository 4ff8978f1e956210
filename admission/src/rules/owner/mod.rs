//! Owners of pods, create and update: the label that requests a gang is copied into their pod templates, with the
//! annotations beside it, so that every pod has it at its creation.
//!
//! An owner without the label is processed in two cases: gangs are enabled for its kind (the chart's `gangs.kinds`), or
//! a template names a group or asks for a gang itself; then nothing is copied.

pub mod job;
mod lowered_class;

use crate::notice::{EventDraft, EventObject};
use crate::object::{self, Map, Metadata, Text};
use crate::patch::Changes;
use crate::request::{Operation, Request};
use crate::verdict::{Denial, Notes, Reference};
use crate::view::ClusterView;
use crate::wording::{self, owners};
use giveway_crds::condition::Reason;
use giveway_crds::json::{FieldPlace, MOST, places};
use giveway_crds::keys::{
    ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD,
};
use giveway_crds::kinds::settings::SettingError;
use giveway_crds::kinds::templates::{Grouped, grouped};
use giveway_crds::kinds::traps::obstacle;
use giveway_crds::kinds::warnings::warnings;
use giveway_crds::kinds::{self, GangSettings, OwnerKind, classes};
use json_patch::Patch;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Annotations that are copied with the label.
const ANNOTATIONS: [&str; 2] = [ANNOTATION_MIN_COUNT, ANNOTATION_DISRUPTION_MODE];

/// Maximum number of classes that are looked up for one owner.
const MOST_LOOKUPS: usize = 8;

/// The part of an owner that every kind has.
#[derive(Debug, Deserialize)]
struct OwnerFields<'a> {
    #[serde(borrow, default)]
    metadata: Map<Metadata<'a>>,
}

/// A pod template of an owner: where it is in the object, and its metadata.
struct OwnerTemplate<'a> {
    place: FieldPlace<&'a RawValue>,
    metadata: Map<Metadata<'a>>,
}

impl OwnerTemplate<'_> {
    /// Returns true if the template has a label of its own that names a group or asks for a gang, or for none.
    fn decides(&self) -> bool {
        [LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD].iter().any(|key| self.metadata.label(key).is_some())
    }
}

/// Processes the creation or update of an owner of the kind `row`: copies its gang label and annotations into its pod
/// templates, makes a Job tolerate preemptions, and adds warnings to `notes`. Returns the patch, or `None` if nothing
/// changes. `enabled` is true if gangs are enabled for the kind, so that an owner without the label becomes a gang too.
///
/// # Errors
/// A label or annotation has an invalid value, the gang could never start, or there are too many templates (422).
pub fn carry(
    row: &'static OwnerKind,
    request: &Request<'_>,
    view: &dyn ClusterView,
    enabled: bool,
    notes: &mut Notes,
) -> Result<Option<Patch>, Denial> {
    let owner: OwnerFields = object::read(row.kind, request.object)?;
    if owner.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let before: Option<OwnerFields> = match request.operation {
        Operation::Update => Some(object::read(row.kind, request.old_object)?),
        _ => None,
    };
    let mut changes = Changes::default();
    let templates = templates(row, request.object)?;
    let asked = read_asked(&owner).map_err(|error| wording::pods::invalid_setting(&error))?;
    let is_part = is_part_of_another(row, &owner, &templates);
    let was_labelled = before.as_ref().is_some_and(|before| before.metadata.label(LABEL_GANG).is_some());
    let wanted = asked.gang.unwrap_or(enabled && !was_labelled && !is_part);
    let wanted = becomes_gang(row, request, before.as_ref(), &asked, (wanted, is_part), notes)?;
    if wanted {
        match &before {
            None => templates.iter().for_each(|template| fill(template, &owner.metadata, &mut changes)),
            Some(_) => restore(row, request, &owner, &templates, &mut changes, notes)?,
        }
    }
    let groups = grouped(row, request.object, wanted, &asked);
    if before.is_none() {
        let warnings = find_warnings(row, request.object, &groups, view, notes);
        if !is_part {
            warnings.into_iter().for_each(|warning| notes.warn(warning));
        } else if !warnings.is_empty() {
            notes.events.extend(about_root(row, request, &owner, &warnings));
        }
    } else if let Some(name) = &owner.metadata.name {
        let lowered = lowered_class::warning(row, request, name, &groups, view);
        lowered.into_iter().for_each(|warning| notes.warn(warning));
    }
    if row.kind == job::KIND && !groups.is_empty() {
        job::tolerate_preemption(request, view.settings().additions(), &mut changes)?;
    }
    Ok(changes.finish())
}

/// Reads the settings of the owner's gang from its label and annotations. It is an error if one has an invalid value.
fn read_asked(owner: &OwnerFields<'_>) -> Result<GangSettings, SettingError> {
    GangSettings::read(|key| owner.metadata.label(key), |key| owner.metadata.annotation(key))
}

/// Returns true if another owner of the table of kinds forms the group of this owner's pods: its controller (a JobSet for a
/// Job), or the owner that labels of its pod templates name (a LeaderWorkerSet for the StatefulSet of workers).
fn is_part_of_another(row: &OwnerKind, owner: &OwnerFields<'_>, templates: &[OwnerTemplate<'_>]) -> bool {
    let root = owner.metadata.controller();
    let has_root = root.is_some_and(|root| kinds::of_version(&root.api_version, &root.kind).is_some());
    let mut others = kinds::KINDS.iter().filter(|other| *other != row);
    has_root || others.any(|other| templates.iter().any(|t| other.is_identified_by(|key| t.metadata.label(key))))
}

/// Returns true if the owner becomes a gang. `wanted` is true if it is to become one; `is_part` is true if another owner forms
/// the group of its pods. An owner that is a gang only because gangs are enabled for its kind, and could never start, gets a
/// warning instead and becomes none.
///
/// # Errors
/// The owner or one of its templates asks for a gang that could never start (422). If the stored owner already is such a
/// gang, there is only a warning.
fn becomes_gang(
    row: &OwnerKind,
    request: &Request<'_>,
    before: Option<&OwnerFields<'_>>,
    asked: &GangSettings,
    (wanted, is_part): (bool, bool),
    notes: &mut Notes,
) -> Result<bool, Denial> {
    let asks = asked.gang == Some(true);
    let stuck = |wanted: bool| obstacle(row, request.object, &grouped(row, request.object, wanted, asked));
    if let Some(found) = stuck(asks).filter(|_| asks || !is_part) {
        if !stored_gang_never_starts(row, request, before) {
            return Err(owners::gang_never_starts(&found));
        }
        notes.warn(owners::stored_gang_never_starts(row.kind, &found));
    } else if wanted && let Some(found) = stuck(true) {
        notes.warn(owners::no_gang(row.kind, &found));
        return Ok(false);
    }
    Ok(wanted)
}

/// Returns the warnings for the creator of an owner about a gang that can start, but may not behave as expected: different
/// classes of its templates, for example. PriorityClasses that `view` does not contain are recorded in `notes` as missing.
fn find_warnings(
    row: &OwnerKind,
    object: &RawValue,
    groups: &[Grouped<&RawValue>],
    view: &dyn ClusterView,
    notes: &mut Notes,
) -> Vec<String> {
    let named = classes::named(row, object, groups);
    let unknown = named.iter().filter(|class| view.classes().get(&class.name).is_none());
    unknown.take(MOST_LOOKUPS).for_each(|class| notes.miss(Reference::Class(class.name.clone())));
    warnings(row, object, groups, view.classes(), view.settings().additions())
}

/// Returns an event with the first of these warnings, on the controller of an owner whose controller creates no PodGroup itself,
/// such as on the TrainJob of a JobSet: users do not see the warnings of the JobSet's creation. `None` for other owners:
/// their controllers got the warnings at their own creation.
fn about_root(
    row: &OwnerKind,
    request: &Request<'_>,
    owner: &OwnerFields<'_>,
    warnings: &[String],
) -> Option<EventDraft> {
    let root = owner.metadata.controller()?;
    let above = kinds::of_version(&root.api_version, &root.kind).filter(|above| !above.has_groups())?;
    let note = owners::warning_about_part(row.kind, owner.metadata.name.as_deref()?, warnings.first()?);
    Some(EventDraft {
        about: EventObject {
            api_version: root.api_version.to_string(),
            kind: above.kind,
            namespace: request.namespace().to_owned(),
            name: root.name.to_string(),
            uid: root.uid.to_string(),
        },
        related: None,
        reason: Reason::GangSettings,
        action: "Admitting",
        note,
    })
}

/// Returns true if the stored owner of an update already is a gang that can never start: to reject each change would prevent its
/// repair. `before` has the fields of the stored owner, and is `None` for a creation.
fn stored_gang_never_starts(row: &OwnerKind, request: &Request<'_>, before: Option<&OwnerFields<'_>>) -> bool {
    let Some(asked) = before.and_then(|before| read_asked(before).ok()) else { return false };
    let stored = request.old_object;
    obstacle(row, stored, &grouped(row, stored, false, &asked)).is_some()
}

/// Returns the pod templates of an owner, at the paths in the table of kinds.
///
/// # Errors
/// There are too many templates, or the metadata of one cannot be read (422).
fn templates<'a>(row: &OwnerKind, object: &'a RawValue) -> Result<Vec<OwnerTemplate<'a>>, Denial> {
    let mut found = Vec::new();
    for pattern in row.templates {
        for place in places(object, pattern) {
            let metadata = match place.value {
                Some(value) => read_metadata(&place, value)?,
                None => Map::default(),
            };
            found.push(OwnerTemplate { place, metadata });
        }
    }
    if found.len() > MOST {
        return Err(owners::too_many_templates());
    }
    Ok(found)
}

/// Parses `value`, the metadata of a pod template. It is rejected (422) with the path of `place` if it is invalid.
fn read_metadata<'a>(place: &FieldPlace<&'a RawValue>, value: &'a RawValue) -> Result<Map<Metadata<'a>>, Denial> {
    serde_json::from_str(value.get()).map_err(|error| owners::unreadable_template(&place.named(), error))
}

/// Adds to `changes` that a pod template gets the gang label, and those of the owner's gang annotations that it does not have.
/// Nothing is changed if the template has a group label of its own.
fn fill(template: &OwnerTemplate<'_>, owner: &Metadata<'_>, changes: &mut Changes) {
    if template.decides() {
        return;
    }
    write(template, "labels", LABEL_GANG, "true", changes);
    for key in ANNOTATIONS {
        if let Some(value) = owner.annotation(key)
            && template.metadata.annotation(key).is_none()
        {
            write(template, "annotations", key, value, changes);
        }
    }
}

/// Adds to `changes` that a pod template gets one label or annotation; `map` is `labels` or `annotations`.
fn write(template: &OwnerTemplate<'_>, map: &str, key: &str, value: &str, changes: &mut Changes) {
    let path: Vec<&str> = template.place.path.iter().map(String::as_str).collect();
    changes.map_at(&path, template.place.value.is_some());
    let holder = [path.as_slice(), &[map]].concat();
    let is_there = match map {
        "labels" => template.metadata.labels.is_some(),
        _ => template.metadata.annotations.is_some(),
    };
    changes.map_at(&holder, is_there);
    changes.set(&[holder.as_slice(), &[key]].concat(), value);
}

/// Handles the update of an owner with the gang label. If its stored templates have the label, it is restored, with the
/// annotations, in templates from which a newly applied manifest removes it. If they have not, the label is copied into the
/// templates only while the owner has no pods; otherwise there is a warning and an event, because old and new pods would be no gang.
fn restore(
    row: &OwnerKind,
    request: &Request<'_>,
    owner: &OwnerFields<'_>,
    templates: &[OwnerTemplate<'_>],
    changes: &mut Changes,
    notes: &mut Notes,
) -> Result<(), Denial> {
    let stored = self::templates(row, request.old_object)?;
    if !stored.iter().any(|template| template.metadata.label(LABEL_GANG) == Some("true")) {
        if has_no_pods(row, request.old_object) {
            templates.iter().for_each(|template| fill(template, &owner.metadata, changes));
        } else if templates.iter().any(|template| !template.decides()) {
            notes.warn(owners::label_too_late(row.kind));
            notes.events.push(EventDraft {
                about: object(row, request, owner),
                related: None,
                reason: Reason::GangLabelTooLate,
                action: "IgnoringLabel",
                note: owners::label_too_late_event(row.kind),
            });
        }
        return Ok(());
    }
    for template in templates.iter().filter(|template| !template.decides()) {
        let Some(before) = stored.iter().find(|before| before.place.path == template.place.path) else {
            fill(template, &owner.metadata, changes);
            continue;
        };
        let had = |annotation: &str| before.metadata.annotation(annotation).map(str::to_owned);
        if before.metadata.label(LABEL_GANG).is_some_and(|value| value == "true") {
            write(template, "labels", LABEL_GANG, "true", changes);
        }
        for key in ANNOTATIONS {
            if let Some(value) = had(key).filter(|_| template.metadata.annotation(key).is_none()) {
                write(template, "annotations", key, &value, changes);
            }
        }
    }
    Ok(())
}

/// Returns the owner in the form in which an event refers to its object.
fn object(row: &OwnerKind, request: &Request<'_>, owner: &OwnerFields<'_>) -> EventObject {
    let own = |text: Option<&Text<'_>>| text.map(|text| text.to_string()).unwrap_or_default();
    EventObject {
        api_version: row.api_version(),
        kind: row.kind,
        namespace: request.namespace().to_owned(),
        name: own(owner.metadata.name.as_ref()),
        uid: own(owner.metadata.uid.as_ref()),
    }
}

/// Returns true if the stored owner says that it has no pods: a Job that is suspended and has not started, or a StatefulSet whose
/// status has no replicas. False for other kinds.
fn has_no_pods(row: &OwnerKind, stored: &RawValue) -> bool {
    #[derive(Debug, Default, Deserialize)]
    struct Spec {
        #[serde(default)]
        suspend: Option<bool>,
    }
    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        #[serde(borrow, default)]
        start_time: Option<Text<'a>>,
        #[serde(default)]
        replicas: Option<i64>,
    }
    #[derive(Debug, Default, Deserialize)]
    struct ScaledOwner<'a> {
        #[serde(default)]
        spec: Spec,
        #[serde(borrow, default)]
        status: Status<'a>,
    }
    let Ok(owner) = serde_json::from_str::<ScaledOwner>(stored.get()) else { return false };
    match row.kind {
        job::KIND => owner.spec.suspend == Some(true) && owner.status.start_time.is_none(),
        "StatefulSet" => owner.status.replicas.unwrap_or_default() == 0,
        _ => false,
    }
}
