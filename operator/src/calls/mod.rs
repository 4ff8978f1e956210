//! Carries [`Command`]s out as API calls and reports their results.
//!
//! Every command runs in a task of its own, limited in number and in time, so that a decision never waits for a call
//! (ASYNC). Leadership is checked before every write. The client that writes does not retry by itself: a blocked
//! eviction is a 429, which the client library would retry for minutes.

mod answer;
mod background;
mod capacity;
mod event;
mod evict;
mod lane;
mod lanes;
mod limiter;
mod node;
mod object;
mod owner;
mod plan;
mod pod;
#[cfg(test)]
mod stand_in;

use crate::config::Config;
use crate::leadership::lease::Leadership;
use crate::messages::command::{Command, Dispatch, EvictOutcome};
use crate::messages::input::Input;
use crate::messages::report::{CallError, MemberCall, Report};
use crate::observability::metrics::{Metrics, catalogue};
use background::Background;
use event::Stamps;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use giveway_crds::PodGroup;
use giveway_crds::autoscaling::ProvisioningRequest;
use giveway_crds::plan::StoredPlan;
use giveway_crds::preemption::{PART_BYTES, Preemption, PreemptionStatus, parts_of};
use giveway_crds::wording::Names;
use giveway_serving::shares::Shares;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use lanes::Lanes;
use limiter::RateLimiter;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Timeout of one call. It is longer than the 10 s that the API server waits for an admission webhook by default: a call succeeds although
/// a webhook with `failurePolicy: Ignore` does not answer. It is shorter than a lease that was just renewed still lasts.
const CALL_TIMEOUT: Duration = Duration::from_secs(12);
/// Maximum number of events that wait to be written. A plan with ten thousand victims has one event for each. A tenant
/// with many pending pods can cause as many repeatedly, so events above this number are dropped.
const MOST_EVENTS: usize = 20_000;
/// Field manager of all writes (`managedFields`), and reporting controller of events.
pub const FIELD_MANAGER: &str = "giveway-operator";

/// Carries commands out. Cheap to clone.
#[derive(Clone)]
pub struct Actuator {
    client: Client,
    leadership: Leadership,
    lanes: Lanes,
    background: Background,
    /// Limits events separately, so that they delay no other background call.
    events: Background,
    /// Queue slots of events that wait to be written. One namespace gets at most half of them.
    waiting_events: Shares,
    limiter: Arc<RateLimiter>,
    stamps: Arc<Stamps>,
    metrics: Metrics,
    names: Names,
    reports: mpsc::Sender<Input>,
}

impl Actuator {
    /// Returns an actuator that sends the answers to calls to `reports`. `client` must not retry by itself.
    pub fn new(
        client: Client,
        leadership: Leadership,
        metrics: Metrics,
        config: &Config,
        reports: mpsc::Sender<Input>,
    ) -> Self {
        let background = Background::new();
        Self {
            stamps: Arc::new(Stamps::new(leadership.term())),
            client,
            leadership,
            lanes: Lanes::new(config.concurrent_calls as usize),
            events: background.events(),
            background,
            waiting_events: Shares::new(MOST_EVENTS),
            limiter: Arc::new(RateLimiter::new(config.evictions_per_second)),
            metrics,
            names: config.names(),
            reports,
        }
    }

