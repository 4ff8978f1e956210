//! Renews the webhook's certificates: the leader creates a certificate authority and the webhook's serving certificate,
//! stores both in Secrets, writes the trusted authorities into `caBundle` of the webhook configurations, and renews all
//! of them before they expire.
//!
//! ```text
//! store (reads the objects) → rotation (decides the next step; pure) → store (one write) → …
//!            replicas (which certificates the webhooks serve) ↗
//! ```
//!
//! Guarantee: every write is one step of [`rotation`], made only by the leader, and only in the version that was read.
//! So a crash between any two writes, or two operators that write at once, do no harm. A wait ends early when one of
//! the objects changes.

pub mod material;
pub mod replicas;
pub mod rotation;
pub mod store;

use crate::calls::Actuator;
use crate::config::{Certificates, Config};
use crate::leadership::lease::Leadership;
use crate::messages::command::{Command, Dispatch as _};
use crate::messages::report::CallError;
use crate::observability::metrics::Metrics;
use crate::speaker::notice::EventNotice;
use futures::StreamExt as _;
use giveway_crds::condition::Reason;
use giveway_crds::wording::events;
use giveway_planner::model::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use material::Authority;
use replicas::WebhookAddress;
use rotation::{Replicas, RotationPolicy, RotationStep, Seen};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use store::{AUTHORITY_SECRET, CONFIGURATION, LEAF_SECRET, ReadObjects, Store};
use tokio::sync::Notify;

/// Lifetime of an authority: ten years.
const AUTHORITY: SignedDuration = SignedDuration::from_hours(3652 * 24);
/// Lifetime of the webhook's certificate: 90 days.
const LEAF: SignedDuration = SignedDuration::from_hours(90 * 24);
/// All objects are read again after this time, whether or not a watch reported a change.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// Webhook replicas that do not serve the new certificate yet are checked again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Shortest and longest wait after a failure.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(60)];
/// Number of consecutive steps after which another writer of the same objects is suspected, and the operator backs off.
const STEPS: u32 = 12;

/// The task of the leader that renews the webhook's certificate authority and serving certificate before they expire.
pub struct CertificateRotator {
    client: Client,
    store: Store,
    policy: RotationPolicy,
    /// Namespace of the Secrets.
    namespace: String,
    webhook: WebhookAddress,
    leadership: Leadership,
    /// Publishes events.
    actuator: Actuator,
    metrics: Metrics,
    /// The replica for which the last log message said that the change of the authority is delayed.
    reported: Option<String>,
}

impl CertificateRotator {
    /// Returns a task that does nothing before [`CertificateRotator::run`] is called; `None` if the operator does not manage the
    /// certificates. `client` must not retry by itself.
    ///
    /// # Errors
    /// `--webhook-url` is not a valid URL of a webhook.
    pub fn new(
        client: Client,
        config: &Config,
        actuator: Actuator,
        leadership: Leadership,
        metrics: Metrics,
    ) -> Result<Option<Self>, String> {
        let webhook = WebhookAddress::new(&config.namespace, config.webhook_url.as_deref())?;
        if config.certificates != Certificates::Operator {
            return Ok(None);
        }
        let settle = Duration::from_secs(config.ca_settle_seconds);
        let settle = SignedDuration::try_from(settle).unwrap_or(SignedDuration::MAX);
        let policy = RotationPolicy { authority: AUTHORITY, leaf: LEAF, settle, names: vec![webhook.name()] };
        Ok(Some(Self {
            store: Store::new(client.clone(), &config.namespace, leadership.clone()),
            actuator,
            client,
            policy,
            namespace: config.namespace.clone(),
            webhook,
            leadership,
            metrics,
            reported: None,
        }))
    }

