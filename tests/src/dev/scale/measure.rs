//! All measurements on one filled cluster.

use super::process::{self, cpu_time};
use super::table::{Results, Started};
use super::{Size, fill, objects, progress};
use crate::control_plane::{ControlPlane, State};
use crate::giveway::{self, Daemon, Giveway, Settings};
use crate::paths;
use anyhow::{Context as _, Result};
use futures::stream::BoxStream;
use futures::{StreamExt as _, future};
use giveway_crds::Preemption;
use http::Request;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Deadline for a program to become ready, and for a plan.
const LIMIT: Duration = Duration::from_secs(600);
/// Duration of the Lease.
const LEASE: Duration = Duration::from_secs(8);
/// Number of pods that are created to measure an event.
const EVENTS: u32 = 2000;
/// For how long the processor time of the operator is observed while nothing happens.
const IDLE: Duration = Duration::from_secs(5);
/// Number of objects in a page, as in the lists of Giveway.
const PAGE: usize = 500;
/// What is listed. These are nearly all objects of the cluster.
const LISTS: [&str; 6] = [
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/apis/scheduling.giveway.dev/v1alpha1/podgroups",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
];

/// Starts a control plane with these files of etcd, and measures.
///
/// # Errors
/// If a process does not start or an object is rejected.
pub(super) async fn measure(size: Size, etcd: PathBuf) -> Result<Results> {
    progress("starting the control plane and Giveway");
    let mut plane = ControlPlane::start(fill::options("run", Some(etcd)), State::Bare).await?;
    let client = plane.client();
    let settings = Settings { operator_flags: vec![lease()], ready_within: Some(LIMIT), ..Settings::default() };
    let mut giveway = Giveway::install(&mut plane, &settings).await?;
    fill::create(&client, objects::high_class()).await?;

    progress("waiting until the operator has written the statuses of the groups");
    quiet(&giveway.operator).await?;

    progress("listing without Giveway, and starting operator and webhook again");
    let start = Instant::now();
    future::try_join_all(LISTS.map(|path| list(&client, path, |_| Ok(())))).await?;
    let listing = start.elapsed();
    let operator = restart(&mut giveway.operator).await?;
    let webhook = restart(&mut giveway.webhook).await?;

    progress("creating pods");
    let mut plans = Plans::of(&client).await?;
    submit(&client, "gang-first", 0).await?;
    plans.until("gang-first").await?;
    quiet(&giveway.operator).await?;
    let event = event(&client, &giveway.operator, size).await?;

    progress("killing the leader, and terminating the next one");
    let (killed, terminated) = hand_over(&plane, &mut giveway, &mut plans).await?;
    let operator_peak = giveway.operator.memory("VmHWM");

    progress("planning with the command line");
    let [plan_live, plan_own, plan_raw] = command_line(&plane).await?;
    plane.check_alive()?;
    Ok(Results {
        size,
        listing,
        operator,
        webhook,
        event,
        killed,
        terminated,
        operator_peak,
        plan_live,
        plan_own,
        plan_raw,
    })
}

fn lease() -> String {
    format!("--lease-duration-seconds={}", LEASE.as_secs())
}

/// Waits until the operator needs less than a fifth of a core, so that later work is not mixed with what it writes after a start.
async fn quiet(operator: &Daemon) -> Result<()> {
    let pid = operator.pid().context("the operator runs")?;
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        let before = cpu_time(pid)?;
        tokio::time::sleep(IDLE).await;
        if cpu_time(pid)? - before < IDLE / 5 {
            return Ok(());
        }
    }
    eprintln!("  the operator is not quiet after {LIMIT:?}");
    Ok(())
}

/// Kills a program and starts it again.
async fn restart(daemon: &mut Daemon) -> Result<Started> {
    daemon.kill();
    let start = Instant::now();
    daemon.spawn()?;
    daemon.wait_ready(LIMIT).await?;
    Ok(Started { ready: start.elapsed(), peak: daemon.memory("VmHWM") })
}

/// Lists all objects at a path in pages, without decoding them.
async fn list(client: &Client, path: &str, mut page: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let mut next = String::new();
    loop {
        let request = Request::get(format!("{path}?limit={PAGE}&continue={next}")).body(Vec::new())?;
        let text = client.request_text(request).await.with_context(|| format!("listing {path}"))?;
        page(&text)?;
        match token(&text) {
            Some(token) => next = token,
            None => return Ok(()),
        }
    }
}

