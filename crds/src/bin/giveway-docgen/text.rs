//! Text that goes into a cell of a table.

/// As one line, in which nothing ends the cell or is taken for HTML.
pub fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    // What stands between backticks is printed as it is.
    let parts =
        line.split('`').enumerate().map(|(i, part)| if i % 2 == 0 { part.replace('<', "&lt;") } else { part.into() });
    parts.collect::<Vec<_>>().join("`")
}
