//! Names as the API server takes them.

/// The longest name of an object.
pub const LONGEST_SUBDOMAIN: usize = 253;
/// The longest name of a namespace.
pub const LONGEST_LABEL: usize = 63;
/// Name of the Lease, in Giveway's namespace, by which the operators elect their leader.
pub const LEASE: &str = "giveway-operator";

/// Returns true if the text is an RFC 1123 subdomain, as the names of most objects are.
pub fn is_subdomain(name: &str) -> bool {
    name.len() <= LONGEST_SUBDOMAIN && name.split('.').all(is_part)
}

/// Returns true if the text is an RFC 1123 label, as the names of namespaces are.
pub fn is_label(name: &str) -> bool {
    name.len() <= LONGEST_LABEL && is_part(name)
}

/// Returns true if the text has only lower-case letters, digits and '-', is not empty, and neither starts nor ends with '-'.
fn is_part(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-')
}
