//! What the programs are made of, as a release tells it, beside what cargo says.

use crate::registry::IMAGES;
use crate::{for_this_machine, run};
use giveway_tests::paths;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_crate_in_a_program_is_named_with_its_licence_and_nothing_of_this_machine_is() {
    for (_, program) in IMAGES {
        let file = fs::read_to_string(for_this_machine(program, "cdx.json")).unwrap();
        assert!(!file.contains(&paths::repository().display().to_string()), "{program}: where the checkout lies");
        let bill: Value = serde_json::from_str(&file).unwrap();
        assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
        assert_eq!(bill["serialNumber"], Value::Null, "one commit has one bill");
        let itself = &bill["metadata"]["component"];
        assert_eq!((&itself["name"], &itself["version"]), (&program.into(), &crate::VERSION.into()));

        let mut named = BTreeSet::new();
        for part in bill["components"].as_array().unwrap() {
            assert!(part["licenses"].as_array().is_some_and(|licences| !licences.is_empty()), "{program}: {part}");
            // What only builds it, such as a compiler of C, is not in the program.
            if part["scope"] == "required" {
                named.insert(format!("{} v{}", part["name"].as_str().unwrap(), part["version"].as_str().unwrap()));
            }
        }
        let built = built(program, target(&bill));
        assert!(built.len() > 100, "{built:?}");
        let missing: Vec<&String> = built.difference(&named).collect();
        assert!(missing.is_empty(), "{program} has crates that its bill does not name: {missing:?}");
    }
}

/// The crates of a program, as `NAME vVERSION`, without itself.
pub(crate) fn built(program: &str, target: &str) -> BTreeSet<String> {
    let of = ["tree", "--locked", "--package", program, "--edges", "normal", "--target", target];
    let tree = run(Path::new(env!("CARGO")), &[&of[..], &["--prefix", "none", "--format", "{p}"]].concat(), &[]);
    // A line is a crate, its version, and for some where they lie.
    let mut built: BTreeSet<String> =
        tree.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert!(built.remove(&format!("{program} v{}", crate::VERSION)), "{tree}");
    built
}

/// The bill of a program.
pub(crate) fn bill(program: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(for_this_machine(program, "cdx.json")).unwrap()).unwrap()
}

/// The machine for which it is.
pub(crate) fn target(bill: &Value) -> &str {
    bill["metadata"]["properties"][0]["value"].as_str().unwrap()
}
