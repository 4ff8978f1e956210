//! The guard over schedulers that preempt by themselves (design, section 3, rule 6).
//!
//! kube-scheduler announces a victim in `pods/status`, then deletes the pod, and checks no PodDisruptionBudget. The API
//! server sends exactly these two requests to `/guard`. They are decided by [`decide`](decide()), a pure function of the
//! request and of the [view](crate::view). A rejection is [delayed](delay) and [reported as an event](crate::notice). Every
//! response is sent before the request's deadline.
//!
//! A deletion that is permitted under a budget is first [claimed](claim) from the budget, so that each allowed
//! disruption is used once. Only a deletion uses one, and only if the pod's stored status has the announcement: a
//! forged review cannot use up the disruptions of another pod. An announcement is judged and uses none; if two victims
//! are announced at the same time and one disruption is allowed, the second deletion is rejected.
//!
//! A permitted deletion of a pod of a PodGroup in mode `PodGroup` is marked in the status of the PodGroup, so that the
//! operator evicts its other pods also if it was not running at the time.
//!
//! Before a rejection is delayed and reported, the guard reads the pod from the API server, checks that it has the UID
//! in the review, and judges the stored pod. If the pod cannot be read, the request is rejected at once without names.
//! The client gets the response, so it contains only names from the victim's namespace.
//!
//! Limits: other pods of the same victim set may have terminated already. A pending pod that reaches a threshold
//! permits the preemption for every preemptor of the same scheduler, because the requests do not name the preemptor.

pub mod claim;
#[cfg(test)]
mod decide_tests;
pub mod delay;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use crate::admission::NotReady;
use crate::deadline::Deadline;
use crate::metrics::Metrics;
use crate::review::{self, ReviewResponse};
use crate::watch::SharedView;
use bytes::Bytes;
use claim::{Ledger, LedgerAnswer};
use delay::{RejectionDelay, RejectionDelays};
use giveway_admission::notice::EventDraft;
use giveway_admission::rules::guard::decide::{
    self, GuardDecision, GuardRequest, GuardStep, Permit, PossiblePreemptors, Rejection, decide,
};
use giveway_admission::rules::guard::notice;
use giveway_admission::verdict::Denial;
use giveway_admission::view::ClusterView;
use giveway_admission::wording::guard as wording;
use giveway_crds::condition::Reason;
use giveway_crds::native::is_native;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Delays after which a rejection is judged again before it is final: the watch caches may lag behind the scheduler's.
const LOOKS: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(400), Duration::from_millis(1000)];

/// Why a preemption is rejected that the first judgement permitted.
enum Denied {
    /// The stored pod was judged, and its preemption is rejected.
    Judged(Box<Rejection>),
    /// The pod cannot be read from the API server.
    Unread,
}

impl From<Rejection> for Denied {
    fn from(rejection: Rejection) -> Self {
        Self::Judged(Box::new(rejection))
    }
}

/// Answers the admission requests of schedulers that preempt.
pub struct Guard<L> {
    view: Arc<SharedView>,
    ledger: Arc<L>,
    delays: RejectionDelays,
    notices: mpsc::Sender<EventDraft>,
    metrics: Arc<Metrics>,
    patience: Duration,
}

impl<L: Ledger> Guard<L> {
    /// Creates a guard that decides with the objects in `view`, reads and writes through `ledger`, and sends events to
    /// `notices`. A request waits at most `patience` until the view is complete.
    pub fn new(
        view: Arc<SharedView>,
        ledger: L,
        delays: RejectionDelays,
        notices: mpsc::Sender<EventDraft>,
        metrics: Arc<Metrics>,
        patience: Duration,
    ) -> Self {
        Self { view, ledger: Arc::new(ledger), delays, notices, metrics, patience }
    }

    /// Decides about the preemption in the AdmissionReview `body` and returns the response, before the deadline. A rejection is
    /// delayed, and the memory of the body is freed before that.
    ///
    /// # Errors
    /// The view is not complete, or the guard itself failed: the failure policy of its webhook configuration decides.
    pub async fn answer(&self, body: Bytes, deadline: Deadline) -> Result<ReviewResponse, NotReady> {
        let (answer, delay) = self.decide(body, deadline).await?;
        if let Some((delay, preemptors)) = delay {
            delay.wait_to_the_end(&preemptors).await;
        }
        Ok(answer)
    }

