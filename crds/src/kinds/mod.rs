//! Kinds of owners that Giveway supports: how their pods identify their owner, how many of them start together, and
//! where their pod templates are. A new kind is one more row of the [table](table::KINDS).
//!
//! A pod with the label [`gang`](crate::keys::LABEL_GANG) and without a group of its own belongs to the group that its
//! [origin](origin) names. Admission writes that name, the operator creates the group; both read this table.

pub mod chart;
pub mod classes;
pub mod gang_settings;
pub mod job;
pub mod name;
pub mod origin;
pub mod page;
pub mod settings;
pub mod size;
pub mod spark;
pub mod table;
pub mod templates;
pub mod traps;
pub mod warnings;

pub use gang_settings::GangSettings;
pub use origin::{Controller, OriginError, PodFacts, PodOrigin};
pub use size::{GroupSize, Sizes};
pub use table::KINDS;

use kube::core::{ApiResource, GroupVersionKind};

/// A kind of owners.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnerKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// The version that is read.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its plural, lower-case name: the resource.
    pub plural: &'static str,
    /// How a pod identifies its owner of this kind.
    pub owner_link: OwnerLink,
    /// Labels of a pod that identify its replica, if each replica is a group of its own: their values are appended to
    /// the name of the owner, in this order.
    pub replica: &'static [&'static str],
    /// If the last of these labels is missing: true if the number at the end of the pod's name is the replica.
    pub replica_is_ordinal: bool,
    /// Label of a pod with the UID of the owner, if the pod's controller is another object.
    pub uid: Option<&'static str>,
    /// Number of pods of a group that start together.
    pub size: size::Size,
    /// Annotation of a pod with that number, which takes precedence over the owner's fields: groups of an earlier
    /// revision may have another size. The pod's creator writes it, and could write
    /// [`ANNOTATION_MIN_COUNT`](crate::keys::ANNOTATION_MIN_COUNT) as well.
    pub size_of_pod: Option<&'static str>,
    /// Paths of the `metadata` of its pod templates, dots between the fields, `*` for every item of a list or map. For
    /// a kind that creates objects of another kind in the table: paths of what becomes the `metadata` of those objects.
    pub templates: &'static [&'static str],
    /// The Jobs of its groups, if it is a Job or creates one for each group.
    pub jobs: Option<Jobs>,
    /// The pod of which it creates a Job, while the others are its own.
    pub launcher: Option<Launcher>,
    /// Paths of the seconds after which it fails, counted from its own start, in the form of [`OwnerKind::templates`].
    pub deadlines: &'static [&'static str],
    /// Settings with which a gang never starts.
    pub traps: &'static [Trap],
    /// More information for users, as sentences.
    pub note: &'static str,
}

/// How a pod identifies its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerLink {
    /// The pod's controller is the owner.
    ByController,
    /// This label of the pod is the owner's name.
    ByLabel(&'static str),
    /// This label of the pod is the owner's name, if another label has one of these values.
    ByLabelWhere(&'static str, &'static str, &'static [&'static str]),
    /// It has no pods itself: it creates an object of this kind, which is in the table.
    ByChild(&'static str),
}

/// The Jobs of a kind of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// Path of their specs in the owner, in the form of [`OwnerKind::templates`].
    pub specs: &'static str,
    /// True if a Job without a `completionMode` becomes an indexed one.
    pub indexed: bool,
}

/// A pod that belongs to a Job without a `podFailurePolicy`, which counts each preemption as a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// Path of the object with its pod template and its `restartPolicy`, dots between the fields.
    pub replica: &'static str,
    /// Path of the number of failures that the Job permits.
    pub limit: &'static str,
}

/// A setting with which the controller creates the other pods of a group only after one of them has started: gated pods
/// never start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// A field value with which each pod is created after the previous one is ready.
    Value {
        /// Path of the field, dots between the fields.
        field: &'static str,
        /// The value.
        value: &'static str,
        /// True if it is the default of the field.
        is_default: bool,
        /// The value to use instead.
        instead: &'static str,
    },
    /// An annotation, with any value.
    Annotation {
        /// Its key.
        key: &'static str,
        /// Another annotation, beside which it has no such effect.
        unless: Option<&'static str>,
        /// Paths of the `metadata` that it is read from, in the form of [`OwnerKind::templates`]. It concerns the templates
        /// below the object with this metadata.
        on: &'static [&'static str],
        /// What the controller does, as the beginning of a sentence.
        why: &'static str,
    },
}

impl OwnerKind {
    /// Returns the `apiVersion` with which objects of this kind are read: API group and version.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns group, version, kind and plural name of this kind in `version`, for requests to the API server.
    pub fn resource(&self, version: &str) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, version, self.kind), self.plural)
    }

    /// Returns true if the labels of a pod name an owner of this kind, whatever the pod's controller is. `label` returns the value of a
    /// label.
    pub fn is_identified_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let given = |key: &str| label(key).filter(|value| !value.is_empty());
        match self.owner_link {
            OwnerLink::ByLabel(key) => given(key).is_some(),
            OwnerLink::ByLabelWhere(key, other, values) => {
                given(key).is_some() && given(other).is_some_and(|value| values.contains(&value))
            }
            OwnerLink::ByController | OwnerLink::ByChild(_) => false,
        }
    }

    /// Returns true if Giveway creates PodGroups for owners of this kind; false if they have no pods themselves and create an object of
    /// another kind in the table, as a TrainJob does.
    pub fn has_groups(&self) -> bool {
        !matches!(self.owner_link, OwnerLink::ByChild(_))
    }
}

/// Returns the row of the table of kinds for the kind `kind` in the API group `group`; `None` if there is none.
pub fn of(group: &str, kind: &str) -> Option<&'static OwnerKind> {
    KINDS.iter().find(|row| row.group == group && row.kind == kind)
}

/// Returns the row of the table of kinds for this kind and the API group in `api_version`, whatever the version is; `None` if there is
/// none.
pub fn of_version(api_version: &str, kind: &str) -> Option<&'static OwnerKind> {
    of(api_version.rsplit_once('/').map_or("", |(group, _)| group), kind)
}

/// Returns the row of the table of kinds for the resource `plural` (such as `jobs`) in the API group `group`; `None` if there is none.
pub fn of_resource(group: &str, plural: &str) -> Option<&'static OwnerKind> {
    KINDS.iter().find(|row| row.group == group && row.plural == plural)
}

/// Returns true if an event with this reason says that a controller could not create a pod: `FailedCreate` of the
/// controllers of Kubernetes, `FailedCreatePod` and `FailedToCreateWorkerPod` of others.
pub fn is_creation_failure(reason: &str) -> bool {
    reason.starts_with("Failed") && reason.contains("Create")
}

/// Returns true if a row of the table of kinds identifies owners or replicas by this label of a pod.
pub fn reads_label(key: &str) -> bool {
    KINDS.iter().any(|row| {
        let links = match row.owner_link {
            OwnerLink::ByLabel(name) => name == key,
            OwnerLink::ByLabelWhere(name, other, _) => name == key || other == key,
            OwnerLink::ByController | OwnerLink::ByChild(_) => false,
        };
        links || row.uid == Some(key) || row.replica.contains(&key)
    })
}
