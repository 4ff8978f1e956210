//! `kubectl giveway ui`: one browser gets a session, the views show what the cluster has, a tenant sees his namespace only and what is hidden, and nothing
//! is written.

mod browser;

use crate::MINUTE;
use crate::roles::ACCOUNTS;
use browser::{ARROW_RIGHT, Browser};
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{PodHandle, Shaped};
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            one_browser_sees_the_queue_a_plan_and_the_history_and_nothing_is_written,
            a_tenant_sees_his_namespace_and_what_is_hidden_is_named,
            a_browser_shows_each_view_to_an_administrator,
            a_browser_shows_a_tenant_what_is_hidden_and_follows_changed_rights;
        own:
            a_browser_keeps_the_last_state_while_the_api_server_cannot_be_reached;
    ]
}

/// The running command.
struct Page {
    /// Ends the command when it is dropped.
    _child: Child,
    /// What it printed first.
    url: String,
    port: u16,
    cookie: String,
}

/// A response: head and body.
struct Answered {
    head: String,
    body: String,
}

impl Answered {
    fn status(&self) -> &str {
        self.head.split_whitespace().nth(1).unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.body))
    }
}

impl Page {
    /// Starts the command and reads the URL that it prints.
    async fn start(kubeconfig: &Path, args: &[&str]) -> Self {
        let program = paths::giveway_program("kubectl-giveway").unwrap();
        let mut command = Command::new(program);
        command.args(["ui", "--no-open"]).args(args).env("KUBECONFIG", kubeconfig).env("HOME", "/nonexistent");
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().expect("the command printed no URL");
        let (address, _) = url.split_once("/?token=").unwrap();
        let port = address.strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap();
        Self { _child: child, url, port, cookie: String::new() }
    }

    /// Starts it and exchanges the token for a cookie.
    async fn open(kubeconfig: &Path, args: &[&str]) -> Self {
        let mut page = Self::start(kubeconfig, args).await;
        let (_, token) = page.url.split_once("/?").unwrap();
        let entered = page.send("GET", &format!("/?{token}"), "").await;
        assert_eq!(entered.status(), "200", "{}", entered.head);
        let cookie = entered.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        page.cookie = cookie.split(';').next().unwrap().to_owned();
        page
    }

    /// Sends a request of the browser with the session.
    async fn send(&self, method: &str, path: &str, body: &str) -> Answered {
        sent(self.port, &self.cookie, method, path, body).await
    }

    /// Reads a view until `found` returns a value.
    async fn wait<T>(&self, what: &str, path: &str, found: impl Fn(&Value) -> Option<T>) -> T {
        wait_for(what, MINUTE, async || {
            let answered = self.send("GET", path, "").await;
            if answered.status() != "200" {
                return Err(format!("{}\n{}", answered.head, answered.body));
            }
            let view = answered.json();
            found(&view).ok_or_else(|| format!("{view:#}"))
        })
        .await
    }
}

/// Sends a request with a cookie and the origin of the page.
async fn sent(port: u16, cookie: &str, method: &str, path: &str, body: &str) -> Answered {
    let host = format!("127.0.0.1:{port}");
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\nconnection: close\r\n");
    let head = format!("{head}cookie: {cookie}\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut stream = BufReader::new(TcpStream::connect(&host).await.unwrap());
    let answer = async {
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "the response ends: {head}");
        }
        // The driver of Chromium does not close the connection.
        let lower = head.to_ascii_lowercase();
        let mut fields = lower.lines().filter_map(|line| line.split_once(':'));
        let length = fields.find_map(|(name, value)| (name == "content-length").then(|| value.trim().parse().unwrap()));
        let mut body = Vec::new();
        match length {
            Some(length) => {
                body.resize(length, 0);
                stream.read_exact(&mut body).await.unwrap();
            }
            None => {
                stream.read_to_end(&mut body).await.unwrap();
            }
        }
        Answered { head, body: String::from_utf8(body).unwrap() }
    };
    tokio::time::timeout(MINUTE, answer).await.unwrap_or_else(|_| panic!("no response to {method} {path}"))
}

/// Returns the row of a list of the view whose field has this value.
fn row<'v>(view: &'v Value, list: &str, field: &str, value: &str) -> Option<&'v Value> {
    view[list].as_array()?.iter().find(|row| row[field] == value)
}

/// Returns a group of two pods, which do not exist.
fn group(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}
    })
}