    /// Decides about the preemption in the AdmissionReview `body`. Returns the response and, for a rejection that is to be sent later, its
    /// delay and the possible preemptors.
    ///
    /// # Errors
    /// See [`Guard::answer`].
    async fn decide(
        &self,
        body: Bytes,
        deadline: Deadline,
    ) -> Result<(ReviewResponse, Option<(RejectionDelay, PossiblePreemptors)>), NotReady> {
        let request = match review::decode(&body) {
            Ok(request) => request,
            Err(undecodable) => {
                self.metrics.undecodable.inc();
                return Ok((review::encode_refusal(&undecodable.uid, &undecodable.refusal), None));
            }
        };
        let patience = deadline.or_earlier(Instant::now() + self.patience);
        if patience.limit(self.view.guard_synced()).await.is_none() {
            self.metrics.guard.decided("not_ready");
            return Err(NotReady);
        }
        let mut asked = match GuardRequest::of(&request) {
            Ok(Some(asked)) if !self.view.read().is_untouchable(&asked.namespace) => asked,
            Ok(_) => return Ok((review::encode_allowed(&request.uid), None)),
            Err(refusal) => return Ok((review::encode_refusal(&request.uid, &refusal), None)),
        };
        let (uid, dry_run) = (request.uid.to_string(), request.dry_run);
        drop(request);
        drop(body);
        let (mut decision, mut delay) = (self.judge(&asked)?, None);
        if let GuardDecision::Rejected(rejection) = &decision {
            asked.victim = match self.stored(&asked, deadline).await {
                Ok(Some(pod)) => pod.victim(),
                Ok(None) => return Ok((self.refuse_nameless(&uid, rejection.reason, &wording::unknown_pod()), None)),
                Err(_) => return Ok((self.refuse_nameless(&uid, rejection.reason, &wording::unread_pod()), None)),
            };
            decision = self.judge(&asked)?;
        }
        if matches!(decision, GuardDecision::Rejected(_)) && !dry_run {
            delay = self.delays.begin(deadline, &asked.namespace);
        }
        if let Some(delay) = &delay {
            for look in LOOKS {
                if matches!(decision, GuardDecision::Permitted(_)) || !delay.wait(look).await {
                    break;
                }
                decision = self.judge(&asked)?;
            }
        }
        if let GuardDecision::Permitted(permit) = decision {
            let writes = !permit.budgets.is_empty() || self.marked_group(&asked).is_some();
            let writes = writes && asked.step == GuardStep::Deletes && !dry_run;
            match if writes { self.record(&asked, &permit, deadline).await? } else { Ok(()) } {
                Ok(()) => {
                    self.metrics.guard.decided("permitted");
                    return Ok((review::encode_allowed(&uid), None));
                }
                Err(Denied::Unread) => {
                    let refusal = wording::unread_pod();
                    return Ok((self.refuse_nameless(&uid, Reason::GuaranteedBudget, &refusal), None));
                }
                Err(Denied::Judged(rejection)) => decision = GuardDecision::Rejected(*rejection),
            }
            delay = delay.or_else(|| self.delays.begin(deadline, &asked.namespace));
        }
        let GuardDecision::Rejected(rejection) = decision else { return Err(NotReady) };
        self.count_rejection(rejection.reason);
        tracing::info!(delayed = delay.is_some(), message = %rejection.message, "a preemption is rejected");
        let mut verdict = notice::verdict(&asked, &rejection, self.view.read().settings.names);
        let events = std::mem::take(&mut verdict.notes.events);
        for event in events.into_iter().filter(|_| !dry_run) {
            // A full queue means that there are more events than anyone reads.
            let _ = self.notices.try_send(event);
        }
        let delay = delay.map(|delay| (delay, decide::possible_preemptors(&*self.view.read(), &asked)));
        Ok((review::encode(&uid, &verdict), delay))
    }

    /// Reads the victim from the API server; `None` if no pod has its name and UID. It is an error if the pod cannot be read.
    async fn stored(&self, asked: &GuardRequest, deadline: Deadline) -> Result<Option<claim::Stored>, String> {
        let read = self.ledger.read(&asked.namespace, &asked.victim.name, deadline).await;
        read.map(|pod| pod.filter(|pod| pod.uid() == Some(&asked.victim.uid)))
    }

    /// Returns the response that rejects the preemption in the AdmissionReview with this `uid`, and counts it under `reason`. The message
    /// of `refusal` contains no names, because the client may not be an API server.
    fn refuse_nameless(&self, uid: &str, reason: Reason, refusal: &Denial) -> ReviewResponse {
        self.count_rejection(reason);
        tracing::info!(message = refusal.message, "a preemption of an unknown pod is rejected");
        review::encode_refusal(uid, refusal)
    }

    /// Counts a rejected preemption in the metrics, by its reason.
    fn count_rejection(&self, reason: Reason) {
        self.metrics.guard.decided(match reason {
            Reason::GuaranteedBudget => "guaranteed_budget",
            _ => "no_preemptor",
        });
    }

    /// Decides about a preemption with the objects of the view. It is an error if that panics: then the failure policy of the guard's
    /// webhook configuration decides.
    fn judge(&self, asked: &GuardRequest) -> Result<GuardDecision, NotReady> {
        catch_unwind(AssertUnwindSafe(|| decide(&*self.view.read(), asked))).map_err(|_| {
            self.metrics.panics.inc();
            tracing::error!("the guard panicked; the failure policy decides");
            NotReady
        })
    }

