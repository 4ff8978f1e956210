//! Splits the JSON text of a list into its metadata and its objects while it arrives. Only brackets and strings are recognised; what
//! they contain is decoded by the JSON parser.

use thiserror::Error;

/// Maximum size of one object in bytes. The API server accepts requests of 3 MiB, which is less than that as text.
const LARGEST: usize = 32 << 20;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// The text of `metadata`.
    Metadata(Vec<u8>),
    /// The text of one element of `items`.
    Item(Vec<u8>),
}

/// Why a text is not a list.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NoList {
    /// The text ends before the list does.
    #[error("the list ends in the middle of its text")]
    Ended,
    /// A part is larger than any object that the API server stores.
    #[error("an object of the list is larger than {LARGEST} bytes")]
    TooLarge,
    /// The text is nested more deeply than the [limit](Splitter::limited).
    #[error("the list is nested too deeply")]
    TooDeep,
    /// An element of `items` is not an object.
    #[error("an element of the list is not an object")]
    NoObject,
    /// Another text follows the list.
    #[error("another text follows the list")]
    Trailing,
}

/// A field of the list, which is the outermost JSON object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListMember {
    #[default]
    Other,
    Kind,
    Metadata,
    Items,
}

/// Maximum number of bytes of a name, and of the kind of a list. Longer ones are none of those that are read.
const LONGEST_WORD: usize = 64;

/// Splits the JSON text of one list, which arrives in pieces, and keeps the position in the text.
#[derive(Debug, Default)]
pub struct Splitter {
    /// Number of open brackets.
    depth: usize,
    /// Maximum number of open brackets, if there is one.
    limit: Option<usize>,
    in_string: bool,
    escaped: bool,
    /// True between the colon and the comma of a field of the outermost object.
    in_value: bool,
    /// The text of the last string of the outermost object that may be a name, without its quotes.
    name: Vec<u8>,
    /// The field of the outermost object at the present position, or the last one before it.
    member: ListMember,
    /// The text of `kind`.
    kind: Vec<u8>,
    /// The text of the present part, if there is one.
    part: Option<Vec<u8>>,
    begun: bool,
}

impl Splitter {
    /// Creates a splitter that rejects a list with more than `limit` nested brackets.
    pub fn limited(limit: usize) -> Self {
        Self { limit: Some(limit), ..Self::default() }
    }

    /// Returns the `kind` of the list, such as `PodList`; an empty string if the text that was read until now does not have it.
    pub fn kind(&self) -> String {
        String::from_utf8_lossy(&self.kind).into_owned()
    }

    /// Reads the next piece of the list's text, and adds every part (`metadata` or an item) that is complete now to `parts`.
    ///
    /// # Errors
    /// A part is too large or no object, or the text is nested too deeply.
    pub fn read(&mut self, piece: &[u8], parts: &mut impl Extend<ListPart>) -> Result<(), NoList> {
        // Start of the bytes that belong to the present part and are not copied yet.
        let mut from = 0;
        for (index, byte) in piece.iter().copied().enumerate() {
            if self.in_string {
                self.read_in_string(byte);
                continue;
            }
            self.check(byte)?;
            match byte {
                b'"' => {
                    self.in_string = true;
                    if let Some(text) = self.collected_string() {
                        text.clear();
                    }
                }
                b'{' | b'[' => {
                    if self.part.is_none() && self.begins_part(byte) {
                        (self.part, from) = (Some(Vec::new()), index);
                    }
                    self.depth += 1;
                    self.begun = true;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        (self.in_value, self.member) = (false, ListMember::Other);
                    }
                    if self.depth == self.depth_of_parts()
                        && let Some(mut part) = self.part.take()
                    {
                        append(&mut part, piece.get(from..=index))?;
                        let is_item = self.member == ListMember::Items;
                        parts.extend([if is_item { ListPart::Item(part) } else { ListPart::Metadata(part) }]);
                    }
                }
                b':' if self.depth == 1 && !self.in_value => {
                    self.in_value = true;
                    self.member = match self.name.as_slice() {
                        b"kind" => ListMember::Kind,
                        b"metadata" => ListMember::Metadata,
                        b"items" => ListMember::Items,
                        _ => ListMember::Other,
                    };
                }
                b',' if self.depth == 1 => self.in_value = false,
                _ => {}
            }
        }
        match &mut self.part {
            Some(part) => append(part, piece.get(from..)),
            None => Ok(()),
        }
    }

    /// Reads the next byte inside a JSON string: it ends the string, or is stored if the string is one that is
    /// [collected](Self::collected_string).
    fn read_in_string(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        if self.in_string
            && let Some(text) = self.collected_string().filter(|text| text.len() < LONGEST_WORD)
        {
            text.push(byte);
        }
    }

    /// Returns the buffer for the JSON string at the present position: that for field names, or that for the value of `kind`, of the
    /// outermost object. `None` for every other string, which is not stored.
    fn collected_string(&mut self) -> Option<&mut Vec<u8>> {
        match (self.depth, self.in_value, self.member) {
            (1, false, _) => Some(&mut self.name),
            (1, true, ListMember::Kind) => Some(&mut self.kind),
            _ => None,
        }
    }

    /// Checks the next byte outside of JSON strings. It is an error if it opens more brackets than permitted, if it begins an element of
    /// `items` that is not an object, or if it follows the end of the list.
    fn check(&self, byte: u8) -> Result<(), NoList> {
        let is_bracket = matches!(byte, b'{' | b'[');
        if is_bracket && self.limit.is_some_and(|limit| self.depth >= limit) {
            return Err(NoList::TooDeep);
        }
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        let is_between = self.part.is_none() && self.member == ListMember::Items && self.depth == 2;
        if is_between && !matches!(byte, b'{' | b',' | b']' | b'}') {
            return Err(NoList::NoObject);
        }
        if self.begun && self.depth == 0 { Err(NoList::Trailing) } else { Ok(()) }
    }

    /// Returns true if this opening bracket, the next byte, begins a part: the list's `metadata` or one of its `items`.
    fn begins_part(&self, bracket: u8) -> bool {
        let is_part = matches!(self.member, ListMember::Metadata | ListMember::Items);
        bracket == b'{' && self.in_value && is_part && self.depth == self.depth_of_parts()
    }

    /// Returns the number of open brackets around a part of the list's present field: 2 around an element of `items`, 1 around `metadata`.
    fn depth_of_parts(&self) -> usize {
        if self.member == ListMember::Items { 2 } else { 1 }
    }

    /// Checks after the last piece that the text of the list is complete.
    ///
    /// # Errors
    /// The text ends before the list does.
    pub fn end(&self) -> Result<(), NoList> {
        if self.begun && self.depth == 0 && !self.in_string { Ok(()) } else { Err(NoList::Ended) }
    }
}

