//! Names, which become part of the path of a request.

/// Whether this can be a name of the API server: a DNS subdomain, as those of most kinds and of namespaces are.
pub fn is_name(name: &str) -> bool {
    let is_part = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = name.bytes().all(|c| is_part(c) || matches!(c, b'-' | b'.'));
    inner && name.len() <= 253 && name.bytes().next().is_some_and(is_part)
}
