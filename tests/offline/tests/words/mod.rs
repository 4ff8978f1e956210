//! The words of the project: no text and no name has a phrase of `tests/offline/words.list`.
//!
//! The check reads comments and string literals of Rust sources, the names of their functions, modules and types, and the whole text of
//! pages, scripts, manifests and the chart. The list names the folders and files that still have a phrase. Subjects of commits are
//! checked by `tests/subjects.sh`.

mod text;

use giveway_tests::paths;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use text::Word;

/// The list of phrases, from the root of the repository.
const LIST: &str = "tests/offline/words.list";

/// Texts with phrases of the list.
const PLANTED: &str = "tests/offline/planted.list";

/// Endings of the names of files that are checked.
const CHECKED: [&str; 12] =
    ["rs", "md", "yaml", "yml", "tpl", "txt", "sh", "toml", "json", "py", "Makefile", "Dockerfile"];

/// An entry of the list.
struct Entry {
    /// The phrases, in lower case.
    phrases: Vec<String>,
    /// What to write instead.
    instead: String,
    /// Files, and folders with a slash at the end, that still have one of them.
    except: Vec<String>,
}

impl Entry {
    /// Returns the exceptions that contain this path.
    fn excepts<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> {
        let contains = move |except: &&str| path == *except || (except.ends_with('/') && path.starts_with(*except));
        self.except.iter().map(String::as_str).filter(contains)
    }
}

/// Returns the entries of a list.
fn entries_of(list: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in lines_of(list) {
        if let Some((phrases, instead)) = line.split_once(" -> ") {
            let phrases = phrases.split(", ").map(str::to_owned).collect();
            entries.push(Entry { phrases, instead: instead.to_owned(), except: Vec::new() });
        } else {
            entries.last_mut().expect("a path follows its phrases").except.push(line.trim().to_owned());
        }
    }
    entries
}

/// Returns the lines of a list that are no comments.
fn lines_of(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn read(path: &str) -> String {
    fs::read_to_string(paths::repository().join(path)).unwrap()
}

/// The phrases by their first word.
struct Phrases<'a> {
    by_first: BTreeMap<&'a str, Vec<(Vec<&'a str>, &'a Entry)>>,
}

impl<'a> Phrases<'a> {
    fn new(entries: &'a [Entry]) -> Self {
        let mut by_first: BTreeMap<&str, Vec<(Vec<&str>, &Entry)>> = BTreeMap::new();
        for entry in entries {
            for phrase in &entry.phrases {
                let words: Vec<&str> = phrase.split(' ').collect();
                by_first.entry(words[0]).or_default().push((words, entry));
            }
        }
        Self { by_first }
    }

    /// Returns each phrase in a file, with what to print and the entry.
    fn all_in(&self, path: &str, text: &str) -> Vec<(String, &'a Entry)> {
        let words = if path.ends_with(".rs") { text::words_of_rust(text) } else { text::words(text) };
        let mut found = Vec::new();
        for (index, word) in words.iter().enumerate() {
            for (phrase, entry) in self.by_first.get(word.text.as_str()).into_iter().flatten() {
                if begins_with(&words[index..], phrase) {
                    let line = format!("{path}:{}: \"{}\": {}", word.line, phrase.join(" "), entry.instead);
                    found.push((line, *entry));
                }
            }
        }
        found
    }

    /// Returns a line for each phrase in a file that is not excepted.
    fn found_in(&self, path: &str, text: &str) -> Vec<String> {
        let all = self.all_in(path, text).into_iter();
        all.filter(|(_, entry)| entry.excepts(path).next().is_none()).map(|(line, _)| line).collect()
    }
}

fn begins_with(words: &[Word], phrase: &[&str]) -> bool {
    phrase.len() <= words.len() && phrase.iter().zip(words).all(|(wanted, word)| *wanted == word.text)
}

/// Appends the files below a folder that are checked, with their paths from the root of the repository.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                collect(&entry.path(), &format!("{path}/"), files);
            }
        } else if name.rsplit('.').next().is_some_and(|ending| CHECKED.contains(&ending)) {
            files.push(path);
        }
    }
}

