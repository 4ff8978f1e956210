//! End-to-end tests on the real control plane, one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use giveway_tests::control_plane::*;
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start() {
    let t = std::time::Instant::now();
    let p = ControlPlane::start(Options::default()).await.unwrap();
    println!("{:?} {}", t.elapsed(), p.directory().display());
    if std::env::var_os("HOLD").is_some() {
        tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    }
}
