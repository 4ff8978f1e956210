//! The rendered chart: values reach the objects, and unsafe or contradictory values are rejected.

mod admission;
mod features;
mod namespaces;
mod network;
mod platforms;
mod pods;
mod security;
mod validation;
