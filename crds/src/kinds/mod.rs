//! Which kinds of owners Giveway knows: how their pods tell whose they are, how many of them start together, and where their
//! pod templates are. A new kind is a row of the [table](table::KINDS), and nothing else.
//!
//! A pod with the label [`gang`](crate::keys::LABEL_GANG) and without a group of its own belongs to the group that its
//! [origin](origin) names. Admission writes that name, the operator makes the group: both read this table.

pub mod asked;
pub mod chart;
pub mod name;
pub mod origin;
pub mod page;
pub mod settings;
pub mod size;
pub mod table;

pub use asked::Asked;
pub use origin::{Controller, Origin, OriginError, PodFacts};
pub use size::{GroupSize, Sizes};
pub use table::KINDS;

use kube::core::{ApiResource, GroupVersionKind};

/// A kind of owners.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// The version that is read.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its plural, lower-case name: the resource.
    pub plural: &'static str,
    /// How a pod tells that it belongs to such an owner.
    pub told: Told,
    /// Labels of a pod that tell which replica it belongs to, where replicas are groups of their own: appended to the name of
    /// the owner, in this order.
    pub replica: &'static [&'static str],
    /// Where the last of these labels is missing: whether the number at the end of the pod's name is the replica.
    pub replica_is_ordinal: bool,
    /// Label of a pod that holds the UID of the owner, where the controller of the pod is somebody else.
    pub uid: Option<&'static str>,
    /// How many pods of a group start together.
    pub size: size::Size,
    /// Annotation of a pod with that number, which counts before the owner's fields: groups of an earlier revision may have another.
    /// Whoever makes the pod writes it, and could say [`ANNOTATION_MIN_COUNT`](crate::keys::ANNOTATION_MIN_COUNT) as well.
    pub size_of_pod: Option<&'static str>,
    /// Paths of the `metadata` of its pod templates, dots between the fields, `*` for every item of a list or map. For a kind
    /// that makes another one of the table: of what becomes the `metadata` of that.
    pub templates: &'static [&'static str],
    /// What would keep a gang of it from ever starting.
    pub trap: Option<Trap>,
    /// What else its users should know, as sentences.
    pub note: &'static str,
}

/// How a pod tells which owner it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The pod's controller is the owner.
    ByController,
    /// This label of the pod is the owner's name.
    ByLabel(&'static str),
    /// This label of the pod is the owner's name, where another one has one of these values.
    ByLabelWhere(&'static str, &'static str, &'static [&'static str]),
    /// No pod belongs to it: it makes an object of this kind, which is in the table.
    ByChild(&'static str),
}

/// A value of a field that creates pods one after the other, each when the one before is ready: held pods never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Path of the field, dots between the fields.
    pub field: &'static str,
    /// The value.
    pub value: &'static str,
    /// Whether it is what counts where the field is not set.
    pub is_default: bool,
    /// The value to use instead.
    pub instead: &'static str,
}

impl Kind {
    /// `apiVersion` of the version that is read.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The resource, in this version.
    pub fn resource(&self, version: &str) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, version, self.kind), self.plural)
    }

    /// Whether labels such as these tell that a pod belongs to an owner of this kind, whoever its controller is.
    pub fn is_told_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let given = |key: &str| label(key).filter(|value| !value.is_empty());
        match self.told {
            Told::ByLabel(key) => given(key).is_some(),
            Told::ByLabelWhere(key, other, values) => {
                given(key).is_some() && given(other).is_some_and(|value| values.contains(&value))
            }
            Told::ByController | Told::ByChild(_) => false,
        }
    }

    /// Whether groups are made for it: it has pods, and not only an object that has them.
    pub fn has_groups(&self) -> bool {
        !matches!(self.told, Told::ByChild(_))
    }
}

/// The kind of this name in this API group; `None` when the table does not have it.
pub fn of(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|row| row.group == group && row.kind == kind)
}

/// The kind of this `apiVersion`, in whichever version; `None` when the table does not have it.
pub fn of_version(api_version: &str, kind: &str) -> Option<&'static Kind> {
    of(api_version.rsplit_once('/').map_or("", |(group, _)| group), kind)
}

/// The kind with this resource; `None` when the table does not have it.
pub fn of_resource(group: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|row| row.group == group && row.plural == plural)
}

/// Whether some row reads the label under this key of a pod.
pub fn reads_label(key: &str) -> bool {
    KINDS.iter().any(|row| {
        let told = match row.told {
            Told::ByLabel(name) => name == key,
            Told::ByLabelWhere(name, other, _) => name == key || other == key,
            Told::ByController | Told::ByChild(_) => false,
        };
        told || row.uid == Some(key) || row.replica.contains(&key)
    })
}
