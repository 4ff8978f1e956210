//! The planner, asked from outside: one binary, so that it is linked once.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod cases;
mod checks;
mod combined;
mod common;
mod critical_addons;
mod events;
mod extremes;
mod filters;
mod finished;
mod full_clusters;
mod guaranteed_budgets;
mod invented_resources;
mod kept_answers;
mod large_gangs;
mod layers;
mod least_cost;
mod lending;
mod many_classes;
mod model;
mod mutants;
mod native;
mod neighbours;
mod nominations;
mod overdue;
mod preemption;
mod properties;
mod protection;
mod rescue;
mod sentences;
mod spared;
mod strangers;
mod strategies;
mod units;
mod volumes;
