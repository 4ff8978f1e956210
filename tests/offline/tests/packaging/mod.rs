//! The scripts of `packaging/`, against stand-ins for the programs that they call: no container, cluster or registry is used.

mod bundle;
mod pins;
mod up;

use giveway_tests::paths;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The script that stands in for each program, which it recognizes by the name of the link to it.
const STAND_IN: &str = "tests/offline/tests/packaging/stand_in.sh";

/// Programs of every Unix system that the scripts may use.
const BASIC: [&str; 21] = [
    "awk",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dirname",
    "grep",
    "head",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sleep",
    "tar",
    "tr",
    "uname",
];

/// What a script did.
struct Run {
    /// True if its exit status was 0.
    passed: bool,
    /// What it printed, and its errors after that.
    output: String,
    /// The command lines of the stand-ins, in order.
    calls: Vec<String>,
}

impl Run {
    /// Returns the calls that begin with these words.
    fn calls_of(&self, words: &str) -> Vec<&str> {
        self.calls.iter().map(String::as_str).filter(|call| call.starts_with(words)).collect()
    }
}

/// A machine whose `PATH` has the basic programs and some stand-ins, and nothing else.
struct Machine {
    directory: TempDir,
    /// Cases of a shell `case` over `$call`, which come before the usual answers.
    answers: String,
}

impl Machine {
    /// Returns a machine with stand-ins for these programs.
    fn with(programs: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in BASIC {
            let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            let real = real.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not installed"));
            symlink(real, bin.join(name)).unwrap();
        }
        for name in programs {
            symlink(paths::repository().join(STAND_IN), bin.join(name)).unwrap();
        }
        Self { directory, answers: String::new() }
    }

    /// Lets stand-ins answer a command line that matches the pattern with these shell commands.
    fn answering(mut self, pattern: &str, commands: &str) -> Self {
        self.answers.push_str(&format!("    {pattern}) {commands} ;;\n"));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a script of the repository with these arguments and variables.
    fn run(&self, script: &Path, args: &[&str], env: &[(&str, &str)]) -> Run {
        let (calls, answers) = (self.path("calls"), self.path("answers"));
        fs::write(&calls, "").unwrap();
        fs::write(&answers, format!("case $call in\n{}esac\n", self.answers)).unwrap();
        let mut command = Command::new(self.path("bin/sh"));
        command.arg(script).args(args).current_dir(paths::repository()).env_clear();
        command.env("PATH", self.path("bin")).env("HOME", self.directory.path());
        command.env("TRY_DIRECTORY", self.path("state")).env("CALLS", &calls).env("ANSWERS", &answers);
        let output = command.envs(env.iter().copied()).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let calls = fs::read_to_string(&calls).unwrap().lines().map(str::to_owned).collect();
        Run { passed: output.status.success(), output: text, calls }
    }
}
