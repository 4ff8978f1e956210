//! Tests of the admission rules, from a request to its verdict, and of the protocol around them.

mod fixtures;
mod forged;
mod gangs;
mod members;
mod pod_groups;
mod pods;
mod priority_classes;
mod priority_plugin;
mod reviews;
mod stored_pods;
mod workloads;
