//! Runs the command line on files.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What was printed, and the exit status.
pub struct Printed {
    pub out: String,
    pub err: String,
    pub status: Option<i32>,
}

impl Printed {
    pub fn json(&self) -> Value {
        assert_eq!(self.status, Some(0), "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
    }
}

/// A file of `tests/data` as the user names it: relative to the directory that the program runs in.
pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Runs `kubectl-giveway` in `tests/data`, with this on standard input and these columns.
pub fn giveway_with(args: &[&str], columns: Option<&str>, input: &str) -> Printed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-giveway"));
    command.args(args).current_dir(data()).env_remove("COLUMNS").env("KUBECONFIG", "/nonexistent/kubeconfig");
    for proxy in ["NO_PROXY", "no_proxy", "HTTPS_PROXY", "https_proxy"] {
        command.env_remove(proxy);
    }
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).ok();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Printed { out: text(output.stdout), err: text(output.stderr), status: output.status.code() }
}

/// Runs `kubectl-giveway` in `tests/data`.
pub fn giveway(args: &[&str]) -> Printed {
    giveway_with(args, None, "")
}
