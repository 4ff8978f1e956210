//! A headless Chromium. The tests drive it through its driver by the WebDriver protocol (W3C), as far as they need it.

use super::{Answered, sent};
use crate::MINUTE;
use giveway_tests::paths;
use giveway_tests::wait::wait_for;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The key code of WebDriver for the right arrow.
pub(super) const ARROW_RIGHT: &str = "\u{e014}";

/// A browser with one window.
pub(super) struct Browser {
    /// Ends the driver when it is dropped.
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts the browser. Returns nothing, and prints a line, if it or its driver is not installed.
    pub(super) async fn start() -> Option<Self> {
        let (Some(chromium), Some(driver)) = (installed("chromium"), installed("chromedriver")) else {
            eprintln!("skipped: Chromium or its driver is not installed (apt-get install chromium chromium-driver)");
            return None;
        };
        let mut command = Command::new(driver);
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap().expect("the driver of Chromium ended");
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').parse().unwrap();
            }
        };
        let mut browser = Self { driver, port, session: String::new() };
        let flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"];
        let options = json!({"binary": chromium, "args": flags});
        let capabilities = json!({"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}});
        let created = browser.command("/session", &json!({"capabilities": capabilities})).await;
        created["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        Some(browser)
    }

    async fn command(&self, path: &str, body: &Value) -> Value {
        let Answered { head, body } = sent(self.port, "", "POST", path, &body.to_string()).await;
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {head}\n{body}"));
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer:#}");
        answer["value"].clone()
    }

    async fn in_session(&self, command: &str, body: &Value) -> Value {
        self.command(&format!("/session/{}/{command}", self.session), body).await
    }

    /// Opens a URL.
    pub(super) async fn open(&self, url: &str) {
        self.in_session("url", &json!({"url": url})).await;
    }

    /// Runs the body of a function in the page, and returns what it returns.
    pub(super) async fn run(&self, script: &str) -> Value {
        self.in_session("execute/sync", &json!({"script": script, "args": []})).await
    }

    /// Clicks the first element of a kind that has this text.
    pub(super) async fn click(&self, selector: &str, text: &str) {
        let script = format!(
            "const found = [...document.querySelectorAll({selector:?})].find((one) => one.textContent === {text:?});
             found?.click(); return found !== undefined;"
        );
        wait_for(&format!("the page has {selector} {text}"), MINUTE, async || {
            if self.run(&script).await == true { Ok(()) } else { Err(self.text().await) }
        })
        .await;
    }

    /// Presses a key.
    pub(super) async fn press(&self, key: &str) {
        let strokes = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.in_session("actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]})).await;
    }

    /// Sets whether the user prefers dark pages.
    pub(super) async fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let command = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}});
        self.in_session("goog/cdp/execute", &command).await;
    }

    /// Returns the visible text of the page.
    pub(super) async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap().to_owned()
    }

    /// Waits until the page shows all of these texts, and returns its text.
    pub(super) async fn shows(&self, parts: &[&str]) -> String {
        wait_for(&format!("the page shows {parts:?}"), MINUTE, async || {
            let text = self.text().await;
            match parts.iter().find(|part| !text.contains(**part)) {
                None => Ok(text),
                Some(part) => Err(format!("{part} is not in:\n{text}")),
            }
        })
        .await
    }

    /// Returns the memory of the processes that show pages of this browser, in MiB: its share of what processes have in common counts.
    pub(super) fn page_memory(&self) -> u64 {
        let parent = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok())
        };
        let is_own = |pid: &u32| {
            let mut ancestors = std::iter::successors(Some(*pid), |pid| parent(*pid));
            ancestors.any(|pid| Some(pid) == self.driver.id())
        };
        let shows_a_page = |pid: &u32| {
            let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.contains("--type=renderer")
        };
        let share = |pid: u32| {
            let memory = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            memory.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse::<u64>().ok())
        };
        let processes = std::fs::read_dir("/proc").into_iter().flatten();
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(shows_a_page).filter(is_own).filter_map(share).sum::<u64>() / 1024
    }

    /// Writes an image of the window to `GIVEWAY_SCREENSHOTS`, if that is set.
    pub(super) async fn screenshot(&self, name: &str) {
        let Some(folder) = std::env::var_os("GIVEWAY_SCREENSHOTS") else { return };
        let folder = paths::repository().join(folder);
        let path = format!("/session/{}/screenshot", self.session);
        let image = sent(self.port, "", "GET", &path, "").await.json();
        let ByteString(image) = serde_json::from_value(image["value"].clone()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), image).unwrap();
    }
}

impl Drop for Browser {
    /// Lets the driver end the browser, whose processes outlive a driver that is killed.
    fn drop(&mut self) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = stream.write_all(b"GET /shutdown HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    }
}

/// Returns the path of a program, if it is installed.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}
