//! Leader election by a `Lease`.
//!
//! The published lease crates return which process is the leader, but not until when that process may rely on it: while
//! the API server is unreachable, they continue to return "leader". Giveway evicts pods, so every write checks
//! [`Leadership`], which has a deadline on the monotonic clock: the start of the last successful renewal plus the lease
//! duration.
//!
//! Guarantee: a leader that cannot renew stops writing before another replica can acquire the lease, provided that all
//! clocks run at the same rate. Wall clocks are never compared.
//!
//! A process that has not listed the cluster yet leaves a free lease to one that has, for [`HEAD_START`]: of two replicas, one of
//! which has just been started, the other one can decide at once.

use crate::leadership::liveness::{Liveness, WriteInFlight};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long the shutdown waits for writes that are in flight.
const LAST_WRITES: Duration = Duration::from_secs(2);
/// The longest interval at which a standby reads the lease, so that it leads within a second after an orderly hand-over.
const STANDBY: Duration = Duration::from_millis(500);
/// For how long a process that has not listed the cluster leaves a free lease to another one.
const HEAD_START: Duration = Duration::from_secs(2);

/// Options of the leader election.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Name of the Lease.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Identity of this process, unique among the replicas.
    pub identity: String,
    /// How long a lease is valid without renewal.
    pub duration: Duration,
}

/// Whether this process is the leader now. Cheap to clone and to check.
#[derive(Clone, Debug)]
pub struct Leadership {
    deadline: Arc<Mutex<Option<Instant>>>,
    changed: watch::Receiver<bool>,
    identity: Arc<str>,
    writes: TaskTracker,
    liveness: Liveness,
}

/// A write that may not have its response yet: the lease is not released before the value is dropped.
#[derive(Debug)]
pub struct WritePermit {
    _before_release: TaskTrackerToken,
    _in_flight: WriteInFlight,
}

impl Leadership {
    /// Returns the leadership of the process with this identity. It may write until the time in `deadline`, which the election sets
    /// (`None`: it is not the leader). `changed` is true while it is the leader.
    pub fn new(identity: &str, deadline: Arc<Mutex<Option<Instant>>>, changed: watch::Receiver<bool>) -> Self {
        let liveness = Liveness::new(Instant::now());
        Self { deadline, changed, identity: Arc::from(identity), writes: TaskTracker::new(), liveness }
    }

    /// Returns true if this process is the leader now, so that it may write.
    pub fn holds(&self) -> bool {
        self.remaining().is_some()
    }

