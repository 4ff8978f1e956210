//! Data flows one way through the operator: each module imports from lower layers only.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the lowest to the highest. A new module must be added here.
const LAYERS: [&[&str]; 9] = [
    &["limits", "observability", "clock", "speaker", "views"],
    &["config", "leadership", "messages"],
    &["calls", "feeds", "model"],
    &["certificate", "plans"],
    &["status"],
    &["capacity_requests", "gangs"],
    &["critical_addons", "departures", "preemption"],
    &["dump"],
    &["arbiter"],
];
/// Modules that may import everything: the crate itself, and test helpers.
const ABOVE: [&str; 3] = ["lib", "main", "testing"];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Returns the modules of this crate that a line of code names.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split("crate::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""))
}

/// Returns the lines that are neither comments nor test code: one declaration after `#[cfg(test)]` is skipped, and everything from a module
/// of tests on, which comes last.
pub(super) fn code(text: &str) -> impl Iterator<Item = &str> {
    let mut for_tests = false;
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).map_while(move |line| {
        let left_out = for_tests;
        for_tests = line == "#[cfg(test)]" || (left_out && line.starts_with("#["));
        match left_out {
            true if line.starts_with("mod ") && line.ends_with('{') => None,
            true => Some(""),
            false => Some(line),
        }
    })
}

/// Returns a sentence for each import that is not from a lower layer, and for a module without a layer.
fn backwards(module: &str, text: &str) -> Vec<String> {
    let Some(own) = layer(module) else { return vec![format!("{module} is in no layer")] };
    let others = code(text).flat_map(named).filter(|other| *other != module && !other.is_empty());
    let wrong = others.filter(|other| layer(other).is_none_or(|layer| layer >= own));
    wrong.map(|other| format!("{module} imports {other}, which is not below it")).collect()
}

/// Adds the Rust files below a folder.
pub(super) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

#[test]
fn no_module_imports_from_its_own_layer_or_a_higher_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 50, "{} files were found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        let module = path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let tests = path.iter().any(|part| part == "tests" || part == "tests.rs");
        if !tests && !ABOVE.contains(&module.as_str()) {
            wrong.extend(backwards(&module, &fs::read_to_string(&file).unwrap()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_of_a_later_layer_is_reported() {
    assert_eq!(backwards("model", "use crate::plans::Flight;"), ["model imports plans, which is not below it"]);
    assert_eq!(backwards("model", "use crate::feeds::watch;"), ["model imports feeds, which is not below it"]);
    assert_eq!(backwards("news", ""), ["news is in no layer"]);
    assert_eq!(backwards("plans", "// crate::arbiter\nuse crate::model::Model;"), Vec::<String>::new());
    let tests = "#[cfg(test)]\nuse crate::arbiter;\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\n";
    assert_eq!(backwards("plans", tests), Vec::<String>::new());
    let after = tests.to_owned() + "use crate::status;\n#[cfg(test)]\nmod tests {\nuse crate::arbiter;";
    assert_eq!(backwards("plans", &after), ["plans imports status, which is not below it"]);
}
