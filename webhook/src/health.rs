//! Whether the webhook can do its work, and why not.
//!
//! Alive means that the view can be read, because every request reads it. A rule or a watch that never ends keeps the
//! view locked: `/healthz` does not answer then either, and the kubelet restarts the container.
//!
//! Ready means that the HTTPS port is: it is bound and not about to close, a certificate is loaded, every watch has
//! listed its kind, and none has been broken for longer than [`BROKEN_FOR`]. A shorter break is not a reason: what the
//! rules read changes rarely, and what they miss is looked up.

use crate::metrics::Metrics;
use crate::tls::Certificate;
use crate::watch::SharedView;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a watch may be broken.
pub const BROKEN_FOR: Duration = Duration::from_secs(30);

/// Whether the webhook can do its work; cheap to clone.
#[derive(Clone, Debug)]
pub struct Health {
    certificate: Arc<Certificate>,
    view: Arc<SharedView>,
    bound: Arc<AtomicBool>,
    drain: CancellationToken,
}

impl Health {
    /// Creates the health of a webhook whose HTTPS port is not bound yet. The webhook is not ready any more when `drain` is cancelled.
    pub fn new(certificate: Arc<Certificate>, view: Arc<SharedView>, drain: CancellationToken) -> Self {
        Self { certificate, view, bound: Arc::default(), drain }
    }

    /// Records that the HTTPS port is bound, and about to be served.
    pub fn port_is_bound(&self) {
        self.bound.store(true, Ordering::Release);
    }

    /// Blocks the thread until the view can be locked for reading, as requests do: so a probe does not succeed while they cannot.
    pub fn wait_for_view(&self) {
        drop(self.view.read());
    }

    /// Returns why the webhook is not ready; `None` when it is.
    pub fn problem(&self) -> Option<String> {
        if !self.bound.load(Ordering::Acquire) {
            return Some("the HTTPS port is not bound".to_owned());
        }
        if self.drain.is_cancelled() {
            return Some("the HTTPS port is about to close".to_owned());
        }
        if !self.certificate.is_loaded() {
            return Some("no certificate is loaded".to_owned());
        }
        if !self.view.is_synced() {
            return Some("the watches are not synced".to_owned());
        }
        let longest = self.view.broken().into_iter().max_by_key(|(_, since)| *since)?;
        let (watch, time) = longest;
        (time > BROKEN_FOR).then(|| format!("the watch of {watch} has been broken for {} s", time.as_secs()))
    }

    /// Sets the metrics of the health: whether the webhook is ready, when its certificate expires, and for how long each watch is broken.
    pub fn set_metrics(&self, metrics: &Metrics) {
        metrics.ready.set(self.problem().is_none().into());
        metrics.certificate_expiry.set(self.certificate.expires_at().unwrap_or(0));
        for (watch, time) in self.view.broken() {
            metrics.watch_broken(watch, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Directory;
    use crate::view::View;
    use crate::watch::Viewed;
    use giveway_admission::view::Settings;
    use giveway_crds::{PodGroup, Workload};
    use rustls::crypto::aws_lc_rs::default_provider;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use tokio::time::Instant;

    #[test]
    fn readiness_names_one_missing_thing_at_a_time() {
        let (certificate, drain) = (Arc::new(Certificate::default()), CancellationToken::new());
        let view = Arc::new(SharedView::complete(View::new(Settings::default())));
        let health = Health::new(Arc::clone(&certificate), Arc::clone(&view), drain.clone());
        let problem = || health.problem().unwrap_or_default();
        assert_eq!(problem(), "the HTTPS port is not bound");
        health.port_is_bound();
        assert_eq!(problem(), "no certificate is loaded");

        let directory = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.path().join("tls.crt"), pair.cert.pem()).unwrap();
        std::fs::write(directory.path().join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
        let mut files = Directory::new(directory.path().to_owned(), Arc::new(default_provider()), certificate);
        assert!(files.reload().unwrap());
        assert_eq!(health.problem(), None);

        let now = Instant::now();
        view.mark_broken(PodGroup::BIT, now - BROKEN_FOR / 2);
        assert_eq!(health.problem(), None, "not for long");
        view.mark_broken(Workload::BIT, now - BROKEN_FOR - Duration::from_secs(12));
        assert_eq!(problem(), "the watch of workloads has been broken for 42 s");
        let metrics = Metrics::default();
        health.set_metrics(&metrics);
        let shown = metrics.encode();
        assert!(shown.contains("giveway_webhook_ready 0\n"), "{shown}");
        // The year 4096: what the library gives a certificate that says nothing of it.
        assert!(shown.contains("giveway_webhook_certificate_expiry_timestamp_seconds 67090118400\n"), "{shown}");
        assert!(shown.contains("giveway_webhook_watch_broken_seconds{watch=\"workloads\"} 42."), "{shown}");
        assert!(shown.contains("giveway_webhook_watch_broken_seconds{watch=\"priorityclasses\"} 0.0\n"), "{shown}");
        view.mark_synced(Workload::BIT);
        assert_eq!(health.problem(), None, "it has listed its kind again");
        drain.cancel();
        assert_eq!(problem(), "the HTTPS port is about to close");
    }

    #[test]
    fn the_webhook_is_not_alive_while_the_view_cannot_be_read() {
        let view = Arc::new(SharedView::complete(View::new(Settings::default())));
        let health = Health::new(Arc::default(), Arc::clone(&view), CancellationToken::new());
        let (sender, answers) = channel();
        let probe = move || {
            health.wait_for_view();
            sender.send("ok")
        };
        view.write(|_| {
            std::thread::spawn(probe);
            assert_eq!(answers.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        });
        assert_eq!(answers.recv_timeout(Duration::from_secs(60)), Ok("ok"));
    }
}