async fn one_browser_sees_the_queue_a_plan_and_the_history_and_nothing_is_written(world: &mut World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(3).cpus(4).create().await;
    world.fill(&nodes).priority("low").prefix("low").whole().groups_of(4).await;
    let patient = world.gang("patient", 12).priority("low").create().await;
    crate::expect_condition(&patient, crate::INITIALLY_SCHEDULED, "False Unschedulable", "12 pods needed, 0 fit now.")
        .await;
    let page = Page::open(&world.plane().kubeconfig(), &[]).await;

    // The token was used: a second browser gets no session, and sees nothing.
    let (_, token) = page.url.split_once("/?").unwrap();
    let used = format!("/?{token}");
    for path in [used.as_str(), "/", "/api/queue"] {
        let denied = sent(page.port, "", "GET", path, "").await;
        assert!(denied.status() == "403" && !denied.head.contains("set-cookie"), "{path}: {}", denied.head);
    }
    let index = page.send("GET", "/", "").await;
    assert!(index.head.contains("content-security-policy: default-src 'none'; "), "{}", index.head);
    let waits = |view: &Value| row(view, "rows", "name", "patient").cloned();
    let patient_row = page.wait("the queue shows the gang", "/api/queue", waits).await;
    assert!(patient_row["message"].as_str().unwrap().contains("12 pods needed, 0 fit now."), "{patient_row:#}");
    assert_eq!(
        (&patient_row["position"], &patient_row["class"], &patient_row["total"]),
        (&json!(1), &json!("low"), &json!(12))
    );
    let plan = page.send("GET", "/api/plan?kind=podgroup&namespace=default&name=patient", "").await.json();
    assert_eq!(plan["answer"]["schedulable"], false, "{plan:#}");
    let changes = plan["changes"].to_string();
    assert!(changes.contains("With a priority above 10, as class high has (1000), it would preempt"), "{changes}");

    // What if: the plan for a manifest that is not submitted names victims.
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: vip}\nspec:\n  priorityClassName: high\n  tolerations: [{operator: Exists}]\n  \
                    containers: [{name: main, image: vip, resources: {requests: {cpu: '1'}}}]\n";
    let planned = page.send("POST", "/api/plan?namespace=default", manifest).await.json();
    let victim = &planned["answer"]["victims"][0];
    assert_eq!((&victim["kind"], &victim["priority"]), (&json!("PodGroup"), &json!(10)), "{planned:#}");
    assert_eq!(victim["loses"]["pods"], 4, "{planned:#}");
    assert_eq!(world.kubectl(&["get", "pod", "vip", "--ignore-not-found"]).await.unwrap(), "");

    let gang = world.gang("train", 4).priority("high").create().await;
    let stored = gang.wait_plan(PlanState::Completed, MINUTE).await;
    let completed =
        |view: &Value| row(view, "items", "preemption", &stored.id).filter(|row| row["state"] == "Completed").cloned();
    let past = page.wait("the history shows the preemption", "/api/history", completed).await;
    assert_eq!((&past["preemptor"]["name"], &past["pods"]), (&json!("train"), &json!(4)), "{past:#}");
    let yaml = page.send("GET", &format!("/api/object?kind=preemption&name={}", stored.id), "").await;
    assert!(yaml.body.contains("kind: Preemption\n"), "{}", yaml.body);
    let cluster = page.send("GET", "/api/cluster", "").await.json();
    let cpu = row(&cluster, "resources", "name", "cpu").unwrap();
    assert_eq!((&cpu["capacity"], &cpu["free"]), (&json!(12000), &json!(0)), "{cluster:#}");
    let checks = page.send("POST", "/api/check", "").await.json();
    assert!(row(&checks, "findings", "check", "crds").is_some_and(|row| row["status"] == "OK"), "{checks:#}");
    world.check_promises().await;
}

async fn a_tenant_sees_his_namespace_and_what_is_hidden_is_named(world: &mut World) {
    world.apply(ACCOUNTS).await.unwrap();
    for (namespace, name) in [("team", "ours"), ("default", "theirs")] {
        world.apply(&group(namespace, name).to_string()).await.unwrap();
    }
    let tenant: PathBuf = world.account("team", "tenant").await;
    let page = Page::open(&tenant, &["-n", "team"]).await;
    let reported =
        |view: &Value| row(view, "rows", "name", "ours").filter(|row| row["reason"] == "WaitingForPods").cloned();
    page.wait("the queue shows the group of the tenant", "/api/queue", reported).await;
    // A page that waits for a change is woken by the next one.
    let shown = page.send("GET", "/api/revision", "").await.json()["revision"].as_u64().unwrap();
    world.apply(&group("team", "second").to_string()).await.unwrap();
    let newer = |view: &Value| view["revision"].as_u64().filter(|revision| *revision > shown);
    page.wait("the page gets a new revision", &format!("/api/revision?after={shown}"), newer).await;
    let second = |view: &Value| row(view, "rows", "name", "second").cloned();
    page.wait("the queue shows the new group", "/api/queue", second).await;
    let theirs = page.send("GET", "/api/plan?kind=podgroup&namespace=default&name=theirs", "").await;
    assert_eq!(theirs.status(), "404", "{}", theirs.body);
    for path in ["/api/queue", "/api/history", "/api/cluster"] {
        let view = page.send("GET", path, "").await;
        assert!(view.status() == "200" && !view.body.contains("theirs"), "{path}: {}", view.body);
    }
    let notes = page.send("GET", "/api/revision", "").await.json()["notes"].to_string();
    assert!(notes.contains("so only those of namespace team are known."), "{notes}");
    assert!(notes.contains("The chart's ClusterRole giveway-planner allows it."), "{notes}");
    let plan = page.send("GET", "/api/plan?kind=podgroup&namespace=team&name=ours", "").await.json();
    assert_eq!(plan["answer"], Value::Null, "without the nodes the planner would say that nothing fits");
    assert!(plan["hidden"].as_str().is_some_and(|why| why.contains("giveway-planner")), "{plan:#}");
    let yaml = page.send("GET", "/api/object?kind=podgroup&namespace=default&name=theirs", "").await;
    assert_eq!(yaml.status(), "403", "{}", yaml.body);
    world.check_promises().await;
}

