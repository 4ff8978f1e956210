//! Plans: which were stored when and for whom, and which of them a removal was made for.

use super::history::{History, Key, Removal, key_of};
use super::log::Line;
use super::record::{list, text};
use giveway_crds::Preemption;
use giveway_crds::plan::StoredPlan;
use giveway_crds::preemption::{assemble, plan_of_part};
use jiff::Timestamp;
use std::time::Duration;

/// How long a call may have been on the wire, or its sender not have heard the news.
pub(super) const ON_THE_WIRE: Duration = Duration::from_secs(3);

/// Who a plan is for. Another object of the same name is somebody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preemptor {
    /// A PodGroup.
    Group {
        /// Namespace and name.
        key: Key,
        /// Its UID.
        uid: String,
    },
    /// A single pod, by UID.
    Pod(String),
}

/// A plan as it was stored.
#[derive(Clone, Debug)]
pub struct PlanRecord {
    /// When the request that stored it came in.
    pub asked: Timestamp,
    /// When it was answered.
    pub at: Timestamp,
    /// Who stored it.
    pub user: String,
    /// Who it is for.
    pub preemptor: Preemptor,
    /// The term that the request itself says it is of.
    pub written_in: Option<String>,
    /// The plan.
    pub plan: StoredPlan,
}

impl PlanRecord {
    /// Whether the plan names this pod as a victim.
    pub fn names(&self, uid: &str) -> bool {
        self.plan.victims.iter().flat_map(|victim| &victim.pods).any(|pod| pod.uid == uid)
    }
}

impl History {
    /// A plan counts as stored when its last part is, and until one is deleted; only the operator's count.
    pub(super) fn take_preemption(&mut self, line: &Line, removes: bool) {
        if removes {
            let mut names: Vec<String> =
                list(&line.response_object, "/items").iter().map(|part| text(part, "/metadata/name")).collect();
            names.extend(Some(key_of(line).1).filter(|name| !name.is_empty()));
            for plan in names.iter().map(|name| plan_of_part(name)) {
                self.parts.remove(plan);
                self.deleted_plans.push((line.stage_timestamp, plan.to_owned()));
            }
            return;
        }
        let Ok(part) = serde_json::from_value::<Preemption>(line.response_object.clone()) else { return };
        if line.user.username != super::OPERATOR {
            return;
        }
        let plan = plan_of_part(part.metadata.name.as_deref().unwrap_or_default()).to_owned();
        let parts = self.parts.entry(plan).or_default();
        parts.retain(|known| known.spec.part != part.spec.part);
        parts.push(part);
        let Ok(plan) = assemble(parts.clone()) else { return };
        let who = &plan.preemptor;
        let preemptor = match who.kind.as_str() {
            "Pod" => Preemptor::Pod(who.uid.clone()),
            _ => Preemptor::Group { key: (who.namespace.clone(), who.name.clone()), uid: who.uid.clone() },
        };
        self.plans.push(PlanRecord {
            asked: line.request_received_timestamp,
            at: line.stage_timestamp,
            user: line.user.username.clone(),
            preemptor,
            written_in: Some(text(&line.request_object, "/status/term")).filter(|term| !term.is_empty()),
            plan,
        });
    }

    /// Whether this request was made for this plan: an eviction says so itself; of a deletion the last sentence tells that
    /// Giveway wrote to the pod before, which has the preemptor by name or, in another namespace, by UID. `None` when
    /// neither says anything.
    pub fn made_for(&self, removal: &Removal, plan: &StoredPlan) -> Option<bool> {
        if let Some(named) = &removal.plan {
            return Some(*named == plan.id);
        }
        let of_pod = |uid: &str| uid == removal.uid || uid.is_empty();
        let mut marks = self.marks.iter().rev().filter(|mark| mark.at <= removal.at && mark.pod == removal.pod);
        let mark = marks.find(|mark| of_pod(&mark.uid))?;
        let who = &plan.preemptor;
        let kind = if who.kind == "Pod" { "pod" } else { "pod group" };
        let named = format!("Preempted by {kind} {}/{} of priority ", who.namespace, who.name);
        Some(mark.message.starts_with(&named) || mark.message.contains(&format!("(UID {})", who.uid)))
    }

    /// What a pod was evicted for: the plan that the request says, and no other; else the last one that names the pod and was
    /// stored, and not over, before the pod was asked to go, and for whose preemptor it was marked. A DELETE names none, and two
    /// plans of one preemptor read alike, so that the end of the earlier one must not be taken for the later one. One that was
    /// marked for somebody else went for none of them.
    pub fn plan_of(&self, removal: &Removal) -> Option<&PlanRecord> {
        let naming = || {
            let all = self.plans.iter().rev().filter(|record| record.at <= removal.at && record.names(&removal.uid));
            all.filter(|record| self.made_for(removal, &record.plan) != Some(false))
        };
        naming().find(|record| record.plan.state.in_flight()).or_else(|| naming().next())
    }

    /// A plan as it was stored last before this time.
    pub(super) fn last_stored<'a>(&'a self, record: &'a PlanRecord, at: Timestamp) -> &'a PlanRecord {
        let mut stored = self.plans.iter().rev().filter(|other| other.at <= at);
        stored.find(|other| other.plan.id == record.plan.id).unwrap_or(record)
    }

    /// Whether somebody had deleted this plan, and everybody may have heard of it, at this time.
    pub(super) fn was_deleted(&self, record: &PlanRecord, at: Timestamp) -> bool {
        let known = at.saturating_sub(ON_THE_WIRE).unwrap_or(Timestamp::MIN);
        let mut deleted = self.deleted_plans.iter().filter(|(_, plan)| *plan == record.plan.id);
        deleted.any(|(when, _)| *when <= known && self.last_stored(record, at).at <= *when)
    }

    /// The priority that a preemptor decides by.
    pub fn priority_of(&self, preemptor: &Preemptor) -> Option<i32> {
        match preemptor {
            Preemptor::Group { key, .. } => self.priority_of_group(key),
            Preemptor::Pod(uid) => self.effective_priority(uid),
        }
    }

    /// Whether nobody goes for this preemptor: its group says so, or else a pod that has no annotation or another one; `None` when
    /// that is not known.
    pub(super) fn preempts_never(&self, preemptor: &Preemptor) -> Option<bool> {
        let key = match preemptor {
            Preemptor::Group { key, .. } => key.clone(),
            Preemptor::Pod(uid) => {
                let pod = self.pods.get(uid)?;
                let group = pod.group.as_ref().map(|group| (pod.key.0.clone(), group.clone()));
                match group.filter(|key| self.groups.contains_key(key)) {
                    Some(key) => key,
                    None => return Some(pod.policy.as_deref() != Some("PreemptLowerPriority")),
                }
            }
        };
        self.group_never(&key)
    }

    /// The name of a preemptor.
    pub fn name_of(&self, preemptor: &Preemptor) -> String {
        match preemptor {
            Preemptor::Group { key, .. } => key.1.clone(),
            Preemptor::Pod(uid) => self.pods.get(uid).map_or_else(|| uid.clone(), |pod| pod.key.1.clone()),
        }
    }
}
