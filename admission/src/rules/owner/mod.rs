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

/// A pod template.
struct OwnerTemplate<'a> {
    place: FieldPlace<&'a RawValue>,
    metadata: Map<Metadata<'a>>,
}

impl OwnerTemplate<'_> {
    /// Returns true if the template itself states the group or gang of its pods.
    fn decides(&self) -> bool {
        [LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD].iter().any(|key| self.metadata.label(key).is_some())
    }
}

/// Copies the label of an owner of this kind into its pod templates, and makes a Job tolerate preemptions. `enabled` is
/// true if an owner without the label is processed because gangs are enabled for its kind.
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
    let wanted = can_start(row, request, before.as_ref(), &asked, (wanted, is_part), notes)?;
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
        job::survive(request, view.settings().additions(), &mut changes)?;
    }
    Ok(changes.finish())
}

/// Reads the settings of the gang from the owner's label and annotations.
fn read_asked(owner: &OwnerFields<'_>) -> Result<GangSettings, SettingError> {
    GangSettings::read(|key| owner.metadata.label(key), |key| owner.metadata.annotation(key))
}

/// Returns true if the pods of an owner belong to another owner in the table: to its controller, or to the owner that its
/// pods name (the workers' StatefulSet of a LeaderWorkerSet belongs to the leader's pod).
fn is_part_of_another(row: &OwnerKind, owner: &OwnerFields<'_>, templates: &[OwnerTemplate<'_>]) -> bool {
    let root = owner.metadata.controller();
    let has_root = root.is_some_and(|root| kinds::of_version(&root.api_version, &root.kind).is_some());
    let mut others = kinds::KINDS.iter().filter(|other| *other != row);
    has_root || others.any(|other| templates.iter().any(|t| other.is_identified_by(|key| t.metadata.label(key))))
}

/// Rejects a gang that could never start: of the owner, or of templates that ask for one themselves. If gangs are
/// enabled for its kind, an owner without the label gets a warning, and no gang. `wanted` is true if the owner is to
/// become a gang, `is_part` if its pods belong to another owner. Returns true if it becomes a gang.
fn can_start(
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
        if !has_had_obstacle(row, request, before) {
            return Err(owners::gang_never_starts(&found));
        }
        notes.warn(owners::stored_gang_never_starts(row.kind, &found));
    } else if wanted && let Some(found) = stuck(true) {
        notes.warn(owners::no_gang(row.kind, &found));
        return Ok(false);
    }
    Ok(wanted)
}

/// Returns the warnings about a gang that works, but not as its creator may expect.
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

/// Returns the event with warnings about an owner that another one in the table created and that is the only object with
/// the settings, such as the JobSet of a TrainJob: only its controller sees warnings. Other owners got them at their own
/// creation.
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

/// Returns true if the stored pods already are a gang that cannot start: rejecting each change would prevent its repair.
fn has_had_obstacle(row: &OwnerKind, request: &Request<'_>, before: Option<&OwnerFields<'_>>) -> bool {
    let Some(asked) = before.and_then(|before| read_asked(before).ok()) else { return false };
    let stored = request.old_object;
    obstacle(row, stored, &grouped(row, stored, false, &asked)).is_some()
}

/// Returns the pod templates of an owner with their metadata.
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

/// Reads the metadata of a pod template. An error names the field.
fn read_metadata<'a>(place: &FieldPlace<&'a RawValue>, value: &'a RawValue) -> Result<Map<Metadata<'a>>, Denial> {
    serde_json::from_str(value.get()).map_err(|error| owners::unreadable_template(&place.named(), error))
}

/// Writes the label and the annotations into a template that does not state the group of its pods itself.
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

/// Sets one label or annotation of a template.
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

/// On an update: restores what was copied at the creation if a user applies the manifest again. Nothing else changes
/// while there are pods, because old and new pods together would be no gang.
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

/// Returns the owner as events refer to it.
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

/// Returns true if the owner reports that it has no pods: its templates may then still get the label.
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
