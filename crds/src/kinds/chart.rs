//! The table as the chart needs it: for which resources the webhook is called, and which the operator may read.

use super::table::KINDS;

/// `helm/files/kinds.json`: every kind with its API group, its resource, and whether the operator reads it.
pub fn file() -> String {
    let line = |row: &super::Kind| {
        format!(
            "  {{\"group\": {:?}, \"kind\": {:?}, \"resource\": {:?}, \"read\": {}}}",
            row.group,
            row.kind,
            row.plural,
            row.has_groups()
        )
    };
    let lines: Vec<String> = KINDS.iter().map(line).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}
