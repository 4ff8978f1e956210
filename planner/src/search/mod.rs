//! Search strategies: they choose placements and victims. No strategy writes explanations, and none keeps state for the next decision.

mod branch_and_bound;
pub(crate) mod domains;
pub(crate) mod first_fit;
pub(crate) mod found;
pub(crate) mod greedy;
pub(crate) mod greedy_matrix;
pub(crate) mod kep5710;
pub(crate) mod least_cost;
pub(crate) mod matrix;
mod missing;
pub(crate) mod near;
mod node_trial;
mod numbers;
pub(crate) mod packing;
pub(crate) mod reprieve;
pub(crate) mod rescue;
pub(crate) mod victim_sets;

pub(crate) use first_fit::{count_classes, first_fit};
pub(crate) use found::Found;
pub(crate) use greedy::{GreedyPlacement, fill, fill_rest};
pub(crate) use matrix::Matrix;
pub(crate) use packing::{greedy_is_exact, try_everything};