    /// Waits until this process is the leader, then renews the certificates until the process ends.
    pub async fn run(mut self) {
        self.leadership.acquired().await;
        let changed = Arc::new(Notify::new());
        let (mutating, validating) = self.store.configurations();
        let _watches = [
            notify_of_changes(mutating, CONFIGURATION, &changed),
            notify_of_changes(validating, CONFIGURATION, &changed),
            notify_of_changes(self.store.secrets(), AUTHORITY_SECRET, &changed),
            notify_of_changes(self.store.secrets(), LEAF_SECRET, &changed),
        ];
        let (mut steps, mut back_off) = (0, BACK_OFF[0]);
        loop {
            match self.step().await {
                Ok(None) if steps < STEPS => steps += 1,
                Ok(None) => {
                    tracing::warn!(steps, "certificates: another client seems to write the same objects; waiting");
                    tokio::time::sleep(back_off).await;
                    back_off = (back_off * 2).min(BACK_OFF[1]);
                    steps = 0;
                }
                Ok(Some(rest)) => {
                    // All objects are read again, whether an object changed or the time passed. If the time passed
                    // without a change, no other process writes the objects, so the count of steps starts at 0.
                    if tokio::time::timeout(rest, changed.notified()).await.is_err() {
                        (steps, back_off) = (0, BACK_OFF[0]);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "certificates: a step failed and is tried again");
                    tokio::time::sleep(back_off).await;
                    back_off = (back_off * 2).min(BACK_OFF[1]);
                }
            }
        }
    }

    /// Reads all objects and carries out the next step of a renewal, at most one write. Returns `None` if there was a step; the next one
    /// may follow at once. Otherwise returns how long to wait. The error is that of a read or of the write.
    async fn step(&mut self) -> Result<Option<Duration>, CallError> {
        let read = self.store.read().await?;
        let now = Timestamp::now();
        let mut seen = Seen {
            stored: read.stored.clone(),
            leaf: read.leaf.clone(),
            bundles: read.bundles.clone(),
            replicas: None,
        };
        let mut step = rotation::next_step(&seen, &self.policy, now);
        if step == RotationStep::Ask {
            // `rotation` returns `Ask` only if there is a current authority.
            if let Some(current) = &seen.stored.current {
                let answer = replicas::check_all(&self.client, &self.webhook, current.anchor()).await;
                seen.replicas = Some(answer.map_err(CallError::from)?);
                step = rotation::next_step(&seen, &self.policy, now);
            }
        }
        if let RotationStep::Rest { until, waiting } = step {
            self.metrics.certificates(seen.leaf.until(), seen.stored.current.as_ref().map(|a| a.anchor().validity().1));
            return Ok(Some(self.wait_until_next_step(until, waiting, now)));
        }
        self.perform(&read, &seen, &step, now).await?;
        self.report_step(&read, &seen, &step);
        Ok(None)
    }

    /// Returns how long to wait before all objects are read again: until the next step is due (`until`), but at most ten minutes; at most a
    /// second if `waiting` names a webhook replica (address and problem) that does not serve an accepted certificate yet. That replica is
    /// logged once.
    fn wait_until_next_step(&mut self, until: Option<Timestamp>, waiting: Option<String>, now: Timestamp) -> Duration {
        if let Some(replica) = &waiting
            && self.reported != waiting
        {
            tracing::info!(
                replica,
                "certificates: the old authority stays trusted until this replica can do without it"
            );
        }
        let longest = if waiting.is_some() { ASK_AGAIN } else { LOOK_AGAIN };
        self.reported = waiting;
        let due = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        // Certificates have whole seconds, so the wait ends a little after the second.
        due.map_or(longest, |due| (due + Duration::from_millis(50)).min(longest))
    }

