//! Access to Giveway's daemons in a world.

use super::World;
use crate::giveway::{self, Daemon};
use crate::proxy::Proxy;
use crate::wait::wait_for;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The beginning of the lines of a dump.
const DUMP: &str = r#"{"dump":""#;
/// The sections of a dump of the operator.
const SECTIONS: usize = 4;

impl World {
    /// Returns the operator.
    ///
    /// # Panics
    /// If the world has no Giveway or it runs as pods.
    pub fn operator(&mut self) -> &mut Daemon {
        &mut self.giveway.as_mut().expect("this world has Giveway").operator
    }

    /// Returns the proxy between the operator and the API server, with the running operator as its target.
    ///
    /// # Panics
    /// If the world was started without a proxy.
    pub fn proxy(&self) -> &Proxy {
        let giveway = self.giveway.as_ref().expect("this world has Giveway");
        let proxy = giveway.proxy.as_ref().expect("this world has a proxy");
        proxy.set_target(giveway.operator.pid());
        proxy
    }

    /// Returns the operator and its proxy.
    ///
    /// # Panics
    /// If the world was started without a proxy.
    pub fn operator_and_proxy(&mut self) -> (&mut Daemon, &Proxy) {
        let giveway = self.giveway.as_mut().expect("this world has Giveway");
        (&mut giveway.operator, giveway.proxy.as_ref().expect("this world has a proxy"))
    }

    /// Returns another operator, which is not started.
    ///
    /// # Panics
    /// If the API server does not answer.
    pub async fn another_operator(&self, flags: &[&str]) -> Daemon {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut other = giveway::another_operator(&self.plane, &flags).await.unwrap();
        other.report_end_to(&self.ends);
        other
    }

    /// Freezes the operator (SIGSTOP) or continues it (SIGCONT).
    ///
    /// # Panics
    /// If it does not run.
    pub fn freeze_operator(&self, frozen: bool) {
        self.giveway.as_ref().expect("this world has Giveway").operator.freeze(frozen);
    }

    /// Requests a dump of the operator's state (SIGUSR1). Returns its sections by name, as the operator writes them to its log.
    ///
    /// # Panics
    /// If the operator does not run or writes no dump.
    pub async fn operator_dump(&self) -> BTreeMap<String, Value> {
        let operator = &self.giveway.as_ref().expect("this world has Giveway").operator;
        let log = operator.log();
        let lines = || fs::read_to_string(&log).unwrap_or_default();
        let before = lines().matches(DUMP).count();
        operator.request_dump();
        wait_for("the operator writes a dump", Duration::from_secs(60), async || {
            let text = lines();
            let dumps = text.lines().filter(|line| line.starts_with(DUMP)).skip(before);
            let sections: Vec<Value> = dumps.filter_map(|line| serde_json::from_str(line).ok()).collect();
            if sections.len() < SECTIONS {
                return Err(format!("{} of {SECTIONS} sections", sections.len()));
            }
            let name = |section: &Value| section["dump"].as_str().unwrap_or_default().to_owned();
            Ok(sections.into_iter().map(|section| (name(&section), section)).collect())
        })
        .await
    }

    /// Returns the operator's metrics.
    ///
    /// # Panics
    /// If the world has no Giveway or the operator does not answer.
    pub async fn operator_metrics(&self) -> String {
        self.operator_http("/metrics").await.1
    }

    /// Returns status and body of the operator's answer on this path of its metrics address.
    ///
    /// # Panics
    /// If the world has no Giveway or the operator does not answer.
    pub async fn operator_http(&self, path: &str) -> (u16, String) {
        self.giveway.as_ref().expect("this world has Giveway").operator.http(path).await.unwrap()
    }

    /// Upgrades CRDs and chart to those of this checkout. The daemons are not replaced.
    ///
    /// # Panics
    /// If a manifest is rejected.
    pub async fn upgrade_chart(&self) {
        let giveway = self.giveway.as_ref().expect("this world has Giveway");
        giveway.upgrade_chart(&self.plane).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Replaces the daemons by those of this checkout.
    ///
    /// # Panics
    /// If a daemon does not become ready.
    pub async fn upgrade_daemons(&mut self) {
        let giveway = self.giveway.as_mut().expect("this world has Giveway");
        giveway.upgrade_daemons().await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Returns the webhook.
    ///
    /// # Panics
    /// If the world has no Giveway.
    pub fn webhook(&mut self) -> &mut Daemon {
        &mut self.giveway.as_mut().expect("this world has Giveway").webhook
    }
}
