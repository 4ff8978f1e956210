//! The list of all sentences with which admission rejects or warns: `tests/admission/sentences.txt`, to be read in one sitting.
//!
//! `make wording` writes it again after a sentence was changed.

#[path = "../../../../crds/tests/crds/catalogue.rs"]
mod catalogue;
#[path = "../../../../crds/tests/crds/golden.rs"]
mod golden;
mod guard;
mod objects;
mod shared;

use catalogue::Entry;
use giveway_admission::verdict::Denial;
use std::path::{Path, PathBuf};

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
    let head = "\
# Every sentence with which admission rejects or warns: the function of admission/src/wording, or in the last part of crds/src, and below it
# what it returns. A rejection begins with its code. `make wording` writes this file.
";
    catalogue::list(head, [objects::entries(), guard::entries(), shared::entries()].concat())
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_list_has_what_the_functions_return() {
    golden::is_generated(&crate_folder().join("tests/admission/sentences.txt"), &list(), "make wording");
}

#[test]
fn the_list_has_every_function_of_the_catalogue() {
    let mut missing = catalogue::missing(&list(), &crate_folder().join("src/wording"), "pub ");
    // Its functions return paths of fields.
    missing.retain(|name| !name.starts_with("mod::"));
    assert_eq!(missing, [""; 0], "add them to tests/admission/wording");
}

#[test]
fn rules_and_webhook_have_no_sentences_of_their_own() {
    let is_catalogue =
        |file: &PathBuf| file.ends_with("src/verdict.rs") || file.to_string_lossy().contains("src/wording/");
    let mut files = ["src", "../webhook/src"].map(|folder| catalogue::sources(&crate_folder().join(folder))).concat();
    files.retain(|file| !is_catalogue(file));
    assert!(files.len() > 40, "{} files are too few: a folder has moved", files.len());
    catalogue::have_no_sentences(&files, &["Denial::", ".warn(format!", ".warn(\"", "note: format!", "note: \""]);
}