    /// Makes one API call, with a timeout, and counts it in the metrics under the name `what`. Returns `NotLeader` without a call if this
    /// process is not the leader.
    async fn write<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, CallError>> + Send,
    ) -> Result<T, CallError> {
        let _under_way = self.leadership.writing();
        // A call must not outlive the lease: the next leader starts to act as soon as the lease has expired.
        let Some(limit) = self.leadership.remaining().map(|left| left.min(CALL_TIMEOUT)) else {
            return Err(CallError::NotLeader);
        };
        let result = match tokio::time::timeout(limit, call).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Unanswered(format!("no answer within {:.1} s", limit.as_secs_f32()))),
        };
        self.metrics.count(&catalogue::CALLS, &[what, if result.is_ok() { "ok" } else { "error" }]);
        result
    }

    /// Creates the `Preemption` objects of a plan one after the other, each with a timeout, and writes the plan's status last.
    async fn store_plan(&self, plan: &StoredPlan, status: &PreemptionStatus) -> Result<(), CallError> {
        for part in parts_of(plan, PART_BYTES) {
            self.write("store-plan", plan::create(&self.client, &part)).await?;
        }
        self.write("plan-status", plan::write_status(&self.client, &plan.id, status)).await
    }

    /// Makes the calls of a command. `event` is the event to write for [`Command::Publish`], and `None` for other commands. Returns the
    /// answer for the arbiter, if it needs one.
    async fn carry_out(&self, command: Command, event: Option<Event>) -> Option<Report> {
        let client = &self.client;
        Some(match command {
            Command::Nominate { preemptor, plan, pod, uid, node, rehearsal, .. } => {
                let what = if rehearsal { "rehearse-nomination" } else { "nominate" };
                let result = self.write(what, pod::nominate(client, &pod, &uid, node.as_deref(), rehearsal)).await;
                if node.is_none() {
                    if let Err(error) = result {
                        tracing::debug!(%pod, %error, "nomination not withdrawn");
                    }
                    return None;
                }
                Report::Member { preemptor, plan, uid, call: MemberCall::Nominate, rehearsal, result }
            }
            Command::Ungate { preemptor, plan, pod, uid, domain, rehearsal, .. } => {
                let what = if rehearsal { "rehearse-ungating" } else { "ungate" };
                let result = self.write(what, pod::ungate(client, &pod, &uid, domain.as_ref(), rehearsal)).await;
                Report::Member { preemptor, plan, uid, call: MemberCall::Ungate, rehearsal, result }
            }
            Command::Evict(call) => {
                let outcome = if call.permission.is_cancelled() {
                    EvictOutcome::Withdrawn
                } else {
                    let what = if call.rehearsal { "rehearse-eviction" } else { "evict" };
                    match self.write(what, evict::evict(client, &call, self.names)).await {
                        Ok(outcome) => outcome,
                        Err(CallError::Gone) => EvictOutcome::Gone,
                        Err(CallError::Unanswered(why)) => EvictOutcome::Unanswered(why),
                        Err(error) => EvictOutcome::Error(error.to_string()),
                    }
                };
                tracing::info!(pod = %call.pod, cause = %call.cause, ?outcome, "eviction");
                Report::Evicted { cause: call.cause, pod: call.pod, uid: call.uid, rehearsal: call.rehearsal, outcome }
            }
            Command::BackFill { pod, uid, correction } => {
                let result = self.write("back-fill", pod::back_fill(client, &pod, &uid, &correction)).await;
                Report::BackFilled { pod, uid, result }
            }
            Command::WriteGroupStatus { group, uid, from, to, .. } => {
                let write = object::write_group_status(client, &group, &uid, &from, &to);
                let result = self.write("group-status", write).await;
                Report::GroupStatus { group, status: to, result }
            }
            Command::StorePlan { plan, status, .. } => {
                let result = self.store_plan(&plan, &status).await;
                Report::Plan { plan: plan.id, status, result }
            }
            Command::WritePlan { plan, status, .. } => {
                let result = self.write("plan-status", plan::write_status(client, &plan, &status)).await;
                Report::Plan { plan, status, result }
            }
            Command::ReadOwner(owner) => {
                let result = self.write("read-owner", owner::read(client, &owner)).await;
                Report::Owner { owner, result }
            }
            Command::ReadFailures { group, controllers } => {
                let read = owner::last_failure(client, &group.namespace, &controllers);
                let result = self.write("read-failures", read).await;
                Report::Failure { group, result }
            }
            Command::Taint { node, uid, add, plan } => {
                let what = if add { "taint" } else { "untaint" };
                let result = self.write(what, node::taint(client, &node, &uid, add)).await;
                Report::Taint { node, uid, add, plan, result }
            }
            Command::ReadSchedulerLease(lease) => Report::SchedulerLease(
                self.write("read-scheduler-lease", node::lease_renewal_time(client, &lease)).await,
            ),
            Command::Publish(notice) => {
                let result = self.write("event", event::write(client, &event?)).await;
                if let Err(error) = result {
                    tracing::debug!(object = %notice.key, %error, "event not emitted");
                }
                return None;
            }
            command => {
                let (call, (what, write)) = (command.key()?, keyed(client, &command)?);
                Report::Answered { call, result: self.write(what, write).await }
            }
        })
    }
}