/// A manifest of a pod that preempts every pod of the tests.
const VIP: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: vip}\nspec:\n  priorityClassName: top\n  tolerations: [{operator: Exists}]\n  \
                   containers: [{name: main, image: vip, resources: {requests: {cpu: '1'}}}]\n";

/// Returns how long the page drew the last view, in milliseconds.
const REDRAWN: &str = "return Math.round(performance.getEntriesByName('redraw')[0]?.duration ?? 0)";

/// Draws a map of 2,000 cells, as that of any larger cluster has at most, and a queue of 2,000 groups, which stay on the page. Returns how
/// long that took with the layout, in milliseconds.
const LARGE: &str = "return Promise.all(['/map.js', '/dom.js'].map((file) => import(location.origin + file))).then(([{ drawMap }, { table }]) => {
  const numbers = [...Array(2000).keys()];
  const cells = numbers.map((number) => ({ name: `n${number}`, nodes: 1, cordoned: 0, levels: [[100, 400], [10, 300]], placed: 0, victims: 0 }));
  const rows = numbers.map((number) => [number, `podgroup/gang-${number}`, 'ml', '1000 (high)', '0/4', 'Unschedulable', '4 pods needed, 0 fit now.']);
  const columns = ['Position', 'Name', 'Namespace', 'Priority', 'Pods', 'State', 'Waits for'];
  const region = document.createElement('div');
  document.getElementById('view').append(region);
  const began = performance.now();
  region.replaceChildren(drawMap({ by: 'node', resource: 'cpu', resources: ['cpu'], cells }), table('Large', columns, rows, ''));
  region.getBoundingClientRect();
  return Math.round(performance.now() - began);
})";

/// What a page of Giveway must not run: the kind and the name of an owner are free text.
const HOSTILE: &str = "<img src=x onerror=\"document.title='replaced'\">";

