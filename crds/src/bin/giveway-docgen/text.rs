//! Text for a cell of a table.

/// Returns the text for a cell of a Markdown table: one line, escaped so that it neither ends the cell nor is parsed as HTML.
pub fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    // Text between backticks is printed unchanged.
    let parts =
        line.split('`').enumerate().map(|(i, part)| if i % 2 == 0 { part.replace('<', "&lt;") } else { part.into() });
    parts.collect::<Vec<_>>().join("`")
}
