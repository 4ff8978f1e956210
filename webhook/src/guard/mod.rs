//! The guard over schedulers that preempt by themselves (design, section 3, rule 6).
//!
//! kube-scheduler announces a victim in `pods/status`, then deletes the pod, and asks no budget. The API server sends
//! exactly these two requests to `/guard`. They are decided by [`decide`], a pure function of the request and of the
//! [`facts`]; what is refused is [held](hold) and [told](crate::notice), and no answer is later than the request's deadline.
//!
//! A deletion that is permitted under a budget is [claimed](claim) there first, so that an allowance is spent once. Only
//! a deletion spends, and only when the API server has the announcement on the pod: whatever a review says about a pod,
//! nobody else's allowance is spent by it. An announcement is judged and spends nothing; of two victims that are
//! announced at the same time under one allowance, the second one is refused when it is to be deleted.
//!
//! A refusal is held and told only after the pod was read from the API server, too, and is the one that the review names:
//! it is judged as it is stored then. Where it cannot be read, the answer is no, at once, and names nobody. The answer goes
//! back to whoever asked, so it tells names of the victim's namespace only.
//!
//! What it cannot do: other pods of the same victim set may be gone already, and a pending pod that reaches a threshold
//! opens it for every preemptor of the same scheduler, because the requests do not say for whom they are.

pub mod claim;
pub mod decide;
pub mod facts;
pub mod hold;
mod notice;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod viewed;

use crate::admission::NotReady;
use crate::body::Body;
use crate::deadline::Deadline;
use crate::metrics::Metrics;
use crate::notice::Notice;
use crate::review::{self, Answer, Operation, Request};
use crate::verdict;
use crate::watch::SharedView;
use claim::{Claim, Ledger};
use decide::{Asked, Permit, Refusal, Step, Verdict, decide};
use facts::PodObject;
use giveway_crds::condition::Reason;
use giveway_planner::sentence::Sentence;
use hold::{Hold, Holds, Whom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// When a refusal is looked at again before it stands: the watches may be a moment behind the scheduler's.
const LOOKS: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(400), Duration::from_millis(1000)];

/// Why nothing more is said of a pod.
const UNREAD: &str = "it cannot be read from the API server: try again";
const GONE: &str = "there is none of this name and UID";

/// Why a victim stays that would be permitted to go.
enum Stays {
    /// It was judged once more.
    Judged(Box<Refusal>),
    /// It cannot be read.
    Unread,
}

impl From<Refusal> for Stays {
    fn from(refusal: Refusal) -> Self {
        Self::Judged(Box::new(refusal))
    }
}

/// Answers the requests of schedulers that preempt.
pub struct Guard<L> {
    view: Arc<SharedView>,
    ledger: Arc<L>,
    holds: Holds,
    notices: mpsc::Sender<Notice>,
    metrics: Arc<Metrics>,
    patience: Duration,
}

impl<L: Ledger> Guard<L> {
    /// A guard that waits for at most `patience` until the view is complete.
    pub fn new(
        view: Arc<SharedView>,
        ledger: L,
        holds: Holds,
        notices: mpsc::Sender<Notice>,
        metrics: Arc<Metrics>,
        patience: Duration,
    ) -> Self {
        Self { view, ledger: Arc::new(ledger), holds, notices, metrics, patience }
    }

    /// Answers a request before its deadline, a refused one slowly. Nothing of the request is kept meanwhile.
    ///
    /// # Errors
    /// The view is not complete, or the guard itself failed: the API server's failure policy decides.
    pub async fn answer(&self, body: Body, deadline: Deadline) -> Result<Answer, NotReady> {
        let (answer, held) = self.decide(body, deadline).await?;
        if let Some((hold, whom)) = held {
            hold.wait_to_the_end(&whom).await;
        }
        Ok(answer)
    }

