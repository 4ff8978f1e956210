//! The certificate: taken from a directory, replaced in a running server, kept when the new one is bad.

use super::client::*;
use giveway_serving::Limits;
use giveway_webhook::tls::{Certificate, Directory};
use std::sync::Arc;

#[tokio::test]
async fn a_new_pair_is_used_for_new_connections_and_open_ones_stay() {
    let server = Server::start(Limits::default()).await;
    let mut open = server.connect().await;
    send(&mut open, "GET /healthz", b"").await;
    read_response(&mut open).await;

    let renewed = write_pair(server.directory.path());
    wait_for("the renewed certificate is shown", async || handshake(server.address, &renewed).await.is_ok()).await;
    assert!(handshake(server.address, &server.authority).await.is_err(), "the old certificate is not shown any more");
    send(&mut open, "GET /healthz", b"").await;
    assert_eq!(read_response(&mut open).await.0, 200);
    assert!(server.metrics.encode().contains(r#"giveway_webhook_certificate_reloads_total{result="success"}"#));
}

#[tokio::test]
async fn a_bad_pair_is_reported_and_the_old_one_kept() {
    let server = Server::start(Limits::default()).await;
    std::fs::write(server.directory.path().join("tls.key"), "nonsense").unwrap();
    wait_for("the failure is counted", async || {
        server.metrics.encode().contains(r#"giveway_webhook_certificate_reloads_total{result="failure"} 1"#)
    })
    .await;
    assert!(server.certificate.is_loaded());
    assert_eq!(server.request("GET /readyz", b"").await.0, 200);
}

#[test]
fn each_reason_why_a_pair_cannot_be_used_is_logged_once_with_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let certificate = Arc::new(Certificate::default());
    let mut files = Directory::new(directory.path().to_owned(), provider(), Arc::clone(&certificate));

    let reload = |files: &mut Directory| files.reload().map_err(|error| error.to_string());
    let message = reload(&mut files).unwrap_err();
    assert!(message.contains("tls.crt") && message.contains("No such file"), "{message}");
    assert_eq!(reload(&mut files), Ok(false), "the same failure is not reported again");

    write_pair(directory.path());
    let key = std::fs::read(path("tls.key")).unwrap();
    std::fs::write(path("tls.key"), "").unwrap();
    let message = reload(&mut files).unwrap_err();
    assert!(message.contains("tls.key"), "{message}");
    assert!(!certificate.is_loaded());

    write_pair(directory.path());
    std::fs::write(path("tls.key"), &key).unwrap();
    let message = reload(&mut files).unwrap_err();
    assert!(message.starts_with("the certificate and the key cannot be used together: "), "{message}");

    std::fs::write(path("tls.crt"), "").unwrap();
    let message = reload(&mut files).unwrap_err();
    assert!(message.ends_with("tls.crt: holds no certificate"), "{message}");

    write_pair(directory.path());
    assert_eq!(reload(&mut files), Ok(true));
    assert_eq!(reload(&mut files), Ok(false));
    assert!(certificate.is_loaded());
}

#[test]
fn a_pair_that_a_kubelet_swaps_is_never_read_half_old_and_half_new() {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for version in ["..1", "..2"] {
        std::fs::create_dir(path(version)).unwrap();
        write_pair(&path(version));
    }
    symlink("..1", path("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{file}"), path(file)).unwrap();
    }
    let certificate = Arc::new(Certificate::default());
    let mut files = Directory::new(directory.path().to_owned(), provider(), Arc::clone(&certificate));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in ["..2", "..1"].into_iter().cycle() {
                symlink(version, path("..data_tmp")).unwrap();
                std::fs::rename(path("..data_tmp"), path("..data")).unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let read: Vec<String> =
            (0..20_000).filter_map(|_| files.reload().err()).map(|error| error.to_string()).collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(read, Vec::<String>::new());
    });
    assert!(certificate.is_loaded());
}
