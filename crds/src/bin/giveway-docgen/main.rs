//! Writes the pages of reference that follow from code: `giveway-docgen DIRECTORY` writes `api.md`, `keys.md` and `values.md`
//! into it.

mod api;
mod keys;
mod text;
mod values;

use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let Some(directory) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: giveway-docgen DIRECTORY");
        return ExitCode::from(2);
    };
    for (name, page) in [("api.md", api::page()), ("keys.md", keys::page()), ("values.md", values::page())] {
        let path = directory.join(name);
        if let Err(error) = page.and_then(|text| fs::write(&path, text).map_err(|error| error.to_string())) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
