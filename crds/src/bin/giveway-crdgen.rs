//! Writes the CustomResourceDefinitions as YAML: `giveway-crdgen DIRECTORY`, one file a kind.

use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let Some(directory) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: giveway-crdgen DIRECTORY");
        return ExitCode::from(2);
    };
    for crd in giveway_crds::all_crds() {
        let path = directory.join(format!("{}.yaml", crd.spec.names.plural));
        let text = match serde_yaml_ng::to_string(&crd) {
            Ok(text) => format!("# Generated from crds/src by `make crds`; do not edit.\n{text}"),
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        };
        if let Err(error) = fs::write(&path, text) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
