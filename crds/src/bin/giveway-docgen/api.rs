//! The fields of Giveway's kinds, from the schemas of their CustomResourceDefinitions.

use crate::text::cell;
use serde_json::Value;

const HEAD: &str = "# Reference: fields of the kinds

<!-- Generated from crds/src by `make reference`; do not edit. -->

`kubectl explain gpg.spec`, `kubectl explain gwl.spec` and `kubectl explain gpr.spec` say the same of the version that is installed.
";

/// Returns the page about the fields of Giveway's API, in Markdown.
///
/// # Errors
/// A schema cannot be written as JSON.
pub fn page() -> Result<String, String> {
    let mut page = HEAD.to_owned();
    for crd in giveway_crds::all_crds() {
        let names = &crd.spec.names;
        let short = names.short_names.iter().flatten().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        for version in &crd.spec.versions {
            page += &format!(
                "\n## {}\n\n`{}/{}`, {}, short name {short}.\n",
                names.kind, crd.spec.group, version.name, crd.spec.scope
            );
            let schema =
                serde_json::to_value(version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()))
                    .map_err(|error| error.to_string())?;
            if let Some(description) = schema["description"].as_str() {
                page += &format!("\n{}\n", cell(description));
            }
            page += "\n| field | type | meaning |\n|---|---|---|\n";
            for part in ["spec", "status"] {
                rows(part, &schema["properties"][part], &mut page);
            }
        }
    }
    Ok(page)
}

/// Appends to `page` a table row for the field at `path`, which has this schema, and one for each field below it.
fn rows(path: &str, schema: &Value, page: &mut String) {
    let description = schema["description"].as_str().unwrap_or_default();
    page.push_str(&format!(
        "| `{path}` | {} | {} |\n",
        kind(schema),
        cell(&format!("{description} {}", limits(schema)))
    ));
    let (below, path) = match schema["type"].as_str() {
        Some("array") => (&schema["items"], format!("{path}[]")),
        _ if schema["additionalProperties"].is_object() => (&schema["additionalProperties"], format!("{path}.*")),
        _ => (schema, path.to_owned()),
    };
    for (name, field) in below["properties"].as_object().into_iter().flatten() {
        rows(&format!("{path}.{name}"), field, page);
    }
}

/// Returns the type of a field as the page shows it, such as "list of string".
fn kind(schema: &Value) -> String {
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("array"), _) => format!("list of {}", kind(&schema["items"])),
        (Some("integer"), Some(format)) => format.to_owned(),
        (Some("string"), Some(format)) => format.to_owned(),
        (Some(kind), _) => kind.to_owned(),
        (None, _) if schema["x-kubernetes-int-or-string"] == true => "integer or string".to_owned(),
        (None, _) => "any".to_owned(),
    }
}

/// Returns the limits of a field in the schema, such as its range or length, as the page shows them; empty if it has
/// none.
fn limits(schema: &Value) -> String {
    let mut words: Vec<String> = Vec::new();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().filter(|value| !value.is_null()).map(|value| format!("`{value}`")).collect();
        words.push(format!("One of {}.", values.join(", ")).replace('"', ""));
    }
    for (key, what) in [
        ("minimum", "At least"),
        ("maximum", "At most"),
        ("minLength", "Length at least"),
        ("maxLength", "Length at most"),
        ("maxItems", "Items at most"),
        ("maxProperties", "Entries at most"),
    ] {
        if let Some(bound) = schema[key].as_f64() {
            words.push(format!("{what} {bound}."));
        }
    }
    if let Some(default) = schema.get("default").filter(|default| default.as_str() != Some("") && !default.is_object())
    {
        words.push(format!("Default: `{default}`.").replace('"', ""));
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if let Some(message) = rule["message"].as_str() {
            words.push(format!("Rule: {message}."));
        }
    }
    words.join(" ")
}
