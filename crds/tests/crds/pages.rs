//! Checks of the documentation: every link has a target, every reason and check is documented, every command exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// URL prefix of links to files outside of the book.
const REPOSITORY: &str = "https://github.com/giveway/giveway/blob/main/";

fn root() -> PathBuf {
    normal(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}

/// Returns the path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// Returns every page of the repository.
fn pages() -> BTreeMap<PathBuf, String> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
                open.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|end| end == "md") {
                found.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Returns the lines, each with whether it is in a fenced block.
fn lines(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.lines().scan(false, |fenced, line| {
        let fence = line.trim_start().starts_with("```");
        *fenced ^= fence;
        Some((*fenced || fence, line))
    })
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).filter(|(fenced, line)| !fenced && line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Returns the targets of links outside of code.
fn links(text: &str) -> Vec<String> {
    let prose: String = lines(text).filter(|(fenced, _)| !fenced).map(|(_, line)| format!("{line}\n")).collect();
    let outside: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let rest = outside.split("](").skip(1);
    rest.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned())).collect()
}

/// Returns pieces of code: text in backticks, and lines of fenced blocks without their prompt.
fn code(text: &str) -> Vec<String> {
    let fenced =
        lines(text).filter(|(fenced, _)| *fenced).map(|(_, line)| line.trim().trim_start_matches("$ ").to_owned());
    let prose: String = lines(text).filter(|(fenced, _)| !fenced).map(|(_, line)| format!("{line}\n")).collect();
    let indented =
        prose.lines().filter_map(|line| line.strip_prefix("    ")).map(|line| line.trim_start_matches("$ ").to_owned());
    let inline = prose.split('`').skip(1).step_by(2).map(str::to_owned);
    fenced.chain(indented).chain(inline).collect()
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_of_it() {
    let pages = pages();
    let book = root().join("docs");
    let mut wrong = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path.strip_prefix(REPOSITORY) {
                Some(path) => root().join(path),
                None if path.contains("://") || path.starts_with("mailto:") => continue,
                None if path.is_empty() => page.clone(),
                None => normal(&page.parent().unwrap().join(path)),
            };
            let said = format!("{}: {link}", page.strip_prefix(root()).unwrap().display());
            if !target.exists() {
                wrong.push(format!("{said}: there is no such file"));
            } else if page.starts_with(&book) && !target.starts_with(&book) && !path.starts_with(REPOSITORY) {
                wrong.push(format!("{said}: it is not in the book; write {REPOSITORY}…"));
            } else if !heading.is_empty() && !pages.get(&target).is_some_and(|text| anchors(text).contains(heading)) {
                wrong.push(format!("{said}: there is no such heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_book_has_every_page_of_docs_once() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    let present: BTreeSet<PathBuf> =
        pages().into_keys().filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md")).collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), present, "docs/SUMMARY.md");
    assert_eq!(listed.len(), present.len(), "docs/SUMMARY.md names a page twice");
}

#[test]
fn every_reason_and_every_check_has_its_place_in_troubleshooting() {
    let anchors = anchors(&fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap());
    let source = include_str!("../../src/condition.rs").split_once("pub fn as_str").unwrap().1;
    let reasons: Vec<&str> = source
        .lines()
        .take_while(|line| !line.starts_with("    }"))
        .filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\","))
        .collect();
    assert!(reasons.len() > 30, "as_str of Reason is read wrongly: {reasons:?}");
    let checks = [
        "crds",
        "webhook",
        "policies",
        "guard",
        "certificate",
        "operator",
        "mode",
        "version",
        "in-tree",
        "autoscaler",
        "classes",
        "guarded",
        "kubernetes",
        "apis",
        "platform",
        "pods",
        "scheduler",
        "network",
    ];
    let missing: Vec<String> = reasons
        .into_iter()
        .map(anchor)
        .chain(checks.map(|check| format!("check-{check}")))
        .filter(|wanted| !anchors.contains(wanted))
        .collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md has no heading for {missing:?}");
}

/// Beginnings of quoted messages that the planner writes.
const OTHER_MESSAGES: [&str; 6] = [
    "Evicting every workload",
    "Its preemptionPolicy is Never",
    "N pods below priority",
    "No node offers",
    "No workload has",
    "There are pods below",
];

/// Returns the messages that a page quotes in backticks: at least three words, of which the first begins with a capital letter.
fn quoted_messages(text: &str) -> Vec<String> {
    let prose: String = lines(text).filter(|(fenced, _)| !fenced).map(|(_, line)| format!("{line}\n")).collect();
    let quoted = prose.split('`').skip(1).step_by(2).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    quoted.filter(|text| text.starts_with(char::is_uppercase) && text.split(' ').count() > 2).collect()
}

/// Returns true if a line contains the words of a quote in this order, where `NAME`, `X` and similar words stand for anything.
fn is_said(quote: &str, line: &str) -> bool {
    let is_name = |word: &&str| *word == "…" || word.chars().all(|c| c.is_ascii_uppercase());
    let words: Vec<&str> = quote.split(' ').collect();
    let mut rest = Some(line);
    for part in words.split(is_name).filter(|part| !part.is_empty()) {
        rest = rest.and_then(|rest| Some(rest.split_once(part.join(" ").trim_end_matches('.'))?.1));
    }
    rest.is_some()
}

#[test]
fn messages_that_troubleshooting_quotes_are_in_the_catalogue() {
    assert!(is_said("Pod NAME is here", "Pod a is here.") && !is_said("Pod NAME is there", "Pod a is here."));
    let (page, sentences) =
        (fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap(), crate::wording::stored());
    let mut quoted = quoted_messages(&page);
    assert!(quoted.len() > 5, "{quoted:?}");
    quoted.retain(|quote| !OTHER_MESSAGES.iter().any(|other| quote.starts_with(other)));
    quoted.retain(|quote| !sentences.lines().any(|line| is_said(quote, line)));
    assert!(quoted.is_empty(), "crds/tests/wording.txt does not have what docs/troubleshooting.md quotes: {quoted:?}");
}

#[test]
fn commands_of_the_pages_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let target =
        |word: &str| makefile.lines().any(|line| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(':')));
    let reference = fs::read_to_string(root().join("docs/reference/cli.md")).unwrap();
    let commands: BTreeSet<&str> = reference.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        for piece in code(&text) {
            let words: Vec<&str> = piece.split_whitespace().collect();
            let known = match words.as_slice() {
                ["make", word, ..] => target(word),
                ["kubectl", "giveway", word, ..] => {
                    word.starts_with('-') || commands.contains(word.trim_end_matches([',', ';']))
                }
                _ => true,
            };
            if !known {
                wrong.push(format!("{}: {piece}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_agree_with_the_chart_and_with_what_is_published() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    // Until a release is published, no page may install one.
    if read("README.md").contains("No images are published yet") {
        for (page, text) in pages() {
            assert!(
                !text.contains("oci://ghcr.io/giveway"),
                "{} installs a chart that is not published",
                page.display()
            );
        }
    }
    let values = read("helm/values.yaml");
    let add_ons = values.split_once("\ncriticalAddons:").unwrap().1;
    let default = add_ons.lines().find_map(|line| line.strip_prefix("  enabled: ")).unwrap();
    let installed = read("docs/install.md");
    assert_eq!(installed.contains("only after you turn that on"), default != "true", "critical add-ons");
}

#[test]
fn tasks_name_the_role_that_their_commands_need() {
    for (page, text) in pages().into_iter().filter(|(page, _)| page.starts_with(root().join("docs/tasks"))) {
        let (page, commands) = (page.display(), code(&text));
        let uses = |words: &[&str]| {
            words
                .iter()
                .any(|word| commands.iter().any(|command| command.starts_with(&format!("kubectl giveway {word} "))))
        };
        assert!(!uses(&["plan", "why", "history"]) || text.contains("giveway-planner"), "{page} names no role");
        assert!(!uses(&["adopt", "release"]) || text.contains("giveway-class-admin"), "{page} names no role");
    }
}

#[test]
fn reasons_of_autoscalers_have_a_part_of_their_own() {
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let (_, part) = page.split_once("\n## Capacity from an autoscaler\n").unwrap();
    let part = part.split("\n## ").next().unwrap();
    let count = |text: &str| text.lines().filter(|line| line.starts_with("### Capacity")).count();
    assert!(count(part) > 3 && count(part) == count(&page));
}

#[test]
fn the_promises_are_numbered_without_a_gap() {
    let page = fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    let number = |line: &str| line.strip_prefix("| ")?.split_once(". ")?.0.parse::<usize>().ok();
    let numbers: Vec<usize> = page.lines().filter_map(number).collect();
    assert!(numbers.len() > 5 && numbers.iter().copied().eq(1..=numbers.len()), "{numbers:?}");
}

#[test]
fn a_version_without_further_tests_is_in_no_list_of_them() {
    let page = fs::read_to_string(root().join("docs/limits.md")).unwrap();
    let (table, text) = page.split_once("\n* **Scenarios**").unwrap();
    let (_, by_hand) = text.split_once("report that they need").unwrap();
    let (by_hand, _) = by_hand.split_once("\n### ").unwrap();
    let mut untested = table.lines().filter(|line| line.ends_with("| none yet |"));
    let wrong = untested.find(|line| line.split(' ').nth(1).is_some_and(|version| by_hand.contains(version)));
    assert_eq!(wrong, None, "docs/limits.md has further tests of this version");
}

/// Returns the hand-written pages of the manual: all of `docs/` except the reference and the table of contents.
fn manual() -> BTreeMap<PathBuf, String> {
    let docs = root().join("docs");
    let written = |page: &Path| {
        page.starts_with(&docs) && !page.starts_with(docs.join("reference")) && !page.ends_with("SUMMARY.md")
    };
    pages().into_iter().filter(|(page, _)| written(page)).collect()
}

#[test]
fn every_page_of_the_manual_names_its_readers_and_what_comes_before_and_after_it() {
    let mut wrong = Vec::new();
    for (page, text) in manual() {
        let outside: Vec<&str> = lines(&text).filter(|(fenced, _)| !fenced).map(|(_, line)| line).collect();
        let count = |wanted: &str| outside.iter().filter(|line| line.starts_with(wanted)).count();
        for wanted in ["**For:** ", "## Before you begin", "## What's next"] {
            if count(wanted) != 1 {
                wrong.push(format!("{}: {wanted}: {}", page.display(), count(wanted)));
            }
        }
    }
    assert!(wrong.is_empty(), "each page needs one line of each:\n{}", wrong.join("\n"));
}

#[test]
fn the_manual_has_at_most_25_pages() {
    let pages = manual();
    assert!(pages.len() > 20 && pages.len() <= 25, "{} pages: merge those that repeat each other", pages.len());
}

#[test]
fn fields_that_v1beta1_will_change_exist() {
    let page = fs::read_to_string(root().join("docs/api-stability.md")).unwrap();
    let reference = fs::read_to_string(root().join("docs/reference/api.md")).unwrap();
    let (_, table) = page.split_once("| field | what is wrong |").unwrap();
    let cells = table.lines().skip(2).map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
    let fields: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(!fields.is_empty(), "the table of docs/api-stability.md is read wrongly");
    for field in fields {
        assert!(reference.contains(&format!("\n| `{field}` | ")), "docs/api-stability.md: {field} is no field");
    }
}

#[test]
fn the_columns_that_headlamp_shows_are_those_of_the_kinds() {
    let page = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    for crd in giveway_crds::all_crds() {
        let columns = crd.spec.versions[0].additional_printer_columns.iter().flatten();
        let names: Vec<&str> = columns.map(|column| column.name.as_str()).filter(|name| *name != "Age").collect();
        let row = format!("| `{}` | {} |\n", crd.spec.names.kind, names.join(", "));
        assert!(page.contains(&row), "docs/cli.md: the table of Headlamp has no row {row}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 90, "README.md has {lines} lines: move the rest into docs/");
}