/// Returns the token of the next page. The metadata of a list is before or after its objects; a page of pods is too large to be parsed here.
fn token(list: &str) -> Option<String> {
    const METADATA: usize = 2000;
    let bytes = list.as_bytes();
    let ends = [&bytes[..bytes.len().min(METADATA)], &bytes[bytes.len().saturating_sub(METADATA)..]];
    ends.into_iter().find_map(|end| {
        let end = String::from_utf8_lossy(end);
        let token = end.split_once(r#""continue":""#)?.1.split('"').next()?;
        (!token.is_empty()).then(|| token.to_owned())
    })
}

/// Returns a page of a list as `kubectl get -o json` prints it: a `List` of objects that name their kind.
fn as_kubectl_prints(page: &str) -> Result<Value> {
    let mut page: Value = serde_json::from_str(page)?;
    let kind = page["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).context("a list")?.to_owned();
    let version = std::mem::replace(&mut page["apiVersion"], json!("v1"));
    for item in page["items"].as_array_mut().into_iter().flatten() {
        item["kind"] = json!(kind);
        item["apiVersion"] = version.clone();
    }
    page["kind"] = json!("List");
    Ok(page)
}

/// Creates a gang that preempts in this pool of nodes.
async fn submit(client: &Client, name: &str, pool: usize) -> Result<()> {
    let (group, pods) = objects::gang(name, pool);
    fill::create(client, group).await?;
    fill::create_all(client, pods.into_iter()).await
}

/// The plans that are stored.
struct Plans(BoxStream<'static, watcher::Result<Event<Preemption>>>);

impl Plans {
    /// Begins to watch them.
    async fn of(client: &Client) -> Result<Self> {
        let mut events = watcher(Api::<Preemption>::all(client.clone()), watcher::Config::default()).boxed();
        while !matches!(events.next().await.context("the watch ended")??, Event::InitDone) {}
        Ok(Self(events))
    }

    /// Waits for the plan of a gang.
    async fn until(&mut self, gang: &str) -> Result<()> {
        let stored = async {
            loop {
                // The stream restarts an interrupted watch itself.
                let Ok(Event::Apply(plan) | Event::InitApply(plan)) = self.0.next().await.context("the watch ended")?
                else {
                    continue;
                };
                if plan.spec.preemptor.is_some_and(|preemptor| preemptor.name == gang) {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::time::timeout(LIMIT, stored).await.with_context(|| format!("no plan for {gang} after {LIMIT:?}"))?
    }
}

/// Returns the processor time of the operator for the creation of a pod.
async fn event(client: &Client, operator: &Daemon, size: Size) -> Result<Duration> {
    let pid = operator.pid().context("the operator runs")?;
    let before = cpu_time(pid)?;
    tokio::time::sleep(IDLE).await;
    let idle = (cpu_time(pid)? - before).div_f64(IDLE.as_secs_f64());
    let pods = objects::Pods::new(size);
    let (start, before) = (Instant::now(), cpu_time(pid)?);
    fill::create_all(client, (0..EVENTS as usize).map(|number| pods.another(number))).await?;
    giveway::wait_for_operator(client.clone()).await?;
    let spent = cpu_time(pid)? - before;
    Ok(spent.saturating_sub(idle.mul_f64(start.elapsed().as_secs_f64())) / EVENTS)
}

/// Returns the time from the end of a leader to the first plan of the next one: after SIGKILL, less the duration of the Lease, and after
/// SIGTERM.
async fn hand_over(plane: &ControlPlane, giveway: &mut Giveway, plans: &mut Plans) -> Result<(Duration, Duration)> {
    let client = plane.client();
    let mut standby = giveway::another_operator(plane, &[lease()]).await?;
    standby.spawn()?;
    standby.wait_ready(LIMIT).await?;
    let start = Instant::now();
    giveway.operator.kill();
    submit(&client, "gang-killed", 1).await?;
    plans.until("gang-killed").await?;
    let killed = start.elapsed().saturating_sub(LEASE);

    giveway.operator.spawn()?;
    giveway.operator.wait_ready(LIMIT).await?;
    let start = Instant::now();
    let decided = async {
        submit(&client, "gang-terminated", 2).await?;
        plans.until("gang-terminated").await?;
        anyhow::Ok(start.elapsed())
    };
    let (_, terminated) = future::join(standby.terminate(), decided).await;
    Ok((killed, terminated?))
}

/// Plans on the live cluster, on a snapshot of the command line, and on a file with lists of the API server.
async fn command_line(plane: &ControlPlane) -> Result<[process::Ran; 3]> {
    let program = paths::giveway_program("kubectl-giveway")?;
    let file = |name: &str| plane.directory().join(name);
    let (manifest, own, raw) = (file("gang.yaml"), file("own.json"), file("lists.json"));
    std::fs::write(&manifest, objects::manifest())?;
    let mut lists = File::create(&raw)?;
    for path in LISTS {
        list(&plane.client(), path, |page| Ok(writeln!(lists, "{}", as_kubectl_prints(page)?)?)).await?;
    }
    let kubeconfig = plane.kubeconfig();
    let paths = [&manifest, &own, &raw].map(|path| path.display().to_string());
    let [manifest, own, raw] = paths.each_ref().map(String::as_str);
    process::run(&program, &["snapshot", "-o", own], &kubeconfig).await?;
    Ok([
        process::run(&program, &["plan", "-f", manifest], &kubeconfig).await?,
        process::run(&program, &["plan", "-f", manifest, "--snapshot", own], &kubeconfig).await?,
        process::run(&program, &["plan", "-f", manifest, "--snapshot", raw], &kubeconfig).await?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_the_next_page_is_found_before_and_after_the_objects() {
        let items = format!(r#""items":[{{"spec":"{}"}}]"#, "é".repeat(3000));
        for list in [
            format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"abc"}},{items}}}"#),
            format!(r#"{{{items},"metadata":{{"continue":"abc"}}}}"#),
        ] {
            assert_eq!(token(&list).as_deref(), Some("abc"));
        }
        for list in [format!(r#"{{"metadata":{{"continue":""}},{items}}}"#), format!("{{{items}}}"), String::new()] {
            assert_eq!(token(&list), None);
        }
    }
}
