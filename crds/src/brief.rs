//! Values of users in messages: of a long one its beginning, so that the fix behind it is read as well.

use std::borrow::Cow;

/// The most characters of a user's value that are told back.
const MOST_OF_VALUE: usize = 80;

/// The beginning of a long value, for messages.
pub fn shorten(value: &str) -> Cow<'_, str> {
    match value.char_indices().nth(MOST_OF_VALUE) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()).into(),
        None => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::keys::{LABEL_POD_GROUP, LABEL_TEMPLATE, LABEL_WORKLOAD};
    use crate::kinds::settings;
    use crate::membership;

    #[test]
    fn however_long_a_value_is_its_message_ends_with_the_fix() {
        let long = "é".repeat(3_000);
        let told = settings::min_count(Some(&long)).unwrap_err().to_string();
        let fix = "must be a whole number, 1 or more: how many pods start together";
        assert!(told.ends_with(&format!("é…\": {fix}")) && told.len() < 400, "{told}");

        let group = |key: &str| match key {
            LABEL_WORKLOAD => Some(long.as_str()),
            LABEL_TEMPLATE => Some("a"),
            _ => None,
        };
        let told = membership::by(group).unwrap_err().to_string();
        assert!(told.ends_with("it has 6002: use shorter names") && told.len() < 400, "{told}");

        let other = |key: &str| match key {
            LABEL_POD_GROUP => Some(long.as_str()),
            LABEL_WORKLOAD | LABEL_TEMPLATE => Some("a"),
            _ => None,
        };
        let told = membership::by(other).unwrap_err().to_string();
        assert!(told.ends_with("name the pod group \"a-a\": remove this label or make it the same"), "{told}");
    }
}
