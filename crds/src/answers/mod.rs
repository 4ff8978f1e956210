//! What an API server answers, made safe to read. Whoever may write an object may write things into it that the client library cannot
//! read, and then it reads none of the list that the object is in: one tenant would blind everybody who watches.
//!
//! So [managed fields](managed_fields), which anybody may fill with anything, are left out before anything is read, and an object that
//! still cannot be read is [salvaged] as far as possible.

#[cfg(feature = "client")]
pub mod managed_fields;
pub mod salvaged;

pub use salvaged::Salvaged;
