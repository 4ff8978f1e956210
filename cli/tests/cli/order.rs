//! The same snapshot gives the same bytes, in whatever order its objects come.
use crate::common::giveway;
use proptest::prelude::{Just, ProptestConfig, Strategy};
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};
use std::path::Path;

fn plan(objects: &[Value], case: &Value, strategy: &str) -> String {
    let snapshot = tempfile::NamedTempFile::new().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    serde_json::to_writer(&snapshot, &list).unwrap();
    let (file, preemptor) = (snapshot.path().to_str().unwrap(), case["preemptor"].as_str().unwrap());
    let namespace = case["namespace"].as_str().unwrap();
    let printed = giveway(&[
        "plan",
        "--snapshot",
        file,
        "--for",
        preemptor,
        "-n",
        namespace,
        "-o",
        "json",
        "--strategy",
        strategy,
    ]);
    assert_eq!((printed.status, printed.err.as_str()), (Some(0), ""));
    printed.out
}

#[test]
fn every_case_is_answered_with_the_same_bytes_in_any_order_of_its_objects() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/plan");
    let mut compared = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let case: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
        let objects = case["objects"].as_array().unwrap().clone();
        for strategy in ["least-cost", "kep5710"] {
            let expected = plan(&objects, &case, strategy);
            let config = ProptestConfig {
                cases: 2,
                rng_seed: RngSeed::Fixed(1),
                failure_persistence: None,
                ..ProptestConfig::default()
            };
            let other_orders = Just(objects.clone()).prop_shuffle();
            let same = TestRunner::new(config).run(&other_orders, |objects| {
                assert_eq!(plan(&objects, &case, strategy), expected);
                Ok(())
            });
            same.unwrap_or_else(|failure| panic!("{}: {failure}", case["source"]));
            compared += 1;
        }
    }
    assert!(compared >= 84, "{compared}");
}
