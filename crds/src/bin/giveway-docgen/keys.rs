//! Labels, annotations, the gate, the finalizer and the taint, from the sources that define them.

use crate::text::cell;
use std::collections::BTreeMap;

const SOURCE: &str = include_str!("../../keys.rs");
const HEAD: &str = "# Reference: labels and annotations

<!-- Generated from crds/src/keys.rs by `make reference`; do not edit. -->

Everything that Giveway writes on objects of others, and everything by which others tell it something. Nearly all of it begins with
`scheduling.giveway.dev/`, so that one search finds it.

| key | meaning |
|---|---|
";

/// A key with what is said of it.
struct Key {
    name: String,
    value: String,
    meaning: String,
}

/// Returns the page about Giveway's labels, annotations and other keys, in Markdown.
///
/// # Errors
/// The sources hold no key.
pub fn page() -> Result<String, String> {
    let keys = keys();
    if keys.is_empty() {
        return Err("crds/src/keys.rs: no line `pub const NAME: &str = \"…\";`".to_owned());
    }
    let values: BTreeMap<&str, &str> = keys.iter().map(|key| (key.name.as_str(), key.value.as_str())).collect();
    let rows = keys
        .iter()
        .filter(|key| !matches!(key.name.as_str(), "GROUP" | "PREFIX" | "MANAGED_BY"))
        .map(|key| format!("| `{}` | {} |\n", key.value, cell(&unlinked(&key.meaning, &values))));
    Ok(HEAD.to_owned() + &rows.collect::<String>())
}

/// Returns the keys (labels, annotations) that are constants in the source file `SOURCE`, with their doc comments.
fn keys() -> Vec<Key> {
    let (mut keys, mut meaning) = (Vec::new(), String::new());
    for line in SOURCE.lines() {
        if let Some(words) = line.strip_prefix("/// ") {
            meaning = format!("{meaning} {words}");
            continue;
        }
        let constant = line.strip_prefix("pub const ").and_then(|rest| rest.split_once(": &str = \""));
        if let Some((name, value)) = constant {
            let value = value.trim_end_matches("\";").to_owned();
            keys.push(Key { name: name.to_owned(), value, meaning: meaning.trim().to_owned() });
        }
        meaning.clear();
    }
    keys
}

/// Returns a sentence of a doc comment in which each rustdoc link is replaced by the key that it names (`values`: keys by the
/// names of their constants), or else by the plain name of the item.
fn unlinked(sentence: &str, values: &BTreeMap<&str, &str>) -> String {
    let mut out = String::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((text, after)) = after.split_once(']') else { break };
        out += before;
        let name = text.trim_matches('`');
        match (values.get(name), after.strip_prefix('(').and_then(|after| after.split_once(')'))) {
            (Some(value), _) => out += &format!("`{value}`"),
            (None, Some(_)) => out += text,
            (None, None) => out += &format!("`{}`", name.rsplit("::").next().unwrap_or(name)),
        }
        rest = match after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    out + rest
}
