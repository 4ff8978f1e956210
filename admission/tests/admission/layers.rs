//! Data flows one way through the rules of admission: each module imports from lower layers only.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the lowest to the highest. A new module must be added here.
const LAYERS: [&[&str]; 7] = [
    &["namespaced", "notice", "view"],
    &["verdict"],
    &["wording"],
    &["object"],
    &["patch", "request"],
    &["rules"],
    &["judge"],
];
/// The sets of rules: each imports from sets before it only. Sets of one line do not import each other.
const RULES: [&[&str]; 2] =
    [&["priority"], &["guard", "owner", "pod_create", "pod_group", "priority_class", "workload"]];

fn layer(layers: &[&[&str]], module: &str) -> Option<usize> {
    layers.iter().position(|layer| layer.contains(&module))
}

/// Returns what the code of a module names after `prefix`, except itself and modules of lower layers.
fn backwards<'a>(layers: &[&[&str]], prefix: &str, module: &str, text: &'a str) -> Vec<&'a str> {
    let own = layer(layers, module);
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let rests = code.flat_map(|line| line.split(prefix).skip(1));
    let named = rests.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
    named.filter(|other| *other != module && layer(layers, other).is_none_or(|layer| Some(layer) >= own)).collect()
}

/// Returns a file, or every file below a folder.
fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_dir() {
        fs::read_dir(path).unwrap().flat_map(|entry| files(entry.unwrap().path())).collect()
    } else {
        vec![path]
    }
}

/// Asserts that the modules in a folder of the sources import only from lower layers.
fn check(folder: &str, layers: &[&[&str]], prefix: &str, above: &str) {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if module == above {
            continue;
        }
        assert!(layer(layers, &module).is_some(), "{module} is in no layer");
        for file in files(path) {
            let text = fs::read_to_string(&file).unwrap();
            let wrong = backwards(layers, prefix, &module, &text);
            assert!(wrong.is_empty(), "{} imports {wrong:?}, which are not below {module}", file.display());
        }
    }
}

#[test]
fn no_module_imports_from_its_own_layer_or_a_higher_one() {
    check("src", &LAYERS, "crate::", "lib");
}

#[test]
fn no_set_of_rules_imports_another_but_that_of_priorities() {
    check("src/rules", &RULES, "crate::rules::", "mod");
}

#[test]
fn an_import_from_a_layer_that_is_not_lower_is_found() {
    assert_eq!(backwards(&LAYERS, "crate::", "object", "use crate::rules::owner;"), ["rules"]);
    assert_eq!(
        backwards(&LAYERS, "crate::", "patch", "use crate::request::Request;"),
        ["request"],
        "of the same layer"
    );
    assert_eq!(
        backwards(&LAYERS, "crate::", "judge", "use crate::{patch, rules};"),
        [""],
        "modules are imported one by one"
    );
    assert_eq!(
        backwards(&LAYERS, "crate::", "verdict", "//! [`crate::judge`]\nuse crate::notice::EventDraft;"),
        [""; 0]
    );
    assert_eq!(backwards(&RULES, "crate::rules::", "owner", "use crate::rules::workload::fill;"), ["workload"]);
}

/// Words of crates that a pure function has no use for.
const IMPURE: [&str; 5] = ["tokio", "warp", "tracing", "kube::Client", "kube::Api"];

#[test]
fn rules_have_no_client_no_runtime_and_no_log() {
    for file in files(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in IMPURE {
            assert!(!code.iter().any(|line| line.contains(word)), "{} uses {word}", file.display());
        }
    }
}
