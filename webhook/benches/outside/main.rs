//! `make bench-webhook`: what the release binary costs, measured from outside over TLS, beside the same stack with
//! nothing in it.
//!
//! Each row sends one kind of review on 16 connections: first as fast as they are answered, then 2,000 a second. The
//! baselines are this program itself, started once more with the same server, TLS and HTTP framework, and a handler that
//! only reads: not at all, into borrowed pieces, or into a tree of values. CPU time and memory are the kernel's figures
//! of the server's process; the client's cost is not in them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(missing_docs)]

mod baseline;
#[path = "../../tests/webhook/outside/client.rs"]
mod client;
mod load;
#[path = "../../tests/webhook/outside/process.rs"]
mod process;
mod reviews;
#[path = "../../tests/webhook/outside/stub.rs"]
mod stub;

use baseline::{Baseline, Handler};
use load::{Load, measure};
use process::{Process, Webhook};

/// One server under load, beside the one that only reads.
fn line(name: &str, load: &Load, reads: Option<&Load>) {
    let beside = reads.map_or(String::new(), |reads| format!("{:.2}", reads.cost() / load.cost()));
    println!(
        "| {name} | {:.0} | {:.1} + {:.1} | {:.0} | {beside} | {:.2} | {:.2} | {:.2} | {:.2} |",
        load.rate(),
        load.micros(load.user),
        load.micros(load.system),
        load.per_cpu_second(),
        load.crowded.p50,
        load.crowded.p99,
        load.paced.p50,
        load.paced.p99,
    );
}

fn mib(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

async fn run() {
    let webhook = Webhook::start(reviews::objects()).await;
    println!("resident when ready: {:.1} MiB\n", mib(webhook.process.resident()));
    for row in reviews::rows() {
        let kind = format!("{}, {} bytes, {}", row.name, row.body.len(), row.path);
        println!("### {kind}\n");
        println!(
            "| server | reviews/s | CPU µs each, user + system | per CPU second | of the borrowed baseline | p50 ms | p99 ms | p50 ms at 2,000/s | p99 ms at 2,000/s |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        let mut baselines = Vec::new();
        for handler in Handler::ALL {
            let server = Baseline::start(handler).await;
            let load = measure(&server.place, &server.process, &row).await;
            line(handler.name(), &load, None);
            baselines.push(load);
        }
        let load = measure(&webhook.place, &webhook.process, &row).await;
        let [nothing, reads, _] = baselines.as_slice() else { continue };
        line("the webhook", &load, Some(reads));
        println!(
            "\nTime by step: connection, TLS and HTTP {:.1} µs, finding the pieces {:.1} µs, reading them, rules, \
             patch, metrics and log {:.1} µs.",
            nothing.cost(),
            reads.cost() - nothing.cost(),
            load.cost() - reads.cost()
        );
        println!();
    }
    memory(&webhook.process);
}

fn memory(process: &Process) {
    println!("resident after all: {:.1} MiB, at most {:.1} MiB", mib(process.resident()), mib(process.peak()));
}

fn main() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match baseline::asked() {
        Some((handler, directory, address)) => runtime.block_on(baseline::run(handler, &directory, address)),
        None => runtime.block_on(run()),
    }
}
