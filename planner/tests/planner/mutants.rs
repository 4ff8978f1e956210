//! The lists of mutants match the sources: every text occurs once and is replaced by another one, and the end-to-end tests that
//! must detect a mutant exist.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn field(edit: &Value, name: &str) -> String {
    edit[name].as_str().unwrap_or_else(|| panic!("{name} of {edit}")).to_owned()
}

/// Checks the edits of each mutant in a list of at least `least` entries. `sources` is relative to the repository root.
fn check(list: &str, least: usize, sources: &str) -> Vec<Value> {
    let list: Vec<Value> = serde_yaml_ng::from_str(list).unwrap();
    assert!(list.len() >= least, "{}", list.len());
    for mutant in &list {
        let further = mutant["and"].as_array().cloned().unwrap_or_default();
        for edit in std::iter::once(mutant.clone()).chain(further) {
            let path = repository().join(sources).join(field(&edit, "file"));
            let source = std::fs::read_to_string(path).unwrap();
            let found = source.matches(&field(&edit, "find")).count();
            assert_eq!(found, 1, "{}: {}", mutant["broken"], edit["find"]);
            assert_ne!(edit["find"], edit["replace"], "{}", mutant["broken"]);
        }
    }
    list
}

#[test]
fn every_mutant_breaks_one_place() {
    check(include_str!("../../mutants/mutants.yaml"), 15, "planner/src");
}

#[test]
fn every_end_to_end_mutant_breaks_one_place_and_names_an_existing_test() {
    for mutant in check(include_str!("../../../tests/mutants/mutants.yaml"), 10, "") {
        let name = field(&mutant, "caught_by");
        let (module, function) = name.rsplit_once("::").unwrap();
        let module = repository().join("tests/tests/e2e").join(module.replace("::", "/"));
        let files = [module.with_extension("rs"), module.join("mod.rs")];
        let sources = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        let declared = sources.into_iter().any(|source| source.contains(&format!("async fn {function}(")));
        assert!(declared, "no end-to-end test is named {name}");
    }
}
