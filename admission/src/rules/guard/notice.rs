//! Events about rejected preemptions, on the victim and on possible preemptors. Events in one namespace contain no
//! names from another (design, section 2).

use super::decide::{Asked, Preemptor, Refusal};
use crate::notice::{Notice, Object};
use giveway_planner::sentence::Names;

/// Returns the events of one rejection: the victim's first.
pub fn of(asked: &Asked, refusal: &Refusal, names: Names) -> Vec<Notice> {
    let victim = &asked.victim;
    let (namespace, name, uid) = (asked.namespace.clone(), victim.name.clone(), victim.uid.clone());
    let victim = Preemptor { namespace, name, uid };
    let notice = |about: &Preemptor, related: Option<&Preemptor>| Notice {
        about: pod(about),
        related: related.filter(|related| names.known(&related.namespace, &about.namespace)).map(pod),
        reason: refusal.reason,
        action: "Refusing",
        note: names.told(&refusal.message, &about.namespace),
    };
    let mut notices = vec![notice(&victim, refusal.preemptors.first())];
    notices.extend(refusal.preemptors.iter().map(|preemptor| notice(preemptor, Some(&victim))));
    notices
}

fn pod(pod: &Preemptor) -> Object {
    let Preemptor { namespace, name, uid } = pod.clone();
    Object { api_version: "v1".to_owned(), kind: "Pod", namespace, name, uid }
}