async fn a_browser_shows_each_view_to_an_administrator(world: &mut World) {
    let Some(browser) = Browser::start().await else { return world.check_promises().await };
    for (class, value) in [("low", 10), ("high", 1000), ("top", 2000)] {
        world.class(class, value).managed().create().await;
    }
    let nodes = world.nodes(3).cpus(4).create().await;
    world.fill(&nodes[..2]).priority("low").prefix("low").whole().groups_of(4).await;
    let mut owned = world.pod("owned").cpu(4).priority("low").on(&nodes[2]).build();
    let owner = OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: HOSTILE.to_owned(),
        name: HOSTILE.to_owned(),
        uid: "8c3c6c4e-5a7e-4f0a-9a4e-6f3d0c0b7a11".to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    owned.metadata.owner_references = Some(vec![owner]);
    let created = world.kit().api::<Pod>().create(&PostParams::default(), &owned).await.unwrap();
    PodHandle::new(world.kit(), &created).wait_running(MINUTE).await;
    let gang = world.gang("train", 12).priority("high").whole().create().await;
    gang.wait_plan(PlanState::Completed, MINUTE).await;
    let patient = world.gang("patient", 12).priority("low").create().await;
    crate::expect_condition(&patient, crate::INITIALLY_SCHEDULED, "False Unschedulable", "12 pods needed, 0 fit now.")
        .await;

    let page = Page::start(&world.plane().kubeconfig(), &[]).await;
    browser.open(&page.url).await;
    browser.shows(&["Pending groups and pods, in the order of decisions", "podgroup/patient", "0 fit now."]).await;
    browser.screenshot("ui-queue").await;
    browser.click("a", "podgroup/patient").await;
    browser.shows(&["If it were decided now", "What would change it", "With a priority above 1000"]).await;

    // The plan for a manifest that is not submitted.
    browser.click("summary", "What if: plan a manifest that is not submitted").await;
    browser.run(&format!("document.querySelector('textarea').value = {VIP:?}")).await;
    browser.click("button", "Plan this manifest").await;
    browser
        .shows(&["If it were submitted now", "podgroup/default/train", "12 of 12 pods of PodGroup/train (whole group)"])
        .await;
    browser.screenshot("ui-plan").await;

    browser.click("button", "History").await;
    browser.shows(&["Preemptions, the newest first", "podgroup/default/train", HOSTILE]).await;
    browser.click("button", "Cluster").await;
    browser.click("button", "Check the installation").await;
    browser.shows(&["Topology domains", "Priority classes", "Checks of the installation", "crds"]).await;
    browser.screenshot("ui-cluster").await;
    eprintln!(
        "redrawn within: this view {} ms, a large one {} ms, then with {} MiB in the process of the page",
        browser.run(REDRAWN).await,
        browser.run(LARGE).await,
        browser.page_memory()
    );

    // The tabs are used with the keyboard as a screen reader expects it.
    browser.run("document.getElementById('tab-queue').focus()").await;
    browser.press(ARROW_RIGHT).await;
    let focus =
        "return [document.activeElement.id, document.activeElement.getAttribute('aria-selected'), location.hash]";
    wait_for("the arrow key selects the next tab", MINUTE, async || {
        let found = browser.run(focus).await;
        if found == json!(["tab-plan", "true", "#plan"]) { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let background = "return getComputedStyle(document.body).backgroundColor";
    browser.prefer("light").await;
    let light = browser.run(background).await;
    browser.prefer("dark").await;
    assert_ne!(browser.run(background).await, light, "the page has a dark form");

    // No text became an element, and nothing was loaded from elsewhere.
    let foreign = "return [document.title, document.querySelectorAll('img').length, performance.getEntriesByType('resource')\
                   .filter((one) => !one.name.startsWith(location.origin)).map((one) => one.name)]";
    assert_eq!(browser.run(foreign).await, json!(["Giveway", 0, []]));
    world.check_promises().await;
}

async fn a_browser_shows_a_tenant_what_is_hidden_and_follows_changed_rights(world: &mut World) {
    let Some(browser) = Browser::start().await else { return world.check_promises().await };
    world.apply(ACCOUNTS).await.unwrap();
    for (namespace, name) in [("team", "ours"), ("default", "theirs")] {
        world.apply(&group(namespace, name).to_string()).await.unwrap();
    }
    let tenant: PathBuf = world.account("team", "tenant").await;
    let page = Page::start(&tenant, &["-n", "team"]).await;
    browser.open(&page.url).await;
    let notes = ["so only those of namespace team are known.", "The chart's ClusterRole giveway-planner allows it."];
    browser.shows(&["podgroup/ours", notes[0], notes[1]]).await;
    for (tab, shown) in [
        ("Plan", "Choose a pending group or pod, or paste a manifest."),
        ("History", "No preemption that is kept can be shown."),
        ("Cluster", "No node is known."),
        ("Queue", "podgroup/ours"),
    ] {
        browser.click("button", tab).await;
        let text = browser.shows(&[shown]).await;
        assert!(!text.contains("theirs"), "{tab}: {text}");
    }

    // The rights change while the page is open: it shows what may be read now, and says that something is hidden.
    world.kubectl(&["delete", "rolebinding", "admin", "-n", "team"]).await.unwrap();
    let text = browser.shows(&["Nothing that you may list is pending.", "PodGroups, "]).await;
    assert!(!text.contains("podgroup/ours"), "{text}");
    world.apply(ACCOUNTS).await.unwrap();
    browser.shows(&["podgroup/ours", notes[0]]).await;
    world.check_promises().await;
}

async fn a_browser_keeps_the_last_state_while_the_api_server_cannot_be_reached() {
    let Some(browser) = Browser::start().await else { return };
    let mut world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.nodes(1).cpus(2).create().await;
    let gang = world.gang("patient", 2).cpu(4).priority("low").create().await;
    crate::expect_condition(&gang, crate::INITIALLY_SCHEDULED, "False Unschedulable", "2 pods needed, 0 fit now.")
        .await;
    let page = Page::start(&world.plane().kubeconfig(), &[]).await;
    browser.open(&page.url).await;
    browser.shows(&["podgroup/patient", "2 pods needed, 0 fit now.", "Read at "]).await;
    world.plane().process("kube-apiserver").unwrap().kill();
    browser.shows(&["The cluster cannot be read: ", "Shown is its state of ", "podgroup/patient"]).await;
    world.plane().restart("kube-apiserver").unwrap();
    browser.shows(&["podgroup/patient", "Read at "]).await;
    drop(page);
    browser.shows(&["The page is not served any more: ", "Run kubectl giveway ui again.", "podgroup/patient"]).await;
    world.check_promises().await;
}
