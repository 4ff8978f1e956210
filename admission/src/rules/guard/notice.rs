//! The verdict on a rejected preemption: the message for the client, and events on the victim and on possible preemptors.
//! Neither contains names from another namespace than its reader's (design, section 2).

use super::decide::{Asked, Preemptor, Rejection};
use crate::notice::{Notice, Object};
use crate::verdict::{Notes, Outcome, Refusal, Verdict};
use giveway_planner::sentence::Names;

/// Returns the verdict on a rejected preemption. Its client may read the victim's namespace.
pub fn verdict(asked: &Asked, rejection: &Rejection, names: Names) -> Verdict {
    let refusal = Refusal { code: 403, message: names.render(&rejection.message, &asked.namespace) };
    let notes = Notes { events: events(asked, rejection, names), ..Notes::default() };
    Verdict { outcome: Outcome::Refused(refusal), notes }
}

/// Returns the events of one rejection: the victim's first.
fn events(asked: &Asked, rejection: &Rejection, names: Names) -> Vec<Notice> {
    let victim = &asked.victim;
    let (namespace, name, uid) = (asked.namespace.clone(), victim.name.clone(), victim.uid.clone());
    let victim = Preemptor { namespace, name, uid };
    let notice = |about: &Preemptor, related: Option<&Preemptor>| Notice {
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

fn pod(pod: &Preemptor) -> Object {
    let Preemptor { namespace, name, uid } = pod.clone();
    Object { api_version: "v1".to_owned(), kind: "Pod", namespace, name, uid }
}
