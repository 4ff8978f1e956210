//! All numbers that bound the planner are in one table. Each of them is explained there, and a page that states one has the same number.

use crate::layers::sources;
use crate::mutants::repository;

/// Sizes of the parts of a data structure, which bound nothing, by file below `src/`.
const SIZES: [(&str, &str); 1] = [("model/cluster/free.rs", "PAGE")];

/// A limit of the table.
struct Limit {
    name: String,
    /// Its value, as the table writes it.
    value: String,
    /// Its comment, in one line.
    comment: String,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

fn table() -> Vec<Limit> {
    let (mut limits, mut comment) = (Vec::new(), String::new());
    for line in read("planner/src/limits.rs").lines() {
        if let Some(words) = line.strip_prefix("/// ") {
            comment.push_str(words);
            comment.push(' ');
        } else if let Some((declared, value)) = line.split_once(" = ") {
            let name = declared.split(['(', ')', ' ', ':']).find(|word| word.starts_with(|c: char| c.is_uppercase()));
            limits.push(Limit {
                name: name.unwrap_or_else(|| panic!("{line} declares no limit")).to_owned(),
                value: value.trim_end_matches(';').to_owned(),
                comment: std::mem::take(&mut comment),
            });
        }
    }
    limits
}

/// Returns a number as pages write it: with a comma after each thousand.
fn as_written(value: &str) -> String {
    let digits = value.replace('_', "");
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().map(|(at, digit)| if comma(at) { format!(",{digit}") } else { digit.to_string() }).collect()
}

#[test]
fn each_limit_has_a_reason_and_says_what_happens_beyond_it() {
    let table = table();
    assert!(table.len() > 50, "only {} limits were found", table.len());
    for Limit { name, comment, .. } in &table {
        for part in ["Why: ", "Beyond: "] {
            assert_eq!(comment.matches(part).count(), 1, "{name}: {part}{comment}");
        }
    }
}

#[test]
fn pages_state_the_limits_of_the_table() {
    let mut stated = 0;
    for Limit { name, value, comment } in table() {
        let Some((_, page)) = comment.split_once("Page: ") else { continue };
        let (path, words) = page.trim_end().split_once(": ").unwrap_or_else(|| panic!("{name}: {page}"));
        let (words, number) = (words.trim_matches('"'), as_written(&value));
        assert!(words.split(' ').any(|word| word == number), "{name} is {number}, and not in {words:?}");
        let text = read(path).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{name}: {path} does not say {words:?}");
        stated += 1;
    }
    assert!(stated > 20, "pages state only {stated} limits");
}

#[test]
fn no_other_file_declares_a_limit() {
    let mut files = Vec::new();
    sources(&repository().join("planner/src"), &mut files);
    for file in files.into_iter().filter(|file| !file.ends_with("src/limits.rs")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for line in code.lines().filter(|line| line.contains("const ") && line.contains(": usize = ")) {
            let is_size = SIZES.iter().any(|(path, name)| file.ends_with(path) && line.contains(name));
            assert!(is_size, "{}: {line}: move it to src/limits.rs", file.display());
        }
    }
}

#[test]
fn numbers_are_compared_as_pages_write_them() {
    assert_eq!(
        ["8", "300", "3600", "320_000", "5_000_000"].map(as_written),
        ["8", "300", "3,600", "320,000", "5,000,000"]
    );
}
