//! What is generated from the table of kinds is what is in the repository, and every row is whole.

use giveway_crds::kinds::{KINDS, OwnerLink, chart, of, page, reads_label};
use std::path::Path;

fn stored(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_page_and_the_chart_s_list_are_those_of_the_table() {
    assert_eq!(stored("docs/reference/kinds.md"), page::page(), "run `make kinds`");
    assert_eq!(stored("helm/files/kinds.json"), chart::file(), "run `make kinds`");
}

#[test]
fn every_row_is_found_by_its_name_and_what_it_makes_is_in_the_table() {
    for row in KINDS {
        assert!(std::ptr::eq(of(row.group, row.kind).unwrap(), row), "{}", row.kind);
        assert!(!row.templates.is_empty(), "{}", row.kind);
        match row.owner_link {
            OwnerLink::ByChild(kind) => {
                assert!(KINDS.iter().any(|other| other.kind == kind && other.has_groups()), "{kind}")
            }
            OwnerLink::ByLabel(label) | OwnerLink::ByLabelWhere(label, ..) => assert!(reads_label(label), "{label}"),
            OwnerLink::ByController => {}
        }
        assert!(row.replica.iter().chain(&row.uid).all(|label| reads_label(label)), "{}", row.kind);
    }
    assert!(!reads_label("app"));
}
