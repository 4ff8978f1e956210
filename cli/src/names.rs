//! Validates names as the API server does: they become parts of request paths, so nothing else is accepted.

use giveway_crds::names::{LONGEST_LABEL, LONGEST_SUBDOMAIN, is_label, is_subdomain};

/// Returns a name if it is valid for an object (an RFC 1123 subdomain), or an error with the API server's wording.
pub(crate) fn subdomain(name: &str) -> Result<String, String> {
    if name.len() > LONGEST_SUBDOMAIN {
        return Err(format!("must be no more than {LONGEST_SUBDOMAIN} characters"));
    }
    if !is_subdomain(name) {
        return Err("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
                    and end with an alphanumeric character (e.g. 'example.com')"
            .to_owned());
    }
    Ok(name.to_owned())
}

/// Returns a name if it is valid for a namespace (an RFC 1123 label), or an error with the API server's wording.
pub(crate) fn label(name: &str) -> Result<String, String> {
    if name.len() > LONGEST_LABEL {
        return Err(format!("must be no more than {LONGEST_LABEL} characters"));
    }
    if !is_label(name) {
        return Err("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                    with an alphanumeric character (e.g. 'my-name', or '123-abc')"
            .to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_exactly_if_the_api_server_accepts_them() {
        for name in ["a", "0", "a-b", "a.b", "123-abc", &"a".repeat(63)] {
            assert_eq!(subdomain(name).as_deref(), Ok(name));
        }
        for name in [
            "",
            "-a",
            "a-",
            "A",
            "a b",
            "a/b",
            "a?b",
            "a%2Fb",
            "..",
            "a..b",
            ".a",
            "vip\u{e9}",
            "a\n",
            &"a".repeat(254),
        ] {
            assert!(subdomain(name).is_err() && label(name).is_err(), "{name:?}");
        }
        assert_eq!(label("123-abc").as_deref(), Ok("123-abc"));
        for name in ["a.b", &"a".repeat(64)] {
            assert!(label(name).is_err() && subdomain(name).is_ok(), "{name}");
        }
    }
}
