//! Breaks the planner on purpose, one way after the other (`mutants.yaml`), and runs the tests that must notice: `make mutants`.
//! Or the operator, where the simulation must notice: `make mutants-ledger`.
//!
//! It works on a worktree of the last commit below `target/`, so that nothing in the checkout is touched; one build and one run of
//! some tests per entry. The first argument says what to break, a second one chooses the entries whose description contains it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a tool for developers")]

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// A text that occurs once in a file, and what it becomes.
#[derive(Deserialize)]
struct Edit {
    file: String,
    find: String,
    replace: String,
}

/// What can be broken.
struct Suite {
    name: &'static str,
    /// Where its sources are.
    sources: &'static str,
    list: &'static str,
    /// The target of the tests that must notice.
    tests: &'static str,
}

const SUITES: [Suite; 2] = [
    Suite { name: "planner", sources: "planner/src", list: include_str!("mutants.yaml"), tests: "planner" },
    Suite {
        name: "operator",
        sources: "operator/src",
        list: include_str!("../../operator/mutants/mutants.yaml"),
        tests: "simulation",
    },
];

/// One way to break something.
#[derive(Deserialize)]
struct Mutant {
    broken: String,
    #[serde(flatten)]
    edit: Edit,
    /// Further edits, where one alone is caught by a second line of defence.
    #[serde(default)]
    and: Vec<Edit>,
    /// What the names of the tests have in common that must notice; empty for all of them.
    caught_by: String,
}

fn run(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// Makes an edit; what the file was before.
fn apply(edit: &Edit, sources: &Path) -> (PathBuf, String) {
    let path = sources.join(&edit.file);
    let text = std::fs::read_to_string(&path).expect("a source");
    assert_eq!(text.matches(&edit.find).count(), 1, "{}: {}", edit.file, edit.find);
    std::fs::write(&path, text.replace(&edit.find, &edit.replace)).expect("it can be written");
    (path, text)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (name, wanted) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let suite = SUITES.iter().find(|suite| suite.name == name).expect("what to break: planner or operator");
    let list: Vec<Mutant> = serde_yaml_ng::from_str(suite.list).expect("a list of mutants");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let (tree, build) = (root.join("target/mutants/tree"), root.join("target/mutants/build"));
    run(Command::new("git").current_dir(root).args(["worktree", "remove", "--force"]).arg(&tree));
    let (made, said) = run(Command::new("git").current_dir(root).args(["worktree", "add", "--detach"]).arg(&tree));
    assert!(made, "{said}");
    let test = |filter: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&tree).env("CARGO_TARGET_DIR", &build);
        // The whole workspace's features: those of what is built already.
        run(cargo.args(["test", "--workspace", "--test", suite.tests, "--", filter]))
    };
    let (whole, said) = test("");
    let mut missed = usize::from(!whole);
    println!("{} the {name} as it is", if whole { "passes " } else { "FAILS  " });
    if !whole {
        println!("{said}");
    }
    for mutant in list.iter().filter(|mutant| mutant.broken.contains(&wanted)) {
        let edits = || std::iter::once(&mutant.edit).chain(&mutant.and);
        let whole: Vec<(PathBuf, String)> = edits().map(|edit| apply(edit, &tree.join(suite.sources))).collect();
        let (passed, said) = test(&mutant.caught_by);
        whole.into_iter().rev().for_each(|(path, text)| std::fs::write(path, text).expect("it can be written"));
        let builds = said.contains("test result:");
        missed += usize::from(passed || !builds);
        let word = match (builds, passed) {
            (false, _) => "NO BUILD",
            (true, true) => "MISSED ",
            (true, false) => "caught ",
        };
        println!("{word} {} ({})", mutant.broken, mutant.edit.file);
    }
    run(Command::new("git").current_dir(root).args(["worktree", "remove", "--force"]).arg(&tree));
    println!("{missed} not caught");
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
