//! The script with which kubectl completes `kubectl giveway`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Returns what the script prints for these words. A directory with `kubectl-giveway` and a `kubectl` that knows two
/// objects is first on its `PATH`.
fn completed(words: &[&str]) -> Vec<String> {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("completion-{}", words.join("_").replace('/', "_")));
    std::fs::create_dir_all(&directory).unwrap();
    let fake = directory.join("kubectl");
    std::fs::write(&fake, "#!/bin/sh\nprintf '%s\\n' \"$2/high\" \"$2/low\"\n").unwrap();
    std::fs::set_permissions(&fake, Permissions::from_mode(0o755)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_kubectl-giveway")).parent().unwrap();
    let path = format!("{}:{}:{}", directory.display(), program.display(), std::env::var("PATH").unwrap_or_default());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubectl_complete-giveway");
    let output = Command::new("sh").arg(script).args(words).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn commands_values_flags_and_names_are_completed() {
    let rows: [(&[&str], &[&str]); 7] = [
        (&["ho"], &[":4"]),
        (&["hist"], &["history", ":4"]),
        (&["mode", "o"], &["observe", "off", ":4"]),
        (&["cleanup", ""], &["all", "taints", "finalizers", ":4"]),
        (&["adopt", "h"], &["high", ":4"]),
        (&["why", ""], &["podgroup/high", "podgroup/low", ":4"]),
        (&["adopt", "--dry"], &["--dry-run", ":4"]),
    ];
    for (words, expected) in rows {
        assert_eq!(completed(words), expected, "{words:?}");
    }
    let commands = completed(&[""]);
    for command in ["plan", "why", "history", "ui", "top", "mode", "cleanup", "check"] {
        assert!(commands.iter().any(|known| known == command), "{command} is not in {commands:?}");
    }
}
