//! The page of reference about the command line is what the program prints. `make reference` writes it.

#[path = "../../../crds/tests/crds/golden.rs"]
mod golden;

use std::path::Path;
use std::process::Command;

const HEAD: &str = "# Reference: the command line

<!-- Generated from what kubectl-giveway prints by `make reference`; do not edit. -->

What `kubectl giveway --help` prints, and `--help` of each command. [The plugin](../cli.md) shows what comes back.
";

/// Returns the help of a command, or of a subcommand: its words are separated by spaces.
fn help(command: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-giveway"));
    program.args(command.split_whitespace());
    let out = program.arg("--help").env("NO_COLOR", "1").output().unwrap();
    assert!(out.status.success(), "{command} --help: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Without the flags that every command has; the first help shows them.
fn own(text: &str) -> String {
    match text.split_once("\n\nCluster:\n") {
        Some((before, shared)) => match shared.split_once("\n\nExamples:") {
            Some((_, after)) => format!("{before}\n\nExamples:{after}"),
            None => before.to_owned(),
        },
        None => text.to_owned(),
    }
}

/// Returns the commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let list = help.split_once("Commands:\n").map(|(_, rest)| rest.split_once("\n\n").unwrap_or((rest, "")).0);
    // A line that continues a description is indented more deeply.
    let names = list.into_iter().flat_map(str::lines).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

fn page() -> String {
    let all = help("");
    let mut page = format!("{HEAD}\n```text\n{}\n```\n", all.trim());
    for command in commands(&all) {
        let text = help(command);
        page += &format!("\n## {command}\n\n```text\n{}\n```\n", own(&text).trim());
        for subject in commands(&text) {
            let words = format!("{command} {subject}");
            page += &format!("\n### {words}\n\n```text\n{}\n```\n", own(&help(&words)).trim());
        }
    }
    page
}

#[test]
fn the_page_about_the_command_line_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/cli.md");
    golden::is_generated(&path, &page(), "make reference");
}
