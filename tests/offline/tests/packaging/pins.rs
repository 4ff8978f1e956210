//! What a release is built with: pinned actions, one version of the compiler, and every test before anything is published.

use giveway_tests::paths;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

fn read(path: &str) -> String {
    fs::read_to_string(paths::repository().join(path)).unwrap()
}

/// Returns the text of each workflow, by its path.
fn workflows() -> Vec<(String, String)> {
    let folder = paths::repository().join(".github/workflows");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let paths = names.map(|name| format!(".github/workflows/{name}"));
    paths.map(|path| (path.clone(), read(&path))).collect()
}

fn release() -> Value {
    serde_yaml_ng::from_str(&read(".github/workflows/release.yml")).unwrap()
}

/// Returns the words after a text in a file, up to the end of the line.
fn after(text: &str, prefix: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(prefix));
    line.unwrap_or_else(|| panic!("no line begins with {prefix:?}")).trim_matches('"').to_owned()
}

#[test]
fn every_action_is_pinned_by_a_commit_and_names_its_version() {
    let mut actions = 0;
    for (path, text) in workflows() {
        for line in text.lines().filter(|line| line.contains("uses:")) {
            let used = line.split_once("uses:").map(|(_, used)| used.trim()).unwrap();
            let (reference, comment) = used.split_once(" # ").unwrap_or((used, ""));
            let commit = reference.split_once('@').map_or("", |(_, commit)| commit);
            let pinned = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(pinned && comment.starts_with('v'), "{path}: {line}: write ACTION@COMMIT # vVERSION");
            actions += 1;
        }
    }
    assert!(actions > 10, "only {actions} actions were found");
}

#[test]
fn workflows_and_dockerfile_have_one_version_of_the_compiler() {
    let compiler = read("packaging/compiler.txt").trim().to_owned();
    assert_eq!(after(&read("Dockerfile"), "ARG RUST="), compiler);
    let oldest = after(&read("Cargo.toml"), "rust-version = ");
    assert!(compiler.starts_with(&format!("{oldest}.")), "compiler.txt has {compiler}, Cargo.toml {oldest}");
    for (path, text) in workflows() {
        for line in text.lines().filter(|line| line.contains("rustup default")) {
            assert!(line.contains("rustup default \"$(cat packaging/compiler.txt)\""), "{path}: {line}");
        }
        assert!(text.contains("rustup default"), "{path}");
    }
}

#[test]
fn dependencies_are_those_of_the_lock_file() {
    let script = read("packaging/static.sh");
    let builds: Vec<&str> = script.lines().filter(|line| line.contains("--profile ship")).collect();
    assert!(builds.len() == 1 && builds[0].contains(" --locked "), "{builds:?}");
}

#[test]
fn krew_checks_the_manifest_of_the_plugin_before_its_checksum_is_written() {
    let script = read("packaging/rest.sh");
    let steps = [">\"$out/krew/giveway.yaml\"\n", "\npackaging/krew.sh \"$out\"\n", "mv \"$out.sums\""];
    let positions =
        steps.map(|step| script.find(step).unwrap_or_else(|| panic!("{step:?} is not in packaging/rest.sh")));
    assert!(positions.is_sorted(), "{positions:?}");
}

#[test]
fn a_release_is_published_only_after_every_stage_of_its_tests() {
    let workflow = release();
    assert_eq!(workflow["jobs"]["release"]["needs"], "programs");
    assert_eq!(workflow["jobs"]["programs"]["needs"], serde_json::json!(["test", "test-release"]));
    let stages = workflow["jobs"]["test-release"]["strategy"]["matrix"]["stages"].as_array().unwrap();
    let tested: BTreeSet<&str> = stages.iter().flat_map(|group| group.as_str().unwrap().split(' ')).collect();
    let all = after(&read("tests/stages.sh"), "RELEASE=");
    assert_eq!(tested, all.split(' ').collect::<BTreeSet<&str>>());
    let steps = |job: &str| workflow["jobs"][job]["steps"].to_string();
    assert!(steps("test").contains(" make test\""), "{}", steps("test"));
    for step in
        ["PIN_DIGESTS=1 packaging/rest.sh target/dist", "packaging/sign.sh target/dist", "attest-build-provenance@"]
    {
        assert!(steps("release").contains(step), "{step} is not in: {}", steps("release"));
    }
}

#[test]
fn only_the_job_that_publishes_may_write() {
    for (path, text) in workflows() {
        let workflow: Value = serde_yaml_ng::from_str(&text).unwrap();
        assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}), "{path}");
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            assert!(job["permissions"].is_null() || name == "release", "{path}: {name}");
        }
    }
}
