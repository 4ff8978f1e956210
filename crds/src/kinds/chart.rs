//! The table as the chart needs it: for which resources the webhook is called, which the operator may read, and of which it may
//! delete the groups of replicas.

use super::table::KINDS;

/// `helm/files/kinds.json`: every kind with its API group, its resource, whether the operator reads it, and whether each of
/// its replicas has a group.
pub fn file() -> String {
    let line = |row: &super::Kind| {
        format!(
            "  {{\"group\": {:?}, \"kind\": {:?}, \"resource\": {:?}, \"read\": {}, \"replicas\": {}}}",
            row.group,
            row.kind,
            row.plural,
            row.has_groups(),
            !row.replica.is_empty()
        )
    };
    let lines: Vec<String> = KINDS.iter().map(line).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}
