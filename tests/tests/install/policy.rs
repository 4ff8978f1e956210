//! The rules of `deny.toml` for licences and crates, checked against the SBOMs and `Cargo.lock` without cargo-deny (which also
//! checks advisories).

use crate::registry::IMAGES;
use crate::sbom::{bill, built, target};
use giveway_tests::paths;
use serde::Deserialize;
use spdx::{Expression, ParseMode};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The part of `deny.toml` that can be checked without an advisory database.
#[derive(Deserialize)]
struct Policy {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Named>,
    deny: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "crate")]
    name: String,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    source: Option<String>,
}

fn policy() -> Policy {
    toml::from_str(&fs::read_to_string(paths::repository().join("deny.toml")).unwrap()).unwrap()
}

/// Returns true if a licence expression can be satisfied with the allowed licences.
fn is_allowed(licence: &str, allow: &BTreeSet<String>) -> bool {
    let expression = Expression::parse_mode(licence, ParseMode::LAX).unwrap_or_else(|why| panic!("{licence}: {why}"));
    expression.evaluate(|needed| allow.contains(&needed.to_string()))
}

#[test]
fn every_licence_is_allowed() {
    let allow = policy().licenses.allow;
    assert!(is_allowed("(MIT OR GPL-3.0-only) AND ISC", &allow) && !is_allowed("MIT AND GPL-3.0-only", &allow));
    let mut other = BTreeSet::new();
    for (_, program) in IMAGES {
        for part in bill(program)["components"].as_array().unwrap() {
            for licence in part["licenses"].as_array().unwrap() {
                let said =
                    licence["expression"].as_str().or_else(|| licence["license"]["id"].as_str()).unwrap_or("none");
                if !is_allowed(said, &allow) {
                    other.insert(format!("{} {}: {said}", part["name"], part["version"]));
                }
            }
        }
    }
    assert_eq!(other, BTreeSet::new(), "deny.toml allows {allow:?}");
}

#[test]
fn no_program_has_a_banned_crate_or_an_unlisted_duplicate_version() {
    let bans = policy().bans;
    for (_, program) in IMAGES {
        let built = built(program, target(&bill(program)));
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, version) in built.iter().filter_map(|line| line.split_once(" v")) {
            let banned = bans.deny.iter().any(|ban| ban.name == name);
            assert!(!banned, "{program} has {name}, which deny.toml denies");
            let skipped = |skip: &Named| match skip.name.split_once('@') {
                Some((of, from)) => of == name && (version == from || version.starts_with(&format!("{from}."))),
                None => skip.name == name,
            };
            if !bans.skip.iter().any(skipped) {
                versions.entry(name).or_default().insert(version);
            }
        }
        versions.retain(|_, all| all.len() > 1);
        assert!(versions.is_empty(), "{program} has {versions:?}: name the older ones in deny.toml, with a reason");
    }
}

#[test]
fn every_crate_comes_from_the_registry() {
    let lock: Lock = toml::from_str(&fs::read_to_string(paths::repository().join("Cargo.lock")).unwrap()).unwrap();
    assert!(lock.package.len() > 200);
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    let own = |package: &Package| package.source.is_none() && package.name.contains("giveway");
    let others = lock.package.iter().filter(|package| !own(package) && package.source.as_deref() != Some(registry));
    let others: Vec<String> = others.map(|package| format!("{} from {:?}", package.name, package.source)).collect();
    assert_eq!(others, Vec::<String>::new());
}
