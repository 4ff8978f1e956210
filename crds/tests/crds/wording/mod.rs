//! The catalogue of sentences: `tests/wording.txt` has each of them with counts of 0, 1 and 2, so that a reader can review all of them in
//! one sitting. It is written with `make wording`, and its differences are reviewed like code.

mod events;
mod groups;
mod pending;
mod plans;

use crate::golden::is_generated;
use giveway_crds::ObjectKey;
use giveway_crds::plan::StoredDomain;
use giveway_crds::wording::conditions::plan::NamedPreemptor;
use giveway_crds::wording::{Names, Sentence};
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the sentences of a catalogue's file stand.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wording")
}

/// Returns the path of the file with all sentences.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wording.txt")
}

/// Returns the text of the file with all sentences.
pub(super) fn stored() -> String {
    fs::read_to_string(file()).unwrap()
}

/// The sentences, as the file has them.
struct Page {
    text: String,
    /// The current file of the catalogue.
    file: String,
    /// The functions whose sentences are on the page, with their files.
    functions: BTreeSet<(String, String)>,
}

impl Page {
    /// Begins a file of the catalogue.
    fn file(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.text.push_str(&format!("\n# {file}\n"));
    }

    /// Adds the sentences of a function.
    fn says<T: Display>(&mut self, function: &str, sentences: impl IntoIterator<Item = T>) {
        self.text.push_str(&format!("\n{function}\n"));
        for sentence in sentences {
            self.text.push_str(&format!("    {sentence}\n"));
        }
        let is_new = self.functions.insert((self.file.clone(), function.to_owned()));
        assert!(is_new, "{function} of {} has two entries", self.file);
    }

    /// Adds the sentences of a function that is not called with a count of 0, for this reason.
    fn says_without_zero<T: Display>(&mut self, function: &str, why: &str, sentences: impl IntoIterator<Item = T>) {
        let sentences = sentences.into_iter().map(|sentence| sentence.to_string());
        self.says(function, [format!("(never 0: {why})")].into_iter().chain(sentences));
    }
}

/// Returns an object in namespace `default`.
fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// Returns a time in the text of the page: `1970-01-01T00:10:00Z`.
fn at() -> Timestamp {
    Timestamp::from_second(600).unwrap()
}

/// Returns the topology domain `rack=r1`.
fn rack() -> StoredDomain {
    StoredDomain { key: "rack".into(), value: "r1".into() }
}

/// Returns PodGroup `default/train` or pod `default/train` as a preemptor.
fn preemptor(is_group: bool, key: &ObjectKey) -> NamedPreemptor<'_> {
    NamedPreemptor { is_group, key, uid: "u-1" }
}

/// Returns a sentence as administrators read it, and as readers of another namespace do, if they do not see its names.
fn both(sentence: &Sentence) -> Vec<String> {
    let mut texts = vec![sentence.to_string(), Names::default().render(sentence, "other")];
    texts.dedup();
    texts
}

fn page() -> Page {
    let text = "Every sentence of crds/src/wording/conditions and crds/src/wording/events.rs, with counts of 0, 1 and 2. Some sentences\n\
                that name objects stand twice: as administrators read them, and as readers of other namespaces do. `make wording`\n\
                writes this file.\n";
    let mut page = Page { text: text.to_owned(), file: String::new(), functions: BTreeSet::new() };
    pending::add(&mut page);
    plans::add(&mut page);
    groups::add(&mut page);
    events::add(&mut page);
    page
}

#[test]
fn the_page_has_every_sentence() {
    is_generated(&file(), &page().text, "make wording");
}

#[test]
fn every_function_of_the_catalogue_is_on_the_page() {
    let mut functions = BTreeSet::new();
    let mut read = |file: String| {
        let source = fs::read_to_string(sources().join(&file)).unwrap();
        let names = source.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split_once(['(', '<']));
        functions.extend(names.map(|(name, _)| (file.clone(), name.to_owned())));
    };
    for entry in fs::read_dir(sources().join("conditions")).unwrap() {
        read(format!("conditions/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    read("events.rs".to_owned());
    assert!(functions.len() > 100, "{} functions were found", functions.len());
    let on_page = page().functions;
    let missing: Vec<_> = functions.difference(&on_page).collect();
    let unknown: Vec<_> = on_page.difference(&functions).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not on the page: {missing:?}; not in the catalogue: {unknown:?}"
    );
}

#[test]
fn no_sentence_disagrees_with_a_count() {
    let wrong = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let plurals = ["pods", "victims", "members", "groups", "evictions", "placeholders", "plans", "times", "sets"];
        words.windows(2).any(|pair| pair[0] == "1" && plurals.contains(&pair[1].trim_end_matches(['.', ','])))
    };
    let text = page().text;
    assert_eq!(text.lines().find(wrong), None);
}
