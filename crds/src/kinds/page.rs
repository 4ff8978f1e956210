//! The table as a page of the reference: `docs/reference/kinds.md`.

use super::size::Size;
use super::{KINDS, OwnerKind, OwnerLink, Trap};
use std::fmt::Write as _;

/// Returns the text of the page `docs/reference/kinds.md`, in Markdown.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str("| kind | pods of a PodGroup | name of the PodGroup | `minCount` |\n|---|---|---|---|\n");
    for row in KINDS {
        let _ = writeln!(
            page,
            "| {} `{}` | {} | {} | {} |",
            row.kind,
            row.api_version(),
            pods_of_one_group(row),
            group_name(row),
            size(row.size)
        );
    }
    page.push_str("\n## Details of each kind\n\n");
    for row in KINDS {
        let _ = write!(page, "* **{}** (`{}.{}`): {}", row.kind, row.plural, row.group, owner_link(row));
        if !row.note.is_empty() {
            let _ = write!(page, " {}", row.note);
        }
        row.traps.iter().for_each(|trap| page.push_str(&rejected_setting(trap)));
        let templates: Vec<String> = row.templates.iter().map(|path| format!("`{path}`")).collect();
        let _ = writeln!(page, " Admission copies the label into {}.", templates.join(" and "));
    }
    page.push_str(TAIL);
    page
}

/// Returns the phrase that says which pods of an owner of this kind form one PodGroup, for the page.
fn pods_of_one_group(row: &OwnerKind) -> &'static str {
    match (row.owner_link, row.replica.len()) {
        (OwnerLink::ByChild(_), _) => "as for the object that it creates",
        (_, 0) => "all pods",
        (_, 1) => "each replica",
        _ => "each Job",
    }
}

/// Returns the pattern of the name of the owner's PodGroup, such as `NAME-REPLICA`, for the page.
fn group_name(row: &OwnerKind) -> String {
    if let OwnerLink::ByChild(kind) = row.owner_link {
        return format!("that of the {kind}");
    }
    let parts = row.replica.iter().map(|label| label.rsplit('/').next().unwrap_or(label).to_uppercase());
    let parts: Vec<String> = std::iter::once("NAME".to_owned()).chain(parts).collect();
    format!("`{}`", parts.join("-"))
}

/// Returns the clause that says how pods identify an owner of this kind, by their controller or by labels, for the page.
fn owner_link(row: &OwnerKind) -> String {
    match row.owner_link {
        OwnerLink::ByController => "its pods have it as their controller.".to_owned(),
        OwnerLink::ByLabel(label) => format!("its pods have its name in the label `{label}`."),
        OwnerLink::ByLabelWhere(label, other, values) => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("its pods have its name in the label `{label}`, and in `{other}` {}.", values.join(" or "))
        }
        OwnerLink::ByChild(kind) => format!("it creates a {kind}."),
    }
}

/// Returns the sentences that say which setting of an owner is rejected for a gang, and why, for the page.
fn rejected_setting(trap: &Trap) -> String {
    match trap {
        Trap::Value { field, value, instead, .. } => format!(
            " `{field}: {value}` is rejected for a gang: each pod would wait until the one before it is ready, which no gated pod is. \
             Use `{instead}`."
        ),
        Trap::Annotation { key, unless, why, .. } => {
            let unless = unless.map(|other| format!(" (unless `{other}` is set, too)")).unwrap_or_default();
            format!(
                " The annotation `{key}`{unless} is rejected for a gang of several pods: {why}. Use a PodGroup with \
                 `schedulingConstraints` ([topology](../advanced/pod-groups.md#topology-domains))."
            )
        }
    }
}

/// Returns the phrase that says which fields of an owner determine `minCount` of its PodGroup, for the page.
fn size(size: Size) -> String {
    let dotted = |pointer: &str| pointer.trim_start_matches('/').replace('/', ".");
    match size {
        Size::Job => {
            "`spec.parallelism`, or `spec.completions` where these are fewer, less the indexes that have failed for good".to_owned()
        }
        Size::Field { path, .. } => format!("`{}`", dotted(path)),
        Size::ReplicatedJobs => "`parallelism` of that Job, or `completions` where these are fewer, less the indexes that have failed for good".to_owned(),
        Size::Replicas { path, .. } => format!("the sum of `{}.*.replicas`", dotted(path)),
        Size::Ray => {
            "the head, and for each group of workers `replicas` (with `enableInTreeAutoscaling`: `minReplicas`), `maxReplicas` \
             at most, times `numOfHosts`"
                .to_owned()
        }
        Size::OfChild => "as for the object that it creates".to_owned(),
    }
}

const HEAD: &str = "\
# Kinds that become gangs by a label

<!-- Generated from crds/src/kinds/table.rs by `make kinds`; do not edit. -->

With the label `scheduling.giveway.dev/gang: \"true\"` on an object of one of these kinds Giveway creates the PodGroups of its pods:
[run workloads as gangs](../tasks/run-a-gang.md) shows it. The chart value `gangs.kinds` enables kinds without the label.

";

const TAIL: &str = "
Two annotations, on the object or on its pod template, set what these fields do not contain. With `scheduling.giveway.dev/min-count` every
PodGroup starts with that many pods, or with all of its pods if it has fewer. `scheduling.giveway.dev/disruption-mode` is `PodGroup` (the
default here: all pods of the gang are disrupted together) or `Pod`.

A pod template of any other kind can carry the label itself. Its PodGroup has the name of the pods' controller, and needs
`scheduling.giveway.dev/min-count`. Names that do not fit into 63 characters are shortened and end with eight hexadecimal digits.
";
