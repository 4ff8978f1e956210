//! The table as a page for people: `docs/kinds.md`.

use super::size::Size;
use super::{KINDS, Kind, OwnerLink, Trap};
use std::fmt::Write as _;

/// `docs/kinds.md`.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str("| kind | a group is | name of the group | `minCount` |\n|---|---|---|---|\n");
    for row in KINDS {
        let _ = writeln!(
            page,
            "| {} `{}` | {} | {} | {} |",
            row.kind,
            row.api_version(),
            unit(row),
            group_name(row),
            size(row.size)
        );
    }
    page.push_str("\n## What each of them needs to know\n\n");
    for row in KINDS {
        let _ = write!(page, "* **{}** (`{}.{}`): {}", row.kind, row.plural, row.group, owner_link(row));
        if !row.note.is_empty() {
            let _ = write!(page, " {}", row.note);
        }
        row.traps.iter().for_each(|trap| page.push_str(&trapped(trap)));
        let templates: Vec<String> = row.templates.iter().map(|path| format!("`{path}`")).collect();
        let _ = writeln!(page, " Admission carries the label into {}.", templates.join(" and "));
    }
    page.push_str(TAIL);
    page
}

fn unit(row: &Kind) -> &'static str {
    match (row.owner_link, row.replica.len()) {
        (OwnerLink::ByChild(_), _) => "as of what it makes",
        (_, 0) => "the whole",
        (_, 1) => "each replica",
        _ => "each Job",
    }
}

fn group_name(row: &Kind) -> String {
    if let OwnerLink::ByChild(kind) = row.owner_link {
        return format!("that of the {kind}");
    }
    let parts = row.replica.iter().map(|label| label.rsplit('/').next().unwrap_or(label).to_uppercase());
    let parts: Vec<String> = std::iter::once("NAME".to_owned()).chain(parts).collect();
    format!("`{}`", parts.join("-"))
}

fn owner_link(row: &Kind) -> String {
    match row.owner_link {
        OwnerLink::ByController => "its pods have it as their controller.".to_owned(),
        OwnerLink::ByLabel(label) => format!("its pods have its name in the label `{label}`."),
        OwnerLink::ByLabelWhere(label, other, values) => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("its pods have its name in the label `{label}`, and in `{other}` {}.", values.join(" or "))
        }
        OwnerLink::ByChild(kind) => format!("it makes a {kind}."),
    }
}

/// Returns what is rejected for a gang, and why, as sentences.
fn trapped(trap: &Trap) -> String {
    match trap {
        Trap::Value { field, value, instead, .. } => format!(
            " `{field}: {value}` is refused for a gang: each pod would wait until the one before it is ready, which no gated pod is. \
             Use `{instead}`."
        ),
        Trap::Annotation { key, unless, why, .. } => {
            let unless = unless.map(|other| format!(" (unless `{other}` stands beside it)")).unwrap_or_default();
            format!(
                " The annotation `{key}`{unless} is refused for a gang of several pods: {why}. Use a PodGroup with \
                 `schedulingConstraints` ([topology.md](topology.md))."
            )
        }
    }
}

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
        Size::OfChild => "as of what it makes".to_owned(),
    }
}

const HEAD: &str = "\
# Kinds that become gangs by a label

<!-- Generated from crds/src/kinds/table.rs by `make kinds`; do not edit. -->

With the label `scheduling.giveway.dev/gang: \"true\"` on an object of one of these kinds Giveway makes the PodGroups of its pods:
[workloads.md](workloads.md) shows it. The chart value `gangs.kinds` switches kinds on without the label.

";

const TAIL: &str = "
Two annotations say what these fields do not, on the object or on its pod template: with `scheduling.giveway.dev/min-count`
every group starts with that many pods, or with all where it has fewer, and `scheduling.giveway.dev/disruption-mode` is `PodGroup`
(the default here: all pods of the gang are disrupted together) or `Pod`.

A pod template of any other kind can carry the label itself. Its group has the name of the pods' controller, and needs
`scheduling.giveway.dev/min-count`. Names that do not fit into 63 characters are shortened and end with eight hexadecimal digits.
";
