//! The chart's values: comments and defaults of `helm/values.yaml`, limits of `helm/values.schema.json`.

use crate::text::cell;
use serde_json::Value;

const VALUES: &str = include_str!("../../../../helm/values.yaml");
const SCHEMA: &str = include_str!("../../../../helm/values.schema.json");
const HEAD: &str = "# Reference: values of the chart

<!-- Generated from helm/values.yaml and helm/values.schema.json by `make reference`; do not edit. -->

`helm install` and `helm upgrade` refuse values that are not in this table, or beyond its limits.

| value | default | meaning |
|---|---|---|
";

/// A line of the values: a key with the comment above it.
struct Line {
    depth: usize,
    path: String,
    comment: String,
    default: String,
}

/// Returns the page about the values of the Helm chart, in Markdown.
///
/// # Errors
/// The schema is no JSON, or a value has no comment.
pub fn page() -> Result<String, String> {
    let schema: Value = serde_json::from_str(SCHEMA).map_err(|error| format!("helm/values.schema.json: {error}"))?;
    let lines = lines();
    let mut page = HEAD.to_owned();
    let mut printed: Option<usize> = None;
    for (index, line) in lines.iter().enumerate() {
        // Keys below a value that was printed are part of its default.
        if printed.is_some_and(|depth| line.depth > depth) {
            continue;
        }
        printed = None;
        let below: Vec<&Line> = lines[index + 1..].iter().take_while(|other| other.depth > line.depth).collect();
        let silent = below.iter().all(|other| other.comment.is_empty());
        if line.comment.is_empty() && below.is_empty() {
            return Err(format!("helm/values.yaml: {} has no comment that says what it is", line.path));
        }
        if line.comment.is_empty() || !silent {
            continue;
        }
        printed = Some(line.depth);
        let default = match below.as_slice() {
            [] => line.default.clone(),
            parts => {
                let parts = parts
                    .iter()
                    .map(|part| format!("{}: {}", part.path.rsplit('.').next().unwrap_or_default(), part.default));
                format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
            }
        };
        let meaning = format!("{} {}", line.comment, limits(&schema, &line.path));
        page += &format!("| `{}` | `{}` | {} |\n", line.path, default.replace('|', "\\|"), cell(&meaning));
    }
    Ok(page)
}

/// Returns the values of the Helm chart with their comments, in the order of `values.yaml`.
fn lines() -> Vec<Line> {
    let (mut lines, mut comment, mut path) = (Vec::<Line>::new(), String::new(), Vec::<String>::new());
    for line in VALUES.lines() {
        let text = line.trim_start();
        if text.is_empty() {
            comment.clear();
        } else if let Some(words) = text.strip_prefix('#') {
            comment = format!("{comment} {}", words.trim());
        } else if let (Some(item), Some(last)) = (text.strip_prefix("- "), lines.last_mut()) {
            let list = last.default.trim_end_matches(']').trim_start_matches('[').to_owned();
            last.default = if list.is_empty() { format!("[{item}]") } else { format!("[{list}, {item}]") };
        } else if let Some((key, default)) = text.split_once(':') {
            let depth = (line.len() - text.len()) / 2;
            path.truncate(depth);
            path.push(key.to_owned());
            let meaning = std::mem::take(&mut comment).trim().to_owned();
            lines.push(Line { depth, path: path.join("."), comment: meaning, default: default.trim().to_owned() });
        }
    }
    lines
}

/// Returns the limits that the schema of the chart sets for the value at `path`, as the page shows them; empty if it
/// sets none.
fn limits(schema: &Value, path: &str) -> String {
    let resolve = |part: &Value| -> Value {
        let name = part["$ref"].as_str().and_then(|of| of.strip_prefix("#/definitions/"));
        name.map_or_else(|| part.clone(), |name| schema["definitions"][name].clone())
    };
    let found = path.split('.').fold(schema.clone(), |part, name| resolve(&part["properties"][name]));
    let mut words: Vec<String> = Vec::new();
    if let Some(values) = found["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`").replace('"', "")).collect();
        words.push(format!("One of {}.", values.join(", ")));
    }
    for (key, what) in [("minimum", "At least"), ("maximum", "At most"), ("minItems", "Items at least")] {
        if let Some(bound) = found[key].as_f64() {
            words.push(format!("{what} {bound}."));
        }
    }
    words.join(" ")
}
