//! Tables as kubectl prints them: without frames, and no wider than the terminal.

use super::tame;
use comfy_table::{ContentArrangement, Table, presets};
use std::fmt::Write;

/// Returns rows of cells as a table without frames, at most `width` characters wide (`None` for no limit). The first row is the
/// heading.
pub(crate) fn table(rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    for row in rows {
        table.add_row(row.iter().map(|cell| tame::line(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Appends a paragraph to `out`: a label and a text, wrapped at `width` characters (`None` for no limit).
pub(crate) fn line(out: &mut String, width: Option<u16>, label: &str, text: &str) {
    let limit = width.map_or(usize::MAX, usize::from);
    let text = tame::line(text);
    let mut column = 0;
    let mut first = true;
    for word in label.split(' ').filter(|word| !label.is_empty() || !word.is_empty()).chain(text.split(' ')) {
        let length = visible_length(word);
        if !first && column + 1 + length > limit {
            out.push_str("\n    ");
            column = 4;
        } else if !first {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
        first = false;
    }
    out.push('\n');
}

/// Returns the number of characters that a terminal shows of a text, without sequences of colours.
fn visible_length(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().chars().count()
}

/// Returns the names in order, joined by commas. Names with consecutive numbers are shortened: `a-0, a-1, a-2` becomes `a-0..2`.
pub(crate) fn joined_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let split = |name: &'a str| -> Option<(&'a str, u64)> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Some((prefix, name.strip_prefix(prefix)?.parse().ok()?))
    };
    let mut keyed: Vec<(Option<(&str, u64)>, &str)> = names.map(|name| (split(name), name)).collect();
    keyed.sort_by(|(a, x), (b, y)| match (a, b) {
        (Some(a), Some(b)) => (a.0, a.1, x).cmp(&(b.0, b.1, y)),
        _ => x.cmp(y),
    });
    let mut out = String::new();
    let mut at = 0;
    while at < keyed.len() {
        let mut end = at;
        while let (Some((prefix, number)), Some(Some((next, following)))) =
            (keyed[end].0, keyed.get(end + 1).map(|entry| entry.0))
        {
            if prefix != next || following != number + 1 {
                break;
            }
            end += 1;
        }
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(keyed[at].1);
        if end > at + 1 {
            let (prefix, _) = keyed[end].0.unwrap_or_default();
            let _ = write!(out, "..{}", &keyed[end].1[prefix.len()..]);
        } else {
            end = at;
        }
        at = end + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::{HEAD, paint};

    #[test]
    fn names_with_consecutive_numbers_are_shortened_and_others_are_listed() {
        let text = |names: &[&str]| joined_names(names.iter().copied());
        assert_eq!(text(&["a-0", "a-1", "a-2", "b"]), "a-0..2, b");
        assert_eq!(text(&["a-0", "a-1"]), "a-0, a-1");
        assert_eq!(text(&["a-10", "a-9", "a-8", "a-11", "a-13"]), "a-8..11, a-13");
        assert_eq!(text(&["node-008", "node-009", "node-010"]), "node-008..010");
        assert_eq!(text(&["vip\u{e9}", "vip\u{e9}1", "vip\u{e9}2", "vip\u{e9}3"]), "vip\u{e9}, vip\u{e9}1..3");
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn a_paragraph_is_broken_at_the_width_and_colours_do_not_count() {
        let mut out = String::new();
        line(&mut out, Some(20), "Note:", &format!("{} three four five", paint(HEAD, "one two")));
        assert_eq!(anstream::adapter::strip_str(&out).to_string(), "Note: one two three\n    four five\n");
    }

    #[test]
    fn line_breaks_in_values_of_users_are_escaped() {
        let mut out = String::new();
        line(&mut out, None, "State:", "bad\nState: \u{1b}[1Agood");
        assert_eq!(out, "State: bad\\nState: \\u001b[1Agood\n");
        assert_eq!(table(vec![vec!["a\nb".to_owned(), "\u{1b}[2J".to_owned()]], None), "a\\nb  \\u001b[2J\n");
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let rows = vec![vec!["NAME".to_owned(), "WHAT".to_owned()], vec!["x".to_owned(), "word ".repeat(30)]];
        let text = table(rows, Some(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.lines().count() > 4, "{text}");
    }
}
