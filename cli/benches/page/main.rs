//! `make bench-page`: what the page of `kubectl giveway ui` costs in a large cluster, measured from outside.
//!
//! The program follows a stand-in for an API server with 5,000 nodes, 50,000 pods and 500 pending groups. A pod changes, the page gets
//! a new revision and requests a view. Measured are the time until the revision, that of the view, which is computed then, and that of the same
//! view for a second browser.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod api_server;
mod objects;

use api_server::ApiServer;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Number of measurements of each view.
const ROUNDS: u64 = 20;

/// The views.
const VIEWS: [&str; 5] = [
    "/api/queue",
    "/api/cluster",
    "/api/history",
    "/api/plan?kind=podgroup&namespace=ml&name=gang-000",
    "/api/plan?kind=podgroup&namespace=ml&name=gang-499",
];

/// The running program.
struct Page {
    child: Child,
    port: u16,
    cookie: String,
}

impl Page {
    /// Starts it and opens the page.
    async fn open(server: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_kubectl-giveway");
        let mut command = Command::new(program);
        command.args(["ui", "--no-open", "--server", server]).env_remove("KUBECONFIG").env("HOME", "/nonexistent");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(&mut output), &mut line).unwrap();
            line
        });
        let line = line.await.unwrap();
        let (address, token) = line.trim().split_once("/?token=").expect("the program printed no URL");
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        let mut page = Self { child, port, cookie: String::new() };
        let entered = page.get(&format!("/?token={token}")).await;
        let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        page.cookie = cookie.split(';').next().unwrap().to_owned();
        page
    }

    /// Returns the response to a request.
    async fn get(&self, path: &str) -> String {
        let Self { port, cookie, .. } = self;
        let mut stream = TcpStream::connect(("127.0.0.1", *port)).await.unwrap();
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\ncookie: {cookie}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 "), "{path}: {}", response.lines().next().unwrap_or_default());
        response
    }

    /// Waits until the page gets a revision after this one.
    async fn newer(&self, known: u64) -> u64 {
        let response = self.get(&format!("/api/revision?after={known}")).await;
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(body["problem"].is_null(), "{body}");
        body["revision"].as_u64().unwrap()
    }

    /// Returns the resident memory in MiB.
    fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() / 256
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the median and the maximum, in milliseconds.
fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |index: usize| times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    format!("{:.1} / {:.1}", at(times.len() / 2), at(times.len().saturating_sub(1)))
}

async fn measure(server: &ApiServer, page: &Page, view: &str) {
    let (mut changed, mut computed, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let mut size = 0;
    for _ in 0..ROUNDS {
        let known = page.newer(0).await;
        let start = Instant::now();
        server.change_a_pod();
        // A change between two watches is lost. It is made again then.
        while page.newer(known).await == known {
            server.change_a_pod();
        }
        changed.push(start.elapsed());
        let start = Instant::now();
        size = page.get(view).await.len();
        computed.push(start.elapsed());
        let start = Instant::now();
        page.get(view).await;
        again.push(start.elapsed());
    }
    let [changed, computed, again] = [&mut changed, &mut computed, &mut again].map(|times| spread(times));
    println!("| {view} | {changed} | {computed} | {again} | {} |", size / 1024);
}

async fn run() {
    let server = ApiServer::start(objects::all()).await;
    let start = Instant::now();
    let page = Page::open(&server.url).await;
    let (nodes, pods, groups) = (objects::NODES, objects::PODS, objects::GROUPS);
    println!(
        "{nodes} nodes, {pods} pods, {groups} pending groups: the page is served after {:.1} s with {} MiB\n",
        start.elapsed().as_secs_f64(),
        page.resident()
    );
    println!(
        "| view | ms from a change to the revision, median / maximum | ms of the view | ms of the same view again | KiB |"
    );
    println!("|---|---|---|---|---|");
    for view in VIEWS {
        measure(&server, &page, view).await;
    }
    println!("\nafter all: {} MiB", page.resident());
}

fn main() {
    tokio::runtime::Runtime::new().unwrap().block_on(run());
}
