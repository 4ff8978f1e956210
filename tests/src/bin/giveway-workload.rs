//! The program in the containers of tests, controlled by its arguments. Without arguments it waits for SIGTERM, so it also serves
//! as the pause container of a sandbox.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

/// Runs until it gets SIGTERM or another condition of its arguments is met.
#[derive(Parser)]
struct Arguments {
    /// Exit after this number of seconds.
    #[arg(long, value_name = "SECONDS")]
    end_after: Option<f64>,
    /// The exit code without a signal.
    #[arg(long, default_value_t = 0)]
    code: u8,
    /// The exit code after SIGTERM; the default is that of a shell for a process ended by the signal.
    #[arg(long, default_value_t = 143)]
    term_code: u8,
    /// Ignore SIGTERM.
    #[arg(long)]
    ignore_term: bool,
    /// Write this file on SIGTERM.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Serve HTTP on this port of all addresses: answer with 200, or with 503 after /ready/off until /ready/on. /end/CODE exits
    /// with this code, /allocate/MIB allocates this amount of memory.
    #[arg(long, value_name = "PORT")]
    serve: Option<u16>,
    /// Allocate and write this amount of memory.
    #[arg(long, value_name = "MIB")]
    allocate: Option<usize>,
}

static READY: AtomicBool = AtomicBool::new(true);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The handler is installed first, because the first process of a container ignores signals without a handler.
    let mut term = match signal(SignalKind::terminate()) {
        Ok(term) => term,
        Err(error) => return failed("listening for SIGTERM", &error),
    };
    println!("started");
    if let Some(port) = arguments.serve {
        match TcpListener::bind(("0.0.0.0", port)).await {
            Ok(listener) => drop(tokio::spawn(serve(listener))),
            Err(error) => return failed(&format!("listening on port {port}"), &error),
        }
    }
    let memory = vec![1_u8; arguments.allocate.unwrap_or_default() << 20];
    let end = async {
        match arguments.end_after {
            Some(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(end);
    let code = loop {
        tokio::select! {
            () = &mut end => break arguments.code,
            _ = term.recv() => {
                println!("SIGTERM");
                if let Some(file) = &arguments.checkpoint
                    && let Err(error) = std::fs::write(file, "saved\n")
                {
                    return failed(&format!("writing {}", file.display()), &error);
                }
                if !arguments.ignore_term {
                    break arguments.term_code;
                }
            }
        }
    };
    println!("ends with {code}, having held {} MiB", memory.len() >> 20);
    ExitCode::from(code)
}

fn failed(what: &str, error: &std::io::Error) -> ExitCode {
    eprintln!("{what}: {error}");
    ExitCode::from(70)
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream));
    }
}

/// Answers one request, which must arrive in one packet, as those of probes do.
async fn answer(mut stream: TcpStream) {
    let mut request = [0; 1024];
    let length = stream.read(&mut request).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    match request.split(' ').nth(1) {
        Some("/ready/off") => READY.store(false, Ordering::Relaxed),
        Some("/ready/on") => READY.store(true, Ordering::Relaxed),
        Some(path) => {
            if let Some(size) = path.strip_prefix("/allocate/").and_then(|size| size.parse::<usize>().ok()) {
                std::mem::forget(vec![1_u8; size << 20]);
            }
        }
        None => {}
    }
    let status = if READY.load(Ordering::Relaxed) { "200 OK" } else { "503 Service Unavailable" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n");
    drop(stream.write_all(answer.as_bytes()).await);
    drop(stream.shutdown().await);
    if let Some(code) = request.split(' ').nth(1).and_then(|path| path.strip_prefix("/end/")?.parse().ok()) {
        println!("got a request to end with {code}");
        std::process::exit(code);
    }
}
