//! Output of text from other sources, such as event messages: control characters are escaped, so that they cannot
//! control the terminal.

use super::style::{BAD, COSTS, GOOD, HEAD};
use std::borrow::Cow;
use std::fmt::Write;

/// Escapes the control characters of a text of one line; only Giveway's own colours remain.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape_except(text, &[])
}

/// Escapes the control characters of a text of several lines, such as the content of a file; line feeds, tabs and Giveway's own colours
/// remain.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escape_except(text, &['\n', '\t'])
}

/// Escapes all control characters of a text except `allowed` and Giveway's own colours, in JSON notation, so that JSON stays
/// equivalent.
fn escape_except<'a>(text: &'a str, allowed: &[char]) -> Cow<'a, str> {
    let bad = |c: char| c.is_control() && !allowed.contains(&c);
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let styles = [HEAD, GOOD, COSTS, BAD].map(|style| format!("{style}{style:#}")).concat();
    // A style consists of several sequences, such as bold and a colour.
    let ours: Vec<&str> = styles.split_inclusive('m').collect();
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(bad) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(sequence) = ours.iter().find(|sequence| from.starts_with(**sequence)) {
            out.push_str(sequence);
            rest = from.get(sequence.len()..).unwrap_or_default();
            continue;
        }
        let mut characters = from.chars();
        match characters.next() {
            Some('\n') => out.push_str("\\n"),
            Some('\t') => out.push_str("\\t"),
            Some('\r') => out.push_str("\\r"),
            Some(other) => drop(write!(out, "\\u{:04x}", u32::from(other))),
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::paint;

    #[test]
    fn control_characters_are_escaped_and_our_colours_stay() {
        let text = format!("{} \u{1b}[2J\u{1b}]0;title\u{7}\r\u{9b}1m a\nb", paint(HEAD, "ours"));
        let expected = format!("{} \\u001b[2J\\u001b]0;title\\u0007\\r\\u009b1m a", paint(HEAD, "ours"));
        assert_eq!(line(&text), format!("{expected}\\nb"));
        assert_eq!(lines(&text), format!("{expected}\nb"));
        for style in [HEAD, GOOD, COSTS, BAD] {
            let text = format!("{}\n", paint(style, "ours"));
            assert_eq!(lines(&text), text);
        }
        assert_eq!(lines("caf\u{e9}\tx\n"), "caf\u{e9}\tx\n");
    }
}
