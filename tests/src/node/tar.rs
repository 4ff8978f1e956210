//! Writes the subset of the tar format (POSIX ustar) that images need: folders and files owned by root.

/// An archive in memory.
#[derive(Default)]
pub(super) struct Tar(Vec<u8>);

impl Tar {
    /// Adds a folder; its name ends with a slash.
    pub(super) fn folder(&mut self, name: &str) {
        self.header(name, b'5', 0o755, 0);
    }

    /// Adds a file with mode 0755.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.header(name, b'0', 0o755, content.len());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }

    /// Returns the archive with the two empty blocks at its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    fn header(&mut self, name: &str, kind: u8, mode: u32, size: usize) {
        assert!(name.len() <= 100, "the name {name} is longer than a simple header holds");
        let mut header = [0; 512];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{size:011o}"));
        put(136, "00000000000");
        // The checksum is computed with spaces in its own field.
        put(148, "        ");
        put(257, "ustar\u{0}00");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\u{0}").as_bytes());
        self.0.extend_from_slice(&header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    #[test]
    fn the_system_s_tar_reads_the_archive() {
        let mut tar = Tar::default();
        tar.folder("usr/");
        tar.file("usr/hello", b"Hello!\n");
        tar.file("usr/empty", b"");
        let mut child = Command::new("tar")
            .args(["--list", "--verbose", "--numeric-owner", "--file", "-"])
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&tar.finish()).unwrap();
        let said = child.wait_with_output().unwrap();
        assert!(said.status.success());
        let said = String::from_utf8(said.stdout).unwrap();
        let words: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
        let columns: Vec<[&str; 4]> = words.iter().map(|line| [line[0], line[1], line[2], line[5]]).collect();
        assert_eq!(
            columns,
            [
                ["drwxr-xr-x", "0/0", "0", "usr/"],
                ["-rwxr-xr-x", "0/0", "7", "usr/hello"],
                ["-rwxr-xr-x", "0/0", "0", "usr/empty"]
            ]
        );
    }
}
