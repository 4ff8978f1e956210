//! Links into the manual.

/// The page that has a heading for every reason and every check.
const TROUBLESHOOTING: &str = "https://github.com/giveway/giveway/blob/main/docs/troubleshooting.md";

/// Returns the URL of the manual's section about a reason of a condition, or about another heading of that page.
pub(crate) fn about(heading: &str) -> String {
    format!("{TROUBLESHOOTING}#{}", heading.to_lowercase())
}
