//! Whether this process may decide and write: it holds the Lease, its watches work, and it is not stuck.

pub mod health;
pub mod lease;
pub mod liveness;
pub mod watches;
