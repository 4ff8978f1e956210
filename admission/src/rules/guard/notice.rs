//! The verdict on a rejected preemption: the message for the client, and events on the victim and on possible preemptors.
//! Neither contains names from another namespace than its reader's (design, section 2).

use super::decide::{EventPod, GuardRequest, Rejection};
use crate::notice::{EventDraft, EventObject};
use crate::verdict::{Denial, Notes, Verdict, VerdictOutcome};
use giveway_crds::wording::Names;

/// Returns the admission verdict for a rejected preemption: the rejection (403), whose message has the names that readers of
/// the victim's namespace may know, and the events.
pub fn verdict(asked: &GuardRequest, rejection: &Rejection, names: Names) -> Verdict {
    let refusal = Denial { code: 403, message: names.render(&rejection.message, &asked.namespace) };
    let notes = Notes { events: events(asked, rejection, names), ..Notes::default() };
    Verdict { outcome: VerdictOutcome::Refused(refusal), notes }
}

/// Returns the events about a rejected preemption: one on the victim, and then one on each of its likely preemptors. `names`
/// decides which names of other namespaces they contain.
fn events(asked: &GuardRequest, rejection: &Rejection, names: Names) -> Vec<EventDraft> {
    let victim = &asked.victim;
    let (namespace, name, uid) = (asked.namespace.clone(), victim.name.to_string(), victim.uid.clone());
    let victim = EventPod { namespace, name, uid };
    let notice = |about: &EventPod, related: Option<&EventPod>| EventDraft {
        about: pod(about),
        related: related.filter(|related| names.known(&related.namespace, &about.namespace)).map(pod),
        reason: rejection.reason,
        action: "Refusing",
        note: names.render(&rejection.message, &about.namespace),
    };
    let mut notices = vec![notice(&victim, rejection.preemptors.first())];
    notices.extend(rejection.preemptors.iter().map(|preemptor| notice(preemptor, Some(&victim))));
    notices
}

/// Returns the pod in the form in which an event refers to its object.
fn pod(pod: &EventPod) -> EventObject {
    let EventPod { namespace, name, uid } = pod.clone();
    EventObject { api_version: "v1".to_owned(), kind: "Pod", namespace, name, uid }
}