    /// Carries out `step`, which was decided from `seen`: writes the Secret or the webhook configurations, only in the resourceVersions of
    /// `read`. Steps that write nothing do nothing. The error is that of the write.
    async fn perform(
        &self,
        read: &ReadObjects,
        seen: &Seen,
        step: &RotationStep,
        now: Timestamp,
    ) -> Result<(), CallError> {
        let failed = |why: material::Unusable| CallError::Failed(why.to_string());
        match step {
            RotationStep::Publish(bundle) => self.store.write_bundle(read, bundle).await,
            RotationStep::Issue(_) => {
                let Some(current) = &seen.stored.current else { return Ok(()) };
                let leaf = current.issue(&self.policy.names, now, self.policy.leaf).map_err(failed)?;
                self.store.write_leaf(read, leaf).await
            }
            RotationStep::Found(_) | RotationStep::Prepare(_) => {
                let made = Authority::make(now, self.policy.authority).map_err(failed)?;
                self.store.write_authorities(read, &rotation::stored_after(&seen.stored, step, Some(made), now)).await
            }
            RotationStep::Demote | RotationStep::Published | RotationStep::Retract | RotationStep::Promote => {
                self.store.write_authorities(read, &rotation::stored_after(&seen.stored, step, None, now)).await
            }
            RotationStep::Ask | RotationStep::Rest { .. } => Ok(()),
        }
    }

    /// Logs a step that was carried out, and emits an event on the Secret for steps that administrators should notice.
    fn report_step(&self, read: &ReadObjects, seen: &Seen, step: &RotationStep) {
        for complaint in
            read.complaints.iter().filter(|_| matches!(step, RotationStep::Found(_) | RotationStep::Prepare(_)))
        {
            self.publish(read, AUTHORITY_SECRET, Reason::CertificateUnusable, complaint.clone());
        }
        match step {
            RotationStep::Found(why) => {
                self.publish(read, AUTHORITY_SECRET, Reason::AuthorityCreated, events::authority_created(why));
            }
            RotationStep::Prepare(why) => {
                let note = events::next_authority_created(why, self.policy.settle.as_secs());
                self.publish(read, AUTHORITY_SECRET, Reason::AuthorityCreated, note);
            }
            RotationStep::Demote => {
                let note = events::authority_not_trusted();
                self.publish(read, AUTHORITY_SECRET, Reason::CertificateUnusable, note.to_owned());
            }
            RotationStep::Promote => {
                let note = events::authority_signs();
                self.publish(read, AUTHORITY_SECRET, Reason::AuthorityChanged, note.to_owned());
            }
            RotationStep::Issue(why) => {
                self.publish(read, LEAF_SECRET, Reason::CertificateRenewed, events::certificate_renewed(why));
            }
            RotationStep::Publish(_) if seen.replicas == Some(Replicas::Accepted) => {
                tracing::info!("certificates: API servers trust the current authority alone from now on");
            }
            RotationStep::Publish(_) => {
                tracing::info!("certificates: the authorities that API servers trust are changed")
            }
            RotationStep::Published | RotationStep::Retract | RotationStep::Ask | RotationStep::Rest { .. } => {
                tracing::debug!(?step, "certificates")
            }
        }
    }

    /// Logs `note` and publishes it as an event with this reason on the Secret named `secret`: a warning if a certificate is unusable.
    fn publish(&self, read: &ReadObjects, secret: &str, reason: Reason, note: String) {
        let warning = reason == Reason::CertificateUnusable;
        tracing::info!(warning, %reason, "certificates: {note}");
        let about = (ObjectKey::new(&self.namespace, secret), read.uid_of(secret).into());
        let notice = EventNotice::on("Secret", about, warning, reason, "Certificates", note);
        self.actuator.dispatch(Command::Publish(notice));
    }
}

/// Watches one object of `api`, that with this name, and notifies `changed` of each change, until the returned handle is dropped.
fn notify_of_changes<K>(
    api: &kube::Api<K>,
    name: &'static str,
    changed: &Arc<Notify>,
) -> tokio_util::task::AbortOnDropHandle<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let changes = watch_object(api.clone(), name).default_backoff();
    let changed = Arc::clone(changed);
    tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        let mut changes = std::pin::pin!(changes);
        while let Some(change) = changes.next().await {
            match change {
                Ok(_) => changed.notify_one(),
                Err(error) => tracing::debug!(%error, name, "certificates: a watch failed and is started again"),
            }
        }
    }))
}