    /// Returns for how long writes are allowed from now on, or `None` if they are not allowed. A renewal extends the
    /// time.
    pub fn remaining(&self) -> Option<Duration> {
        let deadline = self.deadline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        deadline.and_then(|d| d.checked_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Returns a permit for one write, by which the lease is not released before the write has its response. The caller gets it before it
    /// calls [`Leadership::remaining`], and drops it after the response.
    pub fn writing(&self) -> WritePermit {
        WritePermit { _before_release: self.writes.token(), _in_flight: self.liveness.write_begins(Instant::now()) }
    }

    /// Returns the record of this process's progress, by which a stuck process is recognized.
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Returns the identity of this process in the election, which differs at every start. Stored plans contain it as the term of the
    /// leader that made them.
    pub fn term(&self) -> &str {
        &self.identity
    }

    /// Waits until this process is the leader. If the election ends before that, it waits for ever.
    pub async fn acquired(&mut self) {
        if self.changed.wait_for(|leads| *leads).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How the leader election ended.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another replica holds the lease that this process held, or it could not be renewed in time.
    #[error("the lease {0} was lost: {1}")]
    Lost(String, String),
}

/// Runs the leader election until `stop` is cancelled, which releases the lease, or until the lease is lost.
pub struct Election {
    api: Api<Lease>,
    options: LeaseOptions,
    deadline: Arc<Mutex<Option<Instant>>>,
    leads: watch::Sender<bool>,
    writes: TaskTracker,
    /// True while this process has listed the cluster.
    synced: watch::Receiver<bool>,
}

/// What a process that does not lead has observed of the lease.
#[derive(Default)]
struct ObservedLease {
    /// The holder, its last renewal, and when that was first observed.
    renewal: Option<(Option<String>, Option<String>, Instant)>,
    /// Since when the lease has been free.
    free: Option<Instant>,
}

impl ObservedLease {
    /// Records that another process holds the lease: its identity, and `at`, the `renewTime` of the Lease. Returns for how long the same
    /// holder and time have been observed; zero if they are new.
    fn observe_renewal(&mut self, holder: Option<String>, at: Option<String>, now: Instant) -> Duration {
        let since = match &self.renewal {
            Some((known, renewed, since)) if *known == holder && *renewed == at => *since,
            _ => now,
        };
        self.renewal = Some((holder, at, since));
        now.duration_since(since)
    }

    /// Returns true if this process may acquire the lease, which is free: it has listed the cluster (`is_synced`), or the lease has been
    /// free for [`HEAD_START`] since the first such call.
    fn may_acquire(&mut self, is_synced: bool, now: Instant) -> bool {
        let since = *self.free.get_or_insert(now);
        is_synced || now.duration_since(since) >= HEAD_START
    }
}

impl Election {
    /// Returns an election that does nothing before [`Election::run`] is called, and the leadership that it updates. `synced` is true while
    /// this process has listed the cluster.
    pub fn new(client: kube::Client, options: LeaseOptions, synced: watch::Receiver<bool>) -> (Self, Leadership) {
        let deadline = Arc::new(Mutex::new(None));
        let (leads, changed) = watch::channel(false);
        let leadership = Leadership::new(&options.identity, deadline.clone(), changed);
        let writes = leadership.writes.clone();
        let api = Api::namespaced(client, &options.namespace);
        (Self { api, options, deadline, leads, writes, synced }, leadership)
    }

    /// Sets until when this process leads, for [`Leadership`]; `None` if it does not lead.
    fn set_deadline(&self, deadline: Option<Instant>) {
        *self.deadline.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = deadline;
        self.leads.send_replace(deadline.is_some());
    }

    /// Acquires the lease and renews it until `stop` is cancelled, then releases it. The error says that the lease was lost; the process
    /// must end then.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), LeaseError> {
        let interval = self.options.duration / 5;
        let mut observed = ObservedLease::default();
        let mut leads_until: Option<Instant> = None;
        loop {
            let started = Instant::now();
            let attempt = tokio::select! {
                () = stop.cancelled() => break,
                attempt = tokio::time::timeout(self.options.duration / 3, self.attempt(&mut observed)) => attempt,
            };
            match attempt {
                Ok(Ok(LeaseAttempt::Held)) => {
                    let until = started + self.options.duration;
                    leads_until = Some(until);
                    self.set_deadline(Some(until));
                }
                Ok(Ok(LeaseAttempt::OfAnother)) if leads_until.is_some() => {
                    self.set_deadline(None);
                    return Err(LeaseError::Lost(self.options.name.clone(), "another instance holds it".into()));
                }
                Ok(Ok(LeaseAttempt::OfAnother | LeaseAttempt::NotAcquired)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be read or written"),
                Err(_) => tracing::warn!("the lease could not be read or written in time"),
            }
            if leads_until.is_some_and(|until| Instant::now() >= until) {
                self.set_deadline(None);
                return Err(LeaseError::Lost(self.options.name.clone(), "it could not be renewed in time".into()));
            }
            let leads = leads_until.is_some();
            let (pause, is_synced) = (if leads { interval } else { interval.min(STANDBY) }, *self.synced.borrow());
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                Ok(()) = self.synced.changed(), if !leads && !is_synced => {}
            }
        }
        if leads_until.is_some() {
            self.set_deadline(None);
            // Writes that are in flight belong to this term, so no other replica may become the leader before they have
            // their responses.
            self.writes.close();
            if tokio::time::timeout(LAST_WRITES, self.writes.wait()).await.is_err() {
                tracing::warn!("writes are not answered; the lease expires by itself");
                return Ok(());
            }
            if let Ok(Err(error)) = tokio::time::timeout(Duration::from_millis(700), self.release()).await {
                tracing::warn!(%error, "the lease could not be released; it expires by itself");
            }
        }
        Ok(())
    }

    /// Makes one attempt to hold the lease: acquires a free one, renews its own, or records in `observed` that another replica holds it.
    /// The error is that of reading or writing the Lease.
    async fn attempt(&self, observed: &mut ObservedLease) -> Result<LeaseAttempt, kube::Error> {
        let is_synced = *self.synced.borrow();
        let Some(mut lease) = self.api.get_opt(&self.options.name).await? else {
            if !observed.may_acquire(is_synced, Instant::now()) {
                return Ok(LeaseAttempt::NotAcquired);
            }
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.options.name.clone()), ..ObjectMeta::default() },
                spec: Some(self.spec(None)),
            };
            return attempt_of(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().filter(|h| !h.is_empty());
        let ours = holder.as_deref() == Some(self.options.identity.as_str());
        if !ours && holder.is_some() {
            let renewed = spec.renew_time.as_ref().map(|t| t.0.to_string());
            let known_for = observed.observe_renewal(holder, renewed, Instant::now());
            let valid = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15));
            if known_for < valid {
                observed.free = None;
                return Ok(LeaseAttempt::OfAnother);
            }
        }
        if !ours && !observed.may_acquire(is_synced, Instant::now()) {
            return Ok(LeaseAttempt::NotAcquired);
        }
        lease.spec = Some(self.spec(Some(&spec)));
        attempt_of(self.api.replace(&self.options.name, &PostParams::default(), &lease).await)
    }

    /// Returns the spec of a Lease that this process acquires or renews now. `old` is the spec that it replaces; `None` if the Lease does
    /// not exist.
    fn spec(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = old.is_some_and(|o| o.holder_identity.as_deref() == Some(self.options.identity.as_str()));
        let transitions = old.and_then(|o| o.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.options.duration.as_secs().max(1)).unwrap_or(15)),
            acquire_time: if ours { old.and_then(|o| o.acquire_time.clone()) } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(if ours || old.is_none() { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }

    /// Empties the holder of the Lease if this process holds it, so that another replica can become the leader at once.
    async fn release(&self) -> Result<(), kube::Error> {
        let mut lease = self.api.get(&self.options.name).await?;
        let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
        if spec.holder_identity.as_deref() != Some(self.options.identity.as_str()) {
            return Ok(());
        }
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        self.api.replace(&self.options.name, &PostParams::default(), &lease).await.map(|_| ())
    }
}

