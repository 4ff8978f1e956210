//! Files in JSON or YAML: texts, documents, and the objects of a snapshot.
//!
//! A snapshot in JSON that is larger than a limit is read as a stream, object by object; so are JSON lines. Of YAML, and of smaller files,
//! the text is in memory, but of each object only the fields that the planner reads.

use crate::error::CliError;
use crate::nesting;
use giveway_cluster::list::split::{ListPart, NoList, Splitter};
use giveway_cluster::objects::document::{Document, decode};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// Size from which on JSON is read as a stream, in bytes.
const LARGE: u64 = 64 << 20;

/// Size of the pieces of a stream, in bytes.
const PIECE: usize = 1 << 20;

/// Number of objects that one thread hands to the other at once, and of batches that may wait for it.
const BATCH: usize = 256;
const AHEAD: usize = 4;

/// What the parsers of JSON and YAML say about a text with more levels than [`nesting::DEEPEST`].
const PARSER_IS_TOO_DEEP: &str = "recursion limit exceeded";

/// Returns how messages name a file: by its path, or as `standard input` for `-`.
pub(crate) fn title(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// Opens a file for reading; the path `-` is standard input.
fn open(path: &Path) -> std::io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") { Ok(Box::new(std::io::stdin())) } else { Ok(Box::new(std::fs::File::open(path)?)) }
}

/// Reads a file; `-` is standard input. Returns the name of the file for messages, and its text.
pub(crate) fn read_text(path: &Path) -> Result<(String, String), CliError> {
    let (file, mut text) = (title(path), String::new());
    match open(path).and_then(|mut reader| reader.read_to_string(&mut text)) {
        Ok(_) => Ok((file, text)),
        Err(source) => Err(CliError::Read { file, source }),
    }
}

/// Reads files in this order. Returns for each the name of the file for messages, and its text.
pub(crate) fn read_texts(paths: &[PathBuf]) -> Result<Vec<(String, String)>, CliError> {
    paths.iter().map(|path| read_text(path)).collect()
}

/// Parses a text in JSON or in YAML, which may have several documents. `file` is the name of its file for errors.
pub(crate) fn documents(file: &str, text: &str) -> Result<Vec<Value>, CliError> {
    parsed(file, text)
}

/// Parses all documents of a text, as JSON or YAML. `file` is the name of its file for errors.
fn parsed<T: DeserializeOwned>(file: &str, text: &str) -> Result<Vec<T>, CliError> {
    if nesting::is_too_deep(text.as_bytes()) {
        return Err(CliError::TooDeep { file: file.to_owned() });
    }
    let yaml = || serde_yaml_ng::Deserializer::from_str(text).map(T::deserialize).collect::<Result<Vec<_>, _>>();
    if !is_json(text.as_bytes()) {
        return yaml().map_err(|error| syntax(file, error.to_string()));
    }
    // YAML may start with a brace or bracket too. JSON is tried first because parsing YAML is slow.
    let json: Result<Vec<T>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    json.or_else(|error| {
        // A text that ends too early as JSON does so as YAML too.
        let problem = error.to_string();
        let is_hopeless = error.is_eof() || problem.contains(PARSER_IS_TOO_DEEP);
        if is_hopeless { Err(syntax(file, problem)) } else { yaml().map_err(|_| syntax(file, problem)) }
    })
}

/// Returns the error for a text that a parser rejects because of this problem.
fn syntax(file: &str, problem: String) -> CliError {
    match problem.contains(PARSER_IS_TOO_DEEP) {
        true => CliError::TooDeep { file: file.to_owned() },
        false => CliError::Syntax { file: file.to_owned(), problem },
    }
}

/// Returns true if a text may be JSON: it begins with a brace or bracket.
fn is_json(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start(), [b'{' | b'[', ..])
}

