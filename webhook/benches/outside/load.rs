//! Load on a server, and what it costs there.

use crate::client::Client;
use crate::process::{Place, Process};
use crate::reviews::Row;
use futures::future::join_all;
use std::time::{Duration, Instant};

/// Connections, as an API server keeps them.
const CONNECTIONS: u32 = 16;
/// How long the crowded part of a measurement takes.
const TIME: Duration = Duration::from_secs(4);
/// How many seconds the paced part takes.
const SECONDS: usize = 5;
/// What the paced part sends a second.
const PACE: u32 = 2000;

/// Times of answers, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
}

impl Latency {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        Self { p50: at(50), p99: at(99) }
    }
}

/// Results of a load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    requests: f64,
    took: Duration,
    pub user: Duration,
    pub system: Duration,
    /// With every connection sending the next request at once.
    pub crowded: Latency,
    /// At a fixed pace; of the second that was the median by its 99th percentile.
    pub paced: Latency,
}

impl Load {
    pub fn rate(&self) -> f64 {
        self.requests / self.took.as_secs_f64()
    }

    pub fn per_cpu_second(&self) -> f64 {
        self.requests / (self.user + self.system).as_secs_f64()
    }

    pub fn micros(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.requests
    }

    /// CPU time of one request, in microseconds.
    pub fn cost(&self) -> f64 {
        self.micros(self.user + self.system)
    }
}

/// Loads a server with the reviews of a row.
pub async fn measure(place: &Place, process: &Process, row: &Row) -> Load {
    crowd(place, row, TIME / 8).await;
    let (start, (user, system)) = (Instant::now(), process.cpu());
    let times = crowd(place, row, TIME).await;
    let (took, (user_then, system_then)) = (start.elapsed(), process.cpu());
    let requests = f64::from(u32::try_from(times.len()).unwrap());
    // A machine that does something else for a moment spoils one second, not the figure: the median counts.
    let mut seconds = Vec::new();
    for _ in 0..SECONDS {
        seconds.push(Latency::of(pace(place, row).await));
    }
    seconds.sort_by(|one, other| one.p99.total_cmp(&other.p99));
    let paced = seconds[seconds.len() / 2];
    let (user, system) = (user_then - user, system_then - system);
    Load { requests, took, user, system, crowded: Latency::of(times), paced }
}

async fn ask(client: &mut Client, row: &Row) {
    let (status, answer) = client.send("POST", row.path, &row.body).await.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
}

/// As fast as answers come.
async fn crowd(place: &Place, row: &Row, time: Duration) -> Vec<Duration> {
    let end = Instant::now() + time;
    let connections = (0..CONNECTIONS).map(|_| {
        let (place, row) = (place.clone(), row.clone());
        tokio::spawn(async move {
            let (mut client, mut times) = (Client::connect(&place).await.unwrap(), Vec::new());
            while Instant::now() < end {
                let start = Instant::now();
                ask(&mut client, &row).await;
                times.push(start.elapsed());
            }
            times
        })
    });
    join_all(connections).await.into_iter().flat_map(Result::unwrap).collect()
}

/// At a fixed pace. Time counts from the moment at which a request was due.
async fn pace(place: &Place, row: &Row) -> Vec<Duration> {
    let (step, start) = (Duration::from_secs(1) / PACE, Instant::now() + Duration::from_millis(100));
    let connections = (0..CONNECTIONS).map(|index| {
        let (place, row) = (place.clone(), row.clone());
        tokio::spawn(async move {
            let (mut client, mut times) = (Client::connect(&place).await.unwrap(), Vec::new());
            let mut due = start + step * index;
            while due < start + Duration::from_secs(1) {
                // A timer that wakes a moment late is not the server's fault, an answer before it that was late is.
                let start = if Instant::now() < due {
                    tokio::time::sleep_until(due.into()).await;
                    Instant::now()
                } else {
                    due
                };
                ask(&mut client, &row).await;
                times.push(start.elapsed());
                due += step * CONNECTIONS;
            }
            times
        })
    });
    join_all(connections).await.into_iter().flat_map(Result::unwrap).collect()
}
