//! A catalogue of sentences, and the list of all that its functions return. Tests of several crates include this file.

use std::fs;
use std::path::{Path, PathBuf};

/// A function of the catalogue, as `module::name`, with what it returns.
pub type Entry = (&'static str, Vec<String>);

/// Returns the list: below each function what it returns.
pub fn list(head: &str, entries: Vec<Entry>) -> String {
    let mut text = head.to_owned();
    for (name, sentences) in entries {
        text += &format!("\n{name}\n");
        for sentence in sentences {
            text += &format!("    {sentence}\n");
        }
    }
    text
}

/// Returns the files of Rust code below a folder.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Returns the functions and constants below a folder with this visibility, as `module::name`, that are not in a list.
pub fn missing(text: &str, folder: &Path, visibility: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for file in sources(folder) {
        let module = file.file_stem().unwrap().to_str().unwrap();
        let source = fs::read_to_string(&file).unwrap();
        for line in source.lines() {
            let Some(declared) = line.strip_prefix(visibility) else { continue };
            let Some(rest) = declared.strip_prefix("fn ").or_else(|| declared.strip_prefix("const ")) else { continue };
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            let name = format!("{module}::{name}");
            if !text.lines().any(|line| line == name) {
                missing.push(name);
            }
        }
    }
    missing
}

/// Expects that files, without their tests, have none of these beginnings of sentences.
pub fn have_no_sentences(files: &[PathBuf], beginnings: &[&str]) {
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for made in beginnings {
            assert!(!code.contains(made), "{} has a sentence, at {made:?}: add it to the catalogue", file.display());
        }
    }
}