/// The result of an attempt.
enum LeaseAttempt {
    /// This process holds the lease.
    Held,
    /// Another replica holds the lease.
    OfAnother,
    /// The lease is free and is left to another replica for a moment, or was changed in between: the next attempt shows its current holder.
    NotAcquired,
}

/// Converts the answer to a write of the Lease: `Held` if it succeeded, `NotAcquired` for a conflict or "already exists", because another
/// replica was faster. All other errors are returned.
fn attempt_of(result: Result<Lease, kube::Error>) -> Result<LeaseAttempt, kube::Error> {
    match result {
        Ok(_) => Ok(LeaseAttempt::Held),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(LeaseAttempt::NotAcquired),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_not_listed_the_cluster_leaves_a_free_lease_to_another_one_for_two_seconds() {
        let (mut observed, start) = (ObservedLease::default(), Instant::now());
        assert!(!observed.may_acquire(false, start));
        assert!(!observed.may_acquire(false, start + HEAD_START / 2));
        assert!(observed.may_acquire(true, start + HEAD_START / 2), "it has already listed the cluster");
        assert!(observed.may_acquire(false, start + HEAD_START), "no other process acquired it");
        observed.free = None;
        assert!(!observed.may_acquire(false, start + 2 * HEAD_START), "another process held it in between");
    }

    #[test]
    fn a_lease_expires_when_no_renewal_was_observed_for_its_duration() {
        let (mut observed, start) = (ObservedLease::default(), Instant::now());
        let second = |second| start + Duration::from_secs(second);
        let mut known =
            |renewal: &str, at: u64| observed.observe_renewal(Some("a".into()), Some(renewal.into()), second(at));
        assert_eq!(known("1", 0), Duration::ZERO);
        assert_eq!(known("1", 14), Duration::from_secs(14));
        assert_eq!(known("2", 15), Duration::ZERO, "it was renewed");
        assert_eq!(known("2", 20), Duration::from_secs(5));
    }
}
