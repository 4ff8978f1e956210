//! End-to-end tests of Giveway and the control plane they run on.
//!
//! ```text
//! control_plane  starts and stops a real Kubernetes control plane
//! node           adds a real node: containerd, kubelet, kube-proxy, images
//! giveway        installs Giveway on it the way a user does
//! controllers    adds real controllers of other projects: JobSet, KubeRay, Karpenter and others
//! cluster        builders for nodes, classes, groups, pods and budgets
//! example        the manifests of `examples/`, applied
//! attack         raw API requests, to test which are rejected
//! collector      receives traces
//! https          HTTPS servers inside the test process
//! denials        a webhook that denies requests by rule
//! later_plugin   a mutating webhook that runs after Giveway's
//! proxy          faults between a daemon and the API server
//! random         pseudo-random choices from a seed
//! runner         runs end-to-end tests, on shared worlds or on their own
//! shared         a world that several tests use one after the other
//! statistics     number of started worlds and durations of a run of tests
//! wait           conditions with deadlines
//! audit          the oracle: checks the promises against the audit log
//! world          control plane, Giveway, builders and oracle in one value
//! dev            `make up`, `make down`, `make demo`, `make bench-e2e` and `make bench-scale`
//! ```
// This crate is test code: a failed expectation panics with its message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod attack;
pub mod audit;
pub mod cluster;
pub mod collector;
pub mod control_plane;
pub mod controllers;
pub mod denials;
pub mod dev;
pub mod example;
pub mod giveway;
mod https;
pub mod later_plugin;
pub mod node;
pub mod paths;
pub mod proxy;
pub mod random;
pub mod runner;
pub mod search;
pub mod shared;
pub mod statistics;
pub mod wait;
pub mod world;

pub use cluster::Shaped;
pub use world::World;
