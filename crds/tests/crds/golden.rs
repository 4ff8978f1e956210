//! Files of the repository that the sources generate. Tests of several crates compare them, and include this file.

use std::path::Path;

/// Expects that a file has the generated text. With `GIVEWAY_WRITE` set, the file is written first; `command` does that.
pub fn is_generated(file: &Path, text: &str, command: &str) {
    if std::env::var_os("GIVEWAY_WRITE").is_some() {
        std::fs::write(file, text).unwrap();
    }
    let stored = std::fs::read_to_string(file).unwrap_or_default();
    let mut lines = (1..).zip(stored.lines().zip(text.lines()));
    let different = lines.find(|(_, (stored, generated))| stored != generated);
    let file = file.display();
    assert!(
        stored == text,
        "{file}: run `{command}`. The first different line, with what is stored and generated: {different:?}"
    );
}
