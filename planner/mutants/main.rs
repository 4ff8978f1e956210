//! Mutation tests: changes one place of the sources at a time and runs the tests that must fail because of it.
//!
//! * `planner` (`make mutants`): faults in the planner, `mutants.yaml`, detected by the planner's tests.
//! * `operator` (`make mutants-operator`): faults in the operator, `operator/mutants/mutants.yaml`, detected by the simulation.
//! * `e2e`: faults anywhere, `tests/mutants/mutants.yaml`, each detected by one end-to-end test on a control plane, which
//!   `make controlplane` has built.
//!
//! It works on a worktree of the last commit below `target/mutants` and does not change the checkout. The first argument names the
//! suite; a second one selects the entries whose description contains it. The unchanged sources must pass before any entry is tried.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a tool for developers")]

use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// A text that occurs once in a file, and its replacement.
#[derive(Deserialize)]
struct Edit {
    file: String,
    find: String,
    replace: String,
}

/// The tests that must detect the mutants of a suite.
enum Tests {
    /// A test target that starts no program, and a filter of the tests that the unchanged sources must pass.
    Offline { target: &'static str, unchanged: &'static str },
    /// The end-to-end tests, which run Giveway's programs on a control plane. `caught_by` is the full name of one of them.
    EndToEnd,
}

/// A list of mutants with the tests that must detect them.
struct Suite {
    name: &'static str,
    /// The folder to which `file` of each entry is relative; empty for the repository root.
    sources: &'static str,
    list: &'static str,
    tests: Tests,
}

const SUITES: [Suite; 3] = [
    Suite {
        name: "planner",
        sources: "planner/src",
        list: include_str!("mutants.yaml"),
        tests: Tests::Offline { target: "planner", unchanged: "" },
    },
    Suite {
        name: "operator",
        sources: "operator/src",
        list: include_str!("../../operator/mutants/mutants.yaml"),
        tests: Tests::Offline { target: "offline", unchanged: "simulation::" },
    },
    Suite { name: "e2e", sources: "", list: include_str!("../../tests/mutants/mutants.yaml"), tests: Tests::EndToEnd },
];

/// One fault.
#[derive(Deserialize)]
struct Mutant {
    broken: String,
    #[serde(flatten)]
    edit: Edit,
    /// Further edits, where another check would hide the effect of the first one.
    #[serde(default)]
    and: Vec<Edit>,
    /// A common part of the names of the tests that must fail; empty for all tests. In suite `e2e` the full name of one test.
    caught_by: String,
}

/// The result of a test run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestOutcome {
    Passed,
    Failed,
    /// The sources do not compile, or no test has the wanted name.
    NotRun,
}

/// A copy of the sources, and the build folder that all its states share.
struct Checkout {
    repository: PathBuf,
    tree: PathBuf,
    build: PathBuf,
}