#[test]
fn no_text_and_no_name_has_a_phrase_of_the_list() {
    let entries = entries_of(&read(LIST));
    let phrases = Phrases::new(&entries);
    let mut files = Vec::new();
    collect(&paths::repository(), "", &mut files);
    files.sort();
    assert!(files.len() > 500, "only {} files were found", files.len());
    let excepts = |entry: &Entry| {
        entry.except.iter().map(|except| (entry.phrases[0].clone(), except.clone())).collect::<Vec<_>>()
    };
    let mut unused: BTreeSet<(String, String)> = entries.iter().flat_map(excepts).collect();
    let mut found = Vec::new();
    for path in &files {
        for (line, entry) in phrases.all_in(path, &read(path)) {
            let used: Vec<&str> = entry.excepts(path).collect();
            if used.is_empty() {
                found.push(line);
            }
            for except in used {
                unused.remove(&(entry.phrases[0].clone(), except.to_owned()));
            }
        }
    }
    assert!(found.is_empty(), "{} phrases of {LIST}:\n{}", found.len(), found.join("\n"));
    assert!(unused.is_empty(), "delete these paths from {LIST}, they have none of the phrases any more: {unused:#?}");
}

#[test]
fn the_list_has_phrases_in_lower_case_and_excepts_only_what_exists() {
    for entry in entries_of(&read(LIST)) {
        for phrase in &entry.phrases {
            assert_eq!(*phrase, phrase.to_lowercase());
            let words = text::words(phrase);
            assert!(!words.is_empty() && words.iter().all(|word| !word.text.is_empty()), "{phrase:?} is not words");
        }
        assert!(!entry.instead.is_empty(), "{:?}", entry.phrases);
        for path in &entry.except {
            assert!(paths::repository().join(path).exists(), "{path} does not exist: delete it from {LIST}");
        }
    }
}

#[test]
fn ten_planted_sentences_are_found() {
    let (entries, planted) = (entries_of(&read(LIST)), read(PLANTED));
    let phrases = Phrases::new(&entries);
    assert_eq!(lines_of(&planted).count(), 10);
    for line in lines_of(&planted) {
        let [path, text, number, phrase] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let found = phrases.found_in(path, &text.replace("\\n", "\n"));
        let expected = format!("{path}:{number}: \"{phrase}\": ");
        assert!(found.iter().any(|line| line.starts_with(&expected)), "{expected} is not in {found:?}");
    }
}

#[test]
fn subjects_of_commits_are_short_and_end_without_a_full_stop() {
    let check = |subjects: &str| {
        let mut sh = Command::new("sh");
        sh.arg("tests/subjects.sh").current_dir(paths::repository()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = sh.spawn().unwrap();
        child.stdin.take().unwrap().write_all(subjects.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (fine, longest, long) = ("Dry-run releases before the first eviction", "x".repeat(72), "x".repeat(73));
    assert_eq!(check(&format!("{fine}\n{longest}\n")), (true, String::new()));
    assert_eq!(check(""), (true, String::new()));
    for wrong in [long.as_str(), "Dry-run releases."] {
        let (passed, printed) = check(&format!("{fine}\n{wrong}\n"));
        assert!(!passed && printed.lines().any(|line| line == wrong) && !printed.contains(fine), "{printed}");
    }
}

#[test]
fn ordinary_sentences_pass_and_excepted_paths_are_left_out() {
    let entries = entries_of("# A comment\n\ngreen tea, sweets -> water\n    operator/\n    docs/a.md\n");
    let phrases = Phrases::new(&entries);
    let fine = "It is green. Tea is a word; `is_sweets` is a name, green-tea is a flag.\nIt is green\n\ntea.\n";
    assert_eq!(phrases.found_in("docs/b.md", fine), Vec::<String>::new());
    assert_eq!(phrases.found_in("operator/src/a.rs", "// sweets\n"), Vec::<String>::new());
    assert_eq!(phrases.found_in("docs/a.md", "sweets\n"), Vec::<String>::new());
    assert_eq!(phrases.found_in("docs/b.md", "sweets\n"), ["docs/b.md:1: \"sweets\": water"]);
    assert_eq!(phrases.found_in("docs/b.md", "a Green\ntea\n"), ["docs/b.md:1: \"green tea\": water"]);
    assert_eq!(phrases.found_in("cli/src/a.rs", "let sweets = green_tea();\n"), Vec::<String>::new());
}
