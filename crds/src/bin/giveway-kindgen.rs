//! Writes what is generated from the table of kinds: `giveway-kindgen DIRECTORY`, as `docs/reference/kinds.md` and
//! `helm/files/kinds.json` below it.

use giveway_crds::kinds;
use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let Some(directory) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: giveway-kindgen DIRECTORY");
        return ExitCode::from(2);
    };
    for (path, text) in
        [("docs/reference/kinds.md", kinds::page::page()), ("helm/files/kinds.json", kinds::chart::file())]
    {
        let path = directory.join(path);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        if let Err(error) = made {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
