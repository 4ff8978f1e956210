//! The list of all sentences with which admission rejects or warns: `tests/admission/sentences.txt`, to be read in one sitting.
//!
//! `make wording` writes it again after a sentence was changed.

#[path = "../../../../crds/tests/crds/golden.rs"]
mod golden;
mod guard;
mod objects;
mod shared;

use crate::layers::files;
use giveway_admission::verdict::Denial;
use std::fs;
use std::path::{Path, PathBuf};

/// A function of the catalogue, as `module::name`, with the sentences that it returns.
type Entry = (&'static str, Vec<String>);

/// Returns a rejection with its code.
fn rejected(denial: Denial) -> String {
    format!("{} {}", denial.code, denial.message)
}

/// Returns the entry of a function that rejects.
fn rejection<const N: usize>(name: &'static str, denials: [Denial; N]) -> Entry {
    (name, denials.map(rejected).into())
}

/// Returns the entry of a function that returns a warning or the text of an event.
fn warning<const N: usize>(name: &'static str, texts: [String; N]) -> Entry {
    (name, texts.into())
}

/// Returns the whole list.
fn list() -> String {
    let mut text = "\
# Every sentence with which admission rejects or warns: the function of admission/src/wording, or in the last part of crds/src, and below it
# what it returns. A rejection begins with its code. `make wording` writes this file.
"
    .to_owned();
    for (name, sentences) in [objects::entries(), guard::entries(), shared::entries()].concat() {
        text += &format!("\n{name}\n");
        for sentence in sentences {
            text += &format!("    {sentence}\n");
        }
    }
    text
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_list_has_what_the_functions_return() {
    golden::is_generated(&crate_folder().join("tests/admission/sentences.txt"), &list(), "make wording");
}

/// Returns the names of the public functions and constants in a file of the catalogue, as `module::name`.
fn public_names(file: &Path) -> Vec<String> {
    let module = file.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(file).unwrap();
    let declared = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub const "))?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned)
    });
    declared.map(|name| format!("{module}::{name}")).collect()
}

#[test]
fn the_list_has_every_function_of_the_catalogue() {
    let text = list();
    let missing: Vec<String> = files(crate_folder().join("src/wording"))
        .iter()
        .filter(|file| file.file_stem().is_some_and(|stem| stem != "mod"))
        .flat_map(|file| public_names(file))
        .filter(|name| !text.lines().any(|line| line == name))
        .collect();
    assert_eq!(missing, [""; 0], "add them to tests/admission/wording");
}

#[test]
fn rules_and_webhook_have_no_sentences_of_their_own() {
    let sources = ["src", "../webhook/src"].map(|folder| files(crate_folder().join(folder)));
    let is_catalogue =
        |file: &PathBuf| file.ends_with("src/verdict.rs") || file.to_string_lossy().contains("src/wording/");
    let mut checked = 0;
    for file in sources.concat().into_iter().filter(|file| !is_catalogue(file)) {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for made in ["Denial::", ".warn(format!", ".warn(\"", "note: format!", "note: \""] {
            assert!(!code.contains(made), "{} has a sentence, at {made:?}: add it to the catalogue", file.display());
        }
        checked += 1;
    }
    assert!(checked > 40, "{checked} files are too few: a folder has moved");
}
