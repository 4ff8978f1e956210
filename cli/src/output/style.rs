//! Colours and the size of the terminal. Colours are always written; the output stream removes them if the output is
//! not a terminal or `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;

/// Headings.
pub(crate) const HEAD: Style = Style::new().bold();
/// Passed.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Possible with evictions, or a warning.
pub(crate) const COSTS: Style = AnsiColor::Yellow.on_default().bold();
/// Failed.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Returns a text between the terminal sequences that begin and end a style, such as bold or a colour.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns the value of `COLUMNS` if it is at least 20, or else the number of columns of the terminal; `None` if the output is not a
/// terminal.
pub(crate) fn width() -> Option<u16> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|columns| *columns >= 20);
    asked.or_else(|| terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0))
}

/// Returns the number of lines of the terminal; `None` if the output is not a terminal.
pub(crate) fn height() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(_, height)| height.0)
}
