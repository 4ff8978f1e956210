//! The images: one layer with one program and no shell, built reproducibly.

use crate::registry::{IMAGES, Registry, crane};
use crate::{archive, run, shipped};
use giveway_tests::paths;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_image_has_one_layer_with_one_static_program() {
    let registry = Registry::start().await;
    registry.push_release();
    let directory = tempfile::tempdir().unwrap();
    for (image, program) in IMAGES {
        let reference = registry.reference(image);
        let json = |args: &[&str]| -> Value { serde_json::from_str(&run(&crane(), args, &[])).unwrap() };
        let index = json(&["manifest", &reference]);
        assert_eq!(index["manifests"][0]["platform"]["os"], "linux", "an index of architectures: {index}");
        let platform = format!("linux/{}", index["manifests"][0]["platform"]["architecture"].as_str().unwrap());
        let manifest = json(&["manifest", &reference, "--platform", &platform]);
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 1, "{manifest}");
        let size = layers[0]["size"].as_u64().unwrap();
        assert!(size < 12_000_000, "{image} has {size} bytes compressed");

        let config = json(&["config", &reference, "--platform", &platform]);
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!([format!("/usr/bin/{program}")]));
        let label = |name: &str| config["config"]["Labels"][format!("org.opencontainers.image.{name}")].clone();
        assert_eq!((label("version"), label("licenses")), (json!(crate::VERSION), json!("Apache-2.0")));
        assert_eq!(label("source"), json!("https://github.com/giveway/giveway"));

        let root = directory.path().join(image);
        registry.unpack(image, &root);
        assert_eq!(files(&root), ["LICENSE".to_owned(), format!("usr/bin/{program}")], "and no shell");
        let program = root.join("usr/bin").join(program);
        let said = run(&program, &["--version"], &[]);
        assert!(said.trim().ends_with(crate::VERSION), "{said}");
        let ldd = Command::new("ldd").arg(&program).output().unwrap();
        let ldd = String::from_utf8_lossy(&[ldd.stdout, ldd.stderr].concat()).into_owned();
        assert!(ldd.contains("statically linked") || ldd.contains("not a dynamic"), "{image} is not static: {ldd}");
    }
    let helm = paths::control_plane_program("helm").unwrap();
    let chart = format!("oci://{}/charts/giveway", registry.address);
    let pulled = directory.path().display().to_string();
    run(&helm, &["pull", &chart, "--version", crate::VERSION, "--plain-http", "--destination", &pulled], &[]);
    let chart = format!("giveway-{}.tgz", crate::VERSION);
    assert_eq!(fs::read(directory.path().join(&chart)).unwrap(), fs::read(shipped(&chart)).unwrap());
}

#[test]
fn images_are_reproducible() {
    let directory = tempfile::tempdir().unwrap();
    let again = directory.path().display().to_string();
    run(&paths::repository().join("packaging/images.sh"), &[&again], &[]);
    for (image, _) in IMAGES {
        let first = archive(image);
        let second = directory.path().join(first.file_name().unwrap());
        assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap(), "{} differs", first.display());
    }
}

#[test]
fn checksums_and_krew_manifest_match_the_files() {
    let dist = shipped("SHA256SUMS").parent().map(Path::to_path_buf).unwrap();
    let check = format!("cd '{}' && sha256sum --check --strict SHA256SUMS", dist.display());
    let checked = run(Path::new("sh"), &["-c", &check], &[]);
    for name in ["giveway.yaml", "krew/giveway.yaml", &format!("giveway-{}.tgz", crate::VERSION)] {
        assert!(checked.contains(&format!("{name}: OK")), "{name} is not in:\n{checked}");
    }
    let manifest: Value = serde_yaml_ng::from_str(&fs::read_to_string(shipped("krew/giveway.yaml")).unwrap()).unwrap();
    assert_eq!(manifest["spec"]["version"], format!("v{}", crate::VERSION));
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        let name = platform["uri"].as_str().unwrap().rsplit('/').next().unwrap();
        let file = shipped(name).display().to_string();
        let sum = run(Path::new("sha256sum"), &[&file], &[]);
        assert!(sum.starts_with(platform["sha256"].as_str().unwrap()), "{name}: {sum}");
        let directory = tempfile::tempdir().unwrap();
        let into = directory.path().display().to_string();
        run(Path::new("tar"), &["--extract", "--file", &file, "--directory", &into], &[]);
        let program = platform["bin"].as_str().unwrap();
        assert_eq!(files(directory.path()), ["LICENSE", program, "kubectl_complete-giveway"]);
    }
}

/// `make dist` ends with this script's error if krew, or the CI of krew-index, would reject the manifest.
#[test]
fn a_krew_manifest_with_a_fault_is_rejected() {
    let good = fs::read_to_string(shipped("krew/giveway.yaml")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let manifest: Value = serde_yaml_ng::from_str(&good).unwrap();
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        let name = platform["uri"].as_str().unwrap().rsplit('/').next().unwrap();
        symlink(shipped(name), directory.path().join(name)).unwrap();
    }
    fs::create_dir(directory.path().join("krew")).unwrap();
    let check = |manifest: &str| {
        fs::write(directory.path().join("krew/giveway.yaml"), manifest).unwrap();
        let script = paths::repository().join("packaging/krew.sh");
        let output = Command::new(script).arg(directory.path()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (accepted, said) = check(&good);
    assert!(accepted, "{said}");

    let sum = manifest["spec"]["platforms"][0]["sha256"].as_str().unwrap();
    let other_sum = "f".repeat(64);
    for (from, to, expected) in [
        ("kind: Plugin", "kind: Plug", "plugin manifest has kind=\"Plug\""),
        ("  name: giveway", "  name: other", "plugin should be named \"giveway\", not \"other\""),
        ("  version: v", "  version: ", "not starting with 'v'"),
        ("os: linux", "os: plan9", "doesn't match any supported platforms"),
        (sum, "abc", "`sha256` value abc is not valid"),
        (sum, other_sum.as_str(), "checksum does not match"),
        ("bin: kubectl-giveway", "bin: giveway", "cannot be found in extracted archive"),
    ] {
        assert!(good.contains(from), "{from} is not in:\n{good}");
        let (accepted, said) = check(&good.replace(from, to));
        assert!(!accepted && said.contains(expected), "{to}: {said}");
    }
}

/// Returns the sorted paths of all files below a directory.
fn files(root: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path)
            } else {
                found.push(path.display().to_string())
            }
        }
    }
    found.sort();
    found
}
