//! Recognises texts that are nested too deeply, in time linear in their length: parsers of YAML need time quadratic in the depth.
//!
//! Brackets are counted as in YAML, of which JSON is a part: not in quotes, comments and block scalars, and outside of brackets only where
//! a value begins. A plain text that continues on the next line may be counted wrongly, so the limit here is much larger than the parsers'.

/// Maximum depth of an object, that of the parsers.
pub(crate) const DEEPEST: usize = 128;

/// Number of levels that a text may have here.
const MOST: usize = 1000;

/// Returns true if a text in YAML or JSON has more than 1000 levels of brackets, which no parser here accepts.
pub(crate) fn is_too_deep(text: &[u8]) -> bool {
    let mut scanner = Scanner::default();
    text.split(|byte| *byte == b'\n').any(|line| scanner.is_too_deep_after(line))
}

/// The state of a scan of YAML by lines, which counts open brackets outside of quotes and block scalars.
#[derive(Default)]
struct Scanner {
    /// Number of open brackets.
    depth: usize,
    /// The quotation mark that ends the present text.
    quote: Option<u8>,
    /// The indentation of the line before a block scalar, whose lines are indented more.
    block: Option<usize>,
}

impl Scanner {
    /// Scans the next line. Returns true if more brackets are open in it than permitted.
    fn is_too_deep_after(&mut self, line: &[u8]) -> bool {
        let is_block_style = self.depth == 0 && self.quote.is_none();
        if is_block_style && self.is_in_block(line) {
            return false;
        }
        // The last byte that is not a space, and the last byte; a line begins with a value or a key.
        let (mut last, mut before, mut is_escaped) = (b',', b' ', false);
        for byte in line.iter().copied() {
            match (self.quote, byte) {
                (Some(b'"'), _) if is_escaped => is_escaped = false,
                (Some(b'"'), b'\\') => is_escaped = true,
                (Some(quote), _) if quote == byte => self.quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') if self.may_begin(last, before) => self.quote = Some(byte),
                (None, b'#') if before.is_ascii_whitespace() => break,
                (None, b'[' | b'{') if self.depth > 0 || self.may_begin(last, before) => {
                    self.depth += 1;
                    if self.depth > MOST {
                        return true;
                    }
                }
                (None, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
                (None, _) => {}
            }
            before = byte;
            if !byte.is_ascii_whitespace() {
                // Outside of brackets, these bytes belong to a plain text.
                let is_text = self.depth == 0 && matches!(byte, b'[' | b'{' | b',');
                last = if is_text { b'x' } else { byte };
            }
        }
        if self.depth == 0 && self.quote.is_none() && announces_block(line) {
            self.block = Some(indentation(line));
        }
        false
    }

    /// Returns true if a value of YAML may begin at the next byte of the line. `last` is the last byte before it that is no space, and
    /// `before` the byte directly before it.
    fn may_begin(&self, last: u8, before: u8) -> bool {
        match last {
            b',' | b'[' | b'{' => true,
            b':' | b'-' | b'?' => self.depth > 0 || before.is_ascii_whitespace(),
            _ => false,
        }
    }

    /// Returns true if the line belongs to the present block scalar of YAML; otherwise ends that scalar, if there is one.
    fn is_in_block(&mut self, line: &[u8]) -> bool {
        let Some(indented) = self.block else { return false };
        let spaces = line.iter().take_while(|byte| **byte == b' ').count();
        if spaces > indented || line.iter().all(u8::is_ascii_whitespace) {
            return true;
        }
        self.block = None;
        false
    }
}

/// Returns the indentation of a line of YAML in bytes, to which the dashes of lists at its beginning belong.
fn indentation(line: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match line.get(at..) {
            Some([b' ', ..]) => at += 1,
            Some([b'-', b' ', ..]) => at += 2,
            _ => return at,
        }
    }
}

/// Returns true if a block scalar of YAML begins after this line: it ends with `|` or `>`, perhaps followed by a number or sign.
fn announces_block(line: &[u8]) -> bool {
    let word = line.trim_ascii_end().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    matches!(word, [b'|' | b'>', rest @ ..] if rest.iter().all(|byte| b"+-0123456789".contains(byte)))
}

#[cfg(test)]
mod tests {
    use super::is_too_deep;

    #[test]
    fn brackets_are_counted_where_they_nest() {
        let open = |count: usize| "[".repeat(count);
        for start in [
            "",
            "a: ",
            "{a: ",
            "{\"a\":",
            "- ",
            "? ",
            "a: 'it''s'\nb: ",
            "a:\n  - b: \"\\\"[\"\n    c:   ",
            "a: |\n  x\nb: ",
        ] {
            assert!(is_too_deep(format!("{start}{}", open(1001)).as_bytes()), "{start:?}");
            assert!(!is_too_deep(format!("{start}{}", open(999)).as_bytes()), "{start:?}");
        }
        assert!(is_too_deep("[\n".repeat(1001).as_bytes()), "on lines of their own");
    }

    #[test]
    fn other_brackets_do_not_nest() {
        let open = "[".repeat(2000);
        for text in [
            format!("a: x{open}"),
            format!("a: \"{open}\""),
            format!("a: '{open}'"),
            format!("{{\"a\": \"\\\"{open}\"}}"),
            format!("a: 1 # {open}"),
            format!("a: |\n  {open}\n\n  {open}\nb: 1"),
            format!("- a: >-\n    {open}\n  b: 1"),
            "a: [1]\n".repeat(2000),
            "{\"a\": [{}]}\n".repeat(2000),
        ] {
            assert!(!is_too_deep(text.as_bytes()), "{}", &text[..20]);
        }
    }
}
