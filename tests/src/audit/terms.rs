//! Promise 4: whoever is evicted goes by a stored plan that is being carried out, by the leader of the term that the plan
//! is stored under; and only this leader writes plans.

use super::history::{History, Removal};
use super::plans::{ON_THE_WIRE, PlanRecord};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Every breach, as a sentence. Of plans that are `on_their_way` evictions may be carried out after somebody deleted them.
pub(super) fn broken(history: &History, on_their_way: &BTreeSet<String>) -> Vec<String> {
    let evictions = history.evicted().into_iter().filter_map(|removal| breach(history, on_their_way, removal));
    evictions.chain(history.plans.iter().filter_map(|record| written(history, record))).collect()
}

fn breach(history: &History, on_their_way: &BTreeSet<String>, removal: &Removal) -> Option<String> {
    // It names no plan, and its group goes because kube-scheduler took another pod of it: a plan that lists it too is not why.
    if removal.plan.is_none() && history.began_by_scheduler(removal) {
        return None;
    }
    let record = history.last_stored(history.plan_of(removal)?, removal.at);
    let (pod, plan) = (&removal.pod.1, &record.plan);
    let begun = || begun(history, removal, record);
    if history.was_deleted(record, removal.at) && !begun() && !on_their_way.contains(&plan.id) {
        return Some(format!("{pod} was evicted for plan {}, which somebody had deleted by then", plan.id));
    }
    if !plan.state.in_flight() && !begun() {
        return Some(format!("{pod} was evicted for plan {}, which was {} by then", plan.id, plan.state.as_str()));
    }
    let leader = history.leader_at(removal.at)?;
    (plan.term != leader).then(|| {
        format!("{pod} was evicted for plan {} of the term {}, while {leader} held the lease", plan.id, plan.term)
    })
}

/// Whether the rest of a whole group goes of which the same plan took a pod before it was over.
fn begun(history: &History, removal: &Removal, record: &PlanRecord) -> bool {
    let unit = record.plan.victims.iter().find(|victim| victim.pods.iter().any(|pod| pod.uid == removal.uid));
    let others = unit.into_iter().flat_map(|unit| &unit.pods).filter(|pod| pod.uid != removal.uid);
    let earlier = |uid: &str| history.evicted().into_iter().find(|other| other.uid == uid && other.at <= removal.at);
    others.filter_map(|pod| earlier(&pod.uid)).any(|other| {
        let same = history.plan_of(other).filter(|taken| taken.plan.id == record.plan.id);
        same.is_some_and(|taken| {
            let taken = history.last_stored(taken, other.at);
            taken.plan.state.in_flight() && !history.was_deleted(taken, other.at)
        })
    })
}

/// A write of a plan by somebody who had not held the lease for a while: what was on the wire is carried out.
fn written(history: &History, record: &PlanRecord) -> Option<String> {
    let (term, plan) = (record.written_in.as_ref()?, &record.plan);
    let since = record.asked.saturating_sub(ON_THE_WIRE).unwrap_or(Timestamp::MIN);
    let meanwhile = history.leaders.iter().filter(|(at, _)| *at > since && *at <= record.asked);
    let holders: BTreeSet<&str> =
        history.leader_at(since).into_iter().chain(meanwhile.map(|(_, holder)| holder.as_str())).collect();
    let leader = history.leader_at(record.asked)?;
    (!holders.contains(term.as_str())).then(|| {
        let state = plan.state.as_str();
        format!("plan {} was written as {state} in the term {term}, while {leader} held the lease", plan.id)
    })
}
