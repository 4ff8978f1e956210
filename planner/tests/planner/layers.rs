//! The planner is made of layers, and each knows only those before it: what a `use` line or a path in the code names is
//! read from the sources.

use std::path::{Path, PathBuf};

/// Every layer, from the first, which uses no other, to the last.
const LAYERS: [&str; 7] = ["model", "api", "filters", "problem", "search", "index", "answer"];

/// The table of all limits, which every layer reads and which reads none.
const TABLE: &str = "limits";

/// Appends the sources below a folder.
pub(crate) fn sources(folder: &Path, list: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, list);
        } else if path.extension().is_some_and(|end| end == "rs") {
            list.push(path);
        }
    }
}

/// What follows `crate::` anywhere in a text: the first name, or each first name in braces.
fn named(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for rest in text.split("crate::").skip(1) {
        let (list, one) = match rest.strip_prefix('{') {
            Some(list) => (list.split('}').next().unwrap_or_default(), ""),
            None => ("", rest),
        };
        let first =
            |path: &str| path.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        names.extend(list.split(',').filter_map(first).filter(|name| !name.is_empty()));
        names.extend(first(one).filter(|name| !name.is_empty()));
    }
    names
}

fn violations(layer: usize, text: &str) -> Vec<String> {
    let allowed = &LAYERS[..=layer];
    named(text).into_iter().filter(|name| name != TABLE && !allowed.contains(&name.as_str())).collect()
}

#[test]
fn each_layer_knows_only_those_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(&root).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_table = name.strip_suffix(".rs") == Some(TABLE);
        assert!(name == "lib.rs" || is_table || LAYERS.contains(&name.as_str()), "src/{name} is in no layer");
    }
    let table = std::fs::read_to_string(root.join(TABLE).with_extension("rs")).unwrap();
    assert_eq!(named(&table), Vec::<String>::new(), "the table of limits uses a layer");
    for (layer, name) in LAYERS.iter().enumerate() {
        let mut files = Vec::new();
        sources(&root.join(name), &mut files);
        assert!(!files.is_empty(), "layer {name} has no file");
        for file in files {
            let wrong = violations(layer, &std::fs::read_to_string(&file).unwrap());
            assert!(wrong.is_empty(), "{} is of layer {name} and names {wrong:?}", file.display());
        }
    }
}

#[test]
fn what_a_layer_must_not_name_is_found() {
    let search = LAYERS.iter().position(|layer| *layer == "search").unwrap();
    assert_eq!(violations(search, "use crate::model::Pod;\nuse crate::search::found::Found;"), Vec::<String>::new());
    assert_eq!(violations(search, "use crate::limits::MANY_UNITS;"), Vec::<String>::new());
    assert_eq!(violations(search, "use crate::answer::plan;"), ["answer"]);
    assert_eq!(violations(search, "use crate::{model::Pod, index::CapacityCache};"), ["index"]);
    assert_eq!(violations(search, "let kept = crate::index::decide();"), ["index"]);
    assert_eq!(violations(search, "use crate::plan;"), ["plan"], "the crate itself is below all layers");
}

#[test]
fn nothing_is_decided_with_floating_point_numbers() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let is_float = |word: &str| matches!(word, "f32" | "f64");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(!words.any(is_float), "{} uses floating point numbers", file.display());
    }
}