/// Appends bytes to the text of a part of the list; `None` appends nothing. It is an error if the part would exceed [`LARGEST`] bytes.
fn append(part: &mut Vec<u8>, bytes: Option<&[u8]>) -> Result<(), NoList> {
    let bytes = bytes.unwrap_or_default();
    if part.len() + bytes.len() > LARGEST {
        return Err(NoList::TooLarge);
    }
    part.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns the parts of a text that arrives in pieces of this size.
    fn split(text: &str, size: usize) -> Result<Vec<(bool, Value)>, NoList> {
        let (mut splitter, mut parts) = (Splitter::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            splitter.read(piece, &mut parts)?;
        }
        splitter.end()?;
        let value = |text: &[u8]| serde_json::from_slice(text).unwrap();
        Ok(parts
            .iter()
            .map(|part| match part {
                ListPart::Metadata(text) => (false, value(text)),
                ListPart::Item(text) => (true, value(text)),
            })
            .collect())
    }

    #[test]
    fn a_list_is_split_the_same_for_any_size_of_its_pieces() {
        let items = [
            json!({"metadata": {"name": "a", "annotations": {"x": "}]\"\\", "items": "[{"}}, "items": [{"metadata": {}}]}),
            json!({"spec": [[], [{}], {"a": "\\\\\""}]}),
            json!({}),
        ];
        let list = json!({"kind": "PodList", "other": [{"items": [{}]}], "metadata": {"continue": "x", "items": []}, "items": items});
        for text in [list.to_string(), format!("{list:#}\n")] {
            for size in [1, 2, 3, 7, 64, 10_000] {
                let parts = split(&text, size).unwrap();
                let expected: Vec<(bool, Value)> = parts.iter().filter(|(is_item, _)| *is_item).cloned().collect();
                assert_eq!(expected, items.clone().map(|item| (true, item)), "{size}");
                assert!(parts.contains(&(false, json!({"continue": "x", "items": []}))), "{parts:?}");
                assert_eq!(parts.len(), 4);
            }
        }
    }

    #[test]
    fn a_list_without_objects_has_only_metadata() {
        for items in [json!([]), Value::Null] {
            let text = json!({"metadata": {"resourceVersion": "7"}, "items": items}).to_string();
            assert_eq!(split(&text, 5).unwrap(), [(false, json!({"resourceVersion": "7"}))]);
        }
    }

    #[test]
    fn a_text_that_ends_early_is_no_list() {
        let text = json!({"metadata": {}, "items": [{"a": 1}]}).to_string();
        for end in 0..text.len() {
            assert_eq!(split(&text[..end], 4), Err(NoList::Ended), "{}", &text[..end]);
        }
        assert!(split(&text, 4).is_ok());
    }

    #[test]
    fn the_kind_is_known_at_the_end_and_what_is_no_list_of_objects_is_refused() {
        for text in
            [r#"{"kind": "PodList", "items": [{"kind": "x"}]}"#, r#"{"items": [{"kind": "x"}], "kind":"PodList"}"#]
        {
            let (mut splitter, mut parts) = (Splitter::default(), Vec::new());
            text.as_bytes().chunks(3).for_each(|piece| splitter.read(piece, &mut parts).unwrap());
            assert_eq!((splitter.kind().as_str(), parts.len()), ("PodList", 1));
        }
        for element in ["7", "\"x\"", "[{}]", "null", "{}, true"] {
            assert_eq!(split(&format!("{{\"items\": [{element}]}}"), 2), Err(NoList::NoObject), "{element}");
        }
        assert_eq!(split("{\"items\": []}\n{", 4), Err(NoList::Trailing));
        assert!(split("{\"items\": []}\n \t", 4).is_ok());
    }

    #[test]
    fn a_text_that_is_nested_more_deeply_than_the_limit_is_refused_at_once() {
        let mut parts = Vec::new();
        let text = |depth: usize| format!("{{\"items\": [{{\"a\": {}", "[".repeat(depth));
        assert_eq!(Splitter::limited(100).read(text(97).as_bytes(), &mut parts), Ok(()));
        assert_eq!(Splitter::limited(100).read(text(98).as_bytes(), &mut parts), Err(NoList::TooDeep));
        assert_eq!(Splitter::default().read(text(100_000).as_bytes(), &mut parts), Ok(()));
    }

    #[test]
    fn an_endless_object_is_refused() {
        let mut splitter = Splitter::default();
        let mut parts = Vec::new();
        splitter.read(b"{\"items\": [{\"a\": \"", &mut parts).unwrap();
        let piece = vec![b'a'; 1 << 20];
        let read = (0..33).find_map(|_| splitter.read(&piece, &mut parts).err());
        assert_eq!(read, Some(NoList::TooLarge));
    }
}
