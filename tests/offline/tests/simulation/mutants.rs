//! Checks the edits of `make mutants-operator`: every text to replace occurs once in the sources, and its replacement differs.

use giveway_tests::paths;
use serde_json::Value;

#[test]
fn every_mutant_replaces_one_text() {
    let operator = paths::repository().join("operator");
    let read = |path: &str| std::fs::read_to_string(operator.join(path)).unwrap();
    let list: Vec<Value> = serde_yaml_ng::from_str(&read("mutants/mutants.yaml")).unwrap();
    assert!(list.len() >= 10, "{}", list.len());
    for mutant in list {
        let further = mutant["and"].as_array().cloned().unwrap_or_default();
        for edit in std::iter::once(mutant.clone()).chain(further) {
            let text = |field: &str| edit[field].as_str().unwrap().to_owned();
            let source = read(&format!("src/{}", text("file")));
            assert_eq!(source.matches(&text("find")).count(), 1, "{}", mutant["broken"]);
            assert_ne!(text("find"), text("replace"), "{}", mutant["broken"]);
        }
    }
}
