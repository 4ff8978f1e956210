//! Whether this process may decide and write: it holds the Lease, and its watches work.

pub mod health;
pub mod lease;
pub mod watches;
