//! Files in JSON or YAML: texts, documents, and the objects of a snapshot.

use crate::error::CliError;
use crate::live::Objects;
use serde::Deserialize;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Reads a file; `-` is standard input. Returns its name for messages, and its text.
pub(crate) fn read_text(path: &Path) -> Result<(String, String), CliError> {
    let (file, text) = if path == Path::new("-") {
        let mut text = String::new();
        ("standard input".to_owned(), std::io::stdin().read_to_string(&mut text).map(|_| text))
    } else {
        (path.display().to_string(), std::fs::read_to_string(path))
    };
    match text {
        Ok(text) => Ok((file, text)),
        Err(source) => Err(CliError::Read { file, source }),
    }
}

/// Returns the documents of a text in JSON or YAML.
pub(crate) fn documents(file: &str, text: &str) -> Result<Vec<Value>, CliError> {
    let syntax = |problem: String| CliError::Syntax { file: file.to_owned(), problem };
    let yaml = || serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize).collect::<Result<Vec<_>, _>>();
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml().map_err(|error| syntax(error.to_string()));
    }
    // YAML may start with a brace or bracket too. JSON is tried first because parsing YAML is slow.
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    json.or_else(|error| {
        // A text that ends too early as JSON does so as YAML too. For a text that is nested too deeply, parsing YAML
        // would take time quadratic in the depth.
        let hopeless = error.is_eof() || error.to_string().starts_with("recursion limit exceeded");
        if hopeless { Err(syntax(error.to_string())) } else { yaml().map_err(|_| syntax(error.to_string())) }
    })
}

/// Reads the objects of a snapshot file.
pub(crate) fn read(path: &Path) -> Result<Objects, CliError> {
    let (file, text) = read_text(path)?;
    let mut list = documents(&file, &text)?.into_iter().next().unwrap_or_default();
    let kind = match &list {
        Value::Object(map) => map.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Value::Array(_) => "a plain list".to_owned(),
        other => other.to_string(),
    };
    let items = match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if kind == "List" => items,
        _ => return Err(CliError::NotAList { file, kind }),
    };
    for (index, item) in items.iter().enumerate() {
        check(item, &file, || format!("items[{index}]"))?;
    }
    Ok(Objects { source: file, live: false, items, notes: Vec::new() })
}

/// Rejects a value that is not an object with `apiVersion`, `kind` and name.
pub(crate) fn check(item: &Value, file: &str, place: impl Fn() -> String) -> Result<(), CliError> {
    for (field, value) in
        [("apiVersion", &item["apiVersion"]), ("kind", &item["kind"]), ("metadata.name", &item["metadata"]["name"])]
    {
        // A List inside a manifest has no name.
        let exempt = field == "metadata.name" && item["kind"] == "List";
        if value.as_str().is_none_or(str::is_empty) && !exempt {
            return Err(CliError::NotAnObject { file: file.to_owned(), place: place(), field });
        }
    }
    Ok(())
}
