//! Data flows one way through the webhook: each module imports from lower layers only.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the lowest to the highest. A new module must be added here.
const LAYERS: [&[&str]; 6] = [
    &["config", "deadline", "error", "kept_nodes", "metrics", "notice", "review", "view"],
    &["supervise", "tls"],
    &["lookup", "watch"],
    &["admission", "health"],
    &["guard"],
    &["routes"],
];
/// The modules that may import everything.
const ABOVE: [&str; 2] = ["lib", "main"];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Returns what the code of a module names after `crate::`, except itself and modules of lower layers.
fn backwards<'a>(module: &str, text: &'a str) -> Vec<&'a str> {
    let own = layer(module);
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let rests = code.flat_map(|line| line.split("crate::").skip(1));
    let named = rests.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
    named.filter(|other| *other != module && layer(other).is_none_or(|layer| Some(layer) >= own)).collect()
}

/// Returns a file, or every file below a folder.
fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_dir() {
        fs::read_dir(path).unwrap().flat_map(|entry| files(entry.unwrap().path())).collect()
    } else {
        vec![path]
    }
}

#[test]
fn no_module_imports_from_its_own_layer_or_a_higher_one() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ABOVE.contains(&module.as_str()) {
            continue;
        }
        assert!(layer(&module).is_some(), "{module} is in no layer");
        for file in files(path) {
            let text = fs::read_to_string(&file).unwrap();
            let wrong = backwards(&module, &text);
            assert!(wrong.is_empty(), "{} imports {wrong:?}, which are not below {module}", file.display());
        }
    }
}

#[test]
fn an_import_from_a_layer_that_is_not_lower_is_found() {
    assert_eq!(backwards("view", "use crate::guard::Guard;"), ["guard"]);
    assert_eq!(backwards("lookup", "let answer = crate::admission::answer();"), ["admission"]);
    assert_eq!(backwards("watch", "use crate::lookup::Lookup;"), ["lookup"], "of the same layer");
    assert_eq!(backwards("admission", "use crate::{lookup, watch};"), [""], "modules are imported one by one");
    assert_eq!(backwards("watch", "//! [`crate::guard`]\nuse crate::view::View;\nuse crate::watch::Viewed;"), [""; 0]);
}
