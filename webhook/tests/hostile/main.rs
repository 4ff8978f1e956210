//! 20,000 reviews that no API server sends, made of real ones: the answer is a review all the same.
//!
//! The real ones (`tests/data`) were recorded on the tests' control plane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod handler;
mod mutation;
mod recorded;

use handler::Handler;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// How many mutated reviews there are.
const CASES: u32 = 20_000;
/// How much the process may grow while they are answered.
const MOST: usize = 64 << 20;

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn twenty_thousand_mutated_reviews_get_a_well_formed_answer_each_without_a_panic_and_in_bounded_memory() {
    let (handler, recorded) = (Handler::new(), recorded::all());
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let one = (0..recorded.len(), prop::collection::vec(mutation::any(), 1..4));
    let before = resident();
    let result = TestRunner::new_with_rng(config, rng).run(&one, |(index, mutations)| {
        let (endpoint, text) = recorded[index];
        let mut body = text.as_bytes().to_vec();
        let mut unique = true;
        for mutation in &mutations {
            body = mutation.apply(body);
            unique &= mutation.keeps_keys_unique();
        }
        handler.check(endpoint, &body, unique)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let grown = resident() - before;
    assert!(grown < MOST, "grown by {} KiB", grown / 1024);
    println!("{}; grown by {} KiB", handler.tally(), grown / 1024);
}

#[test]
fn what_was_recorded_is_answered_without_a_complaint() {
    let handler = Handler::new();
    for (endpoint, text) in recorded::all() {
        handler.check(endpoint, text.as_bytes(), true).unwrap();
    }
    assert_eq!(handler.undecodable(), 0);
}
