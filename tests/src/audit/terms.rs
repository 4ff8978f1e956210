//! Promise 4: whoever is evicted goes by a stored plan that is being carried out, by the leader of the term that the plan
//! is stored under.

use super::history::{History, PlanRecord, Removal};

/// Every breach, as a sentence.
pub(super) fn broken(history: &History) -> Vec<String> {
    history.evicted().into_iter().filter_map(|removal| breach(history, removal)).collect()
}

fn breach(history: &History, removal: &Removal) -> Option<String> {
    let record = last_of(history, history.plan_of(removal)?, removal);
    let (pod, plan) = (&removal.pod.1, &record.plan);
    if !plan.state.in_flight() && !begun(history, removal, record) {
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
        same.is_some_and(|taken| last_of(history, taken, other).plan.state.in_flight())
    })
}

/// The plan as it was stored last when somebody was asked to go for it.
fn last_of<'a>(history: &'a History, record: &'a PlanRecord, removal: &Removal) -> &'a PlanRecord {
    let mut stored = history.plans.iter().rev().filter(|other| other.at <= removal.at);
    stored.find(|other| other.plan.id == record.plan.id).unwrap_or(record)
}
