//! What is kept of every node from one decision to the next, for members of one class: capacities, the best nodes for single pods, and the
//! units whose eviction would violate a budget. It changes what a decision costs, never its result.

mod at_risk;
mod best_node;
#[cfg(test)]
mod best_node_tests;
mod capacities;
#[cfg(test)]
mod capacities_tests;
mod kept;
mod node_capacity;
mod prospects;
mod violations;

pub(crate) use best_node::{BestNode, NodeChoice, Searched, bound, outline};
pub(crate) use capacities::Capacities;
pub(crate) use kept::CapacityCache;
pub(crate) use prospects::{Prospects, When};
pub(crate) use violations::Risk;