/// Reads a snapshot, and calls `take` with each object, reduced to the fields that the planner reads. The text is decoded on a thread of
/// its own, which is at most some batches of objects ahead of `take`.
pub(crate) fn each(path: &Path, mut take: impl FnMut(Value) -> Result<(), CliError>) -> Result<(), CliError> {
    let file = title(path);
    let reader = open(path).map_err(|source| CliError::Read { file: file.clone(), source })?;
    let stream = Stream { file: &file, reader, large: LARGE };
    let (sender, batches) = mpsc::sync_channel(AHEAD);
    std::thread::scope(|scope| {
        let decoding = scope.spawn(move || stream.send(&sender));
        let taken = batches.into_iter().flatten().try_for_each(&mut take);
        let decoded = decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        taken.and(decoded)
    })
}

/// A snapshot in a file that is read piece by piece.
struct Stream<'f, R> {
    file: &'f str,
    reader: R,
    /// Size from which on JSON is read as a stream, in bytes.
    large: u64,
}

impl<R: Read> Stream<'_, R> {
    /// Sends the objects of the snapshot in batches, and ends when the receiver is dropped.
    fn send(self, batches: &mpsc::SyncSender<Vec<Value>>) -> Result<(), CliError> {
        let (file, mut batch) = (self.file, Vec::with_capacity(BATCH));
        let send = |batch| {
            // This error is not reported: the receiver ended because of an error of its own, which is.
            let ended = |_| CliError::Read { file: file.to_owned(), source: ErrorKind::BrokenPipe.into() };
            batches.send(batch).map_err(ended)
        };
        let outcome = self.each(|object| {
            batch.push(object);
            if batch.len() < BATCH { Ok(()) } else { send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))) }
        });
        // What comes before an error is taken first.
        send(batch).and(outcome)
    }

    /// Calls `take` with each object of the snapshot. Objects of a large text in JSON are read one by one, so that not all of them are
    /// in memory.
    fn each(mut self, mut take: impl FnMut(Value) -> Result<(), CliError>) -> Result<(), CliError> {
        let file = self.file;
        let failed = |source| CliError::Read { file: file.to_owned(), source };
        let mut start = Vec::new();
        self.reader.by_ref().take(self.large).read_to_end(&mut start).map_err(failed)?;
        let is_large = u64::try_from(start.len()).is_ok_and(|length| length >= self.large);
        if is_large && is_json(&start) {
            let is_plain_list = start.trim_ascii_start().starts_with(b"[");
            let is_lines = has_a_document_in_its_first_line(&start);
            let reader = Cursor::new(start).chain(self.reader);
            return match is_lines {
                true => lines(file, BufReader::new(reader), take),
                false => list(file, reader, is_plain_list, take),
            };
        }
        self.reader.read_to_end(&mut start).map_err(failed)?;
        let not_a_text = |_| std::io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
        let text = String::from_utf8(start).map_err(not_a_text).map_err(failed)?;
        let documents: Vec<Document> = parsed(file, &text)?;
        drop(text);
        objects(file, documents.into_iter().map(|document| document.0).collect())?.into_iter().try_for_each(&mut take)
    }
}

/// Returns true if the first line of the text that begins with `start` is a complete document, so that each line is one (JSON lines).
fn has_a_document_in_its_first_line(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    let end = start.iter().position(|byte| *byte == b'\n');
    end.and_then(|end| start.get(..end)).is_some_and(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok())
}

/// Returns the objects in the documents of a file. A single document must be a List, whose items are returned; several ones may be
/// objects or Lists.
fn objects(file: &str, mut documents: Vec<Value>) -> Result<Vec<Value>, CliError> {
    documents.retain(|document| !document.is_null());
    if documents.len() <= 1 {
        let items = items_of(documents.pop().unwrap_or_default());
        let items = items.map_err(|other| CliError::NotAList { file: file.to_owned(), kind: kind_of(&other) })?;
        for (index, item) in items.iter().enumerate() {
            check(item, file, || format!("items[{index}]"))?;
        }
        return Ok(items);
    }
    let mut found = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        add_document(file, &format!("document {}", index + 1), document, &mut |object| {
            found.push(object);
            Ok(())
        })?;
    }
    Ok(found)
}

