//! The pages of reference are those that the sources generate.

use std::path::Path;
use std::process::Command;

#[test]
fn the_pages_of_reference_are_up_to_date() {
    let made = std::env::temp_dir().join(format!("giveway-reference-{}", std::process::id()));
    std::fs::create_dir_all(&made).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_giveway-docgen")).arg(&made).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    for page in ["api.md", "keys.md", "values.md"] {
        let read = |directory: &Path| std::fs::read_to_string(directory.join(page)).unwrap();
        assert_eq!(read(&stored), read(&made), "docs/reference/{page}: run `make reference`");
    }
    std::fs::remove_dir_all(&made).unwrap();
}
