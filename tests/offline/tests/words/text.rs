//! Splits a file into what people read: the words of its texts, and the words of the names that it declares.

/// A word in lower case. An empty one ends a phrase: it stands for punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// The line, counted from 1.
    pub line: usize,
}

/// Characters that end a phrase.
const ENDS: &str = ".,;:!?()[]{}\"|=<>`";

/// What begins a line of a comment, list or page, and is no part of a sentence.
const MARGIN: [char; 7] = ['#', '/', '!', '*', '-', '>', '\\'];

/// Keywords that declare a name.
const DECLARES: [&str; 8] = ["fn", "mod", "struct", "enum", "trait", "const", "static", "type"];

/// Returns the words of a page, script, manifest or template.
pub fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim().trim_start_matches(MARGIN);
        let mut push = |text: String| found.push(Word { text, line: index + 1 });
        let mut word = String::new();
        for character in line.chars().chain([' ']) {
            if character.is_alphanumeric() || "_-'".contains(character) {
                word.extend(character.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                push(std::mem::take(&mut word));
            }
            if ENDS.contains(character) {
                push(String::new());
            }
        }
        if line.is_empty() {
            push(String::new());
        }
    }
    found
}

/// Returns the words of the comments, string literals and declared names of a Rust source.
pub fn words_of_rust(source: &str) -> Vec<Word> {
    let Split { prose, code, .. } = Split::of(source);
    let mut found = words(&prose);
    found.extend(names(&code));
    found
}

/// Returns the words of the names that the code declares.
fn names(code: &str) -> Vec<Word> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let tokens: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|token| !token.is_empty()).collect();
        for pair in tokens.windows(2) {
            if DECLARES.contains(&pair[0]) {
                let line = index + 1;
                found.push(Word { text: String::new(), line });
                found.extend(parts(pair[1]).into_iter().map(|text| Word { text, line }));
            }
        }
    }
    found
}

/// Returns the words of a name in snake case or camel case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_small = false;
    for character in name.chars() {
        if character == '_' || (character.is_uppercase() && after_small) {
            parts.push(String::new());
        }
        if character != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(character.to_lowercase());
        }
        after_small = character.is_lowercase();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// A Rust source in two texts with the same lines.
struct Split {
    source: Vec<char>,
    at: usize,
    /// Its comments and string literals.
    prose: String,
    /// The rest.
    code: String,
}

impl Split {
    fn of(source: &str) -> Self {
        let mut split = Self { source: source.chars().collect(), at: 0, prose: String::new(), code: String::new() };
        while let Some(character) = split.peek(0) {
            match (character, split.peek(1)) {
                ('/', Some('/')) => split.line_comment(),
                ('/', Some('*')) => split.block_comment(),
                ('"', _) => split.string(),
                ('r', Some('"' | '#')) if !split.is_in_name() => split.raw_string(),
                ('\'', _) => split.quote(),
                _ => split.pass(),
            }
        }
        split
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.source.get(self.at + ahead).copied()
    }

    /// Returns true if the previous character belongs to a name, so that an `r` here begins no raw string.
    fn is_in_name(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.source.get(at));
        // `br"…"` is a raw string as well.
        before.is_some_and(|before| *before != 'b' && (before.is_alphanumeric() || *before == '_'))
    }

    /// Moves one character to the code.
    fn pass(&mut self) {
        if let Some(character) = self.peek(0) {
            self.code.push(character);
            if character == '\n' {
                self.prose.push('\n');
            }
            self.at += 1;
        }
    }

    /// Moves one character to the prose.
    fn read(&mut self) {
        if let Some(character) = self.peek(0) {
            self.prose.push(character);
            if character == '\n' {
                self.code.push('\n');
            }
            self.at += 1;
        }
    }

    fn line_comment(&mut self) {
        // The marker is no punctuation: a phrase may go on from the line before.
        while self.peek(0).is_some_and(|character| "/!".contains(character)) {
            self.at += 1;
        }
        while self.peek(0).is_some_and(|character| character != '\n') {
            self.read();
        }
    }

    fn block_comment(&mut self) {
        while self.peek(0).is_some() && (self.peek(0), self.peek(1)) != (Some('*'), Some('/')) {
            self.read();
        }
        self.at += 2;
        self.prose.push('.');
    }

    fn string(&mut self) {
        self.read();
        while let Some(character) = self.peek(0) {
            match (character, self.peek(1)) {
                ('"', _) => break,
                // The line is continued.
                ('\\', Some('\n')) => self.at += 1,
                ('\\', _) => {
                    self.at += 2;
                    self.prose.push(' ');
                }
                _ => self.read(),
            }
        }
        self.read();
    }

    fn raw_string(&mut self) {
        let mut hashes = 0;
        while self.peek(1 + hashes) == Some('#') {
            hashes += 1;
        }
        if self.peek(1 + hashes) != Some('"') {
            // A raw identifier.
            return self.pass();
        }
        self.at += 2 + hashes;
        self.prose.push('"');
        while self.peek(0).is_some() && !self.ends_raw_string(hashes) {
            self.read();
        }
        self.at += 1 + hashes;
        self.prose.push('"');
    }

    fn ends_raw_string(&self, hashes: usize) -> bool {
        self.peek(0) == Some('"') && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'))
    }

    /// Skips a character literal, or passes the quote of a lifetime.
    fn quote(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                self.at += 3;
                while self.peek(0).is_some_and(|character| character != '\'' && character != '\n') {
                    self.at += 1;
                }
                self.at += 1;
            }
            (Some(_), Some('\'')) => self.at += 3,
            _ => self.pass(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(words: &[Word]) -> String {
        words.iter().map(|word| if word.text.is_empty() { "." } else { &word.text }).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_source_is_split_into_prose_and_code() {
        let source = "/// A doc\n/// comment.\nfn name<'a>(c: char) { f('\"', '\\'', \"one \\\n    two\\nthree\", r#\"a \"b\" c\"#); }\n// End";
        let split = Split::of(source);
        assert_eq!(joined(&words(&split.prose)), "a doc comment . . one two three . . a . b . c . end");
        assert!(split.code.contains("fn name<'a>(c: char) { f(, , \n, ); }"), "{}", split.code);
        assert_eq!(words(&split.prose).last(), Some(&Word { text: "end".to_owned(), line: 5 }));
        assert_eq!((split.prose.matches('\n').count(), split.code.matches('\n').count()), (4, 4));
    }

    #[test]
    fn names_are_split_at_underscores_and_capitals() {
        let code = "pub const fn a_long_name(r#type: u8) {}\nstruct HTTPServer;\nenum TwoWords { B }\n";
        assert_eq!(joined(&names(code)), ". fn . a long name . u8 . httpserver . two words");
        assert_eq!(parts("MIN_COUNT"), ["min", "count"]);
    }
}
