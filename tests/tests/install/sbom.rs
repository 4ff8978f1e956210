//! The SBOMs of a release compared with the dependencies that cargo reports.

use crate::registry::IMAGES;
use crate::{for_this_machine, run};
use giveway_tests::paths;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_crate_of_a_program_is_listed_with_its_licence() {
    for (_, program) in IMAGES {
        let file = fs::read_to_string(for_this_machine(program, "cdx.json")).unwrap();
        assert!(
            !file.contains(&paths::repository().display().to_string()),
            "{program}: the SBOM contains the path of the checkout"
        );
        let bill: Value = serde_json::from_str(&file).unwrap();
        assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
        assert_eq!(bill["serialNumber"], Value::Null, "the SBOM has no serial number, so it is reproducible");
        let itself = &bill["metadata"]["component"];
        assert_eq!((&itself["name"], &itself["version"]), (&program.into(), &crate::VERSION.into()));

        let mut named = BTreeSet::new();
        for part in bill["components"].as_array().unwrap() {
            assert!(part["licenses"].as_array().is_some_and(|licences| !licences.is_empty()), "{program}: {part}");
            // Build dependencies, such as a C compiler, are not part of the program.
            if part["scope"] == "required" {
                named.insert(format!("{} v{}", part["name"].as_str().unwrap(), part["version"].as_str().unwrap()));
            }
        }
        let built = built(program, target(&bill));
        assert!(built.len() > 100, "{built:?}");
        let missing: Vec<&String> = built.difference(&named).collect();
        assert!(missing.is_empty(), "{program} has crates that its SBOM does not list: {missing:?}");
    }
}

/// Returns the crates of a program as `NAME vVERSION`, without the program's own.
pub(crate) fn built(program: &str, target: &str) -> BTreeSet<String> {
    let of = ["tree", "--locked", "--package", program, "--edges", "normal", "--target", target];
    let tree = run(Path::new(env!("CARGO")), &[&of[..], &["--prefix", "none", "--format", "{p}"]].concat(), &[]);
    // A line has the crate, its version, and for some crates a path.
    let mut built: BTreeSet<String> =
        tree.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert!(built.remove(&format!("{program} v{}", crate::VERSION)), "{tree}");
    built
}

/// Returns the SBOM of a program.
pub(crate) fn bill(program: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(for_this_machine(program, "cdx.json")).unwrap()).unwrap()
}

/// Returns the target triple of an SBOM.
pub(crate) fn target(bill: &Value) -> &str {
    bill["metadata"]["properties"][0]["value"].as_str().unwrap()
}
