//! A validating admission webhook in the test process that denies requests by rule: which requests, how often, with which code and words;
//! or it is late, or cannot be reached.
//!
//! Each [`Rule`] has a configuration of its own, in which the API server selects the requests. So a rule concerns the operator alone, unless
//! it says otherwise, and the rest of the cluster does not depend on the test process. The webhook has no side effects: it is also asked
//! about dry runs.

mod review;
mod rule;

pub use review::Denied;
pub use rule::Rule;

use crate::control_plane::kubeconfig;
use crate::control_plane::pki::Pki;
use crate::https::Server;
use crate::wait::wait_for;
use anyhow::Result;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use rule::Answer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Name of the webhook of each rule, as the API server reports it.
pub const WEBHOOK: &str = "deny.example.com";
/// A port on which nothing listens.
const NOTHING: &str = "https://127.0.0.1:1";
/// Deadline for the API server to observe a configuration.
const NOTICED: Duration = Duration::from_secs(60);

/// The webhook, and the rules that were registered. It ends when the value is dropped.
pub struct Denials {
    server: Server,
    ca: String,
    client: Client,
    rules: Arc<Mutex<BTreeMap<String, Arc<Registered>>>>,
    count: Mutex<usize>,
}

impl Denials {
    /// Starts the webhook with a certificate of this authority. `client` registers the rules.
    ///
    /// # Errors
    /// If no port is free or the certificate cannot be created.
    pub async fn start(pki: &Pki, client: Client) -> Result<Self> {
        let rules: Arc<Mutex<BTreeMap<String, Arc<Registered>>>> = Arc::default();
        let answering = Arc::clone(&rules);
        let server = Server::start(pki, move |request| {
            let rules = Arc::clone(&answering);
            async move { review::answer(&rules, request).await }
        })
        .await?;
        let ca = kubeconfig::base64(pki.ca().as_bytes());
        Ok(Self { server, ca, client, rules, count: Mutex::default() })
    }

    /// Registers a rule and waits until it is in force.
    ///
    /// # Panics
    /// If the API server rejects the configuration or does not apply it.
    pub async fn deny(&self, rule: Rule) -> Enforced {
        let number = {
            let mut count = locked(&self.count);
            *count += 1;
            *count
        };
        let name = format!("deny-{number}");
        let registered = Arc::new(Registered::new(&rule));
        locked(&self.rules).insert(name.clone(), Arc::clone(&registered));
        let configuration: ValidatingWebhookConfiguration =
            serde_json::from_value(self.configuration(&name, &rule)).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &configuration).await.unwrap();
        let enforced = Enforced { name, registered, client: self.client.clone() };
        wait_for("the rule is in force", NOTICED, async || match enforced.probe().await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the probe is admitted".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await;
        enforced
    }

    /// Ends all rules: from now on the webhook admits every request that reaches it. The configurations remain.
    pub fn end_all(&self) {
        locked(&self.rules).values().for_each(|rule| rule.end());
    }

    /// Returns the configuration of a rule. Its second webhook denies the creation of a ConfigMap with the name of the rule, which shows
    /// that the configuration is in force.
    fn configuration(&self, name: &str, rule: &Rule) -> Value {
        let at = |url: &str, path: &str| json!({"url": format!("{url}/{path}"), "caBundle": self.ca});
        let url = self.server.url();
        let reached = if matches!(rule.answer, Answer::Unreachable) { NOTHING } else { url.as_str() };
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [rule.webhook(WEBHOOK, &at(reached, name)), {
                "name": "probe.example.com", "clientConfig": at(&url, &format!("{name}/probe")),
                "rules": [{
                    "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]
                }],
                "matchConditions": [{"name": "probe", "expression": format!("request.name == '{name}'")}],
                "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"]
            }]
        })
    }
}

/// A rule that is in force until [`Enforced::end`] is called or the test ends.
pub struct Enforced {
    name: String,
    registered: Arc<Registered>,
    client: Client,
}

impl Enforced {
    /// Returns the name of its configuration, which is also the path of its webhook.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the requests that were denied or delayed so far. A webhook that cannot be reached knows none.
    pub fn denied(&self) -> Vec<Denied> {
        self.registered.denied()
    }

    /// Changes the `Status` with which requests are denied from now on.
    pub fn change_status(&self, status: Value) {
        *locked(&self.registered.answer) = Answer::Deny(status);
    }

    /// Waits until at least one request was denied.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_denied(&self, limit: Duration) {
        wait_for(&format!("a request is denied by {}", self.name), limit, async || {
            if self.denied().is_empty() { Err("no request was denied".to_owned()) } else { Ok(()) }
        })
        .await;
    }

    /// Ends the rule and waits until the API server does not ask the webhook any more.
    ///
    /// # Panics
    /// If the configuration cannot be deleted.
    pub async fn end(&self) {
        self.registered.end();
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        configurations.delete(&self.name, &DeleteParams::default()).await.unwrap();
        wait_for("the rule is not in force any more", NOTICED, async || match self.probe().await {
            Ok(false) => Ok(()),
            Ok(true) => Err("the probe is denied".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await;
    }

    /// Returns true if the configuration of the rule is in force.
    async fn probe(&self) -> Result<bool, kube::Error> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let mut map = ConfigMap::default();
        map.metadata.name = Some(self.name.clone());
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        match maps.create(&dry_run, &map).await {
            Ok(_) => Ok(false),
            Err(kube::Error::Api(status)) if status.message.contains(" is in force") => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// The state of a registered rule.
pub(crate) struct Registered {
    answer: Mutex<Answer>,
    /// Number of requests that are still admitted before any is denied.
    admitted: Mutex<usize>,
    /// Number of requests that may still be denied; `None` if there is no limit.
    left: Mutex<Option<usize>>,
    denied: Mutex<Vec<Denied>>,
}

impl Registered {
    fn new(rule: &Rule) -> Self {
        Self {
            answer: Mutex::new(rule.answer.clone()),
            admitted: Mutex::new(rule.admitted),
            left: Mutex::new(rule.most),
            denied: Mutex::default(),
        }
    }

    /// Returns true if this request is to be denied, and counts it.
    fn take_turn(&self, request: Denied) -> bool {
        let mut admitted = locked(&self.admitted);
        if *admitted > 0 {
            *admitted -= 1;
            return false;
        }
        let mut left = locked(&self.left);
        if *left == Some(0) {
            return false;
        }
        if let Some(left) = left.as_mut() {
            *left -= 1;
        }
        locked(&self.denied).push(request);
        true
    }

    fn denied(&self) -> Vec<Denied> {
        locked(&self.denied).clone()
    }

    fn end(&self) {
        *locked(&self.left) = Some(0);
    }
}

/// Locks a mutex, also after a panic of a test.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
