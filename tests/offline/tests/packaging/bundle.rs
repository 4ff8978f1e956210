//! `packaging/load.sh`, which lies beside the files of a release and loads its images.

use super::Machine;
use giveway_tests::paths;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Architectures of the images in the list.
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// Writes files of a release with two images to a folder of the machine. Returns the path of `load.sh` there.
fn release(machine: &Machine) -> PathBuf {
    let folder = machine.path("release");
    fs::create_dir(&folder).unwrap();
    let mut list = "# The images of Giveway 1.2.3\n".to_owned();
    for image in ["giveway-operator", "giveway-webhook"] {
        for architecture in ARCHITECTURES {
            let archive = format!("{image}-1.2.3-linux-{architecture}.oci.tar");
            fs::write(folder.join(&archive), format!("{image} for {architecture}")).unwrap();
            list.push_str(&format!("ghcr.io/giveway/{image}:1.2.3 linux/{architecture} sha256:0 {archive}\n"));
        }
        list.push_str(&format!("ghcr.io/giveway/{image}:1.2.3 index sha256:0 -\n"));
    }
    fs::write(folder.join("images.txt"), list).unwrap();
    fs::write(folder.join("giveway-1.2.3.tgz"), "").unwrap();
    fs::copy(paths::repository().join("packaging/load.sh"), folder.join("load.sh")).unwrap();
    let sums = "find . -type f | sed 's,^\\./,,' | xargs sha256sum >../sums && mv ../sums SHA256SUMS";
    assert!(Command::new("sh").args(["-c", sums]).current_dir(&folder).status().unwrap().success());
    folder.join("load.sh")
}

#[test]
fn the_images_of_the_architecture_are_loaded_in_each_way() {
    for (way, cluster, call) in [
        ("kind", "mine", "kind load image-archive --name mine FILE"),
        ("k3d", "mine", "k3d image import FILE --cluster mine"),
        ("minikube", "mine", "minikube image load --profile mine FILE"),
        ("k3s", "", "k3s ctr images import FILE"),
        ("ctr", "", "ctr --namespace k8s.io images import FILE"),
        ("podman", "", "podman load --input FILE"),
    ] {
        let machine = Machine::with(&[way]);
        let script = release(&machine);
        let run = machine.run(&script, &[way, cluster], &[("ARCH", "arm64")]);
        assert!(run.passed, "{way}: {}", run.output);
        let archive =
            |image: &str| machine.path(&format!("release/{image}-1.2.3-linux-arm64.oci.tar")).display().to_string();
        let expected = ["giveway-operator", "giveway-webhook"].map(|image| call.replace("FILE", &archive(image)));
        assert_eq!(run.calls, expected, "{way}");
        assert!(run.output.contains("--set image.pullPolicy=Never,image.digests.operator="), "{}", run.output);
    }
}

#[test]
fn a_changed_archive_is_not_loaded() {
    let machine = Machine::with(&["kind"]);
    let script = release(&machine);
    fs::write(machine.path("release/giveway-webhook-1.2.3-linux-amd64.oci.tar"), "another image").unwrap();
    let run = machine.run(&script, &["kind"], &[("ARCH", "x86_64")]);
    let said =
        "giveway-webhook-1.2.3-linux-amd64.oci.tar is not the file of SHA256SUMS: copy the files of the release again.";
    assert!(!run.passed && run.output.contains(said), "{}", run.output);
    assert_eq!(run.calls.len(), 1, "only the archive before it is loaded: {:#?}", run.calls);
}

#[test]
fn what_is_missing_is_named() {
    let machine = Machine::with(&["kind"]);
    let script = release(&machine);
    let cases: [(&[&str], &str, &str); 3] = [
        (&[], "amd64", "Name where to load the images: "),
        (&["k3d"], "amd64", "There is no k3d on this machine."),
        (&["kind"], "riscv64", "There are no images for riscv64: set ARCH to amd64 or arm64."),
    ];
    for (args, arch, said) in cases {
        let run = machine.run(&script, args, &[("ARCH", arch)]);
        assert!(!run.passed && run.output.contains(said) && run.calls.is_empty(), "{said}: {}", run.output);
    }
    fs::remove_file(machine.path("release/images.txt")).unwrap();
    let run = machine.run(&script, &["kind"], &[]);
    assert!(
        !run.passed && run.output.contains("images.txt is missing: run this script in the directory"),
        "{}",
        run.output
    );
}