/// Calls `take` with the object in one of several documents, or with the items of a List. `place` names the document in errors, such as
/// `document 2`.
fn add_document(
    file: &str,
    place: &str,
    document: Value,
    take: &mut impl FnMut(Value) -> Result<(), CliError>,
) -> Result<(), CliError> {
    match items_of(document) {
        Ok(items) => {
            for (index, item) in items.into_iter().enumerate() {
                check(&item, file, || format!("{place}, items[{index}]"))?;
                take(item)?;
            }
            Ok(())
        }
        Err(object) => {
            check(&object, file, || place.to_owned())?;
            take(object)
        }
    }
}

/// Returns the items of a List, or as the error the document, if it is no List.
fn items_of(mut document: Value) -> Result<Vec<Value>, Value> {
    if document["kind"] != "List" {
        return Err(document);
    }
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(document),
    }
}

/// Returns the kind of a document, or a description of it if it has none.
fn kind_of(document: &Value) -> String {
    match document {
        Value::Object(fields) => fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Value::Array(_) => "a plain list".to_owned(),
        other => other.to_string(),
    }
}

/// Reads JSON lines, of which each is an object or a List, and calls `take` with each object. `file` is the name of the file for
/// errors.
fn lines(
    file: &str,
    mut reader: impl BufRead,
    mut take: impl FnMut(Value) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        let length = reader.read_until(b'\n', &mut line);
        if length.map_err(|source| CliError::Read { file: file.to_owned(), source })? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        // The parser of JSON needs linear time also for a text that is nested too deeply.
        let document: Document =
            serde_json::from_slice(&line).map_err(|error| syntax(file, format!("line {number}: {error}")))?;
        add_document(file, &format!("document {number}"), document.0, &mut take)?;
    }
    Ok(())
}

/// Reads the items of a `List` of Kubernetes in JSON one by one, and calls `take` with each. `is_plain_list` is true if the text begins
/// with `[`, which is an error. `file` is the name of the file for errors.
fn list(
    file: &str,
    mut reader: impl Read,
    is_plain_list: bool,
    mut take: impl FnMut(Value) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let no_list = |error: NoList| match error {
        NoList::TooDeep => CliError::TooDeep { file: file.to_owned() },
        other => CliError::Syntax { file: file.to_owned(), problem: other.to_string() },
    };
    // An object is in two brackets, those of the list and of its items.
    let (mut splitter, mut parts, mut piece) = (Splitter::limited(nesting::DEEPEST + 2), Vec::new(), vec![0_u8; PIECE]);
    let mut index = 0_usize;
    loop {
        let length = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(CliError::Read { file: file.to_owned(), source }),
        };
        splitter.read(piece.get(..length).unwrap_or_default(), &mut parts).map_err(no_list)?;
        for part in parts.drain(..) {
            let ListPart::Item(text) = part else { continue };
            let object = decode(&text).map_err(|error| CliError::Syntax {
                file: file.to_owned(),
                problem: format!("items[{index}]: {error}"),
            })?;
            check(&object, file, || format!("items[{index}]"))?;
            take(object)?;
            index += 1;
        }
    }
    splitter.end().map_err(no_list)?;
    let kind = if is_plain_list { "a plain list".to_owned() } else { splitter.kind() };
    if kind == "List" { Ok(()) } else { Err(CliError::NotAList { file: file.to_owned(), kind }) }
}

