//! The sentences of conditions and events are in the catalogue, `crds/src/wording`: no string literal of the operator is a sentence.

use super::layers::{code, sources};
use std::fs;
use std::path::Path;

/// Returns the string literals of code without comments.
fn literals(code: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), None::<String>);
    let mut chars = code.chars();
    while let Some(next) = chars.next() {
        match open.as_mut() {
            None if next == '"' => open = Some(String::new()),
            None => {}
            Some(_) if next == '"' => found.extend(open.take()),
            // The escaped character does not matter here.
            Some(_) if next == '\\' => {
                chars.next();
            }
            Some(text) => text.push(next),
        }
    }
    assert_eq!(open, None, "a literal without an end");
    found
}

fn is_sentence(literal: &str) -> bool {
    literal.ends_with('.') && literal.split_whitespace().count() > 3
}

#[test]
fn no_literal_of_the_operator_is_a_sentence() {
    let example = "say(\"No pod is evicted.\", \"\\\"quoted\\\" words\", \"etc.\")";
    assert_eq!(literals(example).into_iter().filter(|text| is_sentence(text)).count(), 1);
    let (root, mut files) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), Vec::new());
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let mut names = file.strip_prefix(&root).unwrap().iter().map(|part| part.to_string_lossy());
        if names.any(|name| name == "testing.rs" || name == "tests" || name.ends_with("tests.rs")) {
            continue;
        }
        let code: Vec<String> = code(&fs::read_to_string(&file).unwrap()).map(str::to_owned).collect();
        let sentences = literals(&code.join("\n")).into_iter().filter(|text| is_sentence(text));
        wrong.extend(sentences.map(|text| format!("{}: {text}", file.display())));
    }
    assert!(wrong.is_empty(), "write these sentences in crds/src/wording:\n{}", wrong.join("\n"));
}