/// Returns the API call of a command that is answered by [`Report::Answered`], with its name in the metrics; `None` for other commands.
fn keyed<'c>(client: &'c Client, command: &'c Command) -> Option<(&'static str, BoxFuture<'c, Result<(), CallError>>)> {
    Some(match command {
        Command::WriteWorkloadStatus { workload, uid, status } => {
            ("workload-status", object::write_workload_status(client, workload, uid, status).boxed())
        }
        Command::ForgetPlan { name, uid } => {
            ("forget-plan", object::delete(Api::<Preemption>::all(client.clone()), name, uid, None).boxed())
        }
        Command::ReleaseNode { plan } => ("let-node-go", plan::release_node(client, plan).boxed()),
        Command::CreateGroup(group) => ("create-group", object::create_group(client, group).boxed()),
        Command::DeleteGroup { group, uid, version } => {
            let groups = Api::<PodGroup>::namespaced(client.clone(), &group.namespace);
            ("delete-group", object::delete(groups, &group.name, uid, Some(version)).boxed())
        }
        Command::SetMinCount { group, uid, min_count } => {
            ("min-count", owner::set_min_count(client, group, uid, *min_count).boxed())
        }
        Command::AdoptGroup { group, uid, version, owner } => {
            ("adopt-group", owner::adopt(client, group, (uid, version), owner).boxed())
        }
        Command::Protect { group, uid, protect } => ("protect", object::protect(client, group, uid, *protect).boxed()),
        Command::RequestCapacity(asked) => ("request-capacity", capacity::create_request(client, asked).boxed()),
        Command::WithdrawRequest { request, uid } => {
            // Its PodTemplates are garbage-collected with it.
            let requests = Api::<ProvisioningRequest>::namespaced(client.clone(), &request.namespace);
            ("withdraw-request", object::delete(requests, &request.name, uid, None).boxed())
        }
        Command::MakePlaceholder(placeholder) => {
            ("make-placeholder", capacity::create_placeholder(client, placeholder).boxed())
        }
        Command::RemovePlaceholder { pod, uid } => {
            let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace);
            ("remove-placeholder", object::delete(pods, &pod.name, uid, None).boxed())
        }
        _ => return None,
    })
}

impl Dispatch for Actuator {
    /// Carries a command out in a task of its own, as soon as the limits on calls permit it. The answer is sent to the arbiter.
    fn dispatch(&self, command: Command) {
        let (this, asked) = (self.clone(), Instant::now());
        let (place, event) = match &command {
            Command::Publish(notice) => match this.waiting_events.take(&notice.key.namespace) {
                // The tasks below run in any order.
                Some(place) => (Some(place), Some(this.stamps.stamp(notice, this.names, Timestamp::now()))),
                None => return tracing::debug!(object = %notice.key, "event not emitted: too many wait"),
            },
            _ => (None, None),
        };
        let queued = this.metrics.scraped.queued(command.queue(), std::time::Instant::now());
        tokio::spawn(async move {
            let _place = place;
            let background = command.in_background();
            let turns = if matches!(command, Command::Publish(_)) { &this.events } else { &this.background };
            let _turn = if background { Some(turns.turn(command.priority(), asked).await) } else { None };
            let _permit = match &command {
                Command::Evict(call) => tokio::select! {
                    turn = this.lanes.turn(&command) => Some(turn),
                    // The outcome `Withdrawn` is reported at once, without waiting for a turn.
                    () = call.permission.cancelled() => None,
                },
                _ => Some(this.lanes.turn(&command).await),
            };
            if let Command::Evict(call) = &command
                && !call.rehearsal
            {
                this.limiter.acquire(call.priority, &call.permission).await;
            }
            if !background {
                this.background.note_foreground_call().await;
            }
            drop(queued);
            if let Some(report) = this.carry_out(command, event).await {
                drop(this.reports.send(Input::Report(report)).await);
            }
        });
    }
}