/// Returns an error if a value is not an object with `apiVersion`, `kind` and name. `place` returns the position of the value in the
/// file for the error, such as `items[3]`.
pub(crate) fn check(item: &Value, file: &str, place: impl Fn() -> String) -> Result<(), CliError> {
    for (field, value) in
        [("apiVersion", &item["apiVersion"]), ("kind", &item["kind"]), ("metadata.name", &item["metadata"]["name"])]
    {
        // A List inside a manifest has no name.
        let exempt = field == "metadata.name" && item["kind"] == "List";
        if value.as_str().is_none_or(str::is_empty) && !exempt {
            return Err(CliError::NotAnObject { file: file.to_owned(), place: place(), field });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the names of the objects of a text, which is read as a stream if it has this size.
    fn names(text: &str, large: u64) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let stream = Stream { file: "file", reader: text.as_bytes(), large };
        let outcome = stream.each(|object| {
            assert!(object.get("data").is_none(), "no program reads it: {object}");
            found.push(object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            Ok(())
        });
        outcome.map(|()| found).map_err(|error| error.to_string())
    }

    fn object(name: &str) -> Value {
        json!({"apiVersion": "v1", "data": {"secret": "x"}, "kind": "Secret", "metadata": {"name": name}})
    }

    #[test]
    fn large_and_small_lists_are_read_the_same() {
        let list = json!({"apiVersion": "v1", "items": [object("a"), object("b")], "kind": "List", "metadata": {}});
        let yaml = serde_yaml_ng::to_string(&list).unwrap();
        for text in [list.to_string(), format!("{list:#}"), format!("\n {list:#}\n"), yaml] {
            for large in [1, 20, 1 << 20] {
                assert_eq!(names(&text, large), Ok(vec!["a".to_owned(), "b".to_owned()]), "{large}: {text}");
            }
        }
    }

    #[test]
    fn several_documents_are_objects_or_lists() {
        let list = json!({"kind": "List", "items": [object("b"), object("c")]});
        let lines = format!("{}\n\n{list}\n{}\n", object("a"), object("d"));
        let yaml = format!(
            "{}---\n{}",
            serde_yaml_ng::to_string(&list).unwrap(),
            serde_yaml_ng::to_string(&object("d")).unwrap()
        );
        for large in [100, 1 << 20] {
            assert_eq!(names(&lines, large).unwrap(), ["a", "b", "c", "d"], "{large}");
            assert_eq!(names(&yaml, large).unwrap(), ["b", "c", "d"], "{large}");
        }
        let wrong = format!("{}\n{}\n", object("a"), json!({"kind": "Pod", "apiVersion": "v1"}));
        for large in [100, 1 << 20] {
            let words = "file: document 2: metadata.name: Required value: every object has one";
            assert_eq!(names(&wrong, large).unwrap_err(), words);
        }
        let deep = format!("{}\n{{\"kind\": {}", object("a"), "[".repeat(200_000));
        for large in [100, 1 << 20] {
            let said = names(&deep, large).unwrap_err();
            assert!(said.starts_with("file: is nested too deeply: at most 128 levels are read"), "{said}");
        }
    }

    #[test]
    fn an_invalid_stream_is_reported_with_its_file() {
        let rows = [
            (
                json!({"kind": "List", "items": [object("")]}).to_string(),
                "file: items[0]: metadata.name: Required value: every object has one",
            ),
            (
                json!({"kind": "List", "items": [7]}).to_string(),
                "file: is neither JSON nor YAML: an element of the list is not an object",
            ),
            (
                json!({"kind": "PodList", "items": []}).to_string(),
                "file: kind: Invalid value: \"PodList\": must be a v1 List",
            ),
            ("[\n{}]".to_owned(), "file: kind: Invalid value: \"a plain list\": must be a v1 List"),
            (
                "{\"kind\": \"List\",\n \"items\": [{".to_owned(),
                "file: is neither JSON nor YAML: the list ends in the middle of its text",
            ),
            (
                format!("{{\"items\": [{{\"a\": {}", "[".repeat(200_000)),
                "file: is nested too deeply: at most 128 levels are read",
            ),
        ];
        for (text, words) in rows {
            let said = names(&text, 2).unwrap_err();
            assert!(said.starts_with(words), "{said}");
        }
    }
}