    /// Stores the effects of a permitted deletion: reads the stored pod and decides about it once more, makes the victim's
    /// budgets count it as disrupted, and marks it in the status of its PodGroup. If the stored pod is not announced as a victim,
    /// nothing is written. Returns `Ok(Err(..))` if the deletion must be rejected after all.
    ///
    /// # Errors
    /// The guard panicked.
    async fn record(
        &self,
        asked: &GuardRequest,
        permit: &Permit,
        deadline: Deadline,
    ) -> Result<Result<(), Denied>, NotReady> {
        let guaranteed = permit.guaranteed.as_ref().filter(|_| !permit.budgets.is_empty());
        let pod = match self.stored(asked, deadline).await {
            Ok(Some(pod)) => pod,
            // A deleted pod uses no disruption.
            Ok(None) => return Ok(Ok(())),
            Err(error) => {
                tracing::warn!(error, "a victim cannot be read");
                return Ok(if guaranteed.is_some() { Err(Denied::Unread) } else { Ok(()) });
            }
        };
        if !pod.is_announced() {
            let Some(guarantee) = guaranteed else { return Ok(Ok(())) };
            let cause = wording::not_announced();
            return Ok(Err(guarantee.refuse_because(&*self.view.read(), asked, cause).into()));
        }
        let victim = pod.victim();
        let asked = GuardRequest { scheduler: pod.announced_by(), victim, ..asked.clone() };
        match self.judge(&asked)? {
            GuardDecision::Permitted(permit) => {
                if let Err(rejection) = self.claim(&asked, &permit, deadline).await {
                    return Ok(Err(rejection.into()));
                }
                self.mark(&asked, deadline).await;
                Ok(Ok(()))
            }
            GuardDecision::Rejected(rejection) => Ok(Err(rejection.into())),
        }
    }

    /// Returns the name of the victim's PodGroup if it is one of Giveway in mode `PodGroup`, whose other pods the operator evicts
    /// after the preemption of one. `None` otherwise, and for a victim that is already terminating.
    fn marked_group<'a>(&self, asked: &'a GuardRequest) -> Option<&'a str> {
        let group = asked.victim.group.as_deref().filter(|group| !asked.victim.deleting && !is_native(group))?;
        self.view.read().group(&asked.namespace, group).filter(|group| group.whole).map(|_| group)
    }

    /// Writes into the status of the victim's PodGroup, if that has mode `PodGroup`, that the victim is preempted, so that the
    /// operator evicts the other pods also if it is not running now. A failure is counted and logged, and the deletion is
    /// permitted nevertheless: a running operator sees the announcement in the pod itself.
    async fn mark(&self, asked: &GuardRequest, deadline: Deadline) {
        let Some(group) = self.marked_group(asked) else { return };
        let written = self.ledger.mark(&asked.namespace, group, &asked.victim, deadline).await;
        self.metrics.guard.marked(written.is_ok());
        if let Err(error) = written {
            let (namespace, pod) = (&asked.namespace, &*asked.victim.name);
            tracing::warn!(namespace, group, pod, error, "a preempted pod is not marked in the status of its PodGroup");
        }
    }

    /// Makes every budget in `permit` count the victim as disrupted. If a guaranteed budget cannot, the other budgets are
    /// changed back, and the rejection of the preemption is returned as the error.
    async fn claim(&self, asked: &GuardRequest, permit: &Permit, deadline: Deadline) -> Result<(), Rejection> {
        let (namespace, victim) = (&asked.namespace, &asked.victim);
        let mut made = Vec::new();
        for budget in &permit.budgets {
            let claim = self.ledger.claim(namespace, budget, victim, permit.guaranteed.is_some(), deadline).await;
            self.metrics.guard.claimed(claim.as_str());
            let rejection = match (&claim, &permit.guaranteed) {
                (LedgerAnswer::Made, _) => {
                    made.push(budget.clone());
                    continue;
                }
                (LedgerAnswer::Spent(budget), Some(guarantee)) => {
                    guarantee.refuse(&*self.view.read(), asked, budget, 1)
                }
                (LedgerAnswer::Failed(error), Some(guarantee)) => {
                    let cause = wording::budget_not_updated(namespace, budget, error);
                    guarantee.refuse_because(&*self.view.read(), asked, cause)
                }
                (LedgerAnswer::Failed(error), None) => {
                    tracing::warn!(
                        namespace,
                        budget,
                        error,
                        "a preempted pod is not counted in the status of its budget"
                    );
                    continue;
                }
                (LedgerAnswer::NotNeeded | LedgerAnswer::Spent(_), _) => continue,
            };
            self.release(asked, made);
            return Err(rejection);
        }
        Ok(())
    }

    /// Makes the budgets named in `made` no longer count the victim as disrupted, in the background, because another budget rejected the
    /// preemption.
    fn release(&self, asked: &GuardRequest, made: Vec<String>) {
        let (ledger, namespace, victim) = (Arc::clone(&self.ledger), asked.namespace.clone(), asked.victim.clone());
        tokio::spawn(async move {
            for budget in made {
                ledger.release(&namespace, &budget, &victim).await;
            }
        });
    }
}
