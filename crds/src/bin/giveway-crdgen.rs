//! Writes the CustomResourceDefinitions as YAML: `giveway-crdgen DIRECTORY...`, one file a kind, into each of these.

use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let directories: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    if directories.is_empty() {
        eprintln!("usage: giveway-crdgen DIRECTORY...");
        return ExitCode::from(2);
    }
    for crd in giveway_crds::all_crds() {
        let name = format!("{}.yaml", crd.spec.names.plural);
        let text = match serde_yaml_ng::to_string(&crd) {
            Ok(text) => format!("# Generated from crds/src by `make crds`; do not edit.\n{text}"),
            Err(error) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        };
        for path in directories.iter().map(|directory| directory.join(&name)) {
            if let Err(error) = fs::write(&path, &text) {
                eprintln!("{}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
