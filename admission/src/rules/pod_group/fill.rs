//! PodGroup, create and update: class, priority and preemption policy are filled, and the finalizer is kept (design, section 3, rules 1
//! and 5).

use crate::object::{self, Map, Metadata, Text};
use crate::patch::Changes;
use crate::request::{Operation, Request};
use crate::rules::priority::{self, SpecPath, StatedPriority};
use crate::verdict::{Denial, Notes};
use crate::view::ClusterView;
use giveway_crds::keys::FINALIZER_PROTECTION;
use json_patch::Patch;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use std::fmt;

/// The fields of a PodGroup that this rule reads. The API server validates the others.
#[derive(Debug, Deserialize)]
struct PodGroupFields<'a> {
    #[serde(borrow, default)]
    metadata: Map<Metadata<'a>>,
    #[serde(borrow, default)]
    spec: Option<Map<StatedPriority<'a>>>,
}

/// The fields of a PodGroup that say whether it keeps its finalizer.
#[derive(Debug, Deserialize)]
struct Lifetime<'a> {
    #[serde(borrow, default)]
    metadata: Map<LifetimeMetadata<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LifetimeMetadata<'a> {
    #[serde(borrow, default)]
    deletion_timestamp: Option<Text<'a>>,
    #[serde(default)]
    finalizers: Option<Finalizers>,
}

impl Lifetime<'_> {
    /// Returns true if the PodGroup has Giveway's finalizer, which protects it while it has pods.
    fn is_protected(&self) -> bool {
        self.metadata.finalizers.is_some_and(|finalizers| finalizers.protect)
    }
}

/// A list of finalizers; its items are not stored.
#[derive(Clone, Copy, Debug)]
struct Finalizers {
    /// True if it contains [`FINALIZER_PROTECTION`].
    protect: bool,
}

impl<'de> Deserialize<'de> for Finalizers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FinalizersVisitor;

        impl<'de> Visitor<'de> for FinalizersVisitor {
            type Value = Finalizers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Finalizers, A::Error> {
                let mut protect = false;
                while let Some(finalizer) = list.next_element::<Text<'de>>()? {
                    protect |= &*finalizer == FINALIZER_PROTECTION;
                }
                Ok(Finalizers { protect })
            }
        }

        deserializer.deserialize_seq(FinalizersVisitor)
    }
}

/// Applies the mutating rule to a PodGroup that is created or updated: sets the priority fields that follow from its class. On an
/// update, stored values of these fields, and the finalizer, are restored if the request leaves them out. Returns the patch; `None` if
/// nothing changes.
pub fn fill(request: &Request<'_>, view: &dyn ClusterView, notes: &mut Notes) -> Result<Option<Patch>, Denial> {
    let group: PodGroupFields = object::read("PodGroup", request.object)?;
    let mut changes = Changes::default();
    keep_finalizer(request, view, &mut changes)?;
    let is_being_deleted = group.metadata.deletion_timestamp.is_some();
    let Some(given) = group.spec.filter(|_| !is_being_deleted) else { return Ok(changes.finish()) };
    let stored = match request.operation {
        Operation::Update => {
            Some(object::read::<PodGroupFields>("PodGroup", request.old_object)?.spec.unwrap_or_default())
        }
        _ => None,
    };
    let spec = SpecPath::spec();
    let resolved = priority::fill(&spec, &given, stored.as_deref(), view, &mut changes, notes)?;
    if let (Some(resolved), None) = (resolved, &given.preemption_policy) {
        spec.set("preemptionPolicy", resolved.policy.as_str(), &mut changes);
    }
    Ok(changes.finish())
}

/// Adds to `changes` that Giveway's finalizer stays if an update of a PodGroup leaves it out, for example with a manifest from before the
/// group had pods. Only the operator may remove it, with the last pod. While the group is being deleted nothing is changed here: the
/// admission policy `giveway-pod-groups` decides which users may remove the finalizer.
fn keep_finalizer(request: &Request<'_>, view: &dyn ClusterView, changes: &mut Changes) -> Result<(), Denial> {
    if request.operation != Operation::Update || view.settings().is_operator(request.user()) {
        return Ok(());
    }
    let stored: Lifetime = object::read("PodGroup", request.old_object)?;
    if stored.metadata.deletion_timestamp.is_some() || !stored.is_protected() {
        return Ok(());
    }
    let group: Lifetime = object::read("PodGroup", request.object)?;
    if group.is_protected() {
        return Ok(());
    }
    changes.map_at(&["metadata"], group.metadata.is_there());
    match group.metadata.finalizers {
        Some(_) => changes.set(&["metadata", "finalizers", "-"], FINALIZER_PROTECTION),
        None => changes.set(&["metadata", "finalizers"], json!([FINALIZER_PROTECTION])),
    }
    Ok(())
}