    /// The answer, and how it is held and for whom.
    async fn decide(&self, body: Body, deadline: Deadline) -> Result<(Answer, Option<(Hold, Whom)>), NotReady> {
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
        let mut asked = match asked(&request) {
            Ok(Some(asked)) if !self.view.read().is_untouchable(&asked.namespace) => asked,
            Ok(_) => return Ok((review::encode_allowed(&request.uid), None)),
            Err(refusal) => return Ok((review::encode_refusal(&request.uid, &refusal), None)),
        };
        let (uid, dry_run) = (request.uid.to_string(), request.dry_run);
        drop(request);
        drop(body);
        let (mut verdict, mut hold) = (self.judge(&asked)?, None);
        if let Verdict::Refused(refusal) = &verdict {
            asked.victim = match self.stored(&asked, deadline).await {
                Ok(Some(pod)) => pod.bound(),
                Ok(None) => return Ok((self.refuse_nameless(&uid, refusal.reason, GONE), None)),
                Err(_) => return Ok((self.refuse_nameless(&uid, refusal.reason, UNREAD), None)),
            };
            verdict = self.judge(&asked)?;
        }
        if matches!(verdict, Verdict::Refused(_)) && !dry_run {
            hold = self.holds.begin(deadline, &asked.namespace);
        }
        if let Some(hold) = &hold {
            for look in LOOKS {
                if matches!(verdict, Verdict::Permitted(_)) || !hold.wait(look).await {
                    break;
                }
                verdict = self.judge(&asked)?;
            }
        }
        if let Verdict::Permitted(permit) = verdict {
            let spends = asked.step == Step::Deletes && !permit.budgets.is_empty() && !dry_run;
            match if spends { self.spend(&asked, &permit, deadline).await? } else { Ok(()) } {
                Ok(()) => {
                    self.metrics.guard.decided("permitted");
                    return Ok((review::encode_allowed(&uid), None));
                }
                Err(Stays::Unread) => {
                    return Ok((self.refuse_nameless(&uid, Reason::GuaranteedBudget, UNREAD), None));
                }
                Err(Stays::Judged(refusal)) => verdict = Verdict::Refused(*refusal),
            }
            hold = hold.or_else(|| self.holds.begin(deadline, &asked.namespace));
        }
        let Verdict::Refused(refusal) = verdict else { return Err(NotReady) };
        self.refused(refusal.reason);
        tracing::info!(held = hold.is_some(), message = %refusal.message, "a preemption is refused");
        let names = self.view.read().settings.names;
        if !dry_run {
            for notice in notice::of(&asked, &refusal, names) {
                // A full queue means that there are more events than anybody reads.
                let _ = self.notices.try_send(notice);
            }
        }
        let hold = hold.map(|hold| (hold, decide::whom(&self.view.read(), &asked)));
        let refusal = verdict::Refusal { code: 403, message: names.told(&refusal.message, &asked.namespace) };
        Ok((review::encode_refusal(&uid, &refusal), hold))
    }

    /// The pod as the API server has it, where it is the one that the review names.
    async fn stored(&self, asked: &Asked, deadline: Deadline) -> Result<Option<claim::Stored>, String> {
        let read = self.ledger.read(&asked.namespace, &asked.victim.name, deadline).await;
        read.map(|pod| pod.filter(|pod| pod.uid() == Some(&asked.victim.uid)))
    }

    /// A refusal that tells nobody anything.
    fn refuse_nameless(&self, uid: &str, reason: Reason, cause: &str) -> Answer {
        self.refused(reason);
        tracing::info!(cause, "a preemption is refused that is not known to be one");
        let message = format!("Preemption of the pod is refused: {cause}.");
        review::encode_refusal(uid, &verdict::Refusal { code: 403, message })
    }

    fn refused(&self, reason: Reason) {
        self.metrics.guard.decided(match reason {
            Reason::GuaranteedBudget => "guaranteed_budget",
            _ => "no_preemptor",
        });
    }

    fn judge(&self, asked: &Asked) -> Result<Verdict, NotReady> {
        catch_unwind(AssertUnwindSafe(|| decide(&self.view.read(), asked))).map_err(|_| {
            self.metrics.panics.inc();
            tracing::error!("the guard panicked; the failure policy decides");
            NotReady
        })
    }

