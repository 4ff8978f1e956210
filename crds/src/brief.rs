//! Lengths of messages: a long value of a user is shortened, so that the rest of the message is still read, and a message is cut to the
//! length that the schemas allow.

use std::borrow::Cow;

/// Maximum number of characters of a user's value in a message.
const MOST_OF_VALUE: usize = 80;
/// Maximum number of characters of a message in a status, as of the message of a `metav1.Condition`.
pub const MOST_OF_MESSAGE: usize = 32_768;

/// Returns the value, shortened for messages if it is long.
pub fn shorten(value: &str) -> Cow<'_, str> {
    shorten_to_characters(value, MOST_OF_VALUE)
}

/// Returns the text, or its first `most` characters followed by "…" if it has more.
pub fn shorten_to_characters(text: &str, most: usize) -> Cow<'_, str> {
    match first_characters(text, most) {
        first if first.len() < text.len() => format!("{first}…").into(),
        all => all.into(),
    }
}

/// Returns the first `most` characters of a text; all of it if it has fewer.
pub fn first_characters(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use crate::keys::{LABEL_POD_GROUP, LABEL_TEMPLATE, LABEL_WORKLOAD};
    use crate::kinds::settings;
    use crate::membership;

    #[test]
    fn a_message_about_a_long_value_ends_with_the_fix() {
        let long = "é".repeat(3_000);
        let message = settings::min_count(Some(&long)).unwrap_err().to_string();
        let fix = "must be a whole number, 1 or more: how many pods start together";
        assert!(message.ends_with(&format!("é…\": {fix}")) && message.len() < 400, "{message}");

        let group = |key: &str| match key {
            LABEL_WORKLOAD => Some(long.as_str()),
            LABEL_TEMPLATE => Some("a"),
            _ => None,
        };
        let message = membership::by(group).unwrap_err().to_string();
        assert!(message.ends_with("it has 6002: use shorter names") && message.len() < 400, "{message}");

        let other = |key: &str| match key {
            LABEL_POD_GROUP => Some(long.as_str()),
            LABEL_WORKLOAD | LABEL_TEMPLATE => Some("a"),
            _ => None,
        };
        let message = membership::by(other).unwrap_err().to_string();
        assert!(message.ends_with("name the pod group \"a-a\": remove this label or make it the same"), "{message}");
    }
}
