//! Promise 4, second part: a pod is evicted for a stored plan in flight, by the leader of the term in the plan; and only this leader
//! writes plans.

use super::breach::{Breach, BreachKind};
use super::history::History;
use super::plans::ON_THE_WIRE;
use super::record::{PlanRecord, Removal};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Returns every eviction for a plan that was not in flight or of another term, and every plan that an earlier leader wrote.
pub(super) fn breaches(history: &History) -> Vec<Breach> {
    let evictions = history.evicted().into_iter().flat_map(|removal| evicted(history, removal));
    let writes = history.plans.iter().filter_map(|record| written(history, record));
    evictions.chain(writes.map(Breach::other)).collect()
}

fn evicted(history: &History, removal: &Removal) -> Vec<Breach> {
    let Some(stored) = history.plan_of(removal) else { return Vec::new() };
    let record = history.last_stored(stored, removal.at);
    let (pod, plan) = (&removal.pod.1, &record.plan);
    let mut breaches = Vec::new();
    let unit_disrupted = || unit_disrupted(history, removal, record);
    if history.was_deleted(record, removal.at) && !unit_disrupted() {
        breaches.push(Breach {
            kind: BreachKind::DeletedPlan { plan: plan.id.clone() },
            message: format!("pod {pod} was evicted for plan {}, which was already deleted", plan.id),
        });
    }
    if !plan.state.in_flight() && !unit_disrupted() {
        let state = plan.state.as_str();
        let message = format!("pod {pod} was evicted for plan {}, which was already {state}", plan.id);
        breaches.push(Breach::other(message));
    }
    if let Some(leader) = history.leader_at(removal.at).filter(|leader| *leader != plan.term) {
        let (id, term) = (&plan.id, &plan.term);
        let message = format!("pod {pod} was evicted for plan {id} of term {term} while {leader} held the Lease");
        breaches.push(Breach::other(message));
    }
    breaches
}

/// Returns true if the plan evicted another pod of the same unit while it was in flight: the unit is then evicted as a whole.
fn unit_disrupted(history: &History, removal: &Removal, record: &PlanRecord) -> bool {
    let unit = record.plan.victims.iter().find(|victim| victim.pods.iter().any(|pod| pod.uid == removal.uid));
    let others = unit.into_iter().flat_map(|unit| &unit.pods).filter(|pod| pod.uid != removal.uid);
    let earlier = |uid: &str| history.evicted().into_iter().find(|other| other.uid == uid && other.at <= removal.at);
    others.filter_map(|pod| earlier(&pod.uid)).any(|other| {
        let same = history.plan_of(other).filter(|stored| stored.plan.id == record.plan.id);
        same.is_some_and(|stored| {
            let stored = history.last_stored(stored, other.at);
            stored.plan.state.in_flight() && !history.was_deleted(stored, other.at)
        })
    })
}

/// Returns a message about a write of a plan in a term whose leader had lost the Lease before. A write in transit at that time is carried
/// out.
fn written(history: &History, record: &PlanRecord) -> Option<String> {
    let (term, plan) = (record.written_in.as_ref()?, &record.plan);
    let since = record.asked.saturating_sub(ON_THE_WIRE).unwrap_or(Timestamp::MIN);
    let meanwhile = history.leaders.iter().filter(|(at, _)| *at > since && *at <= record.asked);
    let holders: BTreeSet<&str> =
        history.leader_at(since).into_iter().chain(meanwhile.map(|(_, holder)| holder.as_str())).collect();
    let leader = history.leader_at(record.asked)?;
    (!holders.contains(term.as_str())).then(|| {
        let state = plan.state.as_str();
        format!("plan {} was written as {state} in term {term} while {leader} held the Lease", plan.id)
    })
}