    /// Spends what the victim's budgets allow, after a look at the pod itself: it has to be announced, and it is judged
    /// by what it is and not by what the request says of it.
    async fn spend(&self, asked: &Asked, permit: &Permit, deadline: Deadline) -> Result<Result<(), Stays>, NotReady> {
        let pod = match self.stored(asked, deadline).await {
            Ok(Some(pod)) => pod,
            // What is gone spends nothing.
            Ok(None) => return Ok(Ok(())),
            Err(error) => {
                tracing::warn!(error, "a victim cannot be read");
                return Ok(if permit.guaranteed.is_some() { Err(Stays::Unread) } else { Ok(()) });
            }
        };
        if !pod.is_announced() {
            let Some(guarantee) = &permit.guaranteed else { return Ok(Ok(())) };
            let cause = "the pod is not announced as a victim in its status";
            return Ok(Err(guarantee.refuse_because(&self.view.read(), asked, cause.into()).into()));
        }
        let victim = pod.bound();
        let asked = Asked { scheduler: pod.announced_by(), victim, ..asked.clone() };
        match self.judge(&asked)? {
            Verdict::Permitted(permit) => Ok(self.claim(&asked, &permit, deadline).await.map_err(Stays::from)),
            Verdict::Refused(refusal) => Ok(Err(refusal.into())),
        }
    }

    /// Lets every budget of the victim count it as gone. Where one that is guaranteed cannot, the others get their
    /// allowance back, and the victim stays.
    async fn claim(&self, asked: &Asked, permit: &Permit, deadline: Deadline) -> Result<(), Refusal> {
        let (namespace, victim) = (&asked.namespace, &asked.victim);
        let mut made = Vec::new();
        for budget in &permit.budgets {
            let claim = self.ledger.claim(namespace, budget, victim, permit.guaranteed.is_some(), deadline).await;
            self.metrics.guard.claimed(&claim);
            let refusal = match (&claim, &permit.guaranteed) {
                (Claim::Made, _) => {
                    made.push(budget.clone());
                    continue;
                }
                (Claim::Spent(budget), Some(guarantee)) => guarantee.refuse(&self.view.read(), asked, budget, 1),
                (Claim::Failed(error), Some(guarantee)) => {
                    let cause = format!("budget {namespace}/{budget} cannot be updated ({error})");
                    let cause = Sentence::default().detail(namespace, cause, "its budget cannot be updated");
                    guarantee.refuse_because(&self.view.read(), asked, cause)
                }
                (Claim::Failed(error), None) => {
                    tracing::warn!(namespace, budget, error, "a budget does not know yet that a pod of it goes");
                    continue;
                }
                (Claim::NotNeeded | Claim::Spent(_), _) => continue,
            };
            self.release(asked, made);
            return Err(refusal);
        }
        Ok(())
    }

    /// Takes claims back; nobody waits for it.
    fn release(&self, asked: &Asked, made: Vec<String>) {
        let (ledger, namespace, victim) = (Arc::clone(&self.ledger), asked.namespace.clone(), asked.victim.clone());
        tokio::spawn(async move {
            for budget in made {
                ledger.release(&namespace, &budget, &victim).await;
            }
        });
    }
}

/// What a request is about; `None` when the guard has nothing to say about it.
fn asked(request: &Request<'_>) -> Result<Option<Asked>, verdict::Refusal> {
    let is_pod = request.resource.group.is_empty() && &*request.resource.resource == "pods";
    let (step, announcement) = match (request.operation, request.sub_resource()) {
        (Operation::Update, "status") => (Step::Announces, request.object),
        (Operation::Delete, "") => (Step::Deletes, request.old_object),
        _ => return Ok(None),
    };
    if !is_pod {
        return Ok(None);
    }
    let victim: PodObject<true> = crate::object::read("Pod", request.old_object)?;
    let announced: PodObject<true> = crate::object::read("Pod", announcement)?;
    let namespace = request.namespace().to_owned();
    Ok(Some(Asked { step, namespace, scheduler: announced.announced_by(), victim: victim.bound() }))
}
