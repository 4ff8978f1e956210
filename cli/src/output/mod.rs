//! Output of texts, tables and notes.

pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod tame;

use crate::error::CliError;
use serde::Serialize;
use std::io::Write;

/// Output of a command that changes the cluster. If the reader closes the pipe, as `head` does, the work still
/// continues, and the error is returned at the end.
#[derive(Debug, Default)]
pub(crate) struct Printer(Option<CliError>);

impl Printer {
    /// Prints a text on standard output, unless printing failed before.
    pub(crate) fn print(&mut self, text: &str) {
        if self.0.is_none() {
            self.0 = show(text).err();
        }
    }

    /// Returns the error of the first text that could not be printed, if there was one.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Prints a note on standard error. Errors are ignored, so that they cannot interrupt a change.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "note: {}", tame::lines(text));
}

/// Returns a value as indented JSON with a line break at the end.
pub(crate) fn json(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value).map_err(std::io::Error::from);
    Ok(text.map_err(CliError::stdout)? + "\n")
}

/// Returns a value as a YAML document, for standard output.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String, CliError> {
    serde_yaml_ng::to_string(value).map_err(|error| CliError::stdout(std::io::Error::other(error)))
}

/// Erases the terminal and prints a text at its top. No mode of the terminal is changed, so nothing has to be restored.
pub(crate) fn redraw(text: &str) -> Result<(), CliError> {
    // The cursor moves to the first line, and everything below it is erased.
    std::io::stdout().write_all(b"\x1b[H\x1b[J").map_err(CliError::stdout)?;
    show(text)
}

/// Prints a text on standard output. Control characters are escaped; colours remain only if the output is a terminal and the user wants
/// them.
pub(crate) fn show(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    out.write_all(tame::lines(text).as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)
}
