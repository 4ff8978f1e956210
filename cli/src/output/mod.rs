//! How an answer is printed.

mod dot;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod tame;

use crate::answer::Answer;
use crate::args::Format;
use crate::error::CliError;
use std::io::Write;

/// Prints an answer on standard output.
pub(crate) fn print(answer: &Answer, format: Format, explain: bool) -> Result<(), CliError> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(answer).map_err(std::io::Error::from).map(|text| text + "\n"),
        Format::Yaml => serde_yaml_ng::to_string(answer).map_err(std::io::Error::other),
        Format::Dot => Ok(dot::graph(answer)),
        Format::Table => Ok(table::plan(answer, explain, style::width())),
    };
    show(&text.map_err(CliError::stdout)?)
}

/// What a command says while it changes the cluster. Whoever reads it may go away, as `head` does: the work is done all the same,
/// and the failure is told in the end.
#[derive(Debug, Default)]
pub(crate) struct Telling(Option<CliError>);

impl Telling {
    /// Says something.
    pub(crate) fn say(&mut self, text: &str) {
        if self.0.is_none() {
            self.0 = show(text).err();
        }
    }

    /// Whether all of it was said.
    pub(crate) fn end(self) -> Result<(), CliError> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Writes on standard error what is worth knowing on the way. Nobody has to read it, so that it cannot stop a change in the middle.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "note: {}", tame::lines(text));
}

/// Writes a text on standard output; colours only where they are wanted, and nothing else that a terminal obeys.
pub(crate) fn show(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    out.write_all(tame::lines(text).as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)
}
