//! Giveway's daemons in a world: stopped, started, frozen and asked by its test.

use super::World;
use crate::giveway::{self, Daemon};
use crate::proxy::Proxy;

impl World {
    /// The operator, to kill and start.
    ///
    /// # Panics
    /// The world has no Giveway, or it runs as pods.
    pub fn operator(&mut self) -> &mut Daemon {
        &mut self.giveway.as_mut().expect("this world has Giveway").operator
    }

    /// The proxy between the operator and the API server, aimed at the operator that runs now.
    ///
    /// # Panics
    /// The world was started without one.
    pub fn proxy(&self) -> &Proxy {
        let giveway = self.giveway.as_ref().expect("this world has Giveway");
        let proxy = giveway.proxy.as_ref().expect("this world has a proxy");
        proxy.aim_at(giveway.operator.pid());
        proxy
    }

    /// The operator and the proxy before it, at the same time.
    ///
    /// # Panics
    /// The world was started without a proxy.
    pub fn operator_and_proxy(&mut self) -> (&mut Daemon, &Proxy) {
        let giveway = self.giveway.as_mut().expect("this world has Giveway");
        (&mut giveway.operator, giveway.proxy.as_ref().expect("this world has a proxy"))
    }

    /// One more operator, which is not started yet.
    ///
    /// # Panics
    /// The API server does not answer.
    pub async fn another_operator(&self, flags: &[&str]) -> Daemon {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut other = giveway::another_operator(&self.plane, &flags).await.unwrap();
        other.tell(&self.ends);
        other
    }

    /// Stops the operator where it is (SIGSTOP), or lets it go on.
    ///
    /// # Panics
    /// It does not run.
    pub fn frozen_operator(&self, frozen: bool) {
        self.giveway.as_ref().expect("this world has Giveway").operator.freeze(frozen);
    }

    /// The operator's metrics.
    ///
    /// # Panics
    /// The world has no Giveway, or the operator does not answer.
    pub async fn operator_metrics(&self) -> String {
        self.operator_says("/metrics").await.1
    }

    /// What the operator answers on this path of its metrics address: status and text.
    ///
    /// # Panics
    /// The world has no Giveway, or the operator does not answer.
    pub async fn operator_says(&self, path: &str) -> (u16, String) {
        self.giveway.as_ref().expect("this world has Giveway").operator.http(path).await.unwrap()
    }

    /// Upgrades the kinds and the chart to those of this checkout; the daemons go on as they are.
    ///
    /// # Panics
    /// A manifest is refused.
    pub async fn upgrade_chart(&self) {
        let giveway = self.giveway.as_ref().expect("this world has Giveway");
        giveway.upgrade_chart(&self.plane).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Replaces the daemons by those of this checkout.
    ///
    /// # Panics
    /// One does not become ready.
    pub async fn upgrade_daemons(&mut self) {
        let giveway = self.giveway.as_mut().expect("this world has Giveway");
        giveway.upgrade_daemons().await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// The webhook, to kill and start.
    ///
    /// # Panics
    /// The world has no Giveway.
    pub fn webhook(&mut self) -> &mut Daemon {
        &mut self.giveway.as_mut().expect("this world has Giveway").webhook
    }
}