fn run(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

impl Checkout {
    /// Makes a worktree of the last commit.
    fn new() -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_path_buf();
        let (tree, build) = (repository.join("target/mutants/tree"), repository.join("target/mutants/build"));
        let checkout = Self { repository, tree, build };
        checkout.remove();
        let (made, said) = run(checkout.worktree(&["add", "--detach"]).arg(&checkout.tree));
        assert!(made, "{said}");
        checkout
    }

    fn worktree(&self, args: &[&str]) -> Command {
        let mut git = Command::new("git");
        git.current_dir(&self.repository).arg("worktree").args(args);
        git
    }

    fn remove(&self) {
        run(self.worktree(&["remove", "--force"]).arg(&self.tree));
    }

    /// A command of cargo. All commands build the whole workspace, so that they share the features of dependencies.
    fn cargo(&self, args: &[&str]) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.build).args(args);
        // A mutant may break a rule of clippy.
        cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
        cargo
    }

    /// Runs the tests of a suite that this filter selects. Returns the outcome and what was printed.
    fn test(&self, suite: &Suite, filter: &str) -> (TestOutcome, String) {
        match suite.tests {
            Tests::Offline { target, .. } => self.offline_test(target, filter),
            Tests::EndToEnd => self.end_to_end_test(filter),
        }
    }

    fn offline_test(&self, target: &str, filter: &str) -> (TestOutcome, String) {
        let (passed, said) = run(&mut self.cargo(&["test", "--workspace", "--test", target, "--", filter]));
        let outcome = match (passed, said.contains("test result:")) {
            (true, true) => TestOutcome::Passed,
            (false, true) => TestOutcome::Failed,
            (_, false) => TestOutcome::NotRun,
        };
        (outcome, said)
    }

    fn end_to_end_test(&self, name: &str) -> (TestOutcome, String) {
        // The test finds the programs beside its own folder.
        let (built, said) = run(&mut self.cargo(&["build", "--workspace", "--bins"]));
        if !built {
            return (TestOutcome::NotRun, said);
        }
        let args = ["test", "--workspace", "--test", "e2e", "--", "--include-ignored", "--exact", name];
        let programs = self.repository.join("target/controlplane/bin");
        let (passed, said) = run(self.cargo(&args).env("GIVEWAY_CONTROLPLANE_BIN", programs));
        let outcome = match passed {
            true if said.contains(" 1 passed;") => TestOutcome::Passed,
            false if said.contains(" 1 failed;") => TestOutcome::Failed,
            _ => TestOutcome::NotRun,
        };
        (outcome, said)
    }

    /// Applies an edit. Returns the path of the file and its former text.
    fn apply(&self, suite: &Suite, edit: &Edit) -> (PathBuf, String) {
        let path = self.tree.join(suite.sources).join(&edit.file);
        let text = std::fs::read_to_string(&path).expect("a source");
        assert_eq!(text.matches(&edit.find).count(), 1, "{}: {}", edit.file, edit.find);
        std::fs::write(&path, text.replace(&edit.find, &edit.replace)).expect("it can be written");
        (path, text)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (name, wanted) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let suite = SUITES.iter().find(|suite| suite.name == name).expect("a suite: planner, operator or e2e");
    let mut list: Vec<Mutant> = serde_yaml_ng::from_str(suite.list).expect("a list of mutants");
    list.retain(|mutant| mutant.broken.contains(&wanted));
    assert!(!list.is_empty(), "no description of a mutant in suite {name} contains {wanted:?}");
    let checkout = Checkout::new();
    let missed = if passes_unchanged(&checkout, suite, &list) { missed(&checkout, suite, &list) } else { list.len() };
    checkout.remove();
    println!("{missed} of {} not caught", list.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the tests on the unchanged sources: those that the list names in suite `e2e`, otherwise all. Returns true if they pass.
/// A test that fails anyway proves nothing about a mutant.
fn passes_unchanged(checkout: &Checkout, suite: &Suite, list: &[Mutant]) -> bool {
    let filters: BTreeSet<&str> = match suite.tests {
        Tests::Offline { unchanged, .. } => BTreeSet::from([unchanged]),
        Tests::EndToEnd => list.iter().map(|mutant| mutant.caught_by.as_str()).collect(),
    };
    filters.into_iter().all(|filter| {
        let (outcome, said) = checkout.test(suite, filter);
        let passed = outcome == TestOutcome::Passed;
        println!("{} the unchanged sources: {} {filter}", if passed { "passes " } else { "FAILS  " }, suite.name);
        if !passed {
            println!("{said}");
        }
        passed
    })
}

/// Tries each mutant. Returns the number of those that no test detected.
fn missed(checkout: &Checkout, suite: &Suite, list: &[Mutant]) -> usize {
    let mut missed = 0;
    for mutant in list {
        let edits = || std::iter::once(&mutant.edit).chain(&mutant.and);
        let former: Vec<(PathBuf, String)> = edits().map(|edit| checkout.apply(suite, edit)).collect();
        let (outcome, said) = checkout.test(suite, &mutant.caught_by);
        former.into_iter().rev().for_each(|(path, text)| std::fs::write(path, text).expect("it can be written"));
        missed += usize::from(outcome != TestOutcome::Failed);
        let word = match outcome {
            TestOutcome::NotRun => "NOT RUN",
            TestOutcome::Passed => "MISSED ",
            TestOutcome::Failed => "caught ",
        };
        println!("{word} {} ({})", mutant.broken, mutant.edit.file);
        if outcome == TestOutcome::NotRun {
            println!("{said}");
        }
    }
    missed
}
