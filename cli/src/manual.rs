//! Where the manual explains what is printed.

/// The page that has a heading for every reason and every check.
const TROUBLESHOOTING: &str = "https://github.com/giveway/giveway/blob/main/docs/troubleshooting.md";

/// What the manual says of a reason, or of a heading of that page.
pub(crate) fn about(heading: &str) -> String {
    format!("{TROUBLESHOOTING}#{}", heading.to_lowercase())
}
