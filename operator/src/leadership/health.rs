//! Serves `/metrics`, `/healthz` and `/readyz` over plain HTTP.

use crate::leadership::lease::Leadership;
use crate::leadership::watches::Watches;
use crate::observability::metrics::{Metrics, catalogue};
use giveway_serving::{self as serving, Limits, ServerMetrics, Shutdown};
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::watch;
use warp::http::StatusCode;
use warp::{Filter, Reply};

/// The input of the checks of liveness and readiness. A process is live unless it is [stuck](super::liveness). It is ready when
/// everything that it watches has been listed and no watch is broken, also as a standby: an upgrade ends a leader only when
/// another process can lead at once.
pub struct Readiness {
    /// Whether this process leads.
    pub leadership: Leadership,
    /// True while everything that this process watches has been listed.
    pub synced: watch::Receiver<bool>,
    /// The watches that are failing.
    pub watches: Watches,
}

impl Readiness {
    /// Returns why this process is not ready, as a clause: a watch is broken, or not every kind has been listed. `None` if it is ready.
    fn unready_reason(&self) -> Option<String> {
        // The broken watch is named first, because it may be why the watches are not synced.
        let broken = self.watches.broken(Instant::now()).map(|why| format!("{why}: nothing is decided"));
        let unsynced = || (!*self.synced.borrow()).then(|| "the watches are not synced yet".to_owned());
        broken.or_else(unsynced)
    }
}

/// Returns the response to a probe: 200 with `ok`, or 503 with the problem, if there is one.
fn answer(problem: Option<String>) -> impl Reply {
    match problem {
        None => warp::reply::with_status("ok".to_owned(), StatusCode::OK),
        Some(why) => warp::reply::with_status(why, StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// Serves `/metrics`, `/healthz` and `/readyz` to the clients of `listener` until the process ends.
pub async fn serve(listener: TcpListener, metrics: Metrics, readiness: Readiness) {
    let readiness = Arc::new(readiness);
    let (shown, alive) = (Arc::clone(&readiness), readiness.leadership.liveness().clone());
    let scrape = serving::metrics::scrape(move || {
        metrics.set(&catalogue::LEADER, &[], i64::from(shown.leadership.holds()));
        metrics.watches_failing(shown.watches.failing(Instant::now()));
        metrics.encode()
    });
    let healthz = warp::path!("healthz").map(move || answer(alive.problem(Instant::now())));
    let readyz = warp::path!("readyz").map(move || answer(readiness.unready_reason()));
    let routes = scrape.or(warp::get().and(healthz.or(readyz)).map(Reply::into_response)).unify().boxed();
    // The metrics of this HTTP server itself are not exported.
    serving::serve(
        listener,
        None,
        serving::service(routes),
        Limits::default(),
        Shutdown::default(),
        ServerMetrics::default(),
    )
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::liveness::LONGEST;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    /// Returns status and text of the response to `GET path` of a process with these properties.
    async fn get(path: &str, readiness: Readiness) -> (String, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Metrics::default(), readiness));
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        server.abort();
        let status = response.split(' ').nth(1).unwrap_or_default().to_owned();
        (status, response.rsplit("\r\n").next().unwrap_or_default().to_owned())
    }

    /// Returns the properties of a leader whose last pass was made at this time and whose watches are these.
    fn leader(passed: Instant, synced: bool, watches: Watches) -> Readiness {
        let deadline = Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(3_600))));
        let leadership = Leadership::new("operator-00000001", deadline, watch::channel(true).1);
        leadership.liveness().passed(passed);
        Readiness { leadership, synced: watch::channel(synced).1, watches }
    }

    #[tokio::test]
    async fn healthz_fails_when_no_passes_are_made_and_not_when_watches_are_broken() {
        let now = Instant::now();
        let (status, why) = get("/healthz", leader(now - 2 * LONGEST, true, Watches::default())).await;
        assert_eq!(status, "503");
        assert!(why.starts_with("the arbiter has made no pass for 12"), "{why}");
        let broken = Watches::default();
        broken.list_started("PodGroup".into(), now - LONGEST);
        let ok = ("200".to_owned(), "ok".to_owned());
        assert_eq!(get("/healthz", leader(now, false, broken)).await, ok);
    }

    #[tokio::test]
    async fn a_standby_is_ready_when_its_watches_are_synced() {
        let standby = |synced| {
            let leadership = Leadership::new("operator-00000002", Arc::default(), watch::channel(false).1);
            Readiness { leadership, synced: watch::channel(synced).1, watches: Watches::default() }
        };
        let unready = ("503".to_owned(), "the watches are not synced yet".to_owned());
        assert_eq!(get("/readyz", standby(false)).await, unready);
        assert_eq!(get("/readyz", standby(true)).await, ("200".to_owned(), "ok".to_owned()));
    }

    #[tokio::test]
    async fn readyz_names_the_broken_watch_although_the_watches_are_not_synced_yet() {
        let (now, broken) = (Instant::now(), Watches::default());
        broken.list_started("PodGroup".into(), now - LONGEST);
        let (status, why) = get("/readyz", leader(now, false, broken)).await;
        assert_eq!(status, "503");
        assert!(why.starts_with("the watch of kind PodGroup has been broken for 6"), "{why}");
        let (_, why) = get("/readyz", leader(now, false, Watches::default())).await;
        assert_eq!(why, "the watches are not synced yet");
    }
}
