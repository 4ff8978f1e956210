//! How Giveway's programs read the cluster: [lists](list) whose objects are decoded one by one while the response arrives, and
//! [watches](watch) that continue them. Of each object only the fields in the [table of kinds](objects::kinds) are decoded. The memory that
//! a list needs is bounded by its largest object, whatever tenants store. The programs' [clients](client) notice a dead connection. What no object of the
//! cluster shows is in a file: [the configuration of kube-scheduler](scheduler_config).

pub mod client;
pub mod list;
pub mod objects;
pub mod scheduler_config;
pub mod watch;
