//! The table as the chart needs it: for which resources the webhook is called, which the operator may read, and of which it may
//! delete the groups of replicas.

use super::size::Size;
use super::{KINDS, OwnerKind};

/// Returns the text of `helm/files/kinds.json`: every supported kind of owners with its API group, its resource, whether the operator reads
/// it, whether each of its replicas has a group, and the CEL expression that is true if one of its pod templates has the label that
/// the CEL variable `key` names.
pub fn file() -> String {
    let line = |row: &OwnerKind| {
        format!(
            "  {{\"group\": {:?}, \"kind\": {:?}, \"resource\": {:?}, \"read\": {}, \"replicas\": {}, \
             \"labelled\": {:?}}}",
            row.group,
            row.kind,
            row.plural,
            row.has_groups(),
            !row.replica.is_empty(),
            labelled(row)
        )
    };
    let lines: Vec<String> = KINDS.iter().map(line).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Returns the CEL expression that is true if a pod template of the CEL variable `object`, an owner of the kind `row`, has the label that
/// the CEL variable `key` names.
fn labelled(row: &OwnerKind) -> String {
    let of_template = |path: &&str| match path.split_once(".*.") {
        None => has_label("object", path),
        Some((holder, below)) => {
            let holder = format!("object.?{}", holder.replace('.', ".?"));
            match row.size {
                Size::Replicas { .. } => {
                    format!("{holder}.orValue({{}}).exists(each, {})", has_label(&format!("{holder}[?each]"), below))
                }
                _ => format!("{holder}.orValue([]).exists(each, {})", has_label("each", below)),
            }
        }
    };
    row.templates.iter().map(of_template).collect::<Vec<_>>().join(" || ")
}

/// Returns the CEL expression that is true if the metadata at this path below the CEL expression `root` has the label that the CEL variable
/// `key` names.
fn has_label(root: &str, path: &str) -> String {
    format!("{root}.?{}.?labels[?key].hasValue()", path.replace('.', ".?"))
}
