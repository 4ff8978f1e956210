//! Makes responses of API servers safe to parse. Any user with write access to an object can write values that the
//! client library cannot parse, and the whole list that contains the object would then fail: one tenant could break
//! every watch of that kind.
//!
//! Therefore [managed fields](managed_fields), which any user can fill with any content, are removed before parsing.
//! The crate `cluster` decodes only the fields that are read, and of an object that still cannot be parsed its name.

#[cfg(feature = "client")]
pub mod managed_fields;
