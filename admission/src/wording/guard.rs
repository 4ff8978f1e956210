//! Why the guard rejects a preemption. A sentence contains names only for readers who may know them: those of the victim's namespace,
//! or of the preemptor's.
//!
//! The sentence for the client and for events is [`refused`], with one of the causes after it. A cause has no full stop.

use crate::verdict::Denial;
use giveway_crds::wording::Sentence;
use giveway_crds::wording::{counted, pods};
use giveway_planner::model::ObjectKey;

/// Part of a cause of a rejected preemption: the API server did not answer a call of the guard.
pub const NO_ANSWER: &str = "the API server did not answer in time";

/// A pod, with the priority that counts for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedPod {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// The priority.
    pub priority: i32,
}

impl RankedPod {
    /// Returns the beginning of a sentence: this text, followed by the pod.
    fn after(&self, text: &str) -> Sentence {
        Sentence::from(text).object("pod", &self.key, &self.uid)
    }
}

/// Returns the message of a rejected preemption: the victim with its priority, and the cause, one of the clauses below.
pub fn refused(victim: &RankedPod, cause: Sentence) -> Sentence {
    let sentence = victim.after("Preemption of ").text(format!(" (priority {}) is refused: ", victim.priority));
    sentence.then(cause).text(".")
}

/// Cause of a rejected preemption, a clause: no pending pod that may preempt has a priority above `priority`, that of the victim. `highest`
/// is one whose own priority is above it, with the lower one that counts for the pod because of its PodGroup.
pub fn no_preemptor(priority: i32, highest: Option<&RankedPod>) -> Sentence {
    let highest = highest.map_or_else(Sentence::default, |pod| {
        pod.after("; the highest, ").text(format!(", has effective priority {}, that of its pod group", pod.priority))
    });
    Sentence::from(format!("no pending pod that may preempt has a priority above {priority}")).then(highest)
}

/// Cause of a rejected preemption, a clause: a guaranteed budget allows fewer disruptions than the preemption causes, and no pending pod
/// reaches the threshold. `budget` is its namespace and name, `allowed` the number that it still allows. `group` is the PodGroup of the
/// victim, if more than one pod of it is disrupted together with the victim and counts for the budget, with the number of these pods.
pub fn budget_spent(
    namespace: &str,
    budget: &str,
    allowed: usize,
    threshold: i32,
    group: Option<(&str, usize)>,
    highest: &RankedPod,
) -> Sentence {
    let allowed = counted(allowed, "more disruption", "more disruptions");
    let cause = Sentence::default().detail(namespace, format!("budget {budget}"), "its budget");
    let cause = cause.text(format!(" allows {allowed} to preemptors below {threshold}"));
    let cause = match group {
        Some((group, needed)) => {
            let whole =
                |group: &str| format!("; the budget selects {} of {group}, which is evicted as a whole", pods(needed));
            cause.detail(
                namespace,
                whole(&format!("pod group {namespace}/{group}")),
                whole("the pod group of the victim"),
            )
        }
        None => cause,
    };
    let highest_is = highest.after("; the highest pending preemptor is ");
    cause.then(highest_is).text(format!(" with priority {}", highest.priority))
}

/// Cause of a rejected preemption, a clause: so many budgets, and so many pods of one PodGroup (`unit`), have to be compared that the
/// answer would be late.
pub fn too_many_budgets_to_compare(budgets: usize, unit: usize) -> Sentence {
    let budgets = counted(budgets, "budget", "budgets");
    Sentence::from(format!(
        "the webhook cannot check {budgets} for {} in time: delete budgets of the namespace that are not needed",
        pods(unit)
    ))
}

/// Cause of a rejected preemption, a clause: more than `most` budgets select the victim, and the guard does not update more for one
/// deletion.
pub fn too_many_budgets_to_update(most: usize) -> Sentence {
    let more = counted(most, "budget selects", "budgets select");
    Sentence::from(format!("more than {more} it, which is too many to update in time: delete all but one of them"))
}

/// Cause of a rejected preemption, a clause: the deletion of a pod with a guaranteed budget is requested, and kube-scheduler has not
/// announced it in the pod's status.
pub fn not_announced() -> Sentence {
    "kube-scheduler has not set the condition DisruptionTarget (reason PreemptionByScheduler) on the pod; nothing needs to be done, \
     because kube-scheduler sets it before its next attempt"
        .into()
}

/// Cause of a rejected preemption, a clause: a guaranteed budget could not be made to count the victim as disrupted.
pub fn budget_not_updated(namespace: &str, budget: &str, error: &str) -> Sentence {
    let cause = format!("budget {namespace}/{budget} cannot be updated ({error})");
    Sentence::default().detail(namespace, cause, "its budget cannot be updated")
}

/// Part of a cause of a rejected preemption: the budget changed at each attempt to update it.
pub fn changed_in_between(attempts: usize) -> String {
    format!("it changed {} between read and write", counted(attempts, "time", "times"))
}

/// Rejection (403) of a preemption, without names: the API server has no pod with the name and the UID in the review.
pub fn unknown_pod() -> Denial {
    nameless("no pod with this name and UID exists")
}

/// Rejection (403) of a preemption, without names: the pod cannot be read from the API server.
pub fn unread_pod() -> Denial {
    nameless("the webhook cannot read the pod from the API server: try again")
}

/// Returns the rejection (403) of a preemption for `cause`, a clause that contains no names.
fn nameless(cause: &str) -> Denial {
    Denial { code: 403, message: format!("Preemption of the pod is refused: {cause}.") }
}
